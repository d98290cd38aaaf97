#include "controller/scheduler/fragmentation/node_scoring.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "controller/scheduler/choice/fit.h"
#include "controller/scheduler/choice/split.h"

namespace egpu::scheduler::fragmentation {

NodeScorer::NodeScorer(const Cluster::State& state, const Request& request, CardChoice& cards, const CardPolicy& policy,
                       Counting& counting)
    : state_(state),
      request_(request),
      cards_(cards),
      counting_(counting),
      byStateAlone_(!policy.seesLinks && request.maxClaimsPerCard == 0 && request.maxClaimsPerNode == 0),
      oneCard_(byStateAlone_ && request.cards == 1 && !divides(request)),
      needs_(cards.needs()) {}

FreeRoom NodeScorer::leastOn(TypeId type) {
  constexpr int64_t kAny = std::numeric_limits<int64_t>::min();
  FreeRoom least;
  least.free = {request_.cpuMilli > 0 ? request_.cpuMilli : kAny, request_.podMemory > 0 ? request_.podMemory : kAny};
  least.onlyType = type;
  if (type == kNone || divides(request_) || request_.cards == 0) return least;
  const Need& need = needs_.of(type);
  if (!need.possible()) {
    constexpr int64_t kNever = std::numeric_limits<int64_t>::max();
    least.most = {kNever, kNever};
    least.empty = kNever;
  } else if (request_.wholeCards) {
    least.empty = request_.cards;
  } else {
    least.most = need.charged;
  }
  return least;
}

float NodeScorer::worthOf(const NodeAmount& free, const Parts& parts, int32_t rests) const {
  return counting_.copies.worth(free, parts, counting_.prices->perCopy()) + static_cast<float>(rests);
}

int32_t NodeScorer::restOf(const CardState& card) const {
  return counting_.prices->cardWorth(card.type, freeShare(card, state_.types[card.type]));
}

void NodeScorer::appraise(KnownState& known) {
  counting_.copies.partsOn(known.state, known.parts);
  known.rests = 0;
  for (const CardState& card : known.state.cards) known.rests += restOf(card);
  known.worth = worthOf(known.state.free, known.parts, known.rests);
}

float NodeScorer::pressureOn(const CardState& card, const Amount& charged) const {
  const float pressure = counting_.prices->pressure(card.type);
  if (pressure == 0) return 0;
  const int64_t share = request_.wholeCards ? 1000 : shareOfCard(charged, state_.types[card.type]);
  return pressure * static_cast<float>(share);
}

Score NodeScorer::scoreOf(float loss) { return static_cast<Score>(std::floor(-loss / kStep)); }

Score NodeScorer::judge(NodeId id, const KnownState& before, uint16_t& chosen) {
  const NodeRecord& node = state_.nodes[id];
  if (!nodeBelowLimit(node, request_) || !nodeHasRoom(node, request_)) return kUnfit;
  if (!oneCard_) return judgeSeveral(node, before);
  if (chosen == kUnchosen && !choose(node, chosen)) return kUnfit;
  return judgeOne(before, before.state.cards[chosen]);
}

bool NodeScorer::choose(const NodeRecord& node, uint16_t& chosen) {
  if (!cards_.pick(node, counting_.picks)) return false;
  chosen = 0;
  for (const CardId each : node.cards) {
    if (each == counting_.picks.front().card) break;
    if (state_.cards[each].healthy) ++chosen;
  }
  return true;
}

Score NodeScorer::judgeOne(const KnownState& before, const CardState& card) {
  const Amount& charged = needs_.of(card.type).charged;
  const CardState after{card.type, {card.free.core - charged.core, card.free.memory - charged.memory}, false};
  const NodeAmount free{before.state.free.cpuMilli - request_.cpuMilli, before.state.free.memory - request_.podMemory};
  const int32_t rests = before.rests - restOf(card) + restOf(after);
  const float worth = counting_.copies.worthWith(free, before.parts, card, after, counting_.prices->perCopy()) +
                      static_cast<float>(rests);
  return scoreOf(before.worth - worth + pressureOn(card, charged));
}

Score NodeScorer::judgeSeveral(const NodeRecord& node, const KnownState& before) {
  if (!cards_.pick(node, counting_.picks)) return kUnfit;
  Parts& parts = counting_.partsAfter;
  parts = before.parts;
  int32_t rests = before.rests;
  float pressure = 0;
  for (const CardChoice::Pick& pick : counting_.picks) {
    const CardRecord& record = state_.cards[pick.card];
    CardState card{record.type, record.free(), record.empty()};
    counting_.copies.take(card, parts);
    rests -= restOf(card);
    card.free.core -= pick.charged.core;
    card.free.memory -= pick.charged.memory;
    card.empty = false;
    counting_.copies.add(card, parts);
    rests += restOf(card);
    pressure += pressureOn(card, pick.charged);
  }
  const NodeAmount free{before.state.free.cpuMilli - request_.cpuMilli, before.state.free.memory - request_.podMemory};
  return scoreOf(before.worth - worthOf(free, parts, rests) + pressure);
}

}  // namespace egpu::scheduler::fragmentation

#include "controller/scheduler/fragmentation/judging.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "controller/scheduler/fit.h"
#include "controller/scheduler/split.h"

namespace egpu::scheduler::fragmentation {

NodeJudge::NodeJudge(const Cluster::State& state, const Request& request, CardChoice& cards, const CardPolicy& policy,
                     Counting& counting)
    : state_(state),
      request_(request),
      cards_(cards),
      counting_(counting),
      byStateAlone_(!policy.seesLinks && request.maxClaimsPerCard == 0 && request.maxClaimsPerNode == 0),
      needs_(state, request) {}

Room NodeJudge::leastOn(TypeId type) {
  constexpr int64_t kAny = std::numeric_limits<int64_t>::min();
  Room least;
  least.free = {request_.cpuMilli > 0 ? request_.cpuMilli : kAny, request_.podMemory > 0 ? request_.podMemory : kAny};
  least.onlyType = type;
  if (type == kNone || divides(request_) || request_.cards == 0) return least;
  const Need& need = needs_.of(type);
  if (!need.possible()) {
    least.empty = std::numeric_limits<int64_t>::max();
  } else if (request_.wholeCards) {
    least.empty = request_.cards;
  } else {
    least.most = need.charged;
  }
  return least;
}

float NodeJudge::worthOf(const NodeAmount& free, const Parts& parts, int32_t rests) const {
  return counting_.copies.worth(free, parts, counting_.prices->perCopy()) + static_cast<float>(rests);
}

int32_t NodeJudge::restOf(const CardState& card) const {
  return counting_.prices->cardWorth(card.type, freeShare(card, state_.types[card.type]));
}

void NodeJudge::appraise(KnownState& known) {
  counting_.copies.partsOn(known.state, known.parts);
  known.rests = 0;
  for (const CardState& card : known.state.cards) known.rests += restOf(card);
  known.worth = worthOf(known.state.free, known.parts, known.rests);
}

Score NodeJudge::judge(NodeId id, const KnownState& before) {
  const NodeRecord& node = state_.nodes[id];
  if (!nodeBelowLimit(node, request_) || !nodeHasRoom(node, request_) || !cards_.pick(node, counting_.picks))
    return kUnfit;
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
    const int64_t share = request_.wholeCards ? 1000 : shareOfCard(pick.charged, state_.types[card.type]);
    pressure += counting_.prices->pressure(card.type) * static_cast<float>(share);
  }
  const NodeAmount free{before.state.free.cpuMilli - request_.cpuMilli, before.state.free.memory - request_.podMemory};
  const float loss = before.worth - worthOf(free, parts, rests) + pressure;
  return static_cast<Score>(std::floor(-loss / kStep));
}

}  // namespace egpu::scheduler::fragmentation

#include "controller/scheduler/fragmentation/judging.h"

#include <algorithm>
#include <array>
#include <cmath>

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

bool NodeJudge::mayHold(const KnownState& known) {
  if (known.onlyType == kNone || divides(request_)) return true;
  if (request_.cards == 0) return true;
  const Need& need = needs_.of(known.onlyType);
  if (!need.possible()) return false;
  if (request_.wholeCards) return known.empty >= request_.cards;
  return known.most.core >= need.charged.core && known.most.memory >= need.charged.memory;
}

float NodeJudge::worthOf(const NodeState& state, const Parts& parts) {
  std::vector<float>& copies = counting_.copiesNow;
  counting_.copies.on(state.free, parts, copies);
  const std::vector<float>& perCopy = counting_.prices->perCopy();
  std::array<float, Copies::kLanes> sums{};  // several sums side by side: no one waits for the other
  for (std::size_t i = 0; i < copies.size(); i += Copies::kLanes)
    for (std::size_t lane = 0; lane < Copies::kLanes; ++lane) sums[lane] += copies[i + lane] * perCopy[i + lane];
  float worth = 0;
  for (const float sum : sums) worth += sum;
  int32_t rests = 0;
  for (const CardState& card : state.cards)
    rests += counting_.prices->cardWorth(card.type, freeShare(card, state_.types[card.type]));
  return worth + static_cast<float>(rests);
}

void NodeJudge::appraise(KnownState& state) {
  counting_.copies.partsOn(state.state, state.parts);
  state.worth = worthOf(state.state, state.parts);
  state.onlyType = state.state.cards.empty() ? kNone : state.state.cards.front().type;
  state.most = {};
  state.empty = 0;
  for (const CardState& card : state.state.cards) {
    if (card.type != state.state.cards.front().type) state.onlyType = kNone;
    state.most = {std::max(state.most.core, card.free.core), std::max(state.most.memory, card.free.memory)};
    state.empty += card.empty ? 1 : 0;
  }
}

Score NodeJudge::judge(NodeId id, const KnownState& before) {
  if (!mayHold(before)) return kUnfit;
  const NodeRecord& node = state_.nodes[id];
  if (!nodeBelowLimit(node, request_) || !nodeHasRoom(node, request_) || !cards_.pick(node, counting_.picks))
    return kUnfit;
  NodeState& after = counting_.after;
  Parts& partsAfter = counting_.partsAfter;
  after = before.state;
  partsAfter = before.parts;
  after.free.cpuMilli -= request_.cpuMilli;
  after.free.memory -= request_.podMemory;
  float pressure = 0;
  for (const CardChoice::Pick& pick : counting_.picks) {
    std::size_t at = 0;
    for (const CardId each : node.cards) {
      if (each == pick.card) break;
      if (state_.cards[each].healthy) ++at;
    }
    CardState& card = after.cards[at];
    const CardType& type = state_.types[card.type];
    const auto change = [&](int sign) {
      const uint16_t* parts = counting_.copies.partsOn(card).data();
      for (std::size_t i = 0; i < partsAfter.size(); ++i)
        partsAfter[i] = static_cast<uint16_t>(partsAfter[i] + sign * parts[i]);
    };
    change(-1);
    card.free.core -= pick.charged.core;
    card.free.memory -= pick.charged.memory;
    card.empty = false;
    change(1);
    const int64_t share = request_.wholeCards ? 1000 : shareOfCard(pick.charged, type);
    pressure += counting_.prices->pressure(card.type) * static_cast<float>(share);
  }
  const float loss = before.worth - worthOf(after, partsAfter) + pressure;
  return static_cast<Score>(std::floor(-loss / kStep));
}

}  // namespace egpu::scheduler::fragmentation

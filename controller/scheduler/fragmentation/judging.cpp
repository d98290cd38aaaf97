#include "controller/scheduler/fragmentation/judging.h"

#include <array>
#include <cmath>

#include "controller/scheduler/fit.h"

namespace egpu::scheduler::fragmentation {

NodeJudge::NodeJudge(const Cluster::State& state, const Request& request, CardChoice& cards, const CardPolicy& policy,
                     Counting& counting)
    : state_(state),
      request_(request),
      cards_(cards),
      counting_(counting),
      byStateAlone_(!policy.seesLinks && request.maxClaimsPerCard == 0 && request.maxClaimsPerNode == 0) {}

float NodeJudge::worthOf(const NodeState& state, const Parts& parts) {
  counting_.copies.on(state.free, parts, copies_);
  const std::vector<float>& perCopy = counting_.prices->perCopy();
  std::array<float, Copies::kLanes> sums{};  // several sums side by side: no one waits for the other
  for (std::size_t i = 0; i < copies_.size(); i += Copies::kLanes)
    for (std::size_t lane = 0; lane < Copies::kLanes; ++lane) sums[lane] += copies_[i + lane] * perCopy[i + lane];
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
}

Score NodeJudge::judge(NodeId id, const KnownState& before) {
  const NodeRecord& node = state_.nodes[id];
  if (!nodeBelowLimit(node, request_) || !nodeHasRoom(node, request_) || !cards_.pick(node, picks_)) return kUnfit;
  after_ = before.state;
  partsAfter_ = before.parts;
  after_.free.cpuMilli -= request_.cpuMilli;
  after_.free.memory -= request_.podMemory;
  float pressure = 0;
  for (const CardChoice::Pick& pick : picks_) {
    std::size_t at = 0;
    for (const CardId each : node.cards) {
      if (each == pick.card) break;
      if (state_.cards[each].healthy) ++at;
    }
    CardState& card = after_.cards[at];
    const CardType& type = state_.types[card.type];
    const auto change = [&](int sign) {
      const uint16_t* parts = counting_.copies.partsOn(card).data();
      for (std::size_t i = 0; i < partsAfter_.size(); ++i)
        partsAfter_[i] = static_cast<uint16_t>(partsAfter_[i] + sign * parts[i]);
    };
    change(-1);
    card.free.core -= pick.charged.core;
    card.free.memory -= pick.charged.memory;
    card.empty = false;
    change(1);
    const int64_t share = request_.wholeCards ? 1000 : shareOfCard(pick.charged, type);
    pressure += counting_.prices->pressure(card.type) * static_cast<float>(share);
  }
  const float loss = before.worth - worthOf(after_, partsAfter_) + pressure;
  return static_cast<Score>(std::floor(-loss / kStep));
}

}  // namespace egpu::scheduler::fragmentation

#include "controller/scheduler/fragmentation/demand_classes.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "controller/scheduler/choice/fit.h"
#include "controller/scheduler/choice/split.h"

namespace egpu::scheduler::fragmentation {
namespace {

constexpr std::size_t kMaxClasses = 256;
constexpr std::size_t kMaxKinds = 64;

/// Returns a request for an equal part of the total on each of `cards` cards.
Request dividedBy(const Request& request, int64_t cards) {
  const auto part = [cards](int64_t total) { return (total + cards - 1) / cards; };
  Request each = request;
  each.split = Split::none;
  each.cards = cards;
  each.perCard = {part(request.perCard.core), part(request.perCard.memory)};
  each.milliTflopsPerCard = part(request.milliTflopsPerCard);
  return each;
}

/// Sets the amounts on each card type. The size is that on the most frequent type.
bool shapeOf(const Cluster::State& state, const std::vector<double>& cards, const Request& request, DemandClass& out) {
  out.shape = {};
  out.shape.cards = request.cards;
  out.shape.wholeCards = request.wholeCards;
  out.shape.ofNode = {request.cpuMilli, request.podMemory};
  out.shape.on.resize(state.types.size());
  double max = 0;
  for (TypeId type = 0; type < state.types.size(); ++type) {
    const Need need = needOn(state.types[type], request);
    if (!need.possible()) continue;
    out.shape.on[type] = {true, need.charged};
    if (cards[type] <= 0) continue;
    out.types |= only(type);
    if (cards[type] <= max) continue;
    max = cards[type];
    const int64_t share = request.wholeCards ? 1000 : shareOfCard(need.charged, state.types[type]);
    out.size = static_cast<double>(std::max<int64_t>(1, share));
  }
  return max > 0;
}

/// Sets the parts by volume; they sum to 1.
void share(std::vector<DemandClass>& wanted) {
  double all = 0;
  for (const DemandClass& each : wanted) all += each.volume();
  if (all <= 0) return;
  for (DemandClass& each : wanted) each.part = each.volume() / all;
}

/// True if every node that holds a copy of `a` holds one of `b`.
bool needsAtLeast(const DemandClass& a, const DemandClass& b) {
  if (a.shape.ofNode.cpuMilli < b.shape.ofNode.cpuMilli || a.shape.ofNode.memory < b.shape.ofNode.memory) return false;
  if ((a.types & ~b.types) != 0 || a.shape.cards < b.shape.cards) return false;
  return a.size >= b.size || (b.shape.cards == 1 && a.shape.cards > 1);
}

}  // namespace

int64_t shareOfCard(const Amount& amount, const CardType& type) {
  const auto share = [](int64_t n, int64_t of) -> int64_t {
    if (n <= 0) return 0;
    if (n >= of) return 1000;
    return static_cast<int64_t>((static_cast<__int128>(n) * 1000 + of - 1) / of);
  };
  return std::max(share(amount.core, type.core), share(amount.memory, type.memory));
}

Supply::Supply(const Cluster::State& state, const NodeStates& nodeStates)
    : cards(state.types.size(), 0), free(state.types.size(), 0) {
  for (uint32_t number = 1; number < nodeStates.numbers(); ++number) {
    const double nodes = nodeStates.nodesIn(number);
    if (nodes == 0) continue;
    for (const CardState& card : nodeStates.state(number).cards) {
      cards[card.type] += nodes;
      free[card.type] += nodes * static_cast<double>(freeShare(card, state.types[card.type]));
    }
  }
  for (TypeId type = 0; type < cards.size(); ++type) {
    allFree += free[type];
    if (cards[type] > 0) all |= only(type);
  }
}

bool demandClassOf(const Cluster::State& state, const std::vector<double>& cards, const Request& request,
                   DemandClass& out) {
  if (request.cards <= 0) return false;
  if (!divides(request)) return shapeOf(state, cards, request, out);
  // Assumes an even division over the fewest cards that could hold it.
  for (int64_t n = 1; n <= static_cast<int64_t>(SplitTotal::kMaxCards); ++n)
    if (shapeOf(state, cards, dividedBy(request, n), out)) return true;
  return false;
}

std::vector<DemandClass> demandClassesOf(const Cluster::State& state, const std::vector<double>& cards,
                                         const Demand& demand) {
  std::vector<DemandClass> wanted;
  for (const Demand::Class& each : demand.classes()) {
    if (wanted.size() == kMaxClasses) break;
    DemandClass one;
    if (!demandClassOf(state, cards, each.request, one)) continue;
    one.weight = each.weight;
    one.hash = each.hash;
    wanted.push_back(std::move(one));
  }
  share(wanted);
  return wanted;
}

std::vector<DemandClass> wholeNodes(const Cluster::State& state, const NodeStates& nodeStates) {
  using Kind = std::tuple<int64_t, int64_t, TypeId, int64_t>;  // CPU, memory, type of the first card, cards of it
  std::map<Kind, double> kinds;                                // number of nodes
  for (NodeId node = 0; node < state.nodes.size(); ++node) {
    const uint32_t number = nodeStates.numberOf(node);
    if (number == NodeStates::kNotOffered || nodeStates.state(number).cards.empty()) continue;
    const std::vector<CardState>& here = nodeStates.state(number).cards;
    const TypeId type = here.front().type;
    const int64_t cards = std::count_if(here.begin(), here.end(), [&](const CardState& c) { return c.type == type; });
    const NodeAmount& capacity = state.nodes[node].capacity;
    kinds[{capacity.cpuMilli, capacity.memory, type, cards}] += 1;
  }
  std::vector<DemandClass> wanted;
  for (const auto& [kind, nodes] : kinds) {
    const auto& [cpu, memory, type, cards] = kind;
    DemandClass& one = wanted.emplace_back();
    one.shape.cards = cards;
    one.shape.wholeCards = true;
    one.shape.ofNode = {cpu, memory};
    one.shape.on.resize(state.types.size());
    one.shape.on[type] = {true, {state.types[type].core, state.types[type].memory}};
    one.types = only(type);
    one.size = 1000;
    one.weight = nodes;
  }
  std::stable_sort(wanted.begin(), wanted.end(),
                   [](const DemandClass& a, const DemandClass& b) { return a.volume() > b.volume(); });
  if (wanted.size() > kMaxKinds) wanted.resize(kMaxKinds);
  share(wanted);
  return wanted;
}

std::vector<double> partsConfinedTo(const std::vector<DemandClass>& wanted) {
  std::vector<double> confined(wanted.size(), 0);
  for (std::size_t i = 0; i < wanted.size(); ++i)
    for (const DemandClass& each : wanted)
      if (needsAtLeast(each, wanted[i])) confined[i] += each.part;
  return confined;
}

}  // namespace egpu::scheduler::fragmentation

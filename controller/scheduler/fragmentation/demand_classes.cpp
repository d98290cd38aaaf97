#include "controller/scheduler/fragmentation/demand_classes.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "controller/scheduler/choice/fit.h"
#include "controller/scheduler/choice/split.h"
#include "controller/scheduler/fragmentation/wide.h"

namespace egpu::scheduler::fragmentation {
namespace {

constexpr std::size_t kMostClasses = 256;
constexpr std::size_t kMostKinds = 64;

/// So much of a total on each of so many cards.
Request dividedBy(const Request& request, int64_t cards) {
  const auto part = [cards](int64_t total) { return (total + cards - 1) / cards; };
  Request each = request;
  each.split = Split::none;
  each.cards = cards;
  each.perCard = {part(request.perCard.core), part(request.perCard.memory)};
  each.milliTflopsPerCard = part(request.milliTflopsPerCard);
  return each;
}

/// What a class takes of each type of card; sizes by the type of which there is most.
bool shapeOf(const Cluster::State& state, const std::vector<double>& cards, const Request& request, DemandClass& out) {
  out.shape = {};
  out.shape.cards = request.cards;
  out.shape.wholeCards = request.wholeCards;
  out.shape.ofNode = {request.cpuMilli, request.podMemory};
  out.shape.on.resize(state.types.size());
  double most = 0;
  for (TypeId type = 0; type < state.types.size(); ++type) {
    const Need need = needOn(state.types[type], request);
    if (!need.possible()) continue;
    out.shape.on[type] = {true, need.charged};
    if (cards[type] <= 0) continue;
    out.types |= only(type);
    if (cards[type] <= most) continue;
    most = cards[type];
    const int64_t share = request.wholeCards ? 1000 : shareOfCard(need.charged, state.types[type]);
    out.size = static_cast<double>(std::max<int64_t>(1, share));
  }
  return most > 0;
}

/// The parts of a volume, adding up to 1.
void share(std::vector<DemandClass>& wanted) {
  double all = 0;
  for (const DemandClass& each : wanted) all += each.volume();
  if (all <= 0) return;
  for (DemandClass& each : wanted) each.part = each.volume() / all;
}

/// Whatever holds a copy of `a` holds one of `b`.
bool needsAtLeast(const DemandClass& a, const DemandClass& b) {
  if (a.shape.ofNode.cpuMilli < b.shape.ofNode.cpuMilli || a.shape.ofNode.memory < b.shape.ofNode.memory) return false;
  if ((a.types & ~b.types) != 0 || a.shape.cards < b.shape.cards) return false;
  return a.size >= b.size || (b.shape.cards == 1 && a.shape.cards > 1);
}

/// What classes need, by column, rounded: one is held against all of them side by side.
struct Columns {
  explicit Columns(const std::vector<DemandClass>& wanted) {
    for (const DemandClass& each : wanted) {
      cpu.push_back(static_cast<float>(each.shape.ofNode.cpuMilli));
      memory.push_back(static_cast<float>(each.shape.ofNode.memory));
      cards.push_back(static_cast<float>(each.shape.cards));
      size.push_back(static_cast<float>(each.size));
    }
  }

  /// `may`: by class, 0 if it surely needs less of something than the i-th.
  EGPU_WIDE void sift(std::size_t i, int32_t* may) const {
    const float itsCpu = cpu[i], itsMemory = memory[i], itsCards = cards[i], itsSize = size[i];
    const float sizeOfSeveral = itsCards > 1 ? itsSize : 0;
    const float *const cpus = cpu.data(), *const memories = memory.data();
    const float *const numbers = cards.data(), *const sizes = size.data();
    for (std::size_t j = 0; j < cpu.size(); ++j) {
      const bool least = (cpus[j] >= itsCpu) & (memories[j] >= itsMemory) & (numbers[j] >= itsCards) &
                         (sizes[j] >= (numbers[j] > 1 ? sizeOfSeveral : itsSize));
      may[j] = least ? 1 : 0;
    }
  }

  std::vector<float> cpu, memory, cards, size;
};

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
    : cards(nodeStates.cards()), allFree(nodeStates.free()), free(state.types.size(), 0) {
  for (TypeId type = 0; type < cards.size(); ++type)
    if (cards[type] > 0) all |= only(type);
  for (uint32_t number = 0; number < nodeStates.states(); ++number) {
    const double nodes = nodeStates.nodesIn(number);
    if (nodes <= 0) continue;
    for (const CardState& card : nodeStates.known(number).state.cards)
      free[card.type] += nodes * static_cast<double>(freeShare(card, state.types[card.type]));  // exact: whole numbers
  }
  std::map<std::tuple<int64_t, int64_t, TypeId, int64_t>, double> alike;
  for (NodeId node = 0; node < state.nodes.size(); ++node) {
    const uint32_t number = nodeStates.stateOf(node);
    if (number == NodeStates::kNotOffered) continue;
    const std::vector<CardState>& here = nodeStates.known(number).state.cards;
    if (here.empty()) continue;
    const auto ofFirst =
        std::count_if(here.begin(), here.end(), [&](const CardState& card) { return card.type == here.front().type; });
    const NodeAmount& capacity = state.nodes[node].capacity;
    alike[{capacity.cpuMilli, capacity.memory, here.front().type, ofFirst}] += 1;
  }
  for (const auto& [kind, count] : alike) {
    const auto& [cpu, memory, type, number] = kind;
    kinds.push_back({{cpu, memory}, type, number, count});
  }
}

bool demandClassesOf(const Cluster::State& state, const std::vector<double>& cards, const Request& request,
                     DemandClass& out) {
  if (request.cards <= 0) return false;
  if (!divides(request)) return shapeOf(state, cards, request, out);
  // As if it were divided evenly over as few cards as could hold it.
  for (int64_t n = 1; n <= static_cast<int64_t>(SplitTotal::kMostCards); ++n)
    if (shapeOf(state, cards, dividedBy(request, n), out)) return true;
  return false;
}

std::vector<DemandClass> demandClassesOf(const Cluster::State& state, const std::vector<double>& cards,
                                         const Demand& demand) {
  std::vector<DemandClass> wanted;
  for (const Demand::Class& each : demand.classes()) {
    if (wanted.size() == kMostClasses) break;
    DemandClass one;
    if (!demandClassesOf(state, cards, each.request, one)) continue;
    one.weight = each.weight;
    one.hash = each.hash;
    wanted.push_back(std::move(one));
  }
  share(wanted);
  return wanted;
}

std::vector<DemandClass> wholeNodes(const Cluster::State& state, const Supply& supply) {
  std::vector<DemandClass> wanted;
  for (const Supply::Kind& kind : supply.kinds) {
    DemandClass& one = wanted.emplace_back();
    one.shape.cards = kind.cards;
    one.shape.wholeCards = true;
    one.shape.ofNode = kind.capacity;
    one.shape.on.resize(state.types.size());
    one.shape.on[kind.type] = {true, {state.types[kind.type].core, state.types[kind.type].memory}};
    one.types = only(kind.type);
    one.size = 1000;
    one.weight = kind.count;
  }
  std::stable_sort(wanted.begin(), wanted.end(),
                   [](const DemandClass& a, const DemandClass& b) { return a.volume() > b.volume(); });
  if (wanted.size() > kMostKinds) wanted.resize(kMostKinds);
  share(wanted);
  return wanted;
}

std::vector<double> partsConfinedTo(const std::vector<DemandClass>& wanted) {
  const Columns columns(wanted);
  std::vector<double> confined(wanted.size(), 0);
  std::vector<int32_t> may(wanted.size());
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    columns.sift(i, may.data());
    for (std::size_t j = 0; j < wanted.size(); ++j)
      if (may[j] != 0 && needsAtLeast(wanted[j], wanted[i])) confined[i] += wanted[j].part;
  }
  return confined;
}

}  // namespace egpu::scheduler::fragmentation

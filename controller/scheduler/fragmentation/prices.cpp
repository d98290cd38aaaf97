#include "controller/scheduler/fragmentation/prices.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

namespace egpu::scheduler::fragmentation {
namespace {

constexpr double kUnknown = 200;       // weight of assumed demand, in requests
constexpr double kScarceFrom = 0.5;    // demand ÷ supply below which nothing is protected
constexpr double kMaxScarcity = 2;     // demand ÷ supply above which the price stays constant
constexpr double kDeviations = 2;      // expected demand above the mean, because rare requests come in clusters
constexpr double kOneCard = 0.5;       // weight of copies on one card
constexpr double kSeveralCards = 2;    // weight of copies on several cards, which cannot be put together again
constexpr double kMaxPressure = 2;     // maximum of one set of types
constexpr double kMoved = 0.1;         // change after which prices are recomputed
constexpr int32_t kRests = 2;          // weight of the rests of cards
constexpr std::size_t kMaxSizes = 32;  // maximum number of share sizes that value rests: the most frequent

/// Returns the requested shares of one card of this type, by size.
std::vector<ShareDemand> sharesOn(TypeId type, const CardType& card, const std::vector<DemandClass>& wanted) {
  std::map<int64_t, double> weights;
  for (const DemandClass& each : wanted) {
    if (each.shape.cards != 1 || each.shape.wholeCards || each.hash == 0) continue;
    // For a request that needs other types, uses its size there: cards that fit all requests should not be cut up
    // either.
    const DemandShape::OnType& on = each.shape.on[type];
    const int64_t size = on.possible ? shareOfCard(on.charged, card) : static_cast<int64_t>(each.size);
    if (size > 0 && size < 1000) weights[size] += each.weight;
  }
  std::vector<ShareDemand> shares;
  shares.reserve(weights.size());
  for (const auto& [size, weight] : weights) shares.push_back({size, weight});
  if (shares.size() > kMaxSizes) {
    std::stable_sort(shares.begin(), shares.end(),
                     [](const ShareDemand& a, const ShareDemand& b) { return a.weight > b.weight; });
    shares.resize(kMaxSizes);
  }
  return shares;
}

}  // namespace

Prices::Prices(const Cluster::State& state, const NodeStates& nodeStates, const Demand& demand, const Prices* before)
    : types_(state.types.size()) {
  const Supply supply(state, nodeStates);
  free_ = supply.allFree;
  std::vector<DemandClass> wanted = demandClassesOf(state, supply.cards, demand);
  if (before != nullptr && before->types_ == types_ && !before->asked_.empty() &&
      before->moved(state, supply.cards, demand) <= kMoved) {
    asked_ = before->asked_;  // small changes accumulate
    cardWorth_ = before->cardWorth_;
  } else {
    if (demand.known()) demand.each([this](const Request&, std::size_t hash, double) { asked_[hash] = {}; });
    for (const DemandClass& each : wanted) asked_[each.hash] = {each.volumeEach(), each.part};
    priceCards(state, wanted);
  }

  const double unknown = wanted.empty() ? 1 : kUnknown / (kUnknown + demand.total());
  for (DemandClass& each : wanted) each.part *= 1 - unknown;
  for (DemandClass& each : wholeNodes(state, nodeStates)) {
    each.part *= unknown;
    wanted.push_back(std::move(each));
  }
  priceTypes(supply, wanted);
  priceCopies(nodeStates, wanted);
}

void Prices::priceCards(const Cluster::State& state, const std::vector<DemandClass>& wanted) {
  std::vector<std::vector<ShareDemand>> shares;  // mostly equal on all types
  for (TypeId type = 0; type < types_; ++type) {
    std::vector<ShareDemand> here = sharesOn(type, state.types[type], wanted);
    const auto same = std::find(shares.begin(), shares.end(), here);
    cardWorth_.push_back(same != shares.end() ? cardWorth_[static_cast<std::size_t>(same - shares.begin())]
                                              : std::make_shared<const CardWorth>(worthOfRests(here)));
    shares.push_back(std::move(here));
  }
}

void Prices::priceTypes(const Supply& supply, const std::vector<DemandClass>& wanted) {
  pressure_.assign(types_, 0);
  std::map<TypeSet, double> confined;
  for (const DemandClass& each : wanted)
    if (each.types != supply.all) confined[each.types] += each.part;
  for (const auto& [set, part] : confined) {
    double free = 0;
    for (TypeId type = 0; type < types_; ++type)
      if ((set & only(type)) != 0) free += supply.free[type];
    const double offered = free / std::max(1.0, supply.allFree);
    const double ratio = offered > 1e-9 ? part / offered : kMaxPressure;
    for (TypeId type = 0; type < types_; ++type)
      if ((set & only(type)) != 0) pressure_[type] += std::min(kMaxPressure, ratio);
  }
}

void Prices::priceCopies(const NodeStates& nodeStates, std::vector<DemandClass>& wanted) {
  std::vector<DemandShape> all;
  all.reserve(wanted.size());
  for (const DemandClass& each : wanted) all.push_back(each.shape);
  FitCounts counts(std::move(all));
  std::vector<double> fitting(wanted.size(), 0);
  for (uint32_t number = 1; number < nodeStates.numbers(); ++number) {
    const double nodes = nodeStates.nodesIn(number);
    if (nodes == 0) continue;
    const NodeState& node = nodeStates.state(number);
    const Counts capacity = counts.capacityOn(node);
    for (std::size_t i = 0; i < capacity.size(); ++i)
      fitting[i] += nodes * static_cast<double>(counts.copies(i, node.free, capacity[i]));
  }
  const std::vector<double> confined = partsConfinedTo(wanted);
  std::vector<double> perCopy(wanted.size(), 0);
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    const DemandClass& one = wanted[i];
    const double size = one.size * static_cast<double>(one.shape.cards);
    if (fitting[i] <= 0) continue;                     // no capacity is left to protect
    const double copies = confined[i] * free_ / size;  // expected copies until the cluster is full
    const double asked = copies + kDeviations * std::sqrt(copies);
    const double scarce = std::max(0.0, std::min(asked / fitting[i], kMaxScarcity) - kScarceFrom);
    perCopy[i] = (one.shape.cards > 1 ? kSeveralCards : kOneCard) * scarce * scarce * std::sqrt(one.part) * size;
    if (perCopy[i] > 0) order.push_back(i);
  }
  if (order.size() > kMaxShapes) {
    std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return perCopy[a] > perCopy[b]; });
    order.resize(kMaxShapes);
  }
  for (const std::size_t i : order) {
    shapes_.push_back(std::move(wanted[i].shape));
    perCopy_.push_back(perCopy[i]);
  }
}

int32_t Prices::cardWorth(TypeId type, int64_t freeShare) const {
  return type < cardWorth_.size() ? kRests * (*cardWorth_[type])[static_cast<std::size_t>(freeShare)] : 0;
}

double Prices::moved(const Cluster::State& state, const std::vector<double>& cards, const Demand& demand) const {
  double all = 0, sum = 0, found = 0;
  std::vector<std::pair<double, double>> parts;  // volume now, and part at that time
  demand.each([&](const Request& request, std::size_t hash, double weight) {
    const auto then = asked_.find(hash);
    double each = 0;
    if (then != asked_.end()) {
      each = then->second.each;
    } else if (DemandClass wanted; demandClassOf(state, cards, request, wanted)) {
      each = wanted.volumeEach();
    }
    parts.emplace_back(weight * each, then != asked_.end() ? then->second.part : 0);
    all += weight * each;
  });
  if (all <= 0) return asked_.empty() ? 0 : 1;
  for (const auto& [volume, part] : parts) {
    sum += std::abs(volume / all - part);
    found += part;
  }
  return (sum + std::max(0.0, 1 - found)) / 2;  // demand that disappeared counts as changed
}

bool Prices::outdated(const Cluster::State& state, const NodeStates& nodeStates, const Demand& demand) const {
  const Supply supply(state, nodeStates);
  if (std::abs(supply.allFree - free_) > kMoved * std::min(supply.allFree, free_)) return true;
  return demand.known() && moved(state, supply.cards, demand) > kMoved;
}

}  // namespace egpu::scheduler::fragmentation

#include "tests/scheduler/plain_choice.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "controller/scheduler/topology/dgx.h"
#include "tests/scheduler/topology/nodes.h"
#include "tests/scheduler/world.h"

namespace egpu::scheduler::testing {
namespace {

int64_t up(__int128 a, __int128 b) { return static_cast<int64_t>((a + b - 1) / b); }

/// The divided quantity: number of steps, and the size of a step.
struct Steps {
  int64_t total = 0, size = 1;
  int64_t memory = 0, memoryUnit = 1;  // explicit memory beside compute
};

Steps stepsOf(const Request& r) {
  Steps s;
  auto unit = [](int64_t amount, int64_t coarse) { return amount % coarse == 0 ? coarse : int64_t{1}; };
  const bool memoryAlone = r.milliTflopsPerCard == 0 && r.perCard.core == 0;
  if (r.milliTflopsPerCard > 0) {
    s.size = unit(r.milliTflopsPerCard, 1000);
    s.total = r.milliTflopsPerCard / s.size;
  } else {
    const int64_t amount = memoryAlone ? r.perCard.memory : r.perCard.core;
    s.size = unit(amount, memoryAlone ? kMi : 10);
    s.total = amount / s.size;
  }
  if (!memoryAlone && !r.memoryFromCore) {
    s.memoryUnit = unit(r.perCard.memory, kMi);
    s.memory = r.perCard.memory / s.memoryUnit;
  }
  return s;
}

int64_t coreOf(const Request& r, const v1alpha::Card& card, int64_t part) {
  if (r.milliTflopsPerCard > 0) return up(static_cast<__int128>(part) * stepsOf(r).size * card.core, card.milliTflops);
  return r.perCard.core > 0 ? part * stepsOf(r).size : 0;
}

int64_t ownMemory(const v1alpha::Card& card, int64_t core) {
  return core == card.core ? card.memory
                           : static_cast<int64_t>(static_cast<__int128>(card.memory) * core / card.core / kMi * kMi);
}

/// Returns the maximum granted amount for `part` steps of the total on this card.
Amount maxAmount(const Request& r, const v1alpha::Card& card, int64_t part) {
  const Steps s = stepsOf(r);
  const int64_t core = coreOf(r, card, part);
  if (r.milliTflopsPerCard == 0 && r.perCard.core == 0) return {0, part * s.size};
  if (r.memoryFromCore) return {core, ownMemory(card, core)};
  return {core, up(static_cast<__int128>(s.memory) * part, s.total) * s.memoryUnit};
}

Amount chargedOf(const Request& r, const Amount& granted) {
  return {up(static_cast<__int128>(granted.core) * 1000, r.coreOvercommit),
          up(static_cast<__int128>(granted.memory) * 1000, r.memoryOvercommit)};
}

bool holds(const Request& r, const v1alpha::Card& card, const Amount& used, int64_t part) {
  if (r.milliTflopsPerCard > 0 && card.milliTflops == 0) return false;
  const Amount granted = maxAmount(r, card, part);
  if (granted.core > card.core || granted.memory > card.memory) return false;
  const Amount charged = chargedOf(r, granted);
  return used.core + charged.core <= card.core && used.memory + charged.memory <= card.memory;
}

using Indexes = std::vector<std::size_t>;

/// Divides a total over a set. Evenly: equal parts as far as they fit, with the remaining steps going to the cards with
/// the most capacity. Otherwise: fills one card after the other. Empty if it does not fit.
std::vector<int64_t> partsOf(const Request& r, int64_t total, const Indexes& set,
                             const std::vector<int64_t>& capacities) {
  const auto cards = static_cast<int64_t>(set.size());
  int64_t all = 0;
  for (const std::size_t i : set) all += capacities[i];
  if (all < total || cards > total) return {};
  std::vector<int64_t> parts(set.size(), 1);  // one step for each card
  if (r.split == Split::fill) {
    int64_t left = total - cards;
    for (std::size_t i = 0; i < set.size(); ++i) {
      const int64_t more = std::min(left, capacities[set[i]] - 1);
      parts[i] += more;
      left -= more;
    }
    return parts;
  }
  // The highest level to which all parts can be raised without exceeding the total.
  int64_t level = 0, tooHigh = total + 1;
  while (tooHigh - level > 1) {
    const int64_t middle = (level + tooHigh) / 2;
    __int128 sum = 0;
    for (const std::size_t i : set) sum += std::min(capacities[i], middle);
    (sum <= total ? level : tooHigh) = middle;
  }
  int64_t left = total;
  for (std::size_t i = 0; i < set.size(); ++i) left -= parts[i] = std::min(capacities[set[i]], level);
  for (std::size_t i = 0; i < set.size() && left > 0; ++i)
    if (capacities[set[i]] > level) ++parts[i], --left;
  return parts;
}

const std::map<std::string, std::vector<Indexes>>& dgxSets() {
  static const std::map<std::string, std::vector<Indexes>> sets = [] {
    std::vector<Indexes> ones, fours{{0, 1, 2, 3}, {4, 5, 6, 7}}, eight{{0, 1, 2, 3, 4, 5, 6, 7}};
    for (std::size_t i = 0; i < 8; ++i) ones.push_back({i});
    std::map<std::string, std::vector<Indexes>> all;
    all["P100"] = {{0, 2}, {1, 3}, {4, 6}, {5, 7}};
    all["V100"] = {{0, 3}, {1, 2}, {4, 7}, {5, 6}};
    for (auto& [model, list] : all) {
      list.insert(list.begin(), ones.begin(), ones.end());
      list.insert(list.end(), fours.begin(), fours.end());
      list.insert(list.end(), eight.begin(), eight.end());
    }
    return all;
  }();
  return sets;
}

/// Returns the fixed sets of a node, as indexes. topology/dgx.h recognises the machine and is tested there.
std::vector<Indexes> fixedSetsOf(const std::vector<v1alpha::Card>& node) {
  const topology::Machine machine = topology::recogniseMachine(topology::testing::sitesOf(node));
  if (machine == topology::Machine::dgx1Pascal) return dgxSets().at("P100");
  if (machine == topology::Machine::dgx1Volta) return dgxSets().at("V100");
  return {};
}

/// Returns the sets of the machine that the policy names ("static dgx1-volta"), otherwise of the node's own machine.
std::vector<Indexes> fixedSetsFor(const std::string& policy, const std::vector<v1alpha::Card>& node) {
  if (policy == "static dgx1-pascal") return dgxSets().at("P100");
  if (policy == "static dgx1-volta") return dgxSets().at("V100");
  return fixedSetsOf(node);
}

class Choosing {
 public:
  Choosing(const Request& r, const std::vector<v1alpha::Card>& node, const std::vector<PlainCandidate>& candidates)
      : r_(r), node_(node), candidates_(candidates) {
    for (const PlainCandidate& candidate : candidates)
      for (std::size_t place = 0; place < node.size(); ++place)
        if (node[place].uuid == candidate.card.uuid) places_.push_back(place);
  }

  std::optional<std::vector<Placement>> run() {
    const bool divided = r_.split != Split::none && !r_.wholeCards;
    const Indexes set = divided ? setToDivideOver() : setOfWanted();
    if (set.empty()) return std::nullopt;
    return divided ? dividedOver(set) : given(set);
  }

 private:
  Indexes allCandidates() const {
    Indexes all;
    for (std::size_t i = 0; i < candidates_.size(); ++i) all.push_back(i);
    return all;
  }

  /// Converts indexes to places on the node.
  topology::Set bits(const Indexes& set) const {
    topology::Set places = 0;
    for (const std::size_t i : set) places |= topology::Set{1} << places_[i];
    return places;
  }
  Indexes fromBits(topology::Set places) const {
    Indexes set;
    for (std::size_t i = 0; i < candidates_.size(); ++i)
      if ((places >> places_[i]) & 1) set.push_back(i);
    return set;
  }
  /// Returns the fixed sets whose cards are all candidates.
  std::vector<Indexes> fixedSets() const {
    std::vector<Indexes> sets;
    for (const Indexes& places : fixedSetsFor(r_.cardPolicy, node_)) {
      Indexes set;
      for (std::size_t i = 0; i < candidates_.size(); ++i)
        if (std::count(places.begin(), places.end(), places_[i]) > 0) set.push_back(i);
      if (set.size() == places.size()) sets.push_back(set);
    }
    return sets;
  }
  bool linked() const {
    return std::any_of(node_.begin(), node_.end(), [](const v1alpha::Card& card) {
      return !card.topology.links.empty() || card.topology.numa >= 0;
    });
  }

  /// Returns the pinned cards if more cards are requested than are pinned.
  Indexes required() const {
    Indexes set;
    if (static_cast<int64_t>(r_.pinnedCards.size()) < r_.cards)
      for (std::size_t i = 0; i < candidates_.size(); ++i)
        if (std::count(r_.pinnedCards.begin(), r_.pinnedCards.end(), candidates_[i].name) > 0) set.push_back(i);
    return set;
  }

  Indexes setOfWanted() const {
    const auto wanted = static_cast<std::size_t>(r_.cards);
    Indexes set = allCandidates();
    if (set.size() < wanted) return {};
    const Indexes first = required();
    if (r_.cardPolicy.starts_with("static")) {
      for (const Indexes& fixed : fixedSets())
        if (fixed.size() == wanted && std::includes(fixed.begin(), fixed.end(), first.begin(), first.end()))
          return fixed;
      return {};
    }
    if (r_.cardPolicy == "topology" && linked() && wanted > 1)
      return fromBits(
          topology::testing::everyDivision(topology::testing::scoresOf(node_), {bits(set), wanted, bits(first), 0})
              .cards);
    auto score = [&](std::size_t i) {
      if (r_.cardPolicy == "binpack") return -candidates_[i].fill;
      if (r_.cardPolicy == "compact-first")
        return -plainLoad(candidates_[i].card, candidates_[i].used, r_.memoryWeight, false);
      if (r_.cardPolicy == "low-load-first")
        return -plainLoad(candidates_[i].card, candidates_[i].used, r_.memoryWeight, true);
      return r_.cardPolicy == "spread" ? candidates_[i].fill : 0;
    };
    const auto rank = [&](std::size_t i) {
      const bool isFirst = std::count(first.begin(), first.end(), i) > 0;
      return std::pair(isFirst ? 0 : 1, isFirst ? 0 : score(i));
    };
    std::stable_sort(set.begin(), set.end(), [&](std::size_t a, std::size_t b) { return rank(a) < rank(b); });
    set.resize(wanted);
    return set;
  }

  std::vector<Placement> given(const Indexes& set) const {
    std::vector<Placement> placements;
    for (const std::size_t i : set) {
      const PlainCandidate& c = candidates_[i];
      placements.push_back({c.name, c.card.uuid, c.granted, c.charged});
    }
    return placements;
  }

  /// Sorts by descending capacity, then by index.
  Indexes byCapacity(Indexes set) const {
    std::stable_sort(set.begin(), set.end(),
                     [&](std::size_t a, std::size_t b) { return capacities_[a] > capacities_[b]; });
    return set;
  }

  using Quality = std::pair<int64_t, std::size_t>;
  std::optional<Quality> qualityOf(const Indexes& set) const {
    const std::vector<int64_t> parts = partsOf(r_, stepsOf(r_).total, byCapacity(set), capacities_);
    if (parts.empty()) return std::nullopt;
    const auto [least, max] = std::minmax_element(parts.begin(), parts.end());
    return Quality{r_.split == Split::fill ? 0 : *max - *least, set.size()};
  }

  Indexes setToDivideOver() {
    for (const PlainCandidate& candidate : candidates_)
      capacities_.push_back(plainCapacity(r_, candidate.card, candidate.used));
    std::vector<Indexes> sets;
    if (r_.cardPolicy.starts_with("static")) {
      sets = fixedSets();
    } else {
      for (uint32_t mask = 1; mask < uint32_t{1} << candidates_.size(); ++mask) {
        Indexes set;
        for (std::size_t i = 0; i < candidates_.size(); ++i)
          if ((mask >> i) & 1) set.push_back(i);
        sets.push_back(std::move(set));
      }
    }
    if (!r_.pinnedCards.empty())
      std::erase_if(sets, [&](const Indexes& s) { return s.size() != r_.pinnedCards.size(); });
    std::optional<Quality> best;
    std::vector<Indexes> equal;
    for (const Indexes& set : sets) {
      if (std::any_of(set.begin(), set.end(), [&](std::size_t i) { return capacities_[i] == 0; })) continue;
      const std::optional<Quality> quality = qualityOf(set);
      if (!quality || (best && *quality > *best)) continue;
      if (!best || *quality < *best) equal.clear();
      best = quality;
      equal.push_back(set);
    }
    if (equal.empty()) return {};
    return preferred(equal);
  }

  Indexes preferred(const std::vector<Indexes>& equal) const {
    if (r_.cardPolicy == "topology" && linked() && equal.front().size() > 1 && r_.pinnedCards.empty()) {
      Indexes able;
      for (std::size_t i = 0; i < candidates_.size(); ++i)
        if (capacities_[i] > 0) able.push_back(i);
      auto admits = [&](topology::Set places) {
        return std::any_of(equal.begin(), equal.end(), [&](const Indexes& set) { return bits(set) == places; });
      };
      return fromBits(topology::testing::everyDivision(topology::testing::scoresOf(node_),
                                                       {bits(able), equal.front().size(), 0, 0}, admits)
                          .cards);
    }
    auto capacityOf = [&](const Indexes& set) {
      int64_t sum = 0;
      for (const std::size_t i : set) sum += capacities_[i];
      return sum;
    };
    auto cost = [&](const Indexes& set) -> int64_t {
      if (r_.cardPolicy == "spread" || r_.cardPolicy == "low-load-first") return -capacityOf(set);
      if (r_.cardPolicy == "binpack" || r_.cardPolicy == "compact-first")
        return r_.split == Split::fill ? -capacityOf(set) : capacityOf(set);
      return 0;
    };
    // Policies that prefer the tightest cards take the last of equal ones, the others the first.
    const bool last = r_.split == Split::evenly && (r_.cardPolicy == "binpack" || r_.cardPolicy == "compact-first");
    return *std::min_element(equal.begin(), equal.end(), [&](const Indexes& a, const Indexes& b) {
      return cost(a) != cost(b) ? cost(a) < cost(b) : last ? b < a : a < b;
    });
  }

  std::vector<Placement> dividedOver(const Indexes& chosen) const {
    const Steps s = stepsOf(r_);
    const Indexes set = byCapacity(chosen);
    const std::vector<int64_t> parts = partsOf(r_, s.total, set, capacities_);
    std::vector<Placement> placements;
    const bool shared = r_.milliTflopsPerCard > 0 || r_.perCard.core > 0;
    int64_t left = s.memory;
    for (std::size_t i = 0; i < set.size(); ++i) {
      const PlainCandidate& c = candidates_[set[i]];
      Amount granted = maxAmount(r_, c.card, parts[i]);
      if (shared && !r_.memoryFromCore) {
        granted.memory = static_cast<int64_t>(static_cast<__int128>(s.memory) * parts[i] / s.total) * s.memoryUnit;
        left -= granted.memory / s.memoryUnit;
      }
      placements.push_back({c.name, c.card.uuid, granted, {}});
    }
    for (std::size_t i = 0; i < set.size(); ++i) {
      Amount& granted = placements[i].granted;
      // Adds a unit to each of the first parts that were rounded down.
      if (shared && !r_.memoryFromCore && left > 0 && static_cast<__int128>(s.memory) * parts[i] % s.total != 0) {
        granted.memory += s.memoryUnit;
        --left;
      }
      placements[i].charged = chargedOf(r_, granted);
    }
    return placements;
  }

  const Request& r_;
  const std::vector<v1alpha::Card>& node_;
  const std::vector<PlainCandidate>& candidates_;
  std::vector<std::size_t> places_;
  std::vector<int64_t> capacities_;
};

}  // namespace

int64_t plainLoad(const v1alpha::Card& card, const Amount& used, int64_t memoryWeight, bool available) {
  const __int128 whole = static_cast<__int128>(card.memory) * card.core * 10;
  __int128 load = static_cast<__int128>(memoryWeight) * used.memory * card.core +
                  static_cast<__int128>(1000 - memoryWeight) * used.core * card.memory;
  if (available) load = whole * 100 - load;
  const __int128 rounded = load < 0 ? 0 : (2 * load + whole) / (2 * whole);
  return static_cast<int64_t>(std::min<__int128>(rounded, 100));
}

int64_t plainCapacity(const Request& request, const v1alpha::Card& card, const Amount& used) {
  if (used.core > card.core || used.memory > card.memory || !holds(request, card, used, 1)) return 0;
  int64_t good = 1, bad = 2;
  while (bad < int64_t{1} << 51 && holds(request, card, used, bad)) good = bad, bad *= 2;
  while (bad - good > 1) {
    const int64_t middle = (good + bad) / 2;
    (holds(request, card, used, middle) ? good : bad) = middle;
  }
  return good;
}

std::optional<std::vector<Placement>> plainChoice(const Request& request, const std::vector<v1alpha::Card>& node,
                                                  const std::vector<PlainCandidate>& candidates) {
  return Choosing(request, node, candidates).run();
}

}  // namespace egpu::scheduler::testing

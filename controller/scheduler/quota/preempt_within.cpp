#include "controller/scheduler/quota/preempt_within.h"

#include <algorithm>
#include <functional>
#include <set>
#include <string>
#include <tuple>
#include <utility>

#include "controller/scheduler/choice/victim_cost.h"
#include "controller/scheduler/quota/parts_on.h"
#include "controller/scheduler/quota/within.h"
#include "controller/scheduler/state/fill.h"

namespace egpu::scheduler {
namespace {

using Lacks = std::vector<QuotaLack>;
using Amounts = std::vector<int64_t>;  ///< by position in Lacks

/// A holder whose release frees some of the lacking quota.
struct Giver {
  std::string device;
  std::vector<Holding> holdings;
  std::vector<QuotaAmounts> gives;  ///< amounts freed in each quota of the namespace
  VictimLoss loss;
};

/// Search space: sets of holders whose release covers one list of lacking amounts.
struct Cover {
  const Lacks& lacks;
  std::vector<const Giver*> givers;  ///< ordered by loss, the smallest first
  std::vector<Amounts> gives;        ///< amounts of each giver
  /// Upper bounds by lack and start position: sums of the largest amounts of the givers from there on.
  std::vector<std::vector<Amounts>> bounds{};

  void computeBounds(std::size_t n) {
    bounds.assign(lacks.size(), std::vector<Amounts>(givers.size() + 1));
    for (std::size_t d = 0; d < lacks.size(); ++d) {
      Amounts largest;
      bounds[d][givers.size()] = {0};
      for (std::size_t i = givers.size(); i-- > 0;) {
        const int64_t give = gives[i][d];
        largest.insert(std::upper_bound(largest.begin(), largest.end(), give, std::greater<>()), give);
        if (largest.size() > n) largest.pop_back();
        Amounts sums{0};
        for (const int64_t each : largest) sums.push_back(sums.back() + each);
        bounds[d][i] = std::move(sums);
      }
    }
  }
  bool reaches(std::size_t from, std::size_t n, const Amounts& missing) const {
    for (std::size_t d = 0; d < lacks.size(); ++d) {
      const Amounts& sums = bounds[d][from];
      if (sums[std::min(n, sums.size() - 1)] < missing[d]) return false;
    }
    return true;
  }
};

bool none(const Amounts& missing) {
  return std::all_of(missing.begin(), missing.end(), [](int64_t amount) { return amount <= 0; });
}

class PreemptingWithin {
 public:
  PreemptingWithin(Cluster& cluster, QuotaBook& book, const QuotaPreemptor& preemptor, const SearchScope& among,
                   const NodePredicate& suits, const IsEvictable& isEvictable, int64_t& left,
                   const EvictionRankOf& standing, const StopCondition& enough)
      : cluster_(cluster),
        book_(book),
        preemptor_(preemptor),
        among_(among),
        suits_(suits),
        mayGo_(isEvictable),
        left_(left),
        standing_(standing),
        enough_(enough) {}

  Preemption run() {
    bool within = false;
    const std::vector<Lacks> all = lacksByType(within);
    if (within) tryWithout({});
    if (all.empty() || (best_.possible && best_.victims.empty())) return std::move(best_);
    findGivers(all);
    if (givers_.empty() || !mayFit()) return std::move(best_);
    for (const Lacks& lacks : all) search(lacks);
    if (cut_ && !best_.possible)
      for (const Lacks& lacks : all) takeLargest(lacks);
    best_.exact = best_.exact && !cut_;
    return std::move(best_);
  }

 private:
  using Set = std::vector<const Giver*>;

  std::vector<QuotaAsked> askedFor(std::vector<QuotaPart> parts) const {
    auto asked = preemptor_.besides;
    asked.push_back({preemptor_.claim, std::move(parts)});
    return asked;
  }

  /// Returns the lacking quota amounts for each suitable card type, without duplicates. within: set to true if the
  /// request is within its quotas on some type.
  std::vector<Lacks> lacksByType(bool& within) const {
    std::vector<Lacks> all;
    for (const CardType& type : cluster_.state().types) {
      auto parts = partsOn(type, preemptor_.request);
      auto lacks = parts ? book_.lacks(askedFor(*std::move(parts))) : std::nullopt;
      if (!lacks) continue;
      if (lacks->empty())
        within = true;
      else if (std::find(all.begin(), all.end(), *lacks) == all.end())
        all.push_back(*std::move(lacks));
    }
    return all;
  }

  void findGivers(const std::vector<Lacks>& all) {
    for (auto& device : book_.holdersIn(preemptor_.claim.namespace_)) {
      if (mayGo_ && !mayGo_(device)) continue;
      Giver giver{device, {}, book_.givenBackBy(device), {}};
      const bool gives = std::any_of(all.begin(), all.end(), [&giver](const Lacks& lacks) {
        const auto amounts = givenTo(lacks, giver);
        return std::any_of(amounts.begin(), amounts.end(), [](int64_t amount) { return amount > 0; });
      });
      const auto has = gives ? book_.withdraw(device) : QuotaBook::Withdrawn();
      if (gives) book_.restore(device, has);
      if (!gives || has.claim.id == preemptor_.claim.id) continue;
      giver.holdings = holdingsOfDevice(device, has);
      giver.loss = lossOf(device, giver.holdings);
      givers_.push_back(std::move(giver));
    }
    std::stable_sort(givers_.begin(), givers_.end(), [](const Giver& a, const Giver& b) { return a.loss < b.loss; });
  }

  std::vector<Holding> holdingsOfDevice(const std::string& device, const QuotaBook::Withdrawn& has) const {
    for (const auto& [card, part] : has.parts) {
      auto there = holdingsOn(cluster_, cluster_.findCard(card).node);
      if (const auto found = there.find(device); found != there.end()) return std::move(found->second);
    }
    return {};
  }

  VictimLoss lossOf(const std::string& device, const std::vector<Holding>& holdings) const {
    const EvictionRank standing = standing_ ? standing_(device) : EvictionRank{};
    VictimLoss loss{standing.priority, -standing.since, 0};
    for (const Holding& each : holdings) loss.amount += fillOf(each.charged, cluster_.findCard(each.card).capacity);
    return loss;
  }

  static Amounts givenTo(const Lacks& lacks, const Giver& giver) {
    Amounts amounts;
    for (const QuotaLack& lack : lacks) amounts.push_back(giver.gives[lack.quota][static_cast<std::size_t>(lack.key)]);
    return amounts;
  }

  static Amounts missing(const Lacks& lacks, const Set& set) {
    Amounts amounts;
    for (const QuotaLack& lack : lacks) amounts.push_back(lack.amount);
    for (const Giver* each : set) take(amounts, givenTo(lacks, *each));
    return amounts;
  }
  static void take(Amounts& amounts, const Amounts& given) {
    for (std::size_t d = 0; d < amounts.size(); ++d) amounts[d] -= given[d];
  }

  /// Returns the result after the release of these givers, with the cheapest set that frees cards in addition.
  Preemption without(const Set& set) {
    std::vector<QuotaBook::Withdrawn> withdrawn;
    std::set<std::string_view> gone;
    for (const Giver* each : set) {
      release(cluster_, each->device, each->holdings);
      withdrawn.push_back(book_.withdraw(each->device));
      gone.insert(each->device);
    }
    auto here = preemptor_.request;
    here.quota = book_.remaining(preemptor_.claim, preemptor_.besides);
    const IsEvictable isEvictable = [&](std::string_view device) {
      return !gone.contains(device) && (!mayGo_ || mayGo_(device));
    };
    const AcceptVictims settles = [this](Cluster& cluster, const Decision& decision, const std::vector<Victim>&) {
      return !book_.excess(askedFor(partsOf(cluster, decision)));
    };
    auto found = preemptIn(cluster_, here, among_, suits_, isEvictable, left_, standing_, enough_, settles);
    for (std::size_t i = set.size(); i-- > 0;) {
      book_.restore(set[i]->device, withdrawn[i]);
      hold(cluster_, set[i]->device, set[i]->holdings);
    }
    return found;
  }

  void tryWithout(const Set& set) {
    auto found = without(set);
    best_.exact = best_.exact && found.exact;
    if (!found.possible) return;
    VictimCost cost;
    for (const Giver* each : set) {
      cost = {cost.holders + 1, cost.loss + each->loss};
      found.victims.push_back({each->device, each->holdings});
    }
    for (std::size_t i = 0; i + set.size() < found.victims.size(); ++i)
      cost = {cost.holders + 1, cost.loss + lossOf(found.victims[i].device, found.victims[i].holdings)};
    if (best_.possible && std::tie(bestCost_, best_.node) <= std::tie(cost, found.node)) return;
    std::sort(found.victims.begin(), found.victims.end(),
              [](const Victim& a, const Victim& b) { return a.device < b.device; });
    bestCost_ = cost;
    found.exact = best_.exact;
    best_ = std::move(found);
  }

  /// True if the request fits without all givers. Also sets beside_.
  bool mayFit() {
    Set all;
    for (const Giver& each : givers_) all.push_back(&each);
    const auto found = without(all);
    beside_ = found.exact ? static_cast<int64_t>(found.victims.size()) : 0;
    best_.exact = best_.exact && (found.possible || found.exact);
    return found.possible;
  }

  bool spent() { return cut_ = cut_ || sets_ <= 0 || left_ <= 0 || (enough_ && enough_()); }

  Cover coverOf(const Lacks& lacks) const {
    Cover cover{lacks, {}, {}};
    for (const Giver& each : givers_) {
      auto amounts = givenTo(lacks, each);
      if (std::all_of(amounts.begin(), amounts.end(), [](int64_t amount) { return amount <= 0; })) continue;
      cover.givers.push_back(&each);
      cover.gives.push_back(std::move(amounts));
    }
    return cover;
  }

  void search(const Lacks& lacks) {
    Cover cover = coverOf(lacks);
    const Amounts wanted = missing(lacks, {});
    for (std::size_t n = 1; n <= cover.givers.size() && !spent(); ++n) {
      if (best_.possible && bestCost_.holders < static_cast<int64_t>(n) + beside_) return;
      cover.computeBounds(n);
      if (!cover.reaches(0, n, wanted)) continue;
      chosen_.clear();
      choose(cover, 0, n, wanted, {});
    }
  }

  /// Tries all sets with n more givers from index `from` on that free the missing amounts and need each giver.
  void choose(const Cover& cover, std::size_t from, std::size_t n, const Amounts& missing, const VictimLoss& loss) {
    if (n == 0) {
      if (none(missing) && allNeeded(cover.lacks)) tryWithout(chosen_);
      return;
    }
    for (std::size_t i = from; i + n <= cover.givers.size() && !none(missing) && cover.reaches(i, n, missing); ++i) {
      --sets_;
      if (spent()) return;
      const Giver& each = *cover.givers[i];
      const auto holders = static_cast<int64_t>(chosen_.size() + n);
      // Later givers cost at least as much, so no cheaper set follows.
      const VictimLoss least = beside_ > 0 ? bestCost_.loss : loss + each.loss * static_cast<int64_t>(n);
      if (best_.possible && VictimCost{holders + beside_, least} > bestCost_) return;
      auto rest = missing;
      take(rest, cover.gives[i]);
      chosen_.push_back(&each);
      choose(cover, i + 1, n - 1, rest, loss + each.loss);
      chosen_.pop_back();
    }
  }

  bool allNeeded(const Lacks& lacks) const {
    for (std::size_t i = 0; i < chosen_.size(); ++i) {
      Set others = chosen_;
      others.erase(others.begin() + static_cast<std::ptrdiff_t>(i));
      if (none(missing(lacks, others))) return false;
    }
    return true;
  }

  /// For too many sets to try: starts with all givers, then spares each that is not needed, the smallest first.
  void takeLargest(const Lacks& lacks) {
    const Cover cover = coverOf(lacks);
    Set set = cover.givers;
    if (!none(missing(lacks, set))) return;
    std::stable_sort(set.begin(), set.end(), [&lacks](const Giver* a, const Giver* b) {
      const auto rank = [&lacks](const Giver& of) {
        return std::tuple(givenTo(lacks, of).front(), -of.loss.priority, -of.loss.age);
      };
      return rank(*a) < rank(*b);
    });
    for (const Giver* each : Set(set)) {
      Set others = set;
      std::erase(others, each);
      if (none(missing(lacks, others))) set = std::move(others);
    }
    tryWithout(set);
  }

  Cluster& cluster_;
  QuotaBook& book_;
  const QuotaPreemptor& preemptor_;
  const SearchScope& among_;
  const NodePredicate& suits_;
  const IsEvictable& mayGo_;
  int64_t& left_;  ///< decisions left
  const EvictionRankOf& standing_;
  const StopCondition& enough_;
  std::vector<Giver> givers_;  ///< ordered by loss, the smallest first
  int64_t beside_ = 0;         ///< minimum number of victims for cards, in addition to any set of givers
  int64_t sets_ = kMaxQuotaSets;
  Set chosen_;
  bool cut_ = false;  ///< not all sets were tried
  VictimCost bestCost_;
  Preemption best_;
};

}  // namespace

Preemption preemptWithinIn(Cluster& cluster, QuotaBook& book, const QuotaPreemptor& preemptor, const SearchScope& among,
                           const NodePredicate& suits, const IsEvictable& isEvictable, int64_t& left,
                           const EvictionRankOf& standing, const StopCondition& enough) {
  const Request& request = preemptor.request;
  if (!book.counts(preemptor.claim.namespace_) || request.adminAccess || request.cards == 0)
    return preemptIn(cluster, request, among, suits, isEvictable, left, standing, enough);
  return PreemptingWithin(cluster, book, preemptor, among, suits, isEvictable, left, standing, enough).run();
}

Preemption preemptWithin(const Cluster& cluster, const QuotaBook& book, const QuotaPreemptor& preemptor,
                         const NodePredicate& suits, const IsEvictable& isEvictable, const EvictionRankOf& standing,
                         const StopCondition& enough) {
  auto quotas = book.of(preemptor.claim.namespace_);
  Cluster copy = cluster;
  int64_t left = kMaxPreemptions;
  return preemptWithinIn(copy, quotas, preemptor, {}, suits, isEvictable, left, standing, enough);
}

}  // namespace egpu::scheduler

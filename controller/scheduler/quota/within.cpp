#include "controller/scheduler/quota/within.h"

#include <optional>
#include <utility>

#include "controller/scheduler/choice/fit.h"
#include "controller/scheduler/choice/split.h"
#include "controller/scheduler/quota/parts_on.h"
#include "controller/scheduler/state/state.h"

namespace egpu::scheduler {
namespace {

/// Maximum number of searches, each with further models excluded.
constexpr int kMaxTries = 8;
/// Maximum number of card types tried for a pod's claims, to see whether all of them can be within their quotas.
constexpr int kMaxAssignments = 1000;

class Within {
 public:
  Within(Cluster& cluster, const QuotaBook& book, const std::vector<QuotaClaim>& claims, std::vector<Request> requests,
         const NodePredicate& suits, const Pause& pause)
      : cluster_(cluster), book_(book), claims_(claims), requests_(std::move(requests)), suits_(suits), pause_(pause) {}

  Together run() {
    Together together;
    together.alone.assign(requests_.size(), false);
    for (std::size_t i = 0; i < requests_.size(); ++i)
      if (auto excess = nowhere(i)) return refused(std::move(together), std::move(*excess), false);
    std::vector<RemainingQuota> leftOut;
    for (int tries = 0; tries < kMaxTries; ++tries) {
      auto within = requests_;
      for (std::size_t i = 0; i < within.size(); ++i) {
        if (within[i].adminAccess) continue;
        within[i].quota = book_.remaining(claims_[i]);
        within[i].quota.insert(within[i].quota.end(), leftOut.begin(), leftOut.end());
      }
      together = decideTogether(cluster_, within, suits_, pause_);
      if (together.decisions.empty()) break;
      const auto excess = excessOf(together.decisions);
      if (!excess) return together;
      leftOut.push_back(without(together.decisions, *excess));
      together.decisions.clear();
    }
    auto outside = decideTogether(cluster_, requests_, suits_, pause_);
    if (outside.decisions.empty()) return together;
    auto excess = excessOf(outside.decisions);
    return excess ? refused(std::move(together), std::move(*excess), leavesSome(leftOut)) : outside;
  }

 private:
  static Together refused(Together together, QuotaExcess excess, bool elsewhere) {
    together.decisions.clear();
    together.excess = std::move(excess);
    together.excess->elsewhere = elsewhere;
    return together;
  }

  std::optional<QuotaExcess> excessOf(const std::vector<Decision>& decisions) const {
    std::vector<QuotaAsked> asked;
    for (std::size_t i = 0; i < claims_.size(); ++i)
      if (!requests_[i].adminAccess) asked.push_back({claims_[i], partsOf(cluster_, decisions[i])});
    return book_.excess(asked);
  }

  /// Returns the quota that excludes every card for the request, even empty ones. nullopt if some cards remain, or if
  /// none suits anyway. Totals to be divided are skipped: their amounts are known only after the division.
  std::optional<QuotaExcess> nowhere(std::size_t i) const {
    auto request = requests_[i];
    if (divides(request) || request.cards == 0 || request.adminAccess) return std::nullopt;
    auto within = request;
    within.quota = book_.remaining(claims_[i]);
    if (within.quota.empty()) return std::nullopt;
    for (const auto& type : cluster_.state().types)
      if (needOn(type, within).possible()) return std::nullopt;
    return book_.excess(leastAsked(cluster_, {claims_[i]}, {request}, {}));
  }

  /// True if the quotas allow some types of empty cards to all claims together. leftOut: further exclusions.
  bool leavesSome(const std::vector<RemainingQuota>& leftOut) const {
    std::vector<QuotaAsked> asked;
    int left = kMaxAssignments;
    return leavesSome(0, leftOut, asked, left);
  }

  /// As above, for the claims from i on, with the assignments before in `asked`.
  bool leavesSome(std::size_t i, const std::vector<RemainingQuota>& leftOut, std::vector<QuotaAsked>& asked,
                  int& left) const {
    while (i < requests_.size() && (requests_[i].adminAccess || requests_[i].cards == 0)) ++i;
    if (i == requests_.size()) return true;
    auto within = requests_[i];
    within.quota = book_.remaining(claims_[i], asked);
    within.quota.insert(within.quota.end(), leftOut.begin(), leftOut.end());
    for (const auto& type : cluster_.state().types) {
      if (--left < 0) return false;
      if (!needOn(type, within).possible()) continue;
      asked.push_back({claims_[i], *partsOn(type, requests_[i])});
      if (!book_.excess(asked) && leavesSome(i + 1, leftOut, asked, left)) return true;
      asked.pop_back();
    }
    return false;
  }

  /// Excludes the models of the chosen cards that the excess counts.
  RemainingQuota without(const std::vector<Decision>& decisions, const QuotaExcess& excess) const {
    RemainingQuota remaining{{}, {}, excess.profile};
    for (const auto& decision : decisions)
      for (const auto& placement : decision.placements) {
        std::string model(cluster_.findCard(placement.card).model);
        if (anyOf(excess.models, model) && (remaining.models.empty() || !anyOf(remaining.models, model)))
          remaining.models.push_back(std::move(model));
      }
    remaining.left[static_cast<std::size_t>(QuotaKey::gpu)] = 0;
    return remaining;
  }

  Cluster& cluster_;
  const QuotaBook& book_;
  const std::vector<QuotaClaim>& claims_;
  const std::vector<Request> requests_;
  const NodePredicate& suits_;
  const Pause& pause_;
};

}  // namespace

std::vector<QuotaPart> partsOf(const Cluster& cluster, const Decision& decision) {
  std::vector<QuotaPart> parts;
  for (const auto& placement : decision.placements) {
    const auto card = cluster.findCard(placement.card);
    parts.push_back(quotaPartOf(card, placement.charged));
  }
  return parts;
}

Together decideWithin(Cluster& cluster, const QuotaBook& book, const std::vector<QuotaClaim>& claims,
                      std::vector<Request> requests, const NodePredicate& suits, const Pause& pause) {
  return Within(cluster, book, claims, std::move(requests), suits, pause).run();
}

}  // namespace egpu::scheduler

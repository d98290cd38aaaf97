// (C6) Reports why a claim fits nowhere or exceeds a quota, with remedies.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "controller/reconcile/claim/context.h"
#include "controller/reconcile/claim/resolve.h"
#include "controller/reconcile/priority/preemptor.h"

namespace egpu::reconcile {

/// Which undecided claims of its group an excess counts as if they had their amounts.
enum class GroupUsage { nobody, some, all };

/// For a claim, or for the pod or gang that decides for it. Add the claim to Waiting before deciding. Thread-safe; the
/// references must outlive it.
class UnschedulableReport {
 public:
  UnschedulableReport(const ClaimContext& context, Preemptor& preemptor) : context_(context), preemptor_(preemptor) {}

  /// A claim that fits nowhere.
  struct NoFit {
    const cache::Claim& claim;
    const ResolvedClaim& asked;
    std::string queueKey;  ///< key of the step that reports
    /// Returns the predicate that the decision used. It is called on another thread, after the step: it must own
    /// all objects that it uses.
    std::function<scheduler::NodePredicate()> suits;
    std::string nodes{};                   ///< key of the predicate: allocator::SchedulingRequest::nodes
    scheduler::WhyUnsuited whyUnsuited{};  ///< why it rejects a node; called like the predicate
    std::function<std::string()> more{};   ///< further text, called only if it is reported
  };
  /// Reports that nothing fits. The text is made outside of the step: the first call requests it (Explainer) and
  /// reports nothing, and the step that follows reports it.
  Outcome noFit(const NoFit& found);
  /// Reports an exceeded quota. first: text put before the report, about claims that are decided with it. counts: which
  /// of those the excess counts.
  Outcome overQuota(const cache::Claim& claim, const scheduler::QuotaExcess& excess, const std::string& first = {},
                    GroupUsage counts = GroupUsage::nobody);

 private:
  /// Returns a function that explains why the claim, or each of its alternatives, fits nowhere.
  Explainer::Explain explanationOf(const NoFit& found) const;
  /// Message about unavailable capacity: cards that are not schedulable, and devices without a claim that hold cards.
  std::string unavailableCapacityMessage(const scheduler::Request& request) const;
  /// Devices without a claim that hold requested cards.
  struct UnclaimedDevices {
    std::string phase;
    std::size_t count = 0;
    scheduler::Amount held;
    std::string names;  ///< " a b c …"
    std::string text(const std::string& rest) const;
  };
  UnclaimedDevices unclaimedDevices(std::string_view phase, const std::function<bool(const cache::Gpu&)>& wanted) const;

  const ClaimContext& context_;
  Preemptor& preemptor_;
};

}  // namespace egpu::reconcile

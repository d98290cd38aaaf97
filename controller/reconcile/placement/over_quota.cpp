// UnschedulableReport: an exceeded quota, the claims that use it, and remedies.
#include <algorithm>

#include "api/v1alpha/keys.h"
#include "controller/reconcile/placement/unschedulable_report.h"
#include "controller/reconcile/queue_key.h"

namespace egpu::reconcile {

namespace phase = v1alpha::keys::phase;
namespace reason = v1alpha::keys::reason;
using std::chrono::milliseconds;

namespace {

/// Changes of the quota or the claim that would help; empty if no single change would be enough. alone: no other claim
/// is decided with it.
std::string remedy(const scheduler::QuotaExcess& excess, bool alone) {
  const auto key = excess.resource();
  const auto amount = [&excess](int64_t n) { return scheduler::quotaText(excess.key, n); };
  if (excess.unrated || excess.others) return {};
  if (excess.perClaim)
    return excess.limit > 0 ? "; " + key + " " + amount(excess.limit) + " would be within it" : std::string();
  const auto left = excess.limit - excess.used;
  return "; " + key + " " + amount(excess.used + excess.wants) + " in its spec.hard would be enough" +
         (alone && left > 0 && excess.key != scheduler::QuotaKey::claims ? ", or requesting at most " + amount(left)
                                                                         : "");
}

/// Amount that the excess counts as used although no claim has it yet: that of claims that are decided with this one.
int64_t usedByNobody(const scheduler::QuotaExcess& excess, const scheduler::QuotaUsage& usage) {
  const auto used = usage.find(excess.profile);
  if (excess.perClaim || used == usage.end()) return 0;
  const auto byOthers = used->second[static_cast<std::size_t>(excess.key)] - excess.own;
  return std::clamp<int64_t>(excess.used - excess.held - byOthers, 0, excess.used);
}

}  // namespace

Outcome UnschedulableReport::overQuota(const cache::Claim& claim, const scheduler::QuotaExcess& excess,
                                       const std::string& first, GroupUsage counts) {
  const auto& uid = claim.metadata.uid;
  if (excess.refuse) context_.waiting.refusals.refused(uid, excess.version);
  const auto* old = findCondition(claim.status.conditions, excess.refuse ? kAccepted : kBound);
  const bool reported =
      old != nullptr && old->reason == reason::kQuotaExceeded && claim.status.phase == phase::kPending;
  // As with NoFit, the amounts change with every claim of the namespace, so they are written at intervals only.
  if (!context_.waiting.unschedulable.mayExplain(uid) && reported)
    return Outcome::after(context_.timeouts.explainInterval);
  const auto& space = claim.metadata.namespace_;
  const auto with = counts == GroupUsage::nobody
                        ? 0
                        : usedByNobody(excess, context_.cluster.queries().quotaUsed({space, excess.quota}));
  auto why = first + excess.text(with);
  // The amount that all need together is known only if all are counted.
  if (counts != GroupUsage::some || excess.perClaim) why += remedy(excess, counts == GroupUsage::nobody);
  if (excess.others) why += "; other limits are exceeded, too";
  if (const auto who = context_.cluster.queries().quotaHolders(excess, counts != GroupUsage::some); !who.empty())
    why += "; " + who;
  if (excess.elsewhere && !excess.perClaim) why += "; cards within the quota have no free capacity";
  return Outcome::done().reports(ConditionUpdate::of(
      claim.metadata, excess.refuse ? ConditionUpdate::As::notAccepted : ConditionUpdate::As::notBound,
      reason::kQuotaExceeded, std::move(why)));
}

}  // namespace egpu::reconcile

#include "controller/whatif/answer/quota_check.h"

#include <utility>

#include "api/v1alpha/keys.h"

namespace egpu::whatif {

scheduler::QuotaClaim quotaClaimOf(const Subject& subject, const std::string& space) {
  auto name = subject.claim.empty() ? space + "/new" : subject.claim;
  if (!subject.device.empty()) name += " (another)";
  return scheduler::quotaClaim(name, subject.className);
}

std::string quotaText(const scheduler::QuotaBook& book, const scheduler::QuotaExcess& excess) {
  auto text = std::string(v1alpha::keys::reason::kQuotaExceeded) + ": " + excess.text();
  const auto who = scheduler::quotaHoldersText(book, excess, true);
  return who.empty() ? text : text + "; " + who;
}

scheduler::Request withinQuotas(scheduler::Cluster& cluster, const scheduler::QuotaBook& book,
                                const scheduler::QuotaClaim& claim, scheduler::Request request,
                                const scheduler::NodePredicate& suits, const scheduler::Pause& pause,
                                Subject& subject) {
  if (!book.counts(claim.namespace_) || request.adminAccess) return request;
  const auto decision = scheduler::decideWithin(cluster, book, claim, request, suits, pause);
  request.quota = book.remaining(claim);
  if (!decision.excess) return request;
  subject.quota = quotaText(book, *decision.excess);
  scheduler::RemainingQuota none;
  none.left[static_cast<std::size_t>(scheduler::QuotaKey::gpu)] = 0;
  request.quota.push_back(std::move(none));
  return request;
}

}  // namespace egpu::whatif

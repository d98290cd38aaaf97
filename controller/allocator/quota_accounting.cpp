// Quotas in ClusterView: quota that is nominated to claims, or reserved for them, beside the quota that claims use.
#include <algorithm>
#include <utility>

#include "api/v1alpha/size.h"
#include "controller/allocator/allocator.h"
#include "controller/scheduler/quota/parts_on.h"

namespace egpu::cache {
namespace {

std::string spaceOf(const std::string& claim) { return claim.substr(0, claim.find('/')); }

}  // namespace

std::vector<scheduler::QuotaHold> ClusterView::quotaHolds(const std::vector<SchedulingRequest>& asks,
                                                          bool carriedOut) const {
  std::vector<scheduler::QuotaHold> holds;
  const auto space = asks.empty() ? std::string() : spaceOf(asks.front().claim);
  if (!book_.counts(space)) return holds;
  for (const auto& [uid, nominated] : nominated_) {
    if (spaceOf(nominated.owner.name) != space || !roomIsKeptFrom(asks, uid, nominated)) continue;
    auto& hold = holds.emplace_back();
    hold.owner.claim = {space, nominated.owner.name, uid, nominated.className};
    for (const auto& each : nominated.room.cards) {
      const auto card = cluster_.findCard(each.name);
      hold.owner.parts.push_back(
          {std::string(card.model), {each.core, each.memory}, card.capacity.core, card.milliTflops, card.known});
    }
    if (!carriedOut) hold.victims = uidsOf(nominated.room.victims);
  }
  const auto* reserved = quotaReservations_.find(space);
  const bool comesFirst =
      reserved != nullptr && std::all_of(asks.begin(), asks.end(), [&](const SchedulingRequest& ask) {
        const auto& own = reserved->claimUids;
        return std::find(own.begin(), own.end(), ask.claimUid) == own.end() &&
               scheduler::queueLess(reserved->first, waiterOf(ask));
      });
  for (std::size_t i = 0; comesFirst && i < reserved->asked.size(); ++i)
    if (!nominated_.contains(reserved->asked[i].claim.id)) holds.push_back({reserved->asked[i], {}});
  return holds;
}

scheduler::QuotaBook ClusterView::quotasThen(const std::vector<SchedulingRequest>& asks) {
  const auto space = asks.empty() ? std::string() : spaceOf(asks.front().claim);
  if (!book_.counts(space)) return {};
  accountExistingHoldings();
  auto book = book_.of(space);
  for (const auto& [uid, nominated] : nominated_)
    if (spaceOf(nominated.owner.name) == space && roomIsKeptFrom(asks, uid, nominated))
      for (const auto& victim : uidsOf(nominated.room.victims)) book.drop(victim);
  book.hold(quotaHolds(asks, true));
  return book;
}

void ClusterView::reserveQuota(const std::vector<SchedulingRequest>& asks, const scheduler::QuotaExcess& excess) {
  for (const auto& ask : asks) dropReservation(ask.claimUid);
  if (!excess.releasesMayHelp() || !waitsForLong(asks) || !allStand(asks)) return;
  std::vector<scheduler::QuotaClaim> claims;
  std::vector<scheduler::Request> requests;
  QuotaWaiter waiter{waiterOf(asks.front()), {}, {}};
  for (const auto& ask : asks) {
    auto claim = quotaClaimFor(ask);
    if (!claim) return;
    claims.push_back(*std::move(claim));
    requests.push_back(ask.request);
    waiter.claimUids.push_back(ask.claimUid);
  }
  waiter.asked = scheduler::leastAsked(cluster_, claims, requests, excess.models);
  // A reservation for amounts that the quotas never allow would block the namespace without purpose.
  const auto never = book_.lacks(waiter.asked, true);
  if (waiter.asked.empty() || !never || !never->empty()) return;
  const auto space = claims.front().namespace_;
  if (quotaReservations_.reserve(space, std::move(waiter), asks.front().turn.now)) book_.noteFreed(space);
  keepsNodes_ = keepsNodes_ || !quotaReservations_.empty();
}

void ClusterView::reserveNoQuota(std::string_view claimUid) {
  if (quotaReservations_.empty()) return;
  if (const auto space = quotaReservations_.release(claimUid); !space.empty()) book_.noteFreed(space);
}

void ClusterView::waitForQuota(const std::vector<SchedulingRequest>& asks, const scheduler::QuotaExcess& excess) {
  {
    const std::lock_guard lock(mutex_);
    reserveQuota(asks, excess);
  }
  announce();
}

scheduler::Request ClusterView::withinQuota(const SchedulingRequest& ask) {
  auto request = ask.request;
  const std::lock_guard lock(mutex_);
  const auto claim = request.adminAccess ? std::nullopt : quotaClaimFor(ask);
  if (!claim) return request;
  book_.hold(quotaHolds({ask}, false));
  request.quota = book_.rooms(*claim);
  book_.hold({});
  return request;
}

std::optional<scheduler::QuotaExcess> ClusterView::excessOf(const SchedulingRequest& ask,
                                                            const scheduler::QuotaAsked& asked) {
  book_.hold(quotaHolds({ask}, false));
  auto excess = book_.excess({asked});
  book_.hold({});
  if (excess) book_.refused(asked.claim.namespace_);
  return excess;
}

std::optional<scheduler::QuotaAsked> ClusterView::askedWith(const SchedulingRequest& ask, const Gpu& device) {
  auto claim = quotaClaimFor(ask);
  if (!claim) return std::nullopt;
  const auto name = "name/" + claim->name;
  scheduler::QuotaAsked asked{*std::move(claim), {}, name};
  for (std::size_t i = 0; i < device.spec.cards.size(); ++i) {
    const auto part = v1alpha::cardCharged(device, i);
    const auto card = cluster_.findCard(part.name);
    asked.parts.push_back({std::string(card.model),
                           {part.chargedCore, part.chargedMemory},
                           card.capacity.core,
                           card.milliTflops,
                           card.known});
  }
  return asked;
}

std::optional<scheduler::QuotaExcess> ClusterView::excessWith(const SchedulingRequest& ask, const Gpu& device) {
  const std::lock_guard lock(mutex_);
  const auto asked = askedWith(ask, device);
  return asked ? excessOf(ask, *asked) : std::nullopt;
}

std::optional<scheduler::QuotaExcess> ClusterView::reserve(const SchedulingRequest& ask, const Gpu& device) {
  std::optional<scheduler::QuotaExcess> excess;
  {
    const std::lock_guard lock(mutex_);
    drop(ask.claimUid);
    if (const auto asked = askedWith(ask, device)) {
      excess = excessOf(ask, *asked);
      if (!excess) {
        assume(ask, {});
        for (std::size_t i = 0; i < asked->parts.size(); ++i)
          book_.put(assumedKey(ask.claimUid), asked->claim, device.spec.cards[i].name, asked->parts[i]);
      }
    }
  }
  announce();
  return excess;
}

std::optional<scheduler::QuotaAmounts> ClusterView::quotaUsed(const core::ObjectKey& quota) {
  const std::lock_guard lock(mutex_);
  accountExistingHoldings();
  return book_.used(quota.namespace_, quota.name);
}

std::string ClusterView::quotaHolders(const scheduler::QuotaExcess& excess, bool releases) {
  const std::lock_guard lock(mutex_);
  accountExistingHoldings();
  return scheduler::quotaHoldersText(book_, excess, releases);
}

std::optional<uint64_t> ClusterView::refusingQuotas(std::string_view namespace_) const {
  const std::lock_guard lock(mutex_);
  return book_.refusing(namespace_);
}

}  // namespace egpu::cache

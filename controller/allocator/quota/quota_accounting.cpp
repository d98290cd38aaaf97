#include "controller/allocator/quota/quota_accounting.h"

#include <algorithm>
#include <utility>

#include "api/v1alpha/keys.h"
#include "api/v1alpha/quantity.h"
#include "controller/scheduler/quota/parts_on.h"

namespace egpu::allocator {

namespace {

constexpr int64_t kMaxRemoteGpus = 1024;  ///< a claim cannot request more

/// Instead of a card's name.
std::string remotePartName(std::size_t number) { return "remote/" + std::to_string(number); }

}  // namespace

std::vector<scheduler::QuotaPart> remoteQuotaParts(const cache::Gpu& device) {
  int64_t gpus = 1;
  for (const auto& [key, text] : device.spec.capacity) {
    const auto quantity =
        key.ends_with("/" + std::string(v1alpha::keys::kGpu)) ? v1alpha::parseQuantity(text) : std::nullopt;
    if (quantity) gpus = std::clamp<int64_t>(quantity->ceil(), 1, kMaxRemoteGpus);
  }
  return {static_cast<std::size_t>(gpus), scheduler::QuotaPart{}};
}

void QuotaAccounting::countRemote(const std::optional<scheduler::QuotaClaim>& owner, const cache::Gpu& device) {
  const auto& holder = device.metadata.uid;
  if (!owner || !book_.counts(owner->namespace_)) return book_.drop(holder);
  const auto parts = remoteQuotaParts(device);
  for (std::size_t i = 0; i < parts.size(); ++i) book_.put(holder, *owner, remotePartName(i), parts[i]);
}

void QuotaAccounting::setQuotas(const std::string& namespace_, std::vector<scheduler::Quota> quotas) {
  book_.setQuotas(namespace_, std::move(quotas));
}

void QuotaAccounting::count(const std::string& holder, const std::optional<scheduler::QuotaClaim>& owner,
                            const std::string& cardName, const scheduler::CardView& card,
                            const scheduler::Amount& charged) {
  if (!owner || !book_.counts(owner->namespace_)) return book_.drop(holder, cardName);
  auto part = scheduler::quotaPartOf(card, charged);
  // The card is gone, or does not publish its profiles: its last description counts on.
  if (const auto* was = book_.find(holder, cardName); was != nullptr) {
    if (card.known && card.mig == nullptr && was->charged == charged) part.mig = was->mig;
    if (!card.known) {
      part = *was;
      part.charged = charged;
    }
  }
  book_.put(holder, *owner, cardName, part);
}

void QuotaAccounting::countDevice(const std::string& holder, const scheduler::QuotaAsked& asked,
                                  const cache::Gpu& device) {
  for (std::size_t i = 0; i < asked.parts.size(); ++i) {
    const bool onCard = i < device.spec.cards.size();
    book_.put(holder, asked.claim, onCard ? device.spec.cards[i].name : remotePartName(i), asked.parts[i]);
  }
}

std::vector<scheduler::RemainingQuota> QuotaAccounting::remaining(const scheduler::QuotaClaim& claim,
                                                                  const std::vector<scheduler::QuotaHold>& holds) {
  book_.hold(holds);
  auto remaining = book_.remaining(claim);
  book_.hold({});
  return remaining;
}

std::optional<scheduler::QuotaExcess> QuotaAccounting::excessOf(const scheduler::QuotaAsked& asked,
                                                                const std::vector<scheduler::QuotaHold>& holds) {
  book_.hold(holds);
  auto excess = book_.excess({asked});
  book_.hold({});
  if (excess) book_.refused(asked.claim.namespace_);
  return excess;
}

std::vector<scheduler::QuotaAsked> QuotaAccounting::reservedBefore(const std::string& namespace_,
                                                                   const std::vector<SchedulingRequest>& asks) const {
  const auto* reserved = reservations_.find(namespace_);
  if (reserved == nullptr) return {};
  const bool comesFirst = std::all_of(asks.begin(), asks.end(), [&](const SchedulingRequest& ask) {
    const auto& own = reserved->claimUids;
    return std::find(own.begin(), own.end(), ask.claimUid) == own.end() &&
           scheduler::queueLess(reserved->first, pendingRequestOf(ask));
  });
  return comesFirst ? reserved->asked : std::vector<scheduler::QuotaAsked>();
}

void QuotaAccounting::reserve(const std::string& namespace_, QuotaWaiter waiter, int64_t now) {
  // A reservation for amounts that the quotas never allow would block the namespace without purpose.
  const auto never = book_.lacks(waiter.asked, true);
  if (waiter.asked.empty() || !never || !never->empty()) return;
  if (reservations_.reserve(namespace_, std::move(waiter), now)) book_.noteFreed(namespace_);
}

void QuotaAccounting::releaseReservation(std::string_view claimUid) {
  if (reservations_.empty()) return;
  if (const auto namespace_ = reservations_.release(claimUid); !namespace_.empty()) book_.noteFreed(namespace_);
}

void QuotaAccounting::expireReservations(int64_t now) {
  for (const auto& namespace_ : reservations_.expire(now)) book_.noteFreed(namespace_);
}

}  // namespace egpu::allocator

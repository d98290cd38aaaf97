#include "controller/allocator/quota/quota_reservations.h"

#include <algorithm>
#include <utility>

namespace egpu::allocator {
namespace {

bool owns(const QuotaWaiter& owner, std::string_view claimUid) {
  return std::find(owner.claimUids.begin(), owner.claimUids.end(), claimUid) != owner.claimUids.end();
}

}  // namespace

bool QuotaReservations::reserve(const std::string& namespace_, QuotaWaiter waiter, int64_t now) {
  auto& [owner, since, askedAt, restsUntil] = spaces_[namespace_];
  waiter.first.request = nullptr;                                // it does not outlive the decision
  restsUntil = std::min(restsUntil, now + kMaxReservationTime);  // the clock may be set back
  const bool own = owner && std::any_of(waiter.claimUids.begin(), waiter.claimUids.end(),
                                        [&owner = owner](const auto& uid) { return owns(*owner, uid); });
  if (own && now - since >= kMaxReservationTime) {
    owner.reset();
    restsUntil = now + kMaxReservationTime;
    return true;
  }
  if (restsUntil > now || (owner && !own && scheduler::queueLess(owner->first, waiter.first))) return false;
  const bool another = owner && !own;
  if (!own) since = now;
  since = std::min(since, now);
  askedAt = now;
  owner = std::move(waiter);
  return another;
}

void QuotaReservations::renew(std::string_view claimUid, int64_t now) {
  for (auto& [name, space] : spaces_)
    if (space.owner && owns(*space.owner, claimUid)) space.askedAt = now;
}

std::string QuotaReservations::release(std::string_view claimUid) {
  for (auto it = spaces_.begin(); it != spaces_.end(); ++it) {
    if (!it->second.owner || !owns(*it->second.owner, claimUid)) continue;
    auto name = it->first;
    spaces_.erase(it);
    return name;
  }
  return {};
}

std::vector<std::string> QuotaReservations::expire(int64_t now) {
  std::vector<std::string> ended;
  for (auto it = spaces_.begin(); it != spaces_.end();) {
    auto& space = it->second;
    space.askedAt = std::min(space.askedAt, now);
    const bool expires = space.owner && now - space.askedAt >= limits_.ttl;
    if (expires) ended.push_back(it->first);
    it = expires || (!space.owner && space.restsUntil <= now) ? spaces_.erase(it) : std::next(it);
  }
  return ended;
}

std::vector<std::string> QuotaReservations::ownersToAsk(int64_t now) const {
  std::vector<std::string> names;
  for (const auto& [name, space] : spaces_)
    if (space.owner && now - space.askedAt >= limits_.renewAfter()) names.push_back(space.owner->first.name);
  return names;
}

const QuotaWaiter* QuotaReservations::find(std::string_view namespace_) const {
  const auto space = spaces_.find(namespace_);
  return space == spaces_.end() || !space->second.owner ? nullptr : &*space->second.owner;
}

}  // namespace egpu::allocator

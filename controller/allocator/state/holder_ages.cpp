#include "controller/allocator/state/holder_ages.h"

#include "controller/base/timestamp.h"

namespace egpu::allocator {

void HolderAges::record(const cache::Gpu& device) {
  const base::ExclusiveLock lock(mutex_);
  ages_[device.metadata.uid] = {base::unixSeconds(device.metadata.creationTimestamp), device.metadata.name};
}

void HolderAges::forget(std::string_view uid) {
  const base::ExclusiveLock lock(mutex_);
  if (const auto known = ages_.find(uid); known != ages_.end()) ages_.erase(known);
}

std::optional<HolderAges::HolderAge> HolderAges::find(std::string_view uid) const {
  const base::SharedLock lock(mutex_);
  const auto known = ages_.find(uid);
  return known == ages_.end() ? std::nullopt : std::optional(known->second);
}

std::optional<int64_t> HolderAges::createdAt(std::string_view uid) const {
  const base::SharedLock lock(mutex_);
  const auto known = ages_.find(uid);
  return known == ages_.end() ? std::nullopt : std::optional(known->second.created);
}

}  // namespace egpu::allocator

#include "provisioners/remote/lease_book.h"

#include <algorithm>
#include <utility>

namespace egpu::remote {
namespace {

using sdk::Status;
using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr std::size_t kMaxReleased = 10'000;
/// The agent takes a file that is named after a key for state of a staged device.
const std::string kPrefix = "lease-";

bool same(const PoolSettings& a, const PoolSettings& b) { return !(a < b) && !(b < a); }

}  // namespace

void LeaseBook::load() {
  if (std::exchange(isLoaded_, true)) return;
  std::vector<std::string> names;
  if (const Status status = files_.list(names); status.code != EGPU_OK)
    sdk::detail::host->log(EGPU_WARN, status.message.c_str());
  for (const auto& name : names) {
    const auto text = name.rfind(kPrefix, 0) == 0 ? files_.read(name) : std::nullopt;
    PoolSettings pool;
    if (!text || fromJson(*text, pool).code != EGPU_OK) continue;
    pools_.emplace(pool, steady_clock::now());
    leases_[name.substr(kPrefix.size())] = {pool, false};
  }
}

void LeaseBook::named(const PoolSettings& pool) {
  const std::lock_guard lock(mutex_);
  load();
  pools_[pool] = steady_clock::now();
}

Status LeaseBook::begin(const std::string& key, const PoolSettings& pool) {
  const std::lock_guard lock(mutex_);
  load();
  pools_[pool] = steady_clock::now();
  released_.erase(key);
  attempts_.erase(key);
  const auto known = leases_.find(key);
  if (known != leases_.end() && known->second.isOurs && same(known->second.pool, pool)) return sdk::ok();
  if (!isPlainKey(key)) return sdk::ok();  // no lease is requested for it
  const Status status = files_.write(kPrefix + key, toJson(pool));
  if (status.code == EGPU_INVALID) return sdk::unavailable(status.message);
  if (status.code != EGPU_OK && !std::exchange(warned_, true))
    sdk::detail::host->log(EGPU_WARN,
                           (status.message + "; after a restart, leases are found by the pools' lists").c_str());
  leases_[key] = {pool, true};
  return sdk::ok();
}

void LeaseBook::erase(const std::string& key) {
  attempts_.erase(key);
  if (leases_.erase(key) == 0) return;
  if (const Status status = files_.remove(kPrefix + key); status.code != EGPU_OK && status.code != EGPU_NO_CHANGE)
    sdk::detail::host->log(EGPU_WARN, status.message.c_str());
}

void LeaseBook::released(const std::string& key) {
  const std::lock_guard lock(mutex_);
  erase(key);
  if (released_.size() >= kMaxReleased) released_.clear();
  released_.insert(key);
}

void LeaseBook::ended(const std::string& key) {
  const std::lock_guard lock(mutex_);
  erase(key);
}

bool LeaseBook::isReleased(const std::string& key) {
  const std::lock_guard lock(mutex_);
  return released_.count(key) != 0;
}

std::vector<PoolSettings> LeaseBook::poolsOf(const std::string& key) {
  {
    const std::lock_guard lock(mutex_);
    load();
    if (const auto known = leases_.find(key); known != leases_.end()) return {known->second.pool};
  }
  return pools();
}

std::vector<PoolSettings> LeaseBook::pools() {
  const std::lock_guard lock(mutex_);
  load();
  std::vector<PoolSettings> all;
  for (const auto& [pool, at] : pools_) all.push_back(pool);
  return all;
}

bool LeaseBook::hasLapsed(const std::string& key, const PoolSettings& pool, milliseconds silence) {
  const std::lock_guard lock(mutex_);
  const auto now = steady_clock::now();
  const auto first = attempts_.emplace(key, now).first->second;
  return now - first >= pool.lease() || (leases_.count(key) == 0 && silence >= pool.lease());
}

bool LeaseBook::listed(const PoolSettings& pool, const std::vector<std::string>& keys, bool isComplete,
                       milliseconds silence) {
  const std::lock_guard lock(mutex_);
  const std::set<std::string> all(keys.begin(), keys.end());
  for (const auto& key : all) {
    released_.erase(key);  // the pool has made the lease after all
    leases_.emplace(key, Lease{pool, false});
  }
  std::vector<std::string> gone;
  for (const auto& [key, lease] : leases_)
    if (isComplete && !lease.isOurs && same(lease.pool, pool) && all.count(key) == 0) gone.push_back(key);
  for (const auto& key : gone) erase(key);
  const bool isUsed =
      std::any_of(leases_.begin(), leases_.end(), [&](const auto& each) { return same(each.second.pool, pool); });
  const auto known = pools_.find(pool);
  const bool isNamed = known != pools_.end() && steady_clock::now() - known->second < pool.lease();
  if (isUsed || isNamed || (!isComplete && silence < pool.lease())) return true;
  pools_.erase(pool);
  return false;
}

}  // namespace egpu::remote

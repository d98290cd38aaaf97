#include "provisioners/remote/renewal.h"

#include <algorithm>

namespace egpu::remote {
namespace {

using sdk::Status;
using std::chrono::seconds;
using std::chrono::steady_clock;

constexpr std::size_t kMaxWorkers = 8;
constexpr int kMaxPerPool = 2;
constexpr seconds kScanInterval{1}, kRetryInterval{5}, kFailingPoolInterval{1};

std::string reportOf(const Status& renewal, bool isLost, int64_t leaseSeconds) {
  if (renewal.code == EGPU_OK) return {};
  if (isLost)
    return "LeaseLost: the lease of the remote GPU has ended: " + renewal.message +
           "; delete the pods and the claim, and create them again";
  return "LeaseNotRenewed: the lease of the remote GPU is not renewed, and ends " + std::to_string(leaseSeconds) +
         " s after its last renewal: " + renewal.message;
}

}  // namespace

Renewal::~Renewal() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  wake_.notify_all();
  if (watcher_.joinable()) watcher_.join();  // it starts the workers
  for (auto& worker : workers_) worker.join();
}

Status Renewal::add(const std::string& key, const PoolSettings& pool) {
  if (!isPlainKey(key)) return sdk::invalid("the key \"" + key + "\" cannot be the name of a file");
  const bool isKnown = files_.has(key);
  if (Status status = files_.write(key, toJson(pool)); status.code != EGPU_OK) return sdk::unavailable(status.message);
  resume();
  return isKnown ? sdk::noChange() : sdk::ok();
}

Status Renewal::remove(const std::string& key) {
  if (!isPlainKey(key)) return sdk::noChange();
  const Status status = files_.remove(key);
  return status.code == EGPU_INVALID ? sdk::unavailable(status.message) : status;
}

std::map<std::string, std::string> Renewal::problems() {
  const std::lock_guard lock(mutex_);
  std::map<std::string, std::string> out;
  for (const auto& [key, lease] : leases_)
    if (!lease.report.empty()) out[key] = lease.report;
  return out;
}

void Renewal::resume() {
  const std::lock_guard lock(mutex_);
  if (watcher_.joinable() || stop_) return;
  std::vector<std::string> keys;
  if (files_.list(keys).code == EGPU_OK && !keys.empty()) watcher_ = std::thread([this] { watch(); });
}

void Renewal::watch() {
  for (std::unique_lock lock(mutex_); !stop_; wake_.wait_for(lock, kScanInterval, [this] { return stop_; })) {
    scan();
    // A worker that finds no lease waits, so that one more is enough for each scan.
    if (idle_ == 0 && workers_.size() < kMaxWorkers && !next().empty()) workers_.emplace_back([this] { work(); });
    wake_.notify_all();
  }
}

void Renewal::scan() {
  std::vector<std::string> keys;
  const Status listed = files_.list(keys);
  if (listed.code != EGPU_OK) return;
  for (const auto& key : keys) {
    const auto text = files_.read(key);
    auto& lease = leases_[key];
    if (lease.renewed == TimePoint()) lease.renewed = steady_clock::now();
    const Status status = fromJson(text.value_or(""), lease.pool);
    lease.unreadable = status.code == EGPU_OK ? "" : files_.path() + "/" + key + " is damaged: " + status.message;
  }
  std::sort(keys.begin(), keys.end());
  for (auto at = leases_.begin(); at != leases_.end();) {
    const bool isStaged = std::binary_search(keys.begin(), keys.end(), at->first);
    at = isStaged || at->second.isUnderWay ? std::next(at) : leases_.erase(at);
  }
}

std::string Renewal::next() {
  const auto now = steady_clock::now();
  const std::pair<const std::string, StagedLease>* first = nullptr;
  for (const auto& each : leases_) {
    const auto& lease = each.second;
    if (lease.isUnderWay || now < lease.at) continue;
    const auto& pool = pools_[lease.pool.url];
    if (now < pool.pausedUntil || pool.underWay >= (pool.isFailing ? 1 : kMaxPerPool)) continue;
    if (first == nullptr || lease.ends() < first->second.ends()) first = &each;
  }
  return first == nullptr ? std::string() : first->first;
}

void Renewal::work() {
  std::unique_lock lock(mutex_);
  while (!stop_) {
    const auto key = next();
    if (key.empty()) {
      ++idle_;
      wake_.wait(lock);
      --idle_;
      continue;
    }
    auto& lease = leases_[key];
    lease.isUnderWay = true;
    const PoolSettings pool = lease.pool;
    Status status = lease.unreadable.empty() ? sdk::ok() : sdk::invalid(lease.unreadable);
    ++pools_[pool.url].underWay;
    lock.unlock();
    if (status.code == EGPU_OK)
      status = client_.renew(pool, key, [this] {
        const std::lock_guard stopping(mutex_);
        return stop_;
      });
    lock.lock();
    settle(key, pool, status);
  }
}

/// Renews at a third of the lease, so that two renewals can fail.
void Renewal::settle(const std::string& key, const PoolSettings& pool, const Status& status) {
  const auto now = steady_clock::now();
  const bool isRenewed = status.code == EGPU_OK;
  auto& requests = pools_[pool.url];
  --requests.underWay;
  requests.isFailing = status.code == EGPU_UNAVAILABLE;
  if (requests.isFailing) requests.pausedUntil = now + kFailingPoolInterval;
  auto& lease = leases_[key];
  lease.isUnderWay = false;
  lease.at = now + (isRenewed ? pool.lease() / 3 : kRetryInterval);
  if (isRenewed) lease.renewed = now;
  const bool isLost = status.code == EGPU_RESCHEDULE || now >= lease.ends();
  lease.report = reportOf(status, isLost, pool.leaseSeconds);
  if (status.message == lease.problem || stop_) return;
  lease.problem = status.message;
  const auto text = "lease " + key + (isRenewed ? " is renewed again" : " is not renewed: " + status.message);
  sdk::detail::host->log(isRenewed ? EGPU_INFO : EGPU_WARN, text.c_str());
}

}  // namespace egpu::remote

// Preemption plans of gangs, with the result of the last check of each. The steps of all victims ask the same question:
// is the plan still needed, and does it need this victim? The answer requires the current state of all members and a
// try of each victim, so it is computed about once per Timeouts::planTtl. Steps in between use the last result if the
// cache still has a claim that names their device.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "controller/base/clock.h"
#include "controller/base/mutex.h"
#include "controller/cache/stores.h"
#include "controller/reconcile/timeouts.h"
#include "controller/reconcile/writer.h"

namespace egpu::reconcile {

/// Positions below a size, handed out in batches to several threads. Thread-safe.
class Batches {
 public:
  /// A step of a worker handles one batch. A busy API server takes 0.2 s per eviction, so larger batches would occupy
  /// the worker for more than a second.
  static constexpr std::size_t kBatch = 4;
  struct Batch {
    std::size_t from = 0, to = 0;  ///< excluding `to`
    uint64_t round = 0;
  };
  explicit Batches(std::size_t size) : size_(size) {}
  /// Returns a batch for the caller alone. The caller calls done() or startOver() afterwards. nullopt: all are handed
  /// out.
  std::optional<Batch> next();
  void done(const Batch& batch);
  void startOver();
  bool allDone() const;

 private:
  const std::size_t size_;
  mutable base::Mutex mutex_;
  std::size_t next_ EGPU_GUARDED_BY(mutex_) = 0;
  std::size_t done_ EGPU_GUARDED_BY(mutex_) = 0;
  uint64_t round_ EGPU_GUARDED_BY(mutex_) = 0;  ///< changes with startOver(): batches of an earlier one do not count
};

struct SharedPlan {
  int64_t priority = 0;                        ///< priority of the preemptors together
  std::vector<std::string> victims{};          ///< names of devices
  std::set<std::string> needed{};              ///< victims without whose release the preemptors would not fit
  std::shared_ptr<Batches> budgetsAsked = {};  ///< victims whose pods' budgets were asked, by position in `victims`
};

/// Thread-safe. The clock must outlive it.
class SharedPlans {
 public:
  SharedPlans(base::Clock& clock, const Timeouts& timeouts) : clock_(clock), timeouts_(timeouts) {}

  /// Returns the key of the plan of the claim's gang. Empty: the claim is in no gang.
  static std::string keyOf(const cache::Claim& claim);
  /// Lock that a step holds while it checks a plan. Not owned: another step is checking one.
  std::unique_lock<base::Mutex> checks() { return {checking_, std::try_to_lock}; }
  /// Returns the result of the last check. Null: the caller must check the plan. After Timeouts::planTtl, one caller
  /// per planTtl gets null; the others use the old result until it is three times as old.
  std::shared_ptr<const SharedPlan> find(const std::string& key);
  /// Returns the result that find() would return to other callers than the one that checks the plan.
  std::shared_ptr<const SharedPlan> recent(const std::string& key) const;
  /// Returns the result of the last check, however old; null if there is none, or a new plan was written since.
  std::shared_ptr<const SharedPlan> last(const std::string& key) const;
  /// Version of the claims that the cache must reach before the plan is checked, and the time since which it is
  /// awaited: less than three times planTtl, from the last page of a listing on. Callers hold checks().
  struct AwaitedVersion {
    uint64_t version = 0;
    base::Clock::Steady since{};
    std::optional<ClaimListing> listing{};  ///< set if the members are listed instead, as the cache is late
  };
  std::optional<AwaitedVersion> awaited(const std::string& key) const;
  void await(const std::string& key, uint64_t version, std::optional<ClaimListing> listing = {});
  void endAwait(const std::string& key);
  /// Number that changes with forget(): the result of a check that began before is out of date.
  uint64_t generation() const { return generation_; }
  /// Stores the result of a check that began at this generation, unless it is out of date. Budgets that were asked for
  /// the same victims stay asked.
  std::shared_ptr<const SharedPlan> put(const std::string& key, SharedPlan plan, uint64_t generation);
  /// Drops the result: a new plan was written.
  void forget(const std::string& key);

 private:
  struct Checked {
    std::shared_ptr<const SharedPlan> plan;
    base::Clock::Steady at;
    base::Clock::Steady renewedAt;  ///< time of the last find() that returned null
    bool stands = true;             ///< false: dropped, except for its budgets
  };
  base::Clock& clock_;
  const Timeouts& timeouts_;
  base::Mutex checking_;
  mutable base::Mutex mutex_;
  std::map<std::string, Checked> checked_ EGPU_GUARDED_BY(mutex_);
  std::map<std::string, AwaitedVersion> awaited_ EGPU_GUARDED_BY(mutex_);
  std::atomic<uint64_t> generation_{0};
};

}  // namespace egpu::reconcile

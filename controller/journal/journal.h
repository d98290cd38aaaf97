// Records every scheduling decision and its inputs in files. README.md describes their format.
//
// The deciding thread only passes values; the journal's own thread writes them. So the journal can neither delay a
// decision nor make it fail. Records for which there is no space in memory or on disk are dropped and counted. The
// journal then continues at the next decision with a new file that begins with a complete snapshot.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <stop_token>
#include <string>
#include <thread>
#include <variant>

#include "controller/allocator/cluster_observer.h"
#include "controller/base/clock.h"
#include "controller/base/metrics.h"
#include "controller/base/mutex.h"
#include "controller/base/status.h"
#include "controller/codec/journal_record.h"
#include "controller/journal/files.h"

namespace egpu::journal {

class Journal final : public allocator::ClusterListener {
 public:
  static constexpr std::size_t kBuffered = 16'384;  ///< maximum number of records in memory
  /// Interval of records `alive` when nothing changes. They bound the time that a reader does not know after a crash.
  static constexpr std::chrono::seconds kAliveInterval{60};

  /// Opens the folder and creates it if necessary. Fails if it can't be written or another process writes there.
  static base::Result<std::unique_ptr<Journal>> open(const std::string& folder, int64_t bytes,
                                                     const std::string& program, const base::Clock& clock,
                                                     base::Metrics& metrics);
  /// Writes the remaining records.
  ~Journal() override;
  Journal(const Journal&) = delete;
  Journal& operator=(const Journal&) = delete;

  // ClusterListener. Called by one thread at a time; flush() may be called by any thread.
  bool wantsAll() const override { return wants_.load(std::memory_order_relaxed); }
  void all(const scheduler::Cluster& cluster, allocator::ClaimUsers users) override;
  void changed(allocator::Change change) override { put(std::move(change)); }
  void decided(allocator::Decided decided) override { put(std::move(decided)); }

  /// Blocks until all records passed so far are written or lost.
  void flush();

 private:
  struct Whole {
    std::shared_ptr<const scheduler::Cluster> cluster;
    allocator::ClaimUsers users;
    bool continues = false;
  };
  struct Alive {};
  using What = std::variant<Whole, allocator::Change, allocator::Decided, Alive>;
  struct TimedChange {
    int64_t time = 0;  ///< milliseconds since 1970
    What what;
  };

  Journal(Files files, const base::Clock& clock, base::Metrics& metrics);
  void put(What what);
  void run(const std::stop_token& stop);
  /// Waits a short time for entries and takes all of them. Empty if none arrived.
  std::deque<TimedChange> next(const std::stop_token& stop);
  /// Writes the entries. Returns the number of records that were not written.
  std::size_t write(const std::deque<TimedChange>& entries);
  base::Status begin(const Whole& whole, int64_t time);
  /// Requests a snapshot (wantsAll()) if further records can't be written without one, or if the file is full. Then
  /// updates the metrics and wakes flush().
  void ask(std::size_t taken, std::size_t unwritten);
  void failed(const base::Status& why);
  int64_t wall() const;
  static codec::JournalRecord recordOf(const TimedChange& entry);

  static constexpr std::chrono::seconds kRetryBackoff{30};

  const base::Clock& clock_;
  base::Metrics& metrics_;
  // Used only by the writing thread:
  Files files_;
  bool intact_ = false;  ///< the newest file contains all records since it was begun
  bool failing_ = false, useless_ = false;
  base::Clock::Steady again_{}, aliveAt_{};

  std::atomic<bool> wants_{true};
  base::Mutex mutex_;
  std::condition_variable_any filled_, written_;
  std::deque<TimedChange> unwritten_ EGPU_GUARDED_BY(mutex_);  ///< changes for the writing thread, the oldest first
  std::size_t free_ EGPU_GUARDED_BY(mutex_) = kBuffered;       ///< number of further records that fit in memory
  bool recording_ EGPU_GUARDED_BY(mutex_) = false;  ///< a snapshot was passed, and no record was dropped since
  bool handed_ EGPU_GUARDED_BY(mutex_) = false;     ///< a snapshot is in unwritten_
  bool began_ EGPU_GUARDED_BY(mutex_) = false;      ///< a snapshot was passed at least once
  bool writing_ EGPU_GUARDED_BY(mutex_) = false, hurry_ EGPU_GUARDED_BY(mutex_) = false;
  uint64_t lost_ EGPU_GUARDED_BY(mutex_) = 0;  ///< dropped records that are not yet counted in the metrics
  std::jthread writer_;
};

}  // namespace egpu::journal

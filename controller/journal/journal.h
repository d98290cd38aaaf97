// Writes down every decision and what it was made from: README.md has the form of the files.
//
// Whoever decides hands over values and goes on; a thread of the journal's own writes them. What finds no room in
// memory or on disk is left out and counted, and with the next decision the journal begins anew with the whole picture:
// nothing here can hold up a decision, nor make one fail.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <stop_token>
#include <string>
#include <thread>
#include <variant>

#include "controller/base/clock.h"
#include "controller/base/metrics.h"
#include "controller/base/status.h"
#include "controller/cache/cluster_listener.h"
#include "controller/journal/files.h"

namespace egpu::journal {

class Journal final : public cache::ClusterListener {
 public:
  static constexpr std::size_t kBuffered = 16'384;  ///< records in memory at most

  /// Opens the folder, and makes it. Fails if it can't be written, or another process writes there.
  static base::Result<std::unique_ptr<Journal>> open(const std::string& folder, int64_t bytes,
                                                     const std::string& program, const base::Clock& clock,
                                                     base::Metrics& metrics);
  /// Writes what was told until here.
  ~Journal() override;
  Journal(const Journal&) = delete;
  Journal& operator=(const Journal&) = delete;

  // Of a ClusterListener. One thread at a time; flush() on any other.
  bool wantsAll() const override { return wants_.load(std::memory_order_relaxed); }
  void all(const scheduler::Cluster& cluster) override;
  void changed(cache::Change change) override { put(std::move(change)); }
  void decided(cache::Decided decided) override { put(std::move(decided)); }

  /// Blocks until what was told so far is written, or lost.
  void flush();

 private:
  struct Whole {
    std::shared_ptr<const scheduler::Cluster> cluster;
    bool continues = false;
  };
  using What = std::variant<Whole, cache::Change, cache::Decided>;
  struct Entry {
    int64_t time = 0;  ///< milliseconds since 1970
    What what;
  };

  Journal(Files files, const base::Clock& clock, base::Metrics& metrics);
  void put(What what);
  void run(const std::stop_token& stop);
  /// What is to be written next; empty if nothing was told for a while.
  std::deque<Entry> next(const std::stop_token& stop);
  /// How many of them were not written.
  std::size_t write(const std::deque<Entry>& entries);
  base::Status begin(const Whole& whole, int64_t time);
  /// Asks for the picture if what is told can't be written without, or there is a file's worth.
  void ask(std::size_t taken, std::size_t unwritten);
  void failed(const base::Status& why);
  int64_t wall() const;

  static constexpr std::chrono::seconds kTryAgain{30};

  const base::Clock& clock_;
  base::Metrics& metrics_;
  // Of the writing thread.
  Files files_;
  bool intact_ = false;  ///< the newest file has all that was told since it was begun
  bool failing_ = false, useless_ = false;
  base::Clock::Steady again_{};

  std::atomic<bool> wants_{true};
  std::mutex mutex_;  ///< protects what follows
  std::condition_variable_any filled_, written_;
  std::deque<Entry> waiting_;
  std::size_t room_ = kBuffered;  ///< for further ones
  bool recording_ = false;        ///< the picture was handed over, and nothing was left out since
  bool handed_ = false;           ///< it waits to be written
  bool began_ = false;            ///< there was a picture once
  bool writing_ = false, hurry_ = false;
  uint64_t lost_ = 0;  ///< records, since they were last counted
  std::jthread writer_;
};

}  // namespace egpu::journal

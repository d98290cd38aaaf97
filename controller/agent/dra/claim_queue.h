// Runs a bounded number of work items in parallel, but one at a time per claim.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "controller/base/mutex.h"

namespace egpu::agent::dra {

/// Thread-safe. Items of one claim run in the order in which they were added: a prepare that the kubelet repeats waits
/// for the call that the kubelet abandoned, and an unprepare waits for both.
class ClaimQueue {
 public:
  /// Starts threads on demand, at most `atOnce`; they run until the destructor.
  explicit ClaimQueue(std::size_t atOnce) : atOnce_(atOnce) {}
  /// Finishes all added items, then joins the threads.
  ~ClaimQueue();
  /// Queues `work` for the claim with this uid and returns immediately. `work` must not throw.
  void add(const std::string& uid, std::function<void()> work);

 private:
  struct Item {
    std::string uid;
    std::function<void()> work;
  };
  void serve();
  void addWorker() EGPU_REQUIRES(mutex_);
  std::deque<Item>::iterator next() EGPU_REQUIRES(mutex_);

  const std::size_t atOnce_;
  base::Mutex mutex_;
  std::condition_variable_any changed_;
  std::deque<Item> items_ EGPU_GUARDED_BY(mutex_);
  std::set<std::string, std::less<>> busy_ EGPU_GUARDED_BY(mutex_);  ///< uids of the claims whose items are running
  std::size_t idle_ EGPU_GUARDED_BY(mutex_) = 0;                     ///< number of workers without an item
  bool ending_ EGPU_GUARDED_BY(mutex_) = false;
  std::vector<std::jthread> workers_ EGPU_GUARDED_BY(mutex_);
};

}  // namespace egpu::agent::dra

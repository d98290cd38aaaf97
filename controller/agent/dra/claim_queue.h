// Runs a bounded number of work items in parallel, but one at a time per claim.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

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
  void addWorker();
  std::deque<Item>::iterator next();

  const std::size_t atOnce_;
  std::mutex mutex_;
  std::condition_variable changed_;
  // State below is protected by mutex_.
  std::deque<Item> items_;
  std::set<std::string, std::less<>> busy_;  ///< uids of the claims whose items are running
  std::size_t idle_ = 0;                     ///< number of workers without an item
  bool ending_ = false;
  std::vector<std::jthread> workers_;
};

}  // namespace egpu::agent::dra

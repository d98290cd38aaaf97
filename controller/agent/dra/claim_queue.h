// Works on claims side by side: a bounded number at a time, one claim never twice at once.
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

/// Thread-safe. What concerns one claim is done in the order in which it came: a prepare that the kubelet repeats waits
/// for the one that it gave up, and an unprepare for both.
class ClaimQueue {
 public:
  /// Threads are made as they are needed, and stay.
  explicit ClaimQueue(std::size_t atOnce) : atOnce_(atOnce) {}
  /// Does all that was added, then ends.
  ~ClaimQueue();
  /// `work` must not throw. Returns at once.
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
  std::set<std::string, std::less<>> busy_;  ///< uids
  std::size_t idle_ = 0;                     ///< workers that wait
  bool ending_ = false;
  std::vector<std::jthread> workers_;
};

}  // namespace egpu::agent::dra

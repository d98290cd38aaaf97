// Reads that callers share: one at a time for each key, for all who asked before it began.
#pragma once

#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <utility>

#include "controller/base/status.h"

namespace egpu::agent {

/// What a caller gets was read after he asked: it is never older than a read of his own, and a hundred callers at once
/// cost few reads. Thread-safe.
template <class T>
class SharedReads {
 public:
  using Answer = base::Result<std::shared_ptr<const T>>;
  using Read = std::function<base::Result<T>(std::stop_token stop)>;

  /// `read` runs on the thread of one of the callers, under that one's stop, and must not throw; with one key all must
  /// read the same. Its error is that of all who share it. Code::cancelled: this caller was stopped.
  Answer get(const std::string& key, const Read& read, const std::stop_token& stop) {
    std::unique_lock lock(mutex_);
    for (;;) {
      Line& line = lines_[key];
      if (!line.next) line.next = std::make_shared<Round>();
      const auto round = line.next;
      ++waiting_;
      const bool goesOn = changed_.wait(lock, stop, [&] { return round->answer || !line.reading; });
      --waiting_;
      if (!goesOn) return base::Status(base::Code::cancelled, "stopped");
      if (!round->answer) perform(key, line, read, stop, lock);
      const bool stopped = !round->answer->ok() && round->answer->status().code() == base::Code::cancelled;
      if (!stopped || stop.stop_requested()) return *round->answer;  // else it was another who was stopped
    }
  }

  /// Callers that wait for somebody's read, for tests.
  int waiting() const {
    const std::lock_guard lock(mutex_);
    return waiting_;
  }

 private:
  struct Round {
    std::optional<Answer> answer;
  };
  /// There while somebody reads or has to.
  struct Line {
    std::shared_ptr<Round> next;  ///< has not begun
    bool reading = false;
  };

  /// The line's next round, on this thread; the line may be gone afterwards.
  void perform(const std::string& key, Line& line, const Read& read, const std::stop_token& stop,
               std::unique_lock<std::mutex>& lock) {
    const auto round = std::move(line.next);
    line.next.reset();
    line.reading = true;
    lock.unlock();
    auto value = read(stop);
    Answer answer = value ? Answer(std::make_shared<const T>(std::move(*value))) : Answer(value.status());
    lock.lock();
    round->answer = std::move(answer);
    line.reading = false;
    if (!line.next) lines_.erase(key);
    changed_.notify_all();
  }

  mutable std::mutex mutex_;
  std::condition_variable_any changed_;
  // State below, rounds included, is protected by mutex_.
  std::map<std::string, Line> lines_;
  int waiting_ = 0;
};

}  // namespace egpu::agent

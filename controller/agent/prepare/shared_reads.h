// Reads that concurrent callers share: at most one read per key at a time, which serves all callers that asked before
// it began.
#pragma once

#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <utility>

#include "controller/base/mutex.h"
#include "controller/base/status.h"

namespace egpu::agent {

/// The result of get() was read after the call of get() began: it is never older than a separate read. A hundred
/// concurrent callers cost few reads. Thread-safe.
template <class T>
class SharedReads {
 public:
  using Answer = base::Result<std::shared_ptr<const T>>;
  using Read = std::function<base::Result<T>(std::stop_token stop)>;

  /// `read` runs on the thread of one of the callers, with that caller's `stop`, and must not throw. All callers with
  /// one key must pass equivalent reads. All callers that share a read get its error. Code::cancelled: this caller was
  /// stopped.
  Answer get(const std::string& key, const Read& read, const std::stop_token& stop) {
    base::MutexLock lock(mutex_);
    for (;;) {
      Line& line = lines_[key];
      if (!line.next) line.next = std::make_shared<Round>();
      const auto round = line.next;
      ++waitingCallers_;
      const bool goesOn =
          changed_.wait(lock, stop, [&]() EGPU_REQUIRES(mutex_) { return round->answer || !line.reading; });
      --waitingCallers_;
      if (!goesOn) return base::Status(base::Code::cancelled, "stopped");
      if (!round->answer) perform(key, line, read, stop);
      const bool stopped = !round->answer->ok() && round->answer->status().code() == base::Code::cancelled;
      if (!stopped || stop.stop_requested()) return *round->answer;  // otherwise another caller was stopped
    }
  }

  /// Number of waiting callers, for tests.
  int waiting() const {
    const base::MutexLock lock(mutex_);
    return waitingCallers_;
  }

 private:
  struct Round {
    std::optional<Answer> answer;  ///< guarded by the mutex_ of the reads
  };
  /// Exists while a read of the key runs or must run.
  struct Line {
    std::shared_ptr<Round> next;  ///< next read, not begun
    bool reading = false;
  };

  /// Performs the next round of `line` on this thread; `line` may no longer exist afterwards.
  void perform(const std::string& key, Line& line, const Read& read, const std::stop_token& stop)
      EGPU_REQUIRES(mutex_) {
    const auto round = std::move(line.next);
    line.next.reset();
    line.reading = true;
    std::optional<Answer> answer;
    {
      const base::MutexUnlock unlocked(mutex_);
      auto value = read(stop);
      answer = value ? Answer(std::make_shared<const T>(std::move(*value))) : Answer(value.status());
    }
    round->answer = std::move(answer);
    line.reading = false;
    if (!line.next) lines_.erase(key);
    changed_.notify_all();
  }

  mutable base::Mutex mutex_;
  std::condition_variable_any changed_;
  std::map<std::string, Line> lines_ EGPU_GUARDED_BY(mutex_);
  int waitingCallers_ EGPU_GUARDED_BY(mutex_) = 0;
};

}  // namespace egpu::agent

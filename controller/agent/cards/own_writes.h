// Changes of the store that result from writes of this process, as opposed to changes by others.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "controller/base/mutex.h"

namespace egpu::agent::cards {

/// The watch may deliver the result of a write before the server answers the write. Until the answer, it is unknown
/// whether a change of the written object is the write's own. Thread-safe; one write at a time.
class OwnWrites {
 public:
  /// Call before an object is written.
  void begin(std::string name) {
    const base::MutexLock lock(mutex_);
    name_ = std::move(name);
    observed_.reset();
    isForeign_ = false;
  }
  /// Call after the result is in the store. `version`: resourceVersion of the result; empty = the write failed.
  void end(std::string_view version) {
    const base::MutexLock lock(mutex_);
    missed_ = missed_ || isForeign_ || (observed_ && *observed_ != version);
    name_.clear();
  }
  /// For listeners of the store: records a change, and returns true if it is not the result of a write. During a write
  /// of the object it returns false, and end() decides. `version`: the object's resourceVersion; empty = deleted.
  bool recordChange(std::string_view name, std::string_view version) {
    const base::MutexLock lock(mutex_);
    if (name_.empty() || name_ != name) return true;
    isForeign_ = isForeign_ || version.empty() || (observed_ && *observed_ != version);
    observed_ = version;
    return false;
  }
  /// Returns true once if an object was changed by others while it was written.
  bool takeMissed() {
    const base::MutexLock lock(mutex_);
    return std::exchange(missed_, false);
  }

 private:
  base::Mutex mutex_;
  std::string name_ EGPU_GUARDED_BY(mutex_);                     ///< object that is being written; empty = none
  std::optional<std::string> observed_ EGPU_GUARDED_BY(mutex_);  ///< version of its last change during the write
  bool isForeign_ EGPU_GUARDED_BY(mutex_) = false;               ///< changed more than once, or deleted
  bool missed_ EGPU_GUARDED_BY(mutex_) = false;
};

}  // namespace egpu::agent::cards

// Values of records most of which have the default value. Internal to scheduler/.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "controller/scheduler/state/ids.h"

namespace egpu::scheduler {

/// A record stores the position of its value: kNone for the default value T{}, which takes no memory here.
template <class T, class Array = std::vector<T>>
class SparseValues {
 public:
  const T& of(uint32_t position) const { return position == kNone ? kDefault : values_[position]; }
  /// Replaces the value at the record's position, and updates the position.
  void set(uint32_t& position, T value) {
    if (value == T{}) {
      if (position != kNone) release(position);
      position = kNone;
      return;
    }
    if (position == kNone) position = obtain();
    values_[position] = std::move(value);
  }

 private:
  uint32_t obtain() {
    if (free_.empty()) {
      values_.emplace_back();
      return static_cast<uint32_t>(values_.size() - 1);
    }
    const uint32_t position = free_.back();
    free_.pop_back();
    return position;
  }
  void release(uint32_t position) {
    values_[position] = T{};
    free_.push_back(position);
  }

  inline static const T kDefault{};
  Array values_;
  std::vector<uint32_t> free_;  ///< unused positions
};

}  // namespace egpu::scheduler

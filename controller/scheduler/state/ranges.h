// Many short lists in one array. Each list is a range of 1, 2, 4, … neighbouring elements: reading a list touches one
// place in memory, and copying all lists copies one array. Internal to scheduler/.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "controller/scheduler/state/large_array.h"

namespace egpu::scheduler {

/// Allocator of ranges of an array.
class Ranges {
 public:
  /// Returns the start of a range of 2^power elements; size() may grow.
  uint32_t obtain(uint32_t power) {
    if (free_[power].empty()) {
      const uint32_t first = size_;
      size_ += uint32_t{1} << power;
      return first;
    }
    const uint32_t first = free_[power].back();
    free_[power].pop_back();
    return first;
  }
  void release(uint32_t first, uint32_t power) { free_[power].push_back(first); }
  /// Upper bound of the elements of all ranges.
  uint32_t size() const { return size_; }

 private:
  static constexpr std::size_t kPowers = 32;
  std::array<std::vector<uint32_t>, kPowers> free_;
  uint32_t size_ = 0;
};

/// Location of a list. Empty lists have no range.
struct Range {
  uint32_t first = 0;
  uint32_t count : 26 = 0;
  uint32_t capacity : 6 = 0;  ///< 1 + power of the range; 0 = no range

  bool full() const { return capacity == 0 || count == uint32_t{1} << (capacity - 1); }
};

/// Unordered lists of T, which is trivially copyable.
template <class T>
class Lists {
 public:
  std::span<const T> of(const Range& list) const { return {elements_.data() + list.first, list.count}; }
  std::span<T> of(const Range& list) { return {elements_.data() + list.first, list.count}; }

  void push(Range& list, const T& element) {
    if (list.full()) {
      const uint32_t first = ranges_.obtain(list.capacity);
      if (ranges_.size() > elements_.size()) elements_.resize(ranges_.size());
      for (uint32_t i = 0; i < list.count; ++i) elements_[first + i] = elements_[list.first + i];
      if (list.capacity > 0) ranges_.release(list.first, list.capacity - 1);
      list.first = first;
      ++list.capacity;
    }
    elements_[list.first + list.count] = element;
    ++list.count;
  }
  /// Moves the last element to the erased position.
  void erase(Range& list, uint32_t position) {
    --list.count;
    elements_[list.first + position] = elements_[list.first + list.count];
    if (list.count == 0) clear(list);
  }
  void clear(Range& list) {
    if (list.capacity > 0) ranges_.release(list.first, list.capacity - 1);
    list = {};
  }

 private:
  LargeArray<T> elements_;
  Ranges ranges_;
};

}  // namespace egpu::scheduler

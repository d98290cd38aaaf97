// Positions of the cards of one node. Internal to scheduler/.
#pragma once

#include <cstddef>
#include <iterator>

#include "controller/scheduler/cluster.h"
#include "controller/scheduler/state/ids.h"
#include "controller/scheduler/state/ranges.h"

namespace egpu::scheduler {

/// The cards of a node, which are neighbours in State::cards.
class CardIds {
 public:
  class Iterator {
   public:
    using iterator_category = std::forward_iterator_tag;
    using value_type = CardId;
    using difference_type = std::ptrdiff_t;
    using pointer = const CardId*;
    using reference = CardId;
    Iterator() = default;
    explicit Iterator(CardId at) : at_(at) {}
    CardId operator*() const { return at_; }
    Iterator& operator++() {
      ++at_;
      return *this;
    }
    Iterator operator++(int) { return Iterator(at_++); }
    bool operator==(const Iterator&) const = default;

   private:
    CardId at_ = 0;
  };
  CardIds() = default;
  explicit CardIds(Range range) : range_(range) {}
  Iterator begin() const { return Iterator(range_.first); }
  Iterator end() const { return Iterator(range_.first + range_.count); }
  std::size_t size() const { return range_.count; }
  bool empty() const { return range_.count == 0; }
  CardId operator[](std::size_t place) const { return range_.first + static_cast<CardId>(place); }

 private:
  friend struct Cluster::State;
  Range range_;
};

}  // namespace egpu::scheduler

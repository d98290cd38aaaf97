// Fill of cards and nodes as an integer, by which node and card policies order.
#pragma once

#include <cstdint>

#include "controller/scheduler/request.h"

namespace egpu::scheduler {

/// Returns the used share of one resource in parts per million, rounded down, 0 … 1,000,000. A capacity of 0 counts as
/// full.
inline int64_t shareOf(int64_t used, int64_t capacity) {
  if (used <= 0) return capacity > 0 ? 0 : 1'000'000;
  if (used >= capacity) return 1'000'000;
  while (capacity >= (int64_t{1} << 43)) {  // keeps used · 10⁶ within 63 bits
    used >>= 10;
    capacity >>= 10;
  }
  return used * 1'000'000 / capacity;
}

/// Returns the fill of a card or node: the share of its core plus the share of its memory, 0 … 2,000,000. Adds shares
/// rather than amounts, because bytes would outweigh milli-cards.
inline int64_t fillOf(const Amount& used, const Amount& capacity) {
  return shareOf(used.core, capacity.core) + shareOf(used.memory, capacity.memory);
}

}  // namespace egpu::scheduler

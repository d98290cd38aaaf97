// How full something is, in integers: what both tiers' policies order by.
#pragma once

#include <cstdint>

#include "controller/scheduler/request.h"

namespace egpu::scheduler {

/// One resource's share in parts per million, rounded down, 0 … 1,000,000. Nothing to hand out counts as full.
inline int64_t shareOf(int64_t used, int64_t capacity) {
  if (used <= 0) return capacity > 0 ? 0 : 1'000'000;
  if (used >= capacity) return 1'000'000;
  while (capacity >= (int64_t{1} << 43)) {  // keeps used · 10⁶ within 63 bits
    used >>= 10;
    capacity >>= 10;
  }
  return used * 1'000'000 / capacity;
}

/// Fill of a card or a node: the share of its core plus the share of its memory, 0 … 2,000,000. Adding the shares, not
/// the amounts, keeps a byte from outweighing a milli-card.
inline int64_t fillOf(const Amount& used, const Amount& capacity) {
  return shareOf(used.core, capacity.core) + shareOf(used.memory, capacity.memory);
}

}  // namespace egpu::scheduler

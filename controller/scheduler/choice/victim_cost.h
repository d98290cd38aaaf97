// Cost of a set of victims, compared in this order: number, priority, age, amount. Internal to scheduler/.
#pragma once

#include <compare>
#include <cstdint>

namespace egpu::scheduler {

/// Loss from evictions, in the order of its components. Sums are compared in the same way.
struct VictimLoss {
  int64_t priority = 0;
  int64_t age = 0;     ///< −since
  int64_t amount = 0;  ///< amount of the holders, in millionths of cards
  auto operator<=>(const VictimLoss&) const = default;
  VictimLoss operator+(const VictimLoss& other) const {
    return {priority + other.priority, age + other.age, amount + other.amount};
  }
  VictimLoss operator*(int64_t n) const { return {priority * n, age * n, amount * n}; }
};

/// Number of victims and their loss.
struct VictimCost {
  int64_t holders = 0;
  VictimLoss loss;
  auto operator<=>(const VictimCost&) const = default;
};

}  // namespace egpu::scheduler

#include "controller/cache/told_allocation.h"

#include <algorithm>

namespace egpu::cache {

void ToldAllocation::set(AllocationSource source, const std::optional<scheduler::Amount>& amount) {
  Each each{};
  for (std::size_t i = 0; i < kSources; ++i)
    each[i] = of(static_cast<AllocationSource>(i)).value_or(scheduler::Amount{});
  each[static_cast<std::size_t>(source)] = amount.value_or(scheduler::Amount{});
  who_ = static_cast<uint8_t>(amount ? who_ | bit(source) : who_ & ~bit(source));
  sum_ = {};
  bool alike = true;
  const scheduler::Amount* one = nullptr;
  for (std::size_t i = 0; i < kSources; ++i) {
    if (!says(static_cast<AllocationSource>(i))) continue;
    alike = alike && (one == nullptr || *one == each[i]);
    one = &each[i];
    sum_.core = std::max(sum_.core, each[i].core);
    sum_.memory = std::max(sum_.memory, each[i].memory);
  }
  apart_ = one == nullptr || (alike && *one == sum_) ? nullptr : std::make_unique<Each>(each);
}

}  // namespace egpu::cache

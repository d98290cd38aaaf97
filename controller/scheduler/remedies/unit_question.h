// The question whether an amount of memory without a unit was meant as MiB.
#pragma once

#include <string_view>

namespace egpu::scheduler {

/// Begin of the question, which Explanation::text() contains if the amount fits as MiB. A caller with another hint
/// about the unit leaves its own out then.
inline constexpr std::string_view kUnitQuestion = "gpu-memory without a unit counts GiB: was ";

}  // namespace egpu::scheduler

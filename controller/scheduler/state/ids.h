// Positions in the cluster's vectors. Internal to scheduler/.
#pragma once

#include <cstdint>

namespace egpu::scheduler {

using NodeId = uint32_t;
using CardId = uint32_t;
using TypeId = uint32_t;
using DeviceId = uint32_t;
inline constexpr uint32_t kNone = UINT32_MAX;

}  // namespace egpu::scheduler

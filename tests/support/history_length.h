// Number of watch events per kind that the API server of a World keeps.
#pragma once

#include <cstddef>

namespace egpu::support {

/// A test that measures memory sets a lower number before it creates its World.
inline std::size_t historyLength = 100'000;

}  // namespace egpu::support

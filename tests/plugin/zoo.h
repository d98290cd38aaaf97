// Shared by the plugin tests: paths of the zoo, and a sample device.
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <thread>

#include "controller/plugin/call.h"

namespace egpu::plugin::testing {

inline std::string zoo(const std::string& name) { return std::string(EGPU_ZOO_DIR) + "/lib" + name + ".so"; }
inline std::string builtIn(const std::string& name) {
  return std::string(EGPU_PROVISIONER_DIR) + "/lib" + name + ".so";
}

inline DeviceRequest device(const std::string& key, core::StringMap parameters = {}) {
  return {key,
          "egpu-" + key,
          "default/claim",
          "node-1",
          {{"GPU-0", "Tesla-V100", 0, 1000, int64_t{16} << 30, int64_t{16} << 30}},
          std::move(parameters)};
}

/// Waits for an effect of another thread or process; the bound only turns a hang into a failure.
inline bool eventually(const std::function<bool()>& condition) {
  for (int i = 0; i < 30'000; ++i) {
    if (condition()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return false;
}

}  // namespace egpu::plugin::testing

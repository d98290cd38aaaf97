// Shared by the provisioners' tests: a plugin loaded in process, and devices for it.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "controller/plugin/in_process.h"

namespace egpu::plugin::testing {

inline constexpr int64_t kGiB = int64_t{1} << 30;

inline DeviceRequest device(const std::string& key, std::vector<CardShare> cards, core::StringMap parameters = {}) {
  return {key, "egpu-" + key, "default/claim", "node-1", std::move(cards), std::move(parameters)};
}
inline CardShare card(int64_t index, int64_t core, int64_t memory) {
  return {"GPU-" + std::to_string(index), "Tesla-V100", index, core, memory, 16 * kGiB};
}
/// Returns a variable's value, or "(unset)".
inline std::string env(const ContainerEdits& edits, const std::string& name) {
  for (const auto& [n, value] : edits.env)
    if (n == name) return value;
  return "(unset)";
}
inline bool hasNode(const ContainerEdits& edits, const std::string& path) {
  return std::any_of(edits.deviceNodes.begin(), edits.deviceNodes.end(), [&](const auto& n) { return n.path == path; });
}
inline std::string mountedAt(const ContainerEdits& edits, const std::string& containerPath) {
  for (const auto& m : edits.mounts)
    if (m.containerPath == containerPath) return m.hostPath;
  return "(nothing)";
}

/// Loads lib<name>.so into this process.
class PluginTest : public ::testing::Test {
 protected:
  explicit PluginTest(const std::string& name) {
    const base::Status status = registry.load(EGPU_PROVISIONER_DIR "/lib" + name + ".so");
    EXPECT_TRUE(status.ok()) << status.str();
    plugin = registry.find(name + ".provisioner.elasticgpu.io", nullptr);
  }
  void SetUp() override { ASSERT_NE(plugin, nullptr); }
  ReplyCode outcomeOf(const Reply& reply) { return message = reply.message, reply.outcome; }

  InProcessRegistry registry;
  Provisioner* plugin = nullptr;
  std::string message;  ///< the last message
};

}  // namespace egpu::plugin::testing

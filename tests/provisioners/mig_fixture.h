// A machine with a card in MIG mode, and the plugin of MIG instances in this process.
#pragma once

#include <stdlib.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "tests/nvml/fake_nvml.h"
#include "tests/nvml/mig_state.h"
#include "tests/provisioners/plugin_fixture.h"
#include "tests/support/scratch_folder.h"

namespace egpu::plugin::testing {

using nvidia::testing::FakeInstance;
using nvidia::testing::FakeInstances;
using nvidia::testing::withFakeInstances;

inline constexpr const char* kMigCard = "GPU-a1060000-0000-4000-8000-000000000000";
inline constexpr uint32_t kOneSlice = 19, kThreeSlices = 9;  ///< NVML's ids of 1g.5gb and 3g.20gb

class MigTest : public ::testing::Test {
 protected:
  MigTest() : fake("a100-mig") {
    setenv("ELASTICGPU_STATE_DIR", state.path().c_str(), 1);
    const base::Status status = registry.load(EGPU_PROVISIONER_DIR "/libmig.so");
    EXPECT_TRUE(status.ok()) << status.str();
    plugin = registry.find("mig.provisioner.elasticgpu.io", nullptr);
  }
  ~MigTest() override {
    // The plugin stays loaded and watches its cards until none is left.
    fake.file = YAML::Load("{}");
    fake.write();
    if (plugin) plugin->health();
    unsetenv("ELASTICGPU_STATE_DIR");
  }
  void SetUp() override { ASSERT_NE(plugin, nullptr); }

  /// Returns a device with these instances of the card.
  static DeviceRequest device(const std::string& key, const std::string& profile, unsigned slots) {
    DeviceRequest out{key, "egpu-" + key, "default/" + key, "node-1", {}, {}};
    out.cards = {{kMigCard, "A100-SXM4-40GB", 0, 143, 5 * kGiB, 40 * kGiB}};
    out.cards[0].migProfile = profile;
    out.cards[0].slots.bits = static_cast<uint16_t>(slots);
    return out;
  }
  ReplyCode outcomeOf(const Reply& reply) { return message = reply.message, reply.outcome; }

  /// Returns the instances on the cards.
  static std::vector<FakeInstance> instances() {
    std::vector<FakeInstance> out;
    EXPECT_TRUE(withFakeInstances([&](FakeInstances& now) {
      for (const FakeInstance& each : now.all)
        if (each.exists != 0) out.push_back(each);
      return false;
    }));
    return out;
  }
  /// "start:size:compute instances" of each instance, by start.
  static std::vector<std::string> placements() {
    std::vector<std::string> out;
    for (const FakeInstance& each : instances())
      out.push_back(
          std::to_string(each.start) + ":" + std::to_string(each.size) + ":" +
          std::to_string(std::count_if(each.compute.begin(), each.compute.end(), [](auto n) { return n > 0; })));
    std::sort(out.begin(), out.end());
    return out;
  }
  /// Creates an instance that no record names, as an administrator does.
  static void addForeign(uint32_t start, uint32_t profileId = kOneSlice, uint32_t size = 1, uint32_t id = 40) {
    EXPECT_TRUE(withFakeInstances([&](FakeInstances& now) {
      const auto room = std::find_if(now.all.begin(), now.all.end(), [](const auto& each) { return each.exists == 0; });
      *room = {1, 0, id, profileId, start, size, 1, {1}};
      return true;
    }));
  }
  std::vector<std::string> records() const {
    std::vector<std::string> out;
    std::error_code none;
    for (const auto& each : std::filesystem::directory_iterator(state.path() + "/mig", none))
      if (const auto name = each.path().filename().string(); name.rfind("lock-", 0) != 0) out.push_back(name);
    std::sort(out.begin(), out.end());
    return out;
  }
  /// Returns the card as discovery reports it.
  Gpu discovered() {
    const auto reply = plugin->discover();
    EXPECT_EQ(outcomeOf(reply.reply), ReplyCode::ok) << message;
    for (const Gpu& gpu : reply.gpus)
      if (gpu.uuid == kMigCard) return gpu;
    ADD_FAILURE() << "the card is not found";
    return {};
  }

  nvidia::testing::FakeNvml fake;
  const support::ScratchFolder state;
  InProcessRegistry registry{{std::chrono::milliseconds(60'000), std::chrono::milliseconds(60'000)}};
  Provisioner* plugin = nullptr;
  std::string message;  ///< the last message
};

}  // namespace egpu::plugin::testing

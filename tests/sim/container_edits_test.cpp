#include "controller/standalone/sim/container_edits.h"

#include <gtest/gtest.h>

namespace egpu::sim {
namespace {

using plugin::ContainerEdits;

ContainerEdits share(const std::string& device, const std::string& cards) {
  ContainerEdits edits;
  edits.env = {{"ELASTICGPU_DEVICE", device},
               {"ELASTICGPU_CARDS", cards},
               {"ELASTICGPU_CORE_0", "100"},
               {"NVIDIA_VISIBLE_DEVICES", cards},
               {"ELASTICGPU_ISOLATION", "none"}};
  edits.deviceNodes = {{"/dev/nvidiactl", "", "rw"}, {"/dev/nvidia-" + device, "", "rw"}};
  return edits;
}

std::vector<plugin::CardShare> cards(std::initializer_list<const char*> uuids, int64_t core = 100) {
  std::vector<plugin::CardShare> out;
  for (const char* uuid : uuids) out.push_back({uuid, "", 0, core, 4096ll << 20, 0});
  return out;
}

/// What gpushare gives for one card with isolation hami-core.
ContainerEdits hami(const std::string& device, const std::string& card, int64_t core, const std::string& memory) {
  ContainerEdits edits = share(device, card);
  edits.env[2].second = std::to_string(core);
  edits.env.emplace_back("CUDA_DEVICE_MEMORY_LIMIT_0", memory);
  edits.env.emplace_back("CUDA_DEVICE_SM_LIMIT", std::to_string(core / 10));
  return edits;
}

std::string env(const ContainerDevices& all, const std::string& name) {
  std::string found;
  for (const auto& [key, value] : all.edits.env)
    if (key == name) found += found.empty() ? value : " and " + value;
  return found;
}

TEST(ContainerEdits, ListsNameTheDevicesOfAllClaimsOnce) {
  ContainerDevices all;
  merge(all, share("egpu-1", "GPU-1,GPU-2"), cards({"GPU-1", "GPU-2"}));
  merge(all, share("egpu-2", "GPU-3"), cards({"GPU-3"}));
  merge(all, share("egpu-3", "GPU-1"), cards({"GPU-1"}));
  EXPECT_EQ(env(all, "NVIDIA_VISIBLE_DEVICES"), "GPU-1,GPU-2,GPU-3");
  EXPECT_EQ(env(all, "ELASTICGPU_DEVICE"), "egpu-1,egpu-2,egpu-3");
  EXPECT_EQ(env(all, "ELASTICGPU_ISOLATION"), "none");
  EXPECT_EQ(all.edits.deviceNodes.size(), 4u);
}

TEST(ContainerEdits, NumbersGoOnAfterTheCardsOfTheClaimsBefore) {
  ContainerDevices all;
  ContainerEdits second = share("egpu-2", "GPU-3");
  second.env.emplace_back("CUDA_DEVICE_MEMORY_LIMIT_0", "4096m");
  second.env.emplace_back("PORT_8080", "x");
  second.env.emplace_back("REPLICA_7", "x");
  second.env.emplace_back("A_", "x");
  merge(all, share("egpu-1", "GPU-1,GPU-2"), cards({"GPU-1", "GPU-2"}));
  merge(all, second, cards({"GPU-3"}));
  EXPECT_EQ(env(all, "ELASTICGPU_CORE_0"), "100");
  EXPECT_EQ(env(all, "ELASTICGPU_CORE_2"), "100");
  EXPECT_EQ(env(all, "CUDA_DEVICE_MEMORY_LIMIT_2"), "4096m");
  EXPECT_EQ(env(all, "PORT_8080"), "x") << "no card has such a number";
  EXPECT_EQ(env(all, "REPLICA_7"), "x") << "the claim has no such card";
  EXPECT_EQ(env(all, "A_"), "x");
}

TEST(ContainerEdits, TwoSharesOfOneCardAddUp) {
  ContainerDevices all;
  merge(all, hami("egpu-1", "GPU-1", 200, "4096m"), cards({"GPU-1"}, 200));
  merge(all, hami("egpu-2", "GPU-1", 300, "2048m"), cards({"GPU-1"}, 300));
  EXPECT_EQ(env(all, "NVIDIA_VISIBLE_DEVICES"), "GPU-1");
  EXPECT_EQ(env(all, "CUDA_DEVICE_MEMORY_LIMIT_0"), "6144m");
  EXPECT_EQ(env(all, "CUDA_DEVICE_MEMORY_LIMIT_1"), "") << "the container has one card";
  EXPECT_EQ(env(all, "ELASTICGPU_CORE_0"), "500");
  EXPECT_EQ(env(all, "CUDA_DEVICE_SM_LIMIT"), "50");
}

TEST(ContainerEdits, NumbersAreThoseOfTheVisibleCardsWhateverTheClaims) {
  ContainerDevices all;
  merge(all, hami("egpu-1", "GPU-1", 200, "4096m"), cards({"GPU-1"}, 200));
  merge(all, hami("egpu-2", "GPU-1", 300, "2048m"), cards({"GPU-1"}, 300));
  merge(all, hami("egpu-3", "GPU-2", 400, "1024m"), cards({"GPU-2"}, 400));
  ContainerEdits both = share("egpu-4", "GPU-2,GPU-1");
  both.env.emplace_back("ELASTICGPU_CORE_1", "10");
  merge(all, both, cards({"GPU-2", "GPU-1"}, 10));
  EXPECT_EQ(env(all, "NVIDIA_VISIBLE_DEVICES"), "GPU-1,GPU-2");
  EXPECT_EQ(env(all, "CUDA_DEVICE_MEMORY_LIMIT_0"), "6144m");
  EXPECT_EQ(env(all, "CUDA_DEVICE_MEMORY_LIMIT_1"), "1024m") << "GPU-2 is the second that the container sees";
  EXPECT_EQ(env(all, "ELASTICGPU_CORE_0"), "510");
  EXPECT_EQ(env(all, "ELASTICGPU_CORE_1"), "500");
  EXPECT_EQ(env(all, "CUDA_DEVICE_SM_LIMIT"), "41") << "the smallest of the cards' sums";
}

TEST(ContainerEdits, TwoSharesOfOneMpsCardAddUp) {
  ContainerDevices all;
  ContainerEdits one, two;
  one.env = {{"CUDA_MPS_PINNED_DEVICE_MEM_LIMIT", "0=4096M"}, {"CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", "20"}};
  two.env = {{"CUDA_MPS_PINNED_DEVICE_MEM_LIMIT", "0=1024M"}, {"CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", "25"}};
  merge(all, one, cards({"GPU-1"}, 200));
  merge(all, two, cards({"GPU-1"}, 250));
  EXPECT_EQ(env(all, "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"), "0=5120M");
  EXPECT_EQ(env(all, "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"), "45");
}

TEST(ContainerEdits, OfTwoMountsOnOnePathTheLaterOneWins) {
  ContainerDevices all;
  ContainerEdits one, two;
  one.mounts = {{"/a", "/tmp/vgpu", {"rw"}}, {"/lib", "/usr/lib", {"ro"}}};
  two.mounts = {{"/b", "/tmp/vgpu", {"rw"}}};
  merge(all, one, cards({"GPU-1"}));
  merge(all, two, cards({"GPU-2"}));
  ASSERT_EQ(all.edits.mounts.size(), 2u);
  EXPECT_EQ(all.edits.mounts[0].hostPath, "/b");
  EXPECT_EQ(describeEdits(all.edits), "\n  mount /b → /tmp/vgpu\n  mount /lib → /usr/lib (ro)");
}

}  // namespace
}  // namespace egpu::sim

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

std::string env(const ContainerEdits& edits, const std::string& name) {
  std::string found;
  for (const auto& [key, value] : edits.env)
    if (key == name) found += found.empty() ? value : " and " + value;
  return found;
}

TEST(ContainerEdits, ListsNameTheDevicesOfAllClaimsOnce) {
  ContainerEdits all;
  merge(all, share("egpu-1", "GPU-1,GPU-2"), 0);
  merge(all, share("egpu-2", "GPU-3"), 2);
  merge(all, share("egpu-3", "GPU-1"), 3);
  EXPECT_EQ(env(all, "NVIDIA_VISIBLE_DEVICES"), "GPU-1,GPU-2,GPU-3");
  EXPECT_EQ(env(all, "ELASTICGPU_DEVICE"), "egpu-1,egpu-2,egpu-3");
  EXPECT_EQ(env(all, "ELASTICGPU_ISOLATION"), "none");
  EXPECT_EQ(all.deviceNodes.size(), 4u);
}

TEST(ContainerEdits, NumbersGoOnAfterTheCardsOfTheClaimsBefore) {
  ContainerEdits all, second = share("egpu-2", "GPU-3");
  second.env.emplace_back("CUDA_DEVICE_MEMORY_LIMIT_0", "4096m");
  second.env.emplace_back("PORT_8080", "x");
  second.env.emplace_back("A_", "x");
  merge(all, share("egpu-1", "GPU-1,GPU-2"), 0);
  merge(all, second, 2);
  EXPECT_EQ(env(all, "ELASTICGPU_CORE_0"), "100");
  EXPECT_EQ(env(all, "ELASTICGPU_CORE_2"), "100");
  EXPECT_EQ(env(all, "CUDA_DEVICE_MEMORY_LIMIT_2"), "4096m");
  EXPECT_EQ(env(all, "PORT_8080"), "x") << "no card has such a number";
  EXPECT_EQ(env(all, "A_"), "x");
}

TEST(ContainerEdits, OfTwoMountsOnOnePathTheLaterOneWins) {
  ContainerEdits all, one, two;
  one.mounts = {{"/a", "/tmp/vgpu", {"rw"}}, {"/lib", "/usr/lib", {"ro"}}};
  two.mounts = {{"/b", "/tmp/vgpu", {"rw"}}};
  merge(all, one, 0);
  merge(all, two, 1);
  ASSERT_EQ(all.mounts.size(), 2u);
  EXPECT_EQ(all.mounts[0].hostPath, "/b");
  EXPECT_EQ(describeEdits(all), "\n  mount /b → /tmp/vgpu\n  mount /lib → /usr/lib (ro)");
}

}  // namespace
}  // namespace egpu::sim

#include "controller/standalone/sim/container_edits.h"

#include <gtest/gtest.h>

namespace egpu::sim {
namespace {

TEST(ContainerEdits, TheLaterDeviceStandsAsARuntimeHasIt) {
  core::ContainerEdits all, one, two;
  one.env = {{"A", "1"}, {"B", "1"}};
  one.deviceNodes = {{"/dev/nvidiactl", "", "rw"}, {"/dev/nvidia0", "", "rw"}};
  one.mounts = {{"/a", "/tmp/vgpu", {"rw"}}, {"/lib", "/usr/lib", {"ro"}}};
  one.cdiDevices = {"nvidia.com/gpu=GPU-1"};
  two.env = {{"A", "2"}, {"C", "2"}};
  two.deviceNodes = {{"/dev/nvidiactl", "", "rw"}, {"/dev/nvidia1", "/dev/nvidia3", "rw"}};
  two.mounts = {{"/b", "/tmp/vgpu", {"rw"}}};
  two.cdiDevices = {"nvidia.com/gpu=GPU-1", "nvidia.com/gpu=GPU-2"};
  apply(all, one);
  apply(all, two);
  EXPECT_EQ(describeEdits(all),
            "\n  env A=2\n  env B=1\n  env C=2\n  device /dev/nvidiactl\n  device /dev/nvidia0\n  device /dev/nvidia1 "
            "(host /dev/nvidia3)\n  mount /b → /tmp/vgpu\n  mount /lib → /usr/lib (ro)\n  cdi nvidia.com/gpu=GPU-1\n"
            "  cdi nvidia.com/gpu=GPU-2");
}

}  // namespace
}  // namespace egpu::sim

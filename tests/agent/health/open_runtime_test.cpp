#include "controller/agent/health/open_runtime.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "tests/support/scratch_folder.h"

namespace egpu::agent::health {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class OpenRuntimeTest : public ::testing::Test {
 protected:
  void write(const std::string& path, const std::string& text) const {
    std::filesystem::create_directories(std::filesystem::path(root + path).parent_path());
    std::ofstream(root + path) << text;
  }
  const support::ScratchFolder scratch;
  const std::string root = scratch.path();
  const std::string containerd = "/etc/containerd/config.toml", toolkit = "/etc/nvidia-container-runtime/config.toml";
  const std::string nvidia =
      "version = 2\n[plugins.\"io.containerd.grpc.v1.cri\".containerd]\n"
      "  default_runtime_name = \"nvidia\"\n";
};

TEST_F(OpenRuntimeTest, WarnsWhereEveryImageMayNameCards) {
  EXPECT_EQ(openToAll(root), "") << "no runtime";
  write(containerd, "default_runtime_name = \"runc\"\n# default_runtime_name = \"nvidia\"\n");
  EXPECT_EQ(openToAll(root), "");
  write(containerd, nvidia);
  EXPECT_THAT(openToAll(root),
              AllOf(HasSubstr("the default (/etc/containerd/config.toml)"),
                    HasSubstr("accept-nvidia-visible-devices-envvar-when-unprivileged = false in " + toolkit)));
  write(toolkit, "#accept-nvidia-visible-devices-envvar-when-unprivileged = false\n[nvidia-container-cli]\n");
  EXPECT_NE(openToAll(root), "") << "a comment sets nothing";
  write(toolkit, "accept-nvidia-visible-devices-envvar-when-unprivileged = true\n");
  EXPECT_NE(openToAll(root), "");
  write(toolkit, "accept-nvidia-visible-devices-envvar-when-unprivileged = false # by the operator\n");
  EXPECT_EQ(openToAll(root), "");
}

TEST_F(OpenRuntimeTest, TheLastFileCounts) {
  write(containerd, "default_runtime_name = 'runc'\n");
  write("/etc/containerd/conf.d/99-nvidia.toml", nvidia);
  EXPECT_THAT(openToAll(root), HasSubstr("(/etc/containerd/conf.d/99-nvidia.toml)"));
  write("/etc/containerd/conf.d/999.toml", "default_runtime_name = 'runc'\n");
  EXPECT_EQ(openToAll(root), "");
}

TEST_F(OpenRuntimeTest, CriOAndTheOperatorsToolkitHaveOtherFiles) {
  write("/etc/crio/crio.conf.d/99-nvidia.conf", "[crio.runtime]\ndefault_runtime = \"nvidia\"\n");
  EXPECT_THAT(openToAll(root), HasSubstr("(/etc/crio/crio.conf.d/99-nvidia.conf)"));
  write("/usr/local/nvidia/toolkit/.config/nvidia-container-runtime/config.toml",
        "accept-nvidia-visible-devices-envvar-when-unprivileged = false\n");
  EXPECT_EQ(openToAll(root), "");
}

/// A node that had the toolkit's package before.
TEST_F(OpenRuntimeTest, TheFileOfAToolkitThatDoesNotRunReportsNothing) {
  write(containerd, nvidia);
  write(toolkit, "accept-nvidia-visible-devices-envvar-when-unprivileged = false\n");
  const std::string operators = "/usr/local/nvidia/toolkit/.config/nvidia-container-runtime/config.toml";
  for (const char* text :
       {"accept-nvidia-visible-devices-envvar-when-unprivileged = true\n", "[nvidia-container-cli]\n"}) {
    write(operators, text);
    EXPECT_THAT(openToAll(root), HasSubstr("= false in " + operators)) << text;
  }
}

}  // namespace
}  // namespace egpu::agent::health

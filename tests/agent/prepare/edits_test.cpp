#include "controller/agent/prepare/edits.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "tests/support/scratch_folder.h"

namespace egpu::agent {
namespace {

namespace fs = std::filesystem;
using core::ContainerEdits;

std::vector<v1alpha::Card> cards() {
  v1alpha::Card card;
  card.uuid = "GPU-1";
  card.index = 3;
  return {card};
}

ContainerEdits node(const std::string& path, const std::string& host = {}, const std::string& permissions = {}) {
  ContainerEdits edits;
  edits.deviceNodes = {{path, host, permissions}};
  return edits;
}
ContainerEdits mount(const std::string& host, const std::string& at = "/in", std::vector<std::string> options = {}) {
  ContainerEdits edits;
  edits.mounts = {{host, at, std::move(options)}};
  return edits;
}
ContainerEdits env(const std::string& name, const std::string& value = "x") {
  ContainerEdits edits;
  edits.env = {{name, value}};
  return edits;
}
ContainerEdits cdi(const std::string& name) {
  ContainerEdits edits;
  edits.cdiDevices = {name};
  return edits;
}
/// Returns why the edits are refused; empty if they are accepted.
std::string refusal(const ContainerEdits& edits, const Permitted& permitted = {}) {
  const auto checked = checkEdits(edits, permitted, cards());
  return checked ? "" : checked.status().message();
}

TEST(Edits, PluginsCannotRequestHooks) {
  ContainerEdits edits;
  edits.hooks = {{"createRuntime", "/var/lib/elasticgpu/x", {}, {}, 0}};
  EXPECT_NE(refusal(edits).find("hooks"), std::string::npos);
}

TEST(Edits, NoContainerMayChangeInstances) {
  for (const char* path : {"/dev/nvidia-caps/nvidia-cap1", "/dev/nvidia-caps/nvidia-cap2"}) {
    EXPECT_NE(refusal(node(path)).find("gives the right to change or monitor all MIG instances"), std::string::npos);
    EXPECT_NE(refusal(node("/dev/nvidia-x", path)).find("gives the right"), std::string::npos) << "the host's";
  }
}

TEST(Edits, WhatEveryPluginMayGive) {
  const std::vector<std::string> writable{"rw", "nosuid", "nodev", "bind"};
  for (const auto& edits : {node("/dev/nvidia3"), node("/dev/nvidiactl"), node("/dev/nvidia-uvm", "", "rwm"),
                            node("/dev/nvidia-caps/nvidia-cap12"), mount("/usr/lib/x86_64-linux-gnu/libcuda.so.535.1"),
                            mount("/usr/bin/nvidia-smi"), mount("/var/lib/elasticgpu/a/b", "/tmp/x", writable),
                            mount("/var/lib/elasticgpu/mps-shm/GPU-1", "/dev/shm", writable), env("A_1"), env("_"),
                            env("LONG", std::string(1000, 'x')), cdi("nvidia.com/gpu=GPU-1")})
    EXPECT_EQ(refusal(edits), "");
}

TEST(Edits, WhatIsRefusedAndInWhichWords) {
  const struct {
    ContainerEdits edits;
    const char* message;
  } cases[] = {
      {env(""), "the variable \"\" has no valid name"},
      {env("1A"), "the variable \"1A\" has no valid name"},
      {env("A B"), "the variable \"A B\" has no valid name"},
      {env("ELASTICGPU_PREPARED_FOR"), "is reserved for the agent"},
      {env("A", std::string("a\0b", 3)), "has a value that is no text"},
      {env("A", "\xff"), "has a value that is no text"},
      {env("A", std::string(40'000, 'x')), "longer than 32 KiB"},
      {node("dev/nvidia3"), "is no clean path under /dev"},
      {node("/dev/../etc/shadow"), "is no clean path under /dev"},
      {node("/dev//nvidia3"), "is no clean path under /dev"},
      {node("/dev/nvidia3/"), "is no clean path under /dev"},
      {node("/etc/nvidia3"), "is no clean path under /dev"},
      {node("/dev/nvidia3", "/dev/./nvidia3"), "is no clean path under /dev"},
      {node("/dev/nvidia3\n"), "is no clean path under /dev"},
      {node("/dev/sda"), "the device node /dev/sda is not permitted; the class's parameter hostPaths permits more"},
      {node("/dev/nvidia3", "/dev/sda"), "the device node /dev/sda is not permitted"},
      {node("/dev/nvidia4"), "the device node /dev/nvidia4 is of a card that is not the claim's"},
      {node("/dev/nvidia3", "/dev/nvidia4"), "/dev/nvidia4 is of a card that is not the claim's"},
      {node("/dev/nvidia4", "/dev/nvidia3"), "/dev/nvidia4 is of a card that is not the claim's"},
      {node("/dev/nvidia3", "", "rx"), "has the permissions \"rx\""},
      {node("/dev/nvidia3", "", "rwmm"), "has the permissions \"rwmm\""},
      {mount("/"), "does not have two clean paths"},
      {mount("/var/lib/elasticgpu/../../../etc"), "does not have two clean paths"},
      {mount("/var/lib/elasticgpu/a", "/"), "does not have two clean paths"},
      {mount("/var/lib/elasticgpu/a", "in"), "does not have two clean paths"},
      {mount("/var/lib/elasticgpu/a", "/proc/sys"), "covers a path of the container runtime"},
      {mount("/etc"), "the mount of /etc is not permitted"},
      {mount("/var/lib/elasticgpu"), "is not permitted"},
      {mount("/var/lib/elasticgpuX/a"), "is not permitted"},
      {mount("/run/containerd/containerd.sock"), "is not permitted"},
      {mount("/usr/lib/libcuda.so", "/in", {"rw"}), "is not permitted"},
      {mount("/usr/lib/libcuda.so", "/in", {"ro", "rw"}), "is not permitted"},
      {mount("/usr/lib/os-release"), "is not permitted"},
      {mount("/home/x/libcuda.so"), "is not permitted"},
      {mount("/dev/shm"), "the mount of /dev/shm is not permitted"},
      {mount("/dev/shm", "/dev/shm", {"rw"}), "the mount of /dev/shm is not permitted"},
      {mount("/var/lib/elasticgpu/a", "/in", {"rshared"}), "has the option \"rshared\""},
      {cdi("nvidia.com/gpu=all"), "is neither a card of the claim nor permitted"},
      {cdi("nvidia.com/gpu=GPU-2"), "is neither a card of the claim nor permitted"},
      {cdi("vendor.com/x=1"), "is neither a card of the claim nor permitted"},
  };
  for (const auto& c : cases)
    EXPECT_NE(refusal(c.edits).find(c.message), std::string::npos) << c.message << ": " << refusal(c.edits);
}

TEST(Edits, AreBoundedInNumberAndSize) {
  ContainerEdits many;
  for (int i = 0; i < 2048; ++i) many.env.emplace_back("A" + std::to_string(i), "");
  EXPECT_EQ(refusal(many), "");
  many.env.emplace_back("B", "");
  EXPECT_NE(refusal(many).find("more than 2048"), std::string::npos);
  ContainerEdits large;
  for (int i = 0; i < 20; ++i) large.env.emplace_back("A" + std::to_string(i), std::string(32'000, 'x'));
  EXPECT_NE(refusal(large).find("512 KiB"), std::string::npos);
}

TEST(Edits, TheClassPermitsMore) {
  Permitted permitted;
  permitted.more = *parseHostPaths("/dev/vendor*, /opt/vendor/,/etc/vendor.conf, vendor.com/x=*");
  for (const auto& edits :
       {node("/dev/vendor0"), mount("/opt/vendor/a", "/in", {"rw"}), mount("/etc/vendor.conf"), cdi("vendor.com/x=1")})
    EXPECT_EQ(refusal(edits, permitted), "");
  for (const auto& edits :
       {node("/dev/vendo"), mount("/opt/vendor"), mount("/etc/vendor.conf2"), cdi("vendor.com/y=1")})
    EXPECT_NE(refusal(edits, permitted), "");
}

TEST(Edits, AllOfADriversOwnRootMayBeRead) {
  Permitted permitted;
  const std::string gke = "/home/kubernetes/bin/nvidia";
  EXPECT_NE(refusal(mount(gke + "/lib64/libcuda.so.535.1")), "");
  permitted.driverRoot = gke;
  EXPECT_EQ(refusal(mount(gke + "/lib64/libcuda.so.535.1"), permitted), "");
  EXPECT_EQ(refusal(mount(gke + "/bin/nvidia-smi"), permitted), "");
  EXPECT_NE(refusal(mount(gke + "/bin/nvidia-smi", "/in", {"rw"}), permitted), "") << "to be read only";
  EXPECT_NE(refusal(mount(gke + "-other/lib64/libcuda.so.535.1"), permitted), "");

  // A host on which the folder is a symbolic link.
  const support::ScratchFolder host;
  fs::create_directories(host.path() + "/run/nvidia/driver/usr/lib");
  fs::create_directories(host.path() + "/var");
  fs::create_symlink("/run", host.path() + "/var/run");
  std::ofstream(host.path() + "/run/nvidia/driver/usr/lib/libcuda.so.1") << "x";
  permitted.hostRoot = host.path();
  permitted.driverRoot = "/var/run/nvidia/driver";
  EXPECT_EQ(refusal(mount("/run/nvidia/driver/usr/lib/libcuda.so.1"), permitted), "");
}

TEST(Edits, HostPathsThatAreNoneAreNamed) {
  EXPECT_TRUE(parseHostPaths("")->empty());
  for (const std::string text : {"/", "/*", "//", "dev/x", "/a/../b", "/a,,/b", "*", "x", "=1", "/a/*/b*\n"})
    EXPECT_FALSE(parseHostPaths(text).ok()) << text;
  EXPECT_NE(parseHostPaths("/a, rel").status().message().find("\"rel\""), std::string::npos);
}

TEST(Edits, WhatIsLeftOpenIsSpelledOut) {
  ContainerEdits edits = node("/dev/nvidia3");
  edits.mounts = {{"/var/lib/elasticgpu/a", "/in", {}}};
  const auto checked = checkEdits(edits, {}, cards());
  ASSERT_TRUE(checked.ok());
  EXPECT_EQ(checked->deviceNodes[0].permissions, "rw");
  EXPECT_EQ(checked->mounts[0].options, (std::vector<std::string>{"ro", "nosuid", "nodev", "bind"}));
}

TEST(Edits, ATestsRootStandsBeforeTheHostsPaths) {
  Permitted permitted;
  permitted.systemRoot = "/tmp/fake";
  EXPECT_EQ(refusal(node("/dev/nvidia3", "/tmp/fake/dev/nvidia3"), permitted), "");
  EXPECT_EQ(refusal(mount("/tmp/fake/usr/bin/nvidia-smi"), permitted), "");
  EXPECT_NE(refusal(node("/dev/nvidia3", "/tmp/fake/dev/sda"), permitted), "");
  EXPECT_NE(refusal(node("/dev/nvidia3", "/tmp/fake/dev/nvidia4"), permitted), "");
  EXPECT_NE(refusal(node("/dev/nvidia3", "/tmp/fakedev/nvidia3"), permitted), "");
  EXPECT_NE(refusal(node("/dev/nvidia3", "/tmp/fake/dev/nvidia3"), {}), "");
}

TEST(Edits, LinksThatLeadOutOfWhatIsPermittedAreRefused) {
  support::ScratchFolder host;
  const std::string state = host.path() + "/var/lib/elasticgpu";
  fs::create_directories(state + "/mine");
  fs::create_directories(host.path() + "/etc");
  fs::create_directories(host.path() + "/run/vendor");
  fs::create_directory_symlink("/run", host.path() + "/var/run");
  std::ofstream(host.path() + "/etc/shadow") << "x";
  fs::create_symlink("/etc/shadow", state + "/shadow");
  fs::create_symlink("../../../etc", state + "/etc");
  fs::create_symlink("mine", state + "/good");
  Permitted permitted;
  permitted.hostRoot = host.path();
  permitted.more = {"/var/run/vendor/"};
  fs::create_directories(host.path() + "/run/vendor/x");
  EXPECT_EQ(refusal(mount("/var/lib/elasticgpu/mine"), permitted), "");
  EXPECT_EQ(refusal(mount("/var/lib/elasticgpu/good"), permitted), "");
  EXPECT_EQ(refusal(mount("/var/run/vendor/x"), permitted), "") << "permitted by one name, there by another";
  EXPECT_NE(
      refusal(mount("/var/lib/elasticgpu/shadow"), permitted).find("leads to /etc/shadow, which is not permitted"),
      std::string::npos);
  EXPECT_NE(refusal(mount("/var/lib/elasticgpu/etc"), permitted).find("leads to /etc"), std::string::npos);
  EXPECT_NE(refusal(mount("/var/lib/elasticgpu/none"), permitted).find("does not exist on this node"),
            std::string::npos);
}

TEST(Edits, APluginDoesNotDecideWhereAClasssNamesLead) {
  support::ScratchFolder host;
  for (const char* folder : {"/etc", "/tmp/vendor", "/var/lib/elasticgpu", "/var/tmp"})
    fs::create_directories(host.path() + folder);
  std::ofstream(host.path() + "/etc/passwd") << "x";
  std::ofstream(host.path() + "/tmp/vendor/file") << "x";
  fs::create_directory_symlink("/etc", host.path() + "/tmp/mine");
  fs::create_directory_symlink("/etc", host.path() + "/var/tmp/mine");
  fs::create_directory_symlink("/etc", host.path() + "/var/lib/elasticgpu/mine");
  Permitted permitted;
  permitted.hostRoot = host.path();
  permitted.more = *parseHostPaths("/tmp/mine/, /var/tmp/mine/pass*, /var/lib/elasticgpu/mine/, /tmp/vendor/");
  EXPECT_EQ(refusal(mount("/tmp/vendor/file"), permitted), "");
  for (const char* path : {"/tmp/mine/passwd", "/var/tmp/mine/passwd", "/var/lib/elasticgpu/mine/passwd"})
    EXPECT_NE(refusal(mount(path), permitted).find("leads to /etc/passwd, which is not permitted"), std::string::npos)
        << path << ": " << refusal(mount(path), permitted);
  EXPECT_NE(refusal(mount("/etc/passwd"), permitted), "");
}

TEST(Edits, NamesThatOnlyBeginLikeWhatIsPermittedAreNot) {
  Permitted permitted;
  permitted.more = *parseHostPaths("/opt/vendor/, /dev/vendor*, /etc/vendor.conf, vendor.com/x=one");
  for (const auto& edits :
       {mount("/opt/vendor"), mount("/opt/vendors/a"), mount("/opt/vendor/../../etc/shadow"), mount("/opt/vendor//a"),
        mount("/opt/vendor/./a"), mount("/etc/vendor.conf.d"), mount("/etc/vendor.conf/"),
        mount("/proc/self/root/etc/shadow"), mount("/opt/vendor\n/a"), node("/dev/vendor0", "/proc/self/root/dev/sda"),
        node("/dev/vendor/../sda"), node("/dev/nvidia3/../sda"), node("/dev/nvidia03"), cdi("vendor.com/x=one,two"),
        cdi("vendor.com/x=oneself"), cdi("nvidia.com/gpu=gpu-1"), cdi("")})
    EXPECT_NE(refusal(edits, permitted), "");
}

}  // namespace
}  // namespace egpu::agent

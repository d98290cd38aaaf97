#include "controller/agent/prepare/dev_links.h"

#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <fstream>

#include "controller/agent/prepare/mig_nodes.h"
#include "tests/agent/prepare/fixture.h"

namespace egpu::agent {
namespace {

namespace fs = std::filesystem;
using Texts = std::vector<std::string>;

/// A host whose /dev the test fills.
class DevLinksTest : public PrepareTest {
 protected:
  void SetUp() override {
    fs::create_directories(root + "/dev");
    if (!node("nvidia0", 0)) GTEST_SKIP() << "no right to make device nodes";
  }
  bool node(const std::string& name, unsigned minor) {
    return ::mknod((root + "/dev/" + name).c_str(), S_IFCHR | 0600, makedev(195, minor)) == 0;
  }
  static std::vector<core::DeviceNode> nodes(const Texts& paths) {
    std::vector<core::DeviceNode> out;
    for (const auto& path : paths) out.push_back({path, "", "rw"});
    return out;
  }
  std::string link(const std::string& name) const {
    std::error_code none;
    return fs::read_symlink(root + "/dev/char/" + name, none).string();
  }

  const std::string root = scratch.path() + "/host";
};

TEST_F(DevLinksTest, MissingLinksAreMadeAndOthersLeft) {
  ASSERT_TRUE(node("nvidiactl", 255));
  EXPECT_EQ(linkDevices(root, nodes({"/dev/nvidia0", "/dev/nvidiactl"})), Texts{});
  EXPECT_EQ(link("195:0"), "../nvidia0");
  EXPECT_EQ(link("195:255"), "../nvidiactl");
  fs::remove(root + "/dev/char/195:0");
  fs::create_symlink("../mine", root + "/dev/char/195:0");
  EXPECT_EQ(linkDevices(root, nodes({"/dev/nvidia0", "/dev/nvidiactl"})), Texts{});
  EXPECT_EQ(link("195:0"), "../mine");
}

TEST_F(DevLinksTest, TheNodeOnTheHostCounts) {
  ASSERT_TRUE(node("nvidia3", 3));
  fs::create_directories(root + "/dev/vendor");
  ASSERT_TRUE(node("vendor/gpu7", 7));
  EXPECT_EQ(linkDevices(root, {{"/dev/nvidia0", "/dev/nvidia3", "rw"}, {"/dev/gpu", "/dev/vendor/gpu7", "rw"}}),
            Texts{});
  EXPECT_EQ(link("195:3"), "../nvidia3");
  EXPECT_EQ(link("195:7"), "../vendor/gpu7");
  EXPECT_EQ(link("195:0"), "");
}

TEST_F(DevLinksTest, OnlyForDevicesThatAreThere) {
  std::ofstream(root + "/dev/file") << "x";
  std::ofstream(root + "/etc-file") << "x";
  fs::create_symlink("/etc-file", root + "/dev/out");
  fs::create_symlink("../../../../../../../../dev/null", root + "/dev/above");
  fs::rename(root + "/dev/nvidia0", root + "/nvidia0");
  fs::create_symlink("/nvidia0", root + "/dev/nvidia0");
  EXPECT_EQ(linkDevices(root, nodes({"/dev/file", "/dev/none", "/dev/out", "/dev/above", "/dev/nvidia0"})), Texts{});
  EXPECT_FALSE(fs::exists(root + "/dev/char"));
}

TEST_F(DevLinksTest, NothingIsWrittenWhereALinkLeads) {
  fs::create_directories(root + "/etc");
  fs::create_symlink("../etc", root + "/dev/char");
  EXPECT_EQ(linkDevices(root, nodes({"/dev/nvidia0"})).size(), 1U);
  EXPECT_TRUE(fs::is_empty(root + "/etc"));
}

TEST_F(DevLinksTest, MissingNodesOfUnifiedMemoryAreMade) {
  const std::string devices = scratch.path() + "/devices";
  std::ofstream(devices) << "Character devices:\n195 nvidia\n511 nvidia-uvm\n\nBlock devices:\n  7 nvidia-uvm\n";
  Texts made;
  const MakeNode make = [&](int parent, const char* name, mode_t mode, dev_t number) {
    made.push_back(std::string(name) + " " + std::to_string(major(number)) + ":" + std::to_string(minor(number)));
    return ::mknodat(parent, name, mode, number);
  };
  EXPECT_EQ(makeUvmNodes(root, devices, make), Texts{});
  EXPECT_EQ(made, Texts{}) << "no driver";
  ASSERT_TRUE(node("nvidiactl", 255));
  EXPECT_EQ(makeUvmNodes(root, devices, make), Texts{});
  EXPECT_EQ(made, (Texts{"nvidia-uvm 511:0", "nvidia-uvm-tools 511:1"}));
  struct stat is {};
  ASSERT_EQ(::stat((root + "/dev/nvidia-uvm").c_str(), &is), 0);
  EXPECT_EQ(is.st_mode & 0777, 0666U);
  EXPECT_EQ(makeUvmNodes(root, devices, make), Texts{});
  EXPECT_EQ(made.size(), 2U) << "they are there";
}

TEST_F(DevLinksTest, WithoutTheModuleNothingIsMadeAndARefusalIsReported) {
  const std::string devices = scratch.path() + "/devices";
  std::ofstream(devices) << "Character devices:\n195 nvidia\n\nBlock devices:\n  7 nvidia-uvm\n";
  ASSERT_TRUE(node("nvidiactl", 255));
  const MakeNode refuse = [](int, const char*, mode_t, dev_t) { return errno = EPERM, -1; };
  EXPECT_EQ(makeUvmNodes(root, devices, refuse), Texts{});
  std::ofstream(devices) << "511 nvidia-uvm\n";
  EXPECT_EQ(makeUvmNodes(root, devices, refuse),
            (Texts{"nvidia-uvm (Operation not permitted)", "nvidia-uvm-tools (Operation not permitted)"}));
}

/// A driver with the capabilities of two cards with two instances each.
class MigNodesTest : public DevLinksTest {
 protected:
  void SetUp() override {
    DevLinksTest::SetUp();
    fs::create_directories(proc + "/driver/nvidia-caps");
    std::ofstream(proc + "/devices") << "Character devices:\n195 nvidia\n510 nvidia-caps\n\nBlock devices:\n";
    std::ofstream(proc + "/driver/nvidia-caps/mig-minors") << "config 1\nmonitor 2\n"
                                                              "gpu0/gi0/access 3\ngpu0/gi0/ci0/access 4\n"
                                                              "gpu1/gi0/access 5\ngpu1/gi0/ci0/access 6\n";
  }
  Texts make(const std::vector<int64_t>& cards, const MakeNode& by = ::mknodat) {
    return makeMigNodes({root, proc, kGroup, by}, cards);
  }
  Texts found() const {
    Texts out;
    std::error_code none;
    for (const auto& each : fs::directory_iterator(root + "/dev/nvidia-caps", none))
      out.push_back(each.path().filename());
    std::sort(out.begin(), out.end());
    return out;
  }
  struct stat at(const std::string& name) const {
    struct stat is {};
    EXPECT_EQ(::stat((root + "/dev/nvidia-caps/" + name).c_str(), &is), 0) << name;
    return is;
  }

  static constexpr gid_t kGroup = 61184;
  const std::string proc = scratch.path() + "/proc";
};

TEST_F(MigNodesTest, ThePluginsMayChangeInstancesAndCardsHaveTheirNodes) {
  EXPECT_EQ(make({}), Texts{});
  EXPECT_EQ(found(), Texts{"nvidia-cap1"});
  const auto config = at("nvidia-cap1");
  EXPECT_EQ(config.st_rdev, makedev(510, 1));
  EXPECT_EQ(config.st_mode & 07777, 0440U);
  EXPECT_EQ(config.st_gid, kGroup);
  EXPECT_EQ(make({1}), Texts{});
  EXPECT_EQ(found(), (Texts{"nvidia-cap1", "nvidia-cap5", "nvidia-cap6"}));
  EXPECT_EQ(at("nvidia-cap6").st_mode & 07777, 0444U);
  // The driver's tools set the mode again.
  ASSERT_EQ(::chown((root + "/dev/nvidia-caps/nvidia-cap1").c_str(), 0, 0), 0);
  ASSERT_EQ(::chmod((root + "/dev/nvidia-caps/nvidia-cap1").c_str(), 0400), 0);
  EXPECT_EQ(make({}), Texts{});
  EXPECT_EQ(at("nvidia-cap1").st_gid, kGroup);
}

TEST_F(MigNodesTest, RefusalsAreReportedAndLinksNotFollowed) {
  const MakeNode refuse = [](int, const char*, mode_t, dev_t) { return errno = EPERM, -1; };
  EXPECT_EQ(make({}, refuse), Texts{"nvidia-cap1 (Operation not permitted)"});
  fs::remove_all(root + "/dev/nvidia-caps");
  fs::create_directories(root + "/etc");
  fs::create_symlink("../etc", root + "/dev/nvidia-caps");
  EXPECT_EQ(make({0}).size(), 1U);
  EXPECT_TRUE(fs::is_empty(root + "/etc"));
  fs::remove(root + "/dev/nvidia-caps");
  std::ofstream(proc + "/devices") << "195 nvidia\n";
  EXPECT_EQ(make({0}), Texts{}) << "a driver without capabilities";
  EXPECT_FALSE(fs::exists(root + "/dev/nvidia-caps"));
}

TEST_F(DevLinksTest, APrepareMakesThemAndDoesNotFailForThem) {
  const auto claim = claimed("a");
  PreparerOptions onHost = options;
  onHost.permitted.hostRoot = root;
  ClaimPreparer real(client, registry, events, folder, onHost);
  std::ofstream(root + "/dev/char") << "no folder";
  ASSERT_TRUE(real.prepare(claim, {}).ok()) << real.prepare(claim, {}).status().str();
  ASSERT_TRUE(real.unprepare(claim, {}).ok());
  fs::remove(root + "/dev/char");
  ASSERT_TRUE(real.prepare(claim, {}).ok());
  EXPECT_EQ(link("195:0"), "../nvidia0");
}

}  // namespace
}  // namespace egpu::agent

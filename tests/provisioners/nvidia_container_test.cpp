// Edits for containers with NVIDIA's cards on a machine with a driver: a folder represents the machine's root.
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <set>

#include "controller/plugin/hosted.h"
#include "provisioners/nvidia/container/cdi_files.h"
#include "provisioners/nvidia/container/device_nodes.h"
#include "provisioners/nvidia/container/driver_files.h"
#include "tests/nvml/fake_nvml.h"
#include "tests/provisioners/loader_cache_file.h"
#include "tests/provisioners/plugin_fixture.h"

namespace egpu::plugin::testing {
namespace {

namespace fs = std::filesystem;
using namespace std::string_literals;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

const std::string kFolder = "/usr/lib/" EGPU_MULTIARCH;
const std::string kVersion = "535.104.05";

/// Four A100 with the minor numbers 2, 3, 0, 1.
class MachineTest : public ::testing::Test {
 protected:
  MachineTest() : fake("a100"), root(getenv("ELASTICGPU_SYSTEM_ROOT")) {}

  void write(const std::string& path, const std::string& text = "") const {
    fs::create_directories(fs::path(root + path).parent_path());
    std::ofstream(root + path, std::ios::binary) << text;
  }
  void link(const std::string& path, const std::string& target) const {
    fs::create_directories(fs::path(root + path).parent_path());
    fs::create_symlink(target, root + path);
  }
  /// Creates a library of the driver as its installer does: file, soname, and a linker name if it has one.
  void library(const std::string& name, const std::string& soname, const std::string& linker = "") {
    const std::string file = name + "." + kVersion;
    write(kFolder + "/" + file);
    if (soname != file) link(kFolder + "/" + soname, file);
    cached.push_back({soname, kFolder + "/" + soname});
    if (linker.empty()) return;
    link(kFolder + "/" + linker, soname);
    cached.push_back({linker, kFolder + "/" + linker});
  }
  void writeCache() const { write("/etc/ld.so.cache", loaderCache(cached)); }
  void installDriver() {
    library("libcuda.so", "libcuda.so.1", "libcuda.so");
    library("libnvidia-ml.so", "libnvidia-ml.so.1");
    library("libnvidia-gpucomp.so", "libnvidia-gpucomp.so." + kVersion);
    writeCache();
  }
  std::string uuid(std::size_t place) const { return fake.file["devices"][place]["uuid"].as<std::string>(); }

  nvidia::testing::FakeNvml fake;
  std::string root;
  std::vector<CachedLibrary> cached;
};

class NvidiaContainerTest : public MachineTest, public ::testing::WithParamInterface<const char*> {
 protected:
  void SetUp() override {
    const base::Status status = registry.load(std::string(EGPU_PROVISIONER_DIR) + "/lib" + GetParam() + ".so");
    ASSERT_TRUE(status.ok()) << status.str();
    plugin = registry.find(std::string(GetParam()) + ".provisioner.elasticgpu.io", nullptr);
    ASSERT_NE(plugin, nullptr);
  }
  /// Returns a device of these cards as the API might have it: its indices are not reliable.
  static DeviceRequest deviceOf(const std::vector<std::string>& uuids) {
    std::vector<CardShare> cards;
    for (const std::string& uuid : uuids) cards.push_back({uuid, "A100", 7, 1000, kGiB, kGiB});
    return device("key", cards);
  }
  ContainerEdits mounted(const std::vector<std::string>& uuids) {
    const MountReply reply = plugin->mount(deviceOf(uuids), "ns/pod", "main");
    EXPECT_EQ(reply.reply.outcome, ReplyCode::ok) << reply.reply.message;
    EXPECT_EQ(plugin->mount(deviceOf(uuids), "ns/pod", "main").edits, reply.edits) << "the same every time";
    return reply.edits;
  }
  /// Returns "path=host path" of each device node.
  static std::vector<std::string> nodes(const ContainerEdits& edits) {
    std::vector<std::string> out;
    for (const auto& node : edits.deviceNodes) {
      EXPECT_EQ(node.permissions, "rw");
      out.push_back(node.path + "=" + node.hostPath);
    }
    return out;
  }

  InProcessRegistry registry{{std::chrono::milliseconds(60'000), std::chrono::milliseconds(60'000)}};
  ReplyCode outcomeOf(const Reply& reply) { return message = reply.message, reply.outcome; }

  Provisioner* plugin = nullptr;
  std::string message;
};
INSTANTIATE_TEST_SUITE_P(Plugins, NvidiaContainerTest, ::testing::Values("physical", "gpushare"),
                         [](const auto& row) { return row.param; });

TEST_P(NvidiaContainerTest, WithoutTheToolkitItGetsDeviceNodesAndTheDriver) {
  installDriver();
  write("/dev/nvidia-uvm");
  const ContainerEdits edits = mounted({uuid(0), uuid(2)});
  EXPECT_THAT(nodes(edits),
              ElementsAre("/dev/nvidia2=" + root + "/dev/nvidia2", "/dev/nvidia0=" + root + "/dev/nvidia0",
                          "/dev/nvidiactl=" + root + "/dev/nvidiactl", "/dev/nvidia-uvm=" + root + "/dev/nvidia-uvm"))
      << "by the machine's minor numbers, not the object's";
  EXPECT_THAT(edits.cdiDevices, IsEmpty());
  std::map<std::string, std::string> want;
  for (const std::string folder : {kFolder.c_str(), "/usr/lib64", "/usr/local/nvidia/lib64"}) {
    want[folder + "/libcuda.so"] = want[folder + "/libcuda.so.1"] = root + kFolder + "/libcuda.so." + kVersion;
    want[folder + "/libnvidia-ml.so.1"] = root + kFolder + "/libnvidia-ml.so." + kVersion;
    want[folder + "/libnvidia-gpucomp.so." + kVersion] = root + kFolder + "/libnvidia-gpucomp.so." + kVersion;
  }
  std::map<std::string, std::string> got;
  for (const auto& m : edits.mounts) {
    got[m.containerPath] = m.hostPath;
    EXPECT_THAT(m.options, ElementsAre("ro", "nosuid", "nodev", "bind"));
  }
  EXPECT_EQ(got, want);
  EXPECT_EQ(edits.mounts.size(), want.size());
  EXPECT_EQ(env(edits, "NVIDIA_VISIBLE_DEVICES"), "void") << "NVIDIA's runtime is to add nothing";
  EXPECT_EQ(env(edits, "ELASTICGPU_CARDS"), uuid(0) + "," + uuid(2));
  EXPECT_EQ(env(edits, "ELASTICGPU_CLAIM"), "default/claim");
}

/// Its minor numbers are 2, 3, 0, 1 in NVML's order.
TEST_F(MachineTest, TheNthLimitIsOfTheCardThatNvmlCountsAsNth) {
  InProcessRegistry registry{{std::chrono::milliseconds(60'000), std::chrono::milliseconds(60'000)}};
  ASSERT_TRUE(registry.load(EGPU_PROVISIONER_DIR "/libgpushare.so").ok());
  Provisioner* plugin = registry.find("gpushare.provisioner.elasticgpu.io", nullptr);
  ASSERT_NE(plugin, nullptr);
  const auto found = plugin->discover().gpus;
  ASSERT_EQ(found.size(), 4U);
  std::vector<CardShare> cards;
  for (const Gpu& gpu : found) {
    const int64_t place = std::stoll(gpu.attributes.at("nvmlIndex"));
    cards.push_back({gpu.uuid, gpu.model, gpu.index, 1000, (place + 1) * kGiB, gpu.memory, gpu.pciAddress});
  }
  std::reverse(cards.begin(), cards.end());
  const auto edits = plugin->mount(device("key", cards, {{"isolation", "hami-core"}}), "", "").edits;
  EXPECT_EQ(env(edits, "ELASTICGPU_CARDS"), uuid(0) + "," + uuid(1) + "," + uuid(2) + "," + uuid(3));
  for (int place = 0; place < 4; ++place)
    EXPECT_EQ(env(edits, "CUDA_DEVICE_MEMORY_LIMIT_" + std::to_string(place)),
              std::to_string((place + 1) * 1024) + "m");
}

TEST_P(NvidiaContainerTest, TheToolkitsDevicesSpareUsTheRest) {
  installDriver();
  const std::string spec =
      "cdiVersion: 0.5.0\nkind: nvidia.com/gpu\ndevices:\n- name: \"0\"\n- name: " + uuid(1) + "\n";
  write("/etc/cdi/nvidia.yaml", spec);
  ContainerEdits edits = mounted({uuid(1)});
  EXPECT_THAT(edits.cdiDevices, ElementsAre("nvidia.com/gpu=" + uuid(1)));
  EXPECT_THAT(edits.deviceNodes, IsEmpty());
  EXPECT_THAT(edits.mounts, IsEmpty());
  EXPECT_EQ(env(edits, "NVIDIA_VISIBLE_DEVICES"), "void");

  edits = mounted({uuid(1), uuid(3)});
  EXPECT_THAT(edits.cdiDevices, IsEmpty()) << "all cards or none, or the driver would be there twice";
  EXPECT_THAT(edits.mounts, Not(IsEmpty()));

  // As on a host where /var/run is a link; a container must not follow it to its own folder.
  link("/var/run", "/run");
  write("/run/cdi/nvidia.json",
        R"({"cdiVersion": "0.5.0", "kind": "nvidia.com/gpu", "devices": [{"name": ")" + uuid(3) + R"("}]})");
  EXPECT_THAT(mounted({uuid(1), uuid(3)}).cdiDevices,
              ElementsAre("nvidia.com/gpu=" + uuid(1), "nvidia.com/gpu=" + uuid(3)));
}

class LimiterMountsTest : public NvidiaContainerTest {
 protected:
  void SetUp() override {
    if (!fs::exists(EGPU_PROVISIONER_DIR "/../limiter/libcuda.so.1")) GTEST_SKIP() << "for x86-64 only";
    NvidiaContainerTest::SetUp();
    ASSERT_EQ(setenv("ELASTICGPU_STATE_DIR", (root + "/state").c_str(), 1), 0);
    write("/dev/nvidia-uvm");
    write("/dev/nvidiactl");
  }
  DeviceRequest share() const {
    return device("key", {{uuid(0), "A100", 2, 500, kGiB, 16 * kGiB}}, {{"isolation", "limiter"}});
  }
};
INSTANTIATE_TEST_SUITE_P(Plugins, LimiterMountsTest, ::testing::Values("gpushare"),
                         [](const auto& row) { return row.param; });

TEST_P(LimiterMountsTest, ItsLibrariesAreBeforeTheDriversUnderEachName) {
  installDriver();
  // A runtime would apply the toolkit's devices after the limiter's mounts.
  write("/etc/cdi/nvidia.yaml", "cdiVersion: 0.5.0\nkind: nvidia.com/gpu\ndevices:\n- name: " + uuid(0) + "\n");
  const MountReply reply = plugin->mount(share(), "ns/pod", "main");
  ASSERT_EQ(reply.reply.outcome, ReplyCode::ok) << reply.reply.message;
  EXPECT_THAT(reply.edits.cdiDevices, IsEmpty());
  for (const std::string folder : {kFolder.c_str(), "/usr/lib64", "/usr/local/nvidia/lib64"}) {
    for (const char* name : {"/libcuda.so", "/libcuda.so.1"})
      EXPECT_THAT(mountedAt(reply.edits, folder + name), ::testing::EndsWith("/libcuda.so.1"));
    for (const char* name : {"/libcuda.so", "/libcuda.so.1", "/libnvidia-ml.so.1"})
      EXPECT_THAT(mountedAt(reply.edits, folder + name), ::testing::StartsWith(root + "/state/limiter/lib/"));
    EXPECT_EQ(mountedAt(reply.edits, folder + "/libnvidia-gpucomp.so." + kVersion),
              root + kFolder + "/libnvidia-gpucomp.so." + kVersion);
  }
  const std::string driver = "/run/elasticgpu/limiter/driver";
  EXPECT_EQ(mountedAt(reply.edits, driver + "/libcuda.so.1"), root + kFolder + "/libcuda.so." + kVersion);
  EXPECT_EQ(mountedAt(reply.edits, driver + "/libnvidia-ml.so.1"), root + kFolder + "/libnvidia-ml.so." + kVersion);
  std::set<std::string> places;
  for (const auto& mount : reply.edits.mounts) {
    EXPECT_TRUE(places.insert(mount.containerPath).second) << mount.containerPath;
    const bool isUsage = mount.containerPath == "/run/elasticgpu/limiter/usage";
    EXPECT_EQ(mount.options.front(), isUsage ? "rw" : "ro") << mount.containerPath;
  }
  EXPECT_EQ(env(reply.edits, "NVIDIA_VISIBLE_DEVICES"), "void");
}

TEST_P(LimiterMountsTest, WithoutTheDriversLibraryNothingIsLimitedSoItIsRefused) {
  write("/sys/module/nvidia/version", kVersion);
  const MountReply reply = plugin->mount(share(), "ns/pod", "main");
  EXPECT_EQ(reply.reply.outcome, ReplyCode::unavailable);
  EXPECT_THAT(reply.reply.message, HasSubstr("this machine has no libcuda.so of NVIDIA's driver"));
}

TEST_P(LimiterMountsTest, ItsCardsSayThatTheirNodeHasIt) {
  const auto found = plugin->discover();
  ASSERT_FALSE(found.gpus.empty());
  for (const auto& gpu : found.gpus) {
    const auto limiter = gpu.attributes.find(std::string_view("limiter"));
    ASSERT_NE(limiter, gpu.attributes.end());
    EXPECT_EQ(limiter->second, "available");
  }
}

TEST(CdiFilesTest, SpecsAreYamlOrJson) {
  std::string why;
  for (const std::string text :
       {"kind: nvidia.com/gpu\ndevices:\n- name: \"0\"\n- name: GPU-a\n  containerEdits: {}\n",
        R"({"cdiVersion":"0.5.0","kind":"nvidia.com\/gpu","devices":[{"name":"0"},{"name":"GPU-a"}]})",
        "{\n\t\"devices\": [\n\t\t{\"name\": \"0\"},\n\t\t{\n\t\t\t\"name\": \"GPU-a\"\n\t\t}\n\t],\n"
        "\t\"kind\": \"nvidia.com/gpu\"\n}\n"})
    EXPECT_EQ(nvidia::gpusOfSpec(text, why), std::vector<std::string>({"0", "GPU-a"})) << text << why;
  EXPECT_EQ(nvidia::gpusOfSpec("kind: nvidia.com/mig\ndevices: []\n", why), std::vector<std::string>());
}

using CdiFoldersTest = MachineTest;
TEST_F(CdiFoldersTest, OthersFilesAreTheirOwnAffair) {
  std::vector<std::string> remarks;
  write("/etc/cdi/other.json", "{");
  EXPECT_FALSE(nvidia::offeredByCdi({"GPU-a"}, remarks));
  EXPECT_THAT(remarks, IsEmpty());
  write("/etc/cdi/nvidia.json", R"({"kind": "nvidia.com/gpu")");
  EXPECT_FALSE(nvidia::offeredByCdi({"GPU-a"}, remarks));
  EXPECT_THAT(remarks, ElementsAre(HasSubstr("the CDI file /etc/cdi/nvidia.json is ignored: ")));
}

TEST_F(CdiFoldersTest, TheAgentsOwnFilesAreNotReadEach) {
  std::vector<std::string> remarks;
  write("/var/run/cdi/elasticgpu.io-device_u1.json", R"({"kind": "nvidia.com/gpu", "devices": [{"name": "GPU-a"}]})");
  write("/var/run/cdi/elasticgpu.io-device_u2.json", R"({"kind": "nvidia.com/gpu")");
  EXPECT_FALSE(nvidia::offeredByCdi({"GPU-a"}, remarks));
  EXPECT_THAT(remarks, IsEmpty());
}

/// The cache is parsed once, and again as soon as ldconfig has replaced it.
TEST_P(NvidiaContainerTest, ADriverThatComesLaterIsFound) {
  write("/sys/module/nvidia/version", kVersion);
  const auto ldconfig = [&] {
    write("/etc/ld.so.cache~", loaderCache(cached));
    fs::rename(root + "/etc/ld.so.cache~", root + "/etc/ld.so.cache");
  };
  ldconfig();
  EXPECT_THAT(mounted({uuid(0)}).mounts, IsEmpty());
  library("libcuda.so", "libcuda.so.1");
  EXPECT_EQ(mounted({uuid(0)}).mounts.size(), 6U) << "the loader does not know it yet: each name that its folder has";
  ldconfig();
  EXPECT_EQ(mounted({uuid(0)}).mounts.size(), 3U) << "in each folder where a loader may look";
  library("libnvidia-ml.so", "libnvidia-ml.so.1");
  ldconfig();
  EXPECT_EQ(mounted({uuid(0)}).mounts.size(), 6U);
}

TEST_P(NvidiaContainerTest, ACardThatTwoFilesDescribeIsNone) {
  const std::string spec = "kind: nvidia.com/gpu\ndevices: [{name: " + uuid(1) + "}]\n";
  write("/etc/cdi/a.yaml", spec);
  write("/etc/cdi/b.yaml", spec);
  EXPECT_THAT(mounted({uuid(1)}).cdiDevices, IsEmpty()) << "a runtime refuses both";
  write("/var/run/cdi/c.yaml", spec);
  EXPECT_THAT(mounted({uuid(1)}).cdiDevices, ElementsAre("nvidia.com/gpu=" + uuid(1))) << "the later folder counts";
}

TEST_P(NvidiaContainerTest, WhatIsNoSpecOfTheToolkitIsIgnored) {
  const std::string devices = "devices: [{name: " + uuid(1) + "}]\n";
  write("/etc/cdi/other.yaml", "kind: elasticgpu.io/device\n" + devices);
  write("/etc/cdi/nvidia.conf", "kind: nvidia.com/gpu\n" + devices);
  write("/etc/cdi/none.yaml", "# nvidia.com/gpu\n");
  write("/etc/cdi/half.json", R"({"kind": "nvidia.com/gpu", "devices": [{"name": ")" + uuid(1));
  write("/etc/cdi/list.json", R"(["nvidia.com/gpu"])");
  write("/etc/cdi/names.yaml", "kind: nvidia.com/gpu\ndevices: {" + uuid(1) + ": {}}\n");
  write("/etc/cdi/deep.json", std::string(200'000, '[') + "nvidia.com/gpu");
  write("/etc/cdi/deep.yaml", "# nvidia.com/gpu\n" + std::string(200'000, '['));
  write("/etc/cdi/large.yaml", "kind: nvidia.com/gpu\n" + devices + std::string(5 << 20, '\n'));
  fs::create_directories(root + "/etc/cdi/folder.yaml");
  ASSERT_EQ(mkfifo((root + "/etc/cdi/pipe.yaml").c_str(), 0600), 0);
  link("/etc/cdi/circle.yaml", "circle.yaml");
  EXPECT_THAT(mounted({uuid(1)}).cdiDevices, IsEmpty());
  write("/etc/cdi/right.yaml", "kind: nvidia.com/gpu\n" + devices);
  EXPECT_THAT(mounted({uuid(1)}).cdiDevices, ElementsAre("nvidia.com/gpu=" + uuid(1)));
}

TEST_P(NvidiaContainerTest, WhereTheDriversFilesAreElsewhereNvidiasRuntimeMayAddThem) {
  const ContainerEdits edits = mounted({uuid(3)});
  EXPECT_THAT(edits.mounts, IsEmpty());
  EXPECT_THAT(edits.cdiDevices, IsEmpty());
  EXPECT_TRUE(hasNode(edits, "/dev/nvidia1"));
  EXPECT_EQ(env(edits, "NVIDIA_VISIBLE_DEVICES"), uuid(3));
}

TEST_P(NvidiaContainerTest, MinorNumbersComeFromTheKernelOrNvml) {
  fake.file["devices"][0]["minor"] = 5;
  fake.write();
  EXPECT_TRUE(hasNode(mounted({uuid(0)}), "/dev/nvidia5"));
  fs::remove_all(root + "/proc/driver");
  EXPECT_TRUE(hasNode(mounted({uuid(0)}), "/dev/nvidia5"));
  fake.file["missing"].push_back("nvmlDeviceGetMinorNumber");
  fake.write();
  EXPECT_TRUE(hasNode(mounted({uuid(0)}), "/dev/nvidia5"));
}

TEST_P(NvidiaContainerTest, ADeviceOfOtherCardsIsASimulatedNodes) {
  installDriver();
  const ContainerEdits edits = mounted({"GPU-0", "GPU-1"});
  EXPECT_TRUE(hasNode(edits, "/dev/nvidia7"));
  EXPECT_THAT(edits.cdiDevices, ElementsAre("nvidia.com/gpu=GPU-0", "nvidia.com/gpu=GPU-1"));
  EXPECT_THAT(edits.mounts, IsEmpty());
  EXPECT_EQ(env(edits, "NVIDIA_VISIBLE_DEVICES"), "GPU-0,GPU-1");
  EXPECT_EQ(plugin->stage(deviceOf({"GPU-0"})).outcome, ReplyCode::noChange);
}

TEST_P(NvidiaContainerTest, ADeviceThatIsOnlyPartlyHereIsRefused) {
  const Reply mount = plugin->mount(deviceOf({uuid(0), "GPU-1"}), "p", "c").reply;
  EXPECT_EQ(mount.outcome, ReplyCode::unavailable);
  EXPECT_THAT(mount.message, HasSubstr("card GPU-1 is not among those of this machine"));
  EXPECT_EQ(plugin->stage(deviceOf({uuid(0), "GPU-1"})).outcome, ReplyCode::unavailable);
}

TEST_P(NvidiaContainerTest, AContainersAgentSeesTheHostElsewhere) {
  installDriver();
  write("/dev/nvidia-uvm");
  // The Debian package's links: absolute, to a folder of the driver.
  link("/usr/bin/nvidia-smi", "/etc/alternatives/nvidia-smi");
  link("/etc/alternatives/nvidia-smi", "/usr/lib/nvidia/../nvidia/current/nvidia-smi");
  write("/usr/lib/nvidia/current/nvidia-smi");
  ASSERT_EQ(setenv("ELASTICGPU_HOST_ROOT", root.c_str(), 1), 0);
  unsetenv("ELASTICGPU_SYSTEM_ROOT");
  const ContainerEdits edits = mounted({uuid(0)});
  unsetenv("ELASTICGPU_HOST_ROOT");
  EXPECT_THAT(nodes(edits), ElementsAre("/dev/nvidia2=/dev/nvidia2", "/dev/nvidiactl=/dev/nvidiactl",
                                        "/dev/nvidia-uvm=/dev/nvidia-uvm"));
  EXPECT_EQ(mountedAt(edits, "/usr/lib64/libcuda.so.1"), kFolder + "/libcuda.so." + kVersion);
  EXPECT_EQ(mountedAt(edits, "/usr/bin/nvidia-smi"), "/usr/lib/nvidia/current/nvidia-smi");
}

/// The GPU operator's driver container has a root folder of its own, to which links are relative; GKE has a folder of
/// files.
TEST_P(NvidiaContainerTest, ADriverOutsideTheHostsFoldersIsFoundByItsRoot) {
  const std::string operators = "/run/nvidia/driver", gke = "/home/kubernetes/bin/nvidia";
  write("/sys/module/nvidia/version", kVersion);
  write(operators + kFolder + "/libcuda.so." + kVersion);
  link(operators + kFolder + "/libcuda.so.1", kFolder + "/libcuda.so." + kVersion);
  write(operators + "/usr/bin/nvidia-smi");
  write(operators + "/etc/ld.so.cache", loaderCache({{"libcuda.so.1", kFolder + "/libcuda.so.1"}}));
  write(operators + "/lib/firmware/nvidia/" + kVersion + "/gsp_ga10x.bin");
  link("/var/run", "/run");
  write("/run/nvidia-persistenced/socket");
  write(gke + "/lib64/libcuda.so." + kVersion);
  link(gke + "/lib64/libcuda.so.1", "libcuda.so." + kVersion);
  write(gke + "/bin/nvidia-smi");
  EXPECT_THAT(mounted({uuid(0)}).mounts, IsEmpty()) << "no driver on the host itself";

  for (const std::string& given : {operators, "/var" + operators}) {
    ASSERT_EQ(setenv("ELASTICGPU_DRIVER_ROOT", given.c_str(), 1), 0);
    const auto edits = mounted({uuid(0)});
    EXPECT_EQ(mountedAt(edits, "/usr/lib64/libcuda.so.1"), root + operators + kFolder + "/libcuda.so." + kVersion);
    EXPECT_EQ(mountedAt(edits, "/usr/bin/nvidia-smi"), root + operators + "/usr/bin/nvidia-smi");
    const std::string firmware = "/lib/firmware/nvidia/" + kVersion;
    EXPECT_EQ(mountedAt(edits, firmware), root + operators + firmware);
    EXPECT_EQ(mountedAt(edits, "/run/nvidia-persistenced/socket"), root + "/run/nvidia-persistenced/socket")
        << "the host's, where the driver has none";
    EXPECT_EQ(env(edits, "NVIDIA_VISIBLE_DEVICES"), "void");
  }
  ASSERT_EQ(setenv("ELASTICGPU_DRIVER_ROOT", gke.c_str(), 1), 0);
  auto edits = mounted({uuid(0)});
  EXPECT_EQ(mountedAt(edits, kFolder + "/libcuda.so.1"), root + gke + "/lib64/libcuda.so." + kVersion);
  EXPECT_EQ(mountedAt(edits, "/usr/bin/nvidia-smi"), root + gke + "/bin/nvidia-smi");
  // Bottlerocket has one folder, and had another one.
  for (const std::string folder : {"/usr/lib", "/usr/lib/nvidia/tesla"}) {
    const std::string bottlerocket = "/" + folder.substr(1 + folder.rfind('/')) + "-bottlerocket-linux-gnu/sys-root";
    write(bottlerocket + folder + "/libcuda.so." + kVersion);
    link(bottlerocket + folder + "/libcuda.so.1", "libcuda.so." + kVersion);
    ASSERT_EQ(setenv("ELASTICGPU_DRIVER_ROOT", bottlerocket.c_str(), 1), 0);
    EXPECT_EQ(mountedAt(mounted({uuid(0)}), kFolder + "/libcuda.so.1"),
              root + bottlerocket + folder + "/libcuda.so." + kVersion);
  }
  ASSERT_EQ(setenv("ELASTICGPU_DRIVER_ROOT", "/nowhere", 1), 0);
  EXPECT_THAT(mounted({uuid(0)}).mounts, IsEmpty());
  unsetenv("ELASTICGPU_DRIVER_ROOT");
}

/// Runs in a confined process of its own, like the agent in its container. Its loader's cache is older than the driver.
TEST_P(NvidiaContainerTest, AContainersAgentAsksTheHostsNvml) {
  if (fs::exists("/proc/driver/nvidia/version")) GTEST_SKIP() << "this machine's own NVML answers first";
  writeCache();
  library("libcuda.so", "libcuda.so.1");
  library("libnvidia-ml.so", "libnvidia-ml.so.1");
  fs::copy_file(EGPU_PROVISIONER_DIR "/../nvml/libnvidia-ml.so.1", root + kFolder + "/libnvidia-ml.so." + kVersion,
                fs::copy_options::overwrite_existing);
  unsetenv("ELASTICGPU_SYSTEM_ROOT");
  base::SystemClock clock;
  base::Random random;
  HostOptions options;
  options.env = {"ELASTICGPU_HOST_ROOT=" + root};
  HostedProvisioner hosted(std::string(EGPU_PROVISIONER_DIR) + "/lib" + GetParam() + ".so", options, clock, random,
                           [](HostedProvisioner&) {});
  ASSERT_TRUE(hosted.waitFirstAttempt());
  const DiscoverReply reply = hosted.discover();
  EXPECT_EQ(reply.reply.outcome, ReplyCode::ok) << reply.reply.message;
  EXPECT_EQ(reply.gpus.size(), 4u) << reply.reply.message;
  EXPECT_EQ(outcomeOf(hosted.stage(deviceOf({uuid(1)}))), ReplyCode::noChange) << message;
  const MountReply mount = hosted.mount(deviceOf({uuid(1)}), "p", "c");
  EXPECT_TRUE(hasNode(mount.edits, "/dev/nvidia3")) << mount.reply.message;
  EXPECT_EQ(mountedAt(mount.edits, "/usr/lib64/libnvidia-ml.so.1"), kFolder + "/libnvidia-ml.so." + kVersion);
}

/// Tests without a plugin. The agent creates missing nodes: tests/agent/prepare/dev_links_test.cpp.
class DeviceNodesTest : public MachineTest {
 protected:
  DeviceNodesTest() { fs::create_directories(root + "/dev"); }
};

TEST_F(DeviceNodesTest, NothingIsMissedWhereTheKernelReportsNoDriver) {
  EXPECT_EQ(nvidia::checkNodes().code, EGPU_NO_CHANGE);
  write("/proc/devices", "Character devices:\n510 nvidia-uvm\n");
  EXPECT_EQ(nvidia::checkNodes().code, EGPU_NO_CHANGE);
  write("/proc/devices", "Character devices:\n\nBlock devices:\n195 nvidia\n510 nvidia-uvm\n");
  EXPECT_EQ(nvidia::checkNodes().code, EGPU_NO_CHANGE);
}

TEST_F(DeviceNodesTest, WhatCudaNeedsAndIsMissingIsReportedWithWhatToDo) {
  write("/proc/devices", "Character devices:\n195 nvidia-frontend\n510 nvidia-uvm\n");
  sdk::Status status = nvidia::checkNodes();
  EXPECT_EQ(status.code, EGPU_UNAVAILABLE);
  EXPECT_THAT(status.message, AllOf(HasSubstr("/dev/nvidia-uvm is missing"), HasSubstr("nvidia-modprobe -c 0 -u")));
  EXPECT_THAT(nvidia::deviceNodes({2}), ElementsAre("/dev/nvidia2", "/dev/nvidiactl"));
  write("/dev/nvidia-uvm");
  EXPECT_EQ(nvidia::checkNodes().code, EGPU_NO_CHANGE) << "nothing fails without /dev/nvidia-uvm-tools";
  EXPECT_THAT(nvidia::deviceNodes({2}), ElementsAre("/dev/nvidia2", "/dev/nvidiactl", "/dev/nvidia-uvm"));
  write("/proc/devices", "Character devices:\n195 nvidia\n");
  status = nvidia::checkNodes();
  EXPECT_EQ(status.code, EGPU_UNAVAILABLE);
  EXPECT_THAT(status.message, HasSubstr("modprobe nvidia-uvm"));
}

TEST_P(NvidiaContainerTest, StageReportsWhatIsMissingAndMakesNothing) {
  write("/proc/devices", "Character devices:\n195 nvidia\n510 nvidia-uvm\n");
  fs::create_directories(root + "/dev");
  EXPECT_EQ(plugin->stage(deviceOf({uuid(0)})).outcome, ReplyCode::unavailable);
  EXPECT_TRUE(fs::is_empty(root + "/dev"));
  write("/dev/nvidia-uvm");
  EXPECT_EQ(outcomeOf(plugin->stage(deviceOf({uuid(0)}))), ReplyCode::noChange) << message;
  EXPECT_FALSE(fs::exists(root + "/dev/char"));
}

class DriverFilesTest : public MachineTest {
 protected:
  std::map<std::string, std::string> files(const std::string& version = kVersion) {
    std::map<std::string, std::string> out;
    for (const auto& file : nvidia::driverFiles(version)) {
      EXPECT_TRUE(out.emplace(file.to, file.from).second) << file.to;
      options[file.to] = file.options;
    }
    return out;
  }
  std::map<std::string, std::string> options;
};

TEST_F(DriverFilesTest, OnlyTheRunningDriversLibrariesAndNoneForDrawing) {
  library("libcuda.so", "libcuda.so.1");
  for (const std::string name : {"libnvidia-glcore.so", "libnvidia-rtcore.so", "libGLX_nvidia.so", "libnvoptix.so"})
    library(name, name + ".1");
  write(kFolder + "/libnvidia-ml.so.470.42.01");
  link(kFolder + "/libnvidia-ml.so.1", "libnvidia-ml.so.470.42.01");
  cached.push_back({"libnvidia-ml.so.1", kFolder + "/libnvidia-ml.so.1"});
  cached.push_back({"libnvidia-cfg.so.1", "/nowhere/libnvidia-cfg.so.1"});
  cached.push_back({"libc.so.6", kFolder + "/libcuda.so.1"});
  write(kFolder + "/libnvidia-nvvm70.so.4");
  cached.push_back({"libnvidia-nvvm70.so.4", kFolder + "/libnvidia-nvvm70.so.4"});
  writeCache();
  auto found = files();
  EXPECT_EQ(found.size(), 2u * 3);
  EXPECT_EQ(found["/usr/lib64/libcuda.so.1"], kFolder + "/libcuda.so." + kVersion);
  EXPECT_EQ(found["/usr/lib64/libnvidia-nvvm70.so.4"], kFolder + "/libnvidia-nvvm70.so.4") << "it has no version";
  for (const char* none : {"", "..", ".", "535.104.05/../..", "535 ", "..535", "5353535353535353535353535353535353"})
    EXPECT_THAT(files(none), IsEmpty()) << none;
}

TEST_F(DriverFilesTest, ProgramsFirmwareAndTheSocket) {
  write("/usr/sbin/nvidia-smi");
  EXPECT_THAT(files(), IsEmpty()) << "nothing without a library";
  installDriver();
  write("/usr/local/bin/nvidia-cuda-mps-server");
  write("/etc/OpenCL/vendors/nvidia.icd");
  write("/run/nvidia-persistenced/socket");
  link("/lib", "usr/lib");
  write("/usr/lib/firmware/nvidia/535.104.05/gsp_ga10x.bin");
  write("/usr/lib/firmware/nvidia/470.42.01/gsp.bin");
  auto found = files();
  EXPECT_EQ(found["/usr/bin/nvidia-smi"], "/usr/sbin/nvidia-smi");
  EXPECT_EQ(found["/usr/bin/nvidia-cuda-mps-server"], "/usr/local/bin/nvidia-cuda-mps-server");
  EXPECT_EQ(found.count("/usr/bin/nvidia-debugdump"), 0u);
  EXPECT_EQ(found["/etc/OpenCL/vendors/nvidia.icd"], "/etc/OpenCL/vendors/nvidia.icd");
  EXPECT_EQ(found["/run/nvidia-persistenced/socket"], "/run/nvidia-persistenced/socket");
  EXPECT_EQ(found["/lib/firmware/nvidia/535.104.05"], "/usr/lib/firmware/nvidia/535.104.05");
  EXPECT_EQ(found.count("/lib/firmware/nvidia/470.42.01"), 0u);
  EXPECT_THAT(options["/lib/firmware/nvidia/535.104.05"], AllOf(HasSubstr("ro,"), HasSubstr("rbind")));
}

TEST_F(DriverFilesTest, AHostWithoutALoadersCacheHasItsUsualFolders) {
  library("libcuda.so", "libcuda.so.1");
  auto found = files();
  EXPECT_EQ(found["/usr/lib64/libcuda.so.1"], kFolder + "/libcuda.so." + kVersion);
  EXPECT_EQ(found.size(), 2u * 3) << "soname and file";
}

/// A mounted file stays the old file when ldconfig replaces it.
TEST_F(DriverFilesTest, ACacheOfTheDriverBeforeLeadsToNoneOfItsVersion) {
  library("libcuda.so", "libcuda.so.1");
  cached.push_back({"libnvidia-gpucomp.so.470.42.01", kFolder + "/libnvidia-gpucomp.so.470.42.01"});
  writeCache();
  library("libnvidia-gpucomp.so", "libnvidia-gpucomp.so." + kVersion);
  library("libnvidia-glcore.so", "libnvidia-glcore.so." + kVersion);
  auto found = files();
  EXPECT_EQ(found["/usr/lib64/libcuda.so.1"], kFolder + "/libcuda.so." + kVersion);
  EXPECT_EQ(found["/usr/lib64/libnvidia-gpucomp.so." + kVersion], kFolder + "/libnvidia-gpucomp.so." + kVersion);
  EXPECT_EQ(found.size(), 2u * 3) << "no file under more names than its cache has";
}

TEST_F(DriverFilesTest, ACacheThatReportsTooMuchIsBounded) {
  library("libcuda.so", "libcuda.so.1");
  for (int i = 0; i < 500; ++i) cached.push_back({"libnv" + std::to_string(i) + ".so.1", kFolder + "/libcuda.so.1"});
  writeCache();
  EXPECT_EQ(files().size(), 128u * 3);
}

}  // namespace
}  // namespace egpu::plugin::testing

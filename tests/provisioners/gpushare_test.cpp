#include <linux/magic.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include <filesystem>
#include <fstream>

#include "tests/provisioners/plugin_fixture.h"

namespace egpu::plugin::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class GpuShareTest : public PluginTest {
 protected:
  GpuShareTest() : PluginTest("gpushare") {}
  static bool isLimiterBuilt() { return std::filesystem::exists(EGPU_PROVISIONER_DIR "/../limiter/libcuda.so.1"); }
};

TEST_F(GpuShareTest, DescribesItselfHonestly) {
  EXPECT_EQ(plugin->description().name, "gpushare.provisioner.elasticgpu.io");
  EXPECT_EQ(plugin->description().source, "gpuShare");
  EXPECT_EQ(plugin->description().isolation, "Advisory");
}

TEST_F(GpuShareTest, ValidatesItsParametersAndNeverSeesTheCores) {
  EXPECT_EQ(outcomeOf(plugin->validate({})), ReplyCode::ok);
  EXPECT_EQ(outcomeOf(plugin->validate({{"isolation", "mps"}, {"nodePolicy", "binpack"}, {"minMemory", "1Gi"}})),
            ReplyCode::ok);
  EXPECT_EQ(outcomeOf(plugin->validate({{"isolation", "strong"}})), ReplyCode::invalid);
  EXPECT_THAT(message, HasSubstr("none, auto, driver, limiter, hami-core, mps"));
  EXPECT_EQ(outcomeOf(plugin->validate({{"isolaton", "mps"}})), ReplyCode::invalid);
  EXPECT_THAT(message, HasSubstr("\"isolaton\"; this provisioner knows isolation"));
  for (const char* reaction : {"report", "evict"})
    EXPECT_EQ(outcomeOf(plugin->validate({{"isolation", "limiter"}, {"onBypass", reaction}})), ReplyCode::ok)
        << message;
  EXPECT_EQ(outcomeOf(plugin->validate({{"isolation", "auto"}, {"onBypass", "kill"}})), ReplyCode::invalid);
  EXPECT_THAT(message, HasSubstr("known are report, evict"));
  EXPECT_EQ(outcomeOf(plugin->validate({{"isolation", "mps"}, {"onBypass", "evict"}})), ReplyCode::invalid);
  EXPECT_THAT(message, HasSubstr("onBypass has no effect with isolation mps"));
  EXPECT_EQ(outcomeOf(plugin->validate({{"timeSlice", "short"}})), ReplyCode::ok) << message;
  EXPECT_EQ(outcomeOf(plugin->validate({{"timeSlice", "2ms"}})), ReplyCode::invalid);
  EXPECT_THAT(message, HasSubstr("timeSlice is \"2ms\"; known are default, short, medium, long"));
  EXPECT_EQ(outcomeOf(plugin->validate({{"isolation", "mps"}, {"timeSlice", "short"}})), ReplyCode::invalid);
  EXPECT_THAT(message, HasSubstr("timeSlice has no effect with isolation mps; it needs none"));
}

TEST_F(GpuShareTest, ProvisionIsIdempotentByKey) {
  const auto d = device("a", {card(0, 100, 4 * kGiB)});
  EXPECT_EQ(outcomeOf(plugin->provision(d)), ReplyCode::ok);
  EXPECT_EQ(outcomeOf(plugin->provision(d)), ReplyCode::noChange);
  EXPECT_EQ(outcomeOf(plugin->provision(device("a", {card(0, 200, 4 * kGiB)}))), ReplyCode::exists);
  EXPECT_THAT(plugin->list().keys, ElementsAre("a"));
  EXPECT_EQ(outcomeOf(plugin->deprovision("a")), ReplyCode::ok);
  EXPECT_EQ(outcomeOf(plugin->deprovision("a")), ReplyCode::ok);
  EXPECT_TRUE(plugin->list().keys.empty());
}

TEST_F(GpuShareTest, RefusesWhatIsNoShare) {
  EXPECT_EQ(outcomeOf(plugin->provision(device("b", {}))), ReplyCode::invalid);
  EXPECT_EQ(outcomeOf(plugin->provision(device("", {card(0, 1, 1)}))), ReplyCode::invalid);
  EXPECT_EQ(outcomeOf(plugin->provision(device("b", {card(0, 1001, kGiB)}))), ReplyCode::invalid);
  EXPECT_EQ(outcomeOf(plugin->provision(device("b", {card(0, 0, 0), card(1, 10, kGiB)}))), ReplyCode::invalid);
  EXPECT_EQ(outcomeOf(plugin->provision(device("b", {card(0, 10, -1)}))), ReplyCode::invalid);
  EXPECT_TRUE(plugin->list().keys.empty());
}

/// Limiters do not count CPU memory, which these cards share.
TEST_F(GpuShareTest, CardsWithUnifiedMemoryAreGivenWholeOnly) {
  for (const char* model : {"GB10", "Thor", "GH200-480GB", "Orin-(nvgpu)"}) {
    auto share = card(0, 500, 8 * kGiB), whole = card(0, 1000, 16 * kGiB), memory = card(0, 0, kGiB);
    share.model = whole.model = memory.model = model;
    EXPECT_EQ(outcomeOf(plugin->provision(device("u", {share}))), ReplyCode::invalid) << model;
    EXPECT_THAT(message, HasSubstr("card GPU-0 (" + std::string(model) + ") has unified memory"));
    EXPECT_THAT(message, HasSubstr("Claim whole cards"));
    EXPECT_EQ(outcomeOf(plugin->provision(device("u", {memory}))), ReplyCode::invalid) << model;
    EXPECT_EQ(outcomeOf(plugin->mount(device("u", {share}), "p", "c").reply), ReplyCode::invalid) << model;
    EXPECT_EQ(outcomeOf(plugin->provision(device("u", {whole}))), ReplyCode::ok) << message;
    EXPECT_EQ(outcomeOf(plugin->deprovision("u")), ReplyCode::ok);
  }
  auto other = card(0, 500, 8 * kGiB);
  other.model = "GB102";
  EXPECT_EQ(outcomeOf(plugin->provision(device("u", {other}))), ReplyCode::ok) << message;
}

TEST_F(GpuShareTest, MountGivesTheContainerItsShares) {
  const auto reply =
      plugin->mount(device("c", {card(0, 100, 4 * kGiB), card(3, 100, 2 * kGiB)}), "default/pod", "main");
  ASSERT_EQ(reply.reply.outcome, ReplyCode::ok) << reply.reply.message;
  EXPECT_EQ(env(reply.edits, "ELASTICGPU_DEVICE"), "egpu-c");
  EXPECT_EQ(env(reply.edits, "ELASTICGPU_CLAIM"), "default/claim");
  EXPECT_EQ(env(reply.edits, "ELASTICGPU_CARDS"), "GPU-0,GPU-3");
  EXPECT_EQ(env(reply.edits, "NVIDIA_VISIBLE_DEVICES"), "GPU-0,GPU-3");
  EXPECT_EQ(env(reply.edits, "ELASTICGPU_CORE_0"), "100");
  EXPECT_EQ(env(reply.edits, "ELASTICGPU_MEMORY_1"), std::to_string(2 * kGiB));
  EXPECT_EQ(env(reply.edits, "CUDA_DEVICE_SM_LIMIT"), "(unset)");
  EXPECT_TRUE(hasNode(reply.edits, "/dev/nvidia0"));
  EXPECT_TRUE(hasNode(reply.edits, "/dev/nvidia3"));
  EXPECT_FALSE(hasNode(reply.edits, "/dev/nvidia1"));
  EXPECT_TRUE(hasNode(reply.edits, "/dev/nvidiactl"));
  EXPECT_THAT(reply.edits.cdiDevices, ElementsAre("nvidia.com/gpu=GPU-0", "nvidia.com/gpu=GPU-3"));
  EXPECT_TRUE(reply.edits.mounts.empty());
}

TEST_F(GpuShareTest, ReportsWhatLimitsContainersToTheirShare) {
  const auto reported = [&](std::vector<CardShare> cards, const char* mode) {
    const auto asked = device("i", std::move(cards), {{"isolation", mode}});
    const auto reply = plugin->provision(asked);
    EXPECT_EQ(outcomeOf(reply), ReplyCode::ok) << message;
    EXPECT_EQ(plugin->provision(asked).isolation, reply.isolation) << "also when it is repeated";
    EXPECT_EQ(plugin->resize(asked).isolation, reply.isolation);
    EXPECT_EQ(env(plugin->mount(asked, "p", "c").edits, "ELASTICGPU_ISOLATION"), reply.isolation->mode);
    EXPECT_EQ(outcomeOf(plugin->deprovision("i")), ReplyCode::ok);
    return *reply.isolation;
  };
  using I = v1alpha::Isolation;
  const auto share = card(0, 100, 4 * kGiB), whole = card(0, 1000, 16 * kGiB), memory = card(0, 1000, 15 * kGiB);
  EXPECT_EQ(reported({share}, "none"), (I{"none", "None", "None", "Soft"}));
  EXPECT_EQ(reported({share}, "hami-core"), (I{"hami-core", "Soft", "Soft", "Soft"}));
  EXPECT_EQ(reported({share}, "mps"), (I{"mps", "Soft", "Soft", "None", "None"}));
  EXPECT_EQ(reported({share}, "auto"), (I{"none", "None", "None", "Soft"})) << "the controller has not chosen";
  if (isLimiterBuilt()) {
    EXPECT_EQ(reported({share}, "limiter"), (I{"limiter", "Soft", "Soft", "Soft"}));
    EXPECT_EQ(reported({card(0, 0, kGiB)}, "limiter"), (I{"limiter", "Soft", "None", "Soft"}));
  }
  EXPECT_EQ(reported({share}, "driver"), (I{"driver", "Enforced", "None", "Soft", "None"}));
  for (const char* mode : {"none", "auto", "driver", "limiter", "hami-core", "mps"}) {
    EXPECT_EQ(reported({whole}, mode), (I{"whole-card", "Enforced", "Enforced", "Enforced"}));
    EXPECT_EQ(reported({card(0, 0, 0)}, mode), (I{"none", "None", "None", "Soft"})) << "admin access";
  }
  EXPECT_EQ(reported({memory}, "mps").mode, "mps") << "others may share its memory";
  EXPECT_EQ(reported({whole, card(1, 500, 8 * kGiB)}, "hami-core").mode, "hami-core");
}

namespace fs = std::filesystem;

TEST_F(GpuShareTest, TheLimiterHasAFolderPerDeviceAndLibrariesByTheirContent) {
  if (!isLimiterBuilt()) GTEST_SKIP() << "the limiter is for x86-64 only";
  std::string root = ::testing::TempDir() + "/gpushare-XXXXXX";
  ASSERT_NE(mkdtemp(root.data()), nullptr);
  ASSERT_EQ(setenv("ELASTICGPU_STATE_DIR", root.c_str(), 1), 0);
  const core::StringMap limiter{{"isolation", "limiter"}};
  const std::string folder = root + "/limiter/devices/l";
  const auto mask = umask(077);
  EXPECT_EQ(outcomeOf(plugin->stage(device("l", {card(0, 100, kGiB)}, limiter))), ReplyCode::ok) << message;
  umask(mask);
  struct stat first {
  }, again{};
  ASSERT_EQ(::stat((folder + "/usage").c_str(), &first), 0);
  EXPECT_EQ(first.st_mode & 0777, 0666u) << "processes of any user";
  EXPECT_EQ(fs::status(folder + "/limits").permissions(), fs::perms(0644));
  EXPECT_EQ(fs::status(root + "/limiter/devices").permissions(), fs::perms(0700)) << "not for users of the host";
  EXPECT_EQ(outcomeOf(plugin->stage(device("l", {card(0, 200, 2 * kGiB)}, limiter))), ReplyCode::ok) << message;
  ASSERT_EQ(::stat((folder + "/usage").c_str(), &again), 0);
  EXPECT_EQ(first.st_ino, again.st_ino) << "processes have mapped it";

  const auto edits = plugin->mount(device("l", {card(0, 200, 2 * kGiB)}, limiter), "p", "c").edits;
  EXPECT_EQ(mountedAt(edits, "/run/elasticgpu/limiter/limits"), folder + "/limits");
  EXPECT_EQ(mountedAt(edits, "/run/elasticgpu/limiter/usage"), folder + "/usage");
  std::vector<fs::path> libraries(fs::directory_iterator(root + "/limiter/lib"), fs::directory_iterator());
  ASSERT_EQ(libraries.size(), 1u);
  for (const char* name : {"libcuda.so.1", "libnvidia-ml.so.1"})
    EXPECT_EQ(fs::file_size(libraries[0] / name),
              fs::file_size(std::string(EGPU_PROVISIONER_DIR "/../limiter/") + name));

  // An earlier version's library stays while a device may use it.
  fs::create_directories(root + "/limiter/lib/0123456789abcdef");
  std::ofstream(folder + "/libraries", std::ios::app) << "0123456789abcdef\n";
  EXPECT_EQ(outcomeOf(plugin->stage(device("m", {card(0, 100, kGiB)}, limiter))), ReplyCode::ok) << message;
  EXPECT_EQ(outcomeOf(plugin->unstage("m")), ReplyCode::ok) << message;
  EXPECT_TRUE(fs::exists(root + "/limiter/lib/0123456789abcdef"));
  EXPECT_EQ(outcomeOf(plugin->unstage("l")), ReplyCode::ok) << message;
  EXPECT_EQ(outcomeOf(plugin->unstage("l")), ReplyCode::noChange) << message;
  EXPECT_FALSE(fs::exists(folder));
  EXPECT_FALSE(fs::exists(root + "/limiter/lib/0123456789abcdef"));
  EXPECT_TRUE(fs::exists(libraries[0])) << "of this version";
  fs::remove_all(root);
}

TEST_F(GpuShareTest, TheLimiterRefusesWhatItCantLimit) {
  const core::StringMap limiter{{"isolation", "limiter"}};
  EXPECT_EQ(outcomeOf(plugin->provision(device("n", {card(0, 100, 0)}, limiter))), ReplyCode::invalid);
  EXPECT_THAT(message, HasSubstr("card GPU-0: limiter needs a memory share"));
  std::vector<CardShare> many;
  for (int i = 0; i < 17; ++i) many.push_back(card(i, 100, kGiB));
  EXPECT_EQ(outcomeOf(plugin->provision(device("n", many, limiter))), ReplyCode::invalid);
  EXPECT_THAT(message, HasSubstr("at most 16 cards"));
  EXPECT_EQ(outcomeOf(plugin->stage(device("../n", {card(0, 100, kGiB)}, limiter))), ReplyCode::invalid);
}

TEST_F(GpuShareTest, AWholeCardGetsNoLimiter) {
  const auto limited =
      plugin->mount(device("w", {card(0, 1000, 16 * kGiB)}, {{"isolation", "limiter"}}), "p", "c").edits;
  EXPECT_EQ(mountedAt(limited, "/run/elasticgpu/limiter/limits"), "(nothing)");
  const auto edits =
      plugin->mount(device("w", {card(0, 1000, 16 * kGiB)}, {{"isolation", "hami-core"}}), "p", "c").edits;
  EXPECT_EQ(env(edits, "CUDA_DEVICE_MEMORY_LIMIT_0"), "(unset)");
  EXPECT_EQ(mountedAt(edits, "/etc/ld.so.preload"), "(nothing)");
}

TEST_F(GpuShareTest, AnObserverSeesItsCardsWithoutALimit) {
  for (const char* isolation : {"none", "driver", "limiter", "hami-core", "mps"}) {
    const auto eye = device("eye", {card(0, 0, 0), card(3, 0, 0)}, {{"isolation", isolation}});
    EXPECT_EQ(outcomeOf(plugin->provision(eye)), ReplyCode::ok) << message;
    EXPECT_EQ(outcomeOf(plugin->deprovision("eye")), ReplyCode::ok) << message;
    const auto reply = plugin->mount(eye, "p", "c");
    ASSERT_EQ(reply.reply.outcome, ReplyCode::ok) << reply.reply.message;
    EXPECT_EQ(env(reply.edits, "ELASTICGPU_CARDS"), "GPU-0,GPU-3");
    EXPECT_EQ(env(reply.edits, "ELASTICGPU_ISOLATION"), "none");
    EXPECT_EQ(env(reply.edits, "CUDA_DEVICE_MEMORY_LIMIT_0"), "(unset)");
    EXPECT_EQ(env(reply.edits, "CUDA_MPS_PIPE_DIRECTORY"), "(unset)");
    EXPECT_TRUE(hasNode(reply.edits, "/dev/nvidia3"));
    EXPECT_TRUE(reply.edits.mounts.empty());
  }
}

TEST_F(GpuShareTest, CardsAreNumberedAsTheNodeDoes) {
  const auto reply = plugin->mount(
      device("o", {card(3, 100, 2 * kGiB), card(0, 200, 4 * kGiB)}, {{"isolation", "hami-core"}}), "p", "c");
  ASSERT_EQ(reply.reply.outcome, ReplyCode::ok) << reply.reply.message;
  EXPECT_EQ(env(reply.edits, "ELASTICGPU_CARDS"), "GPU-0,GPU-3");
  EXPECT_EQ(env(reply.edits, "ELASTICGPU_CORE_0"), "200");
  EXPECT_EQ(env(reply.edits, "CUDA_DEVICE_MEMORY_LIMIT_0"), "4096m");
  EXPECT_EQ(env(reply.edits, "CUDA_DEVICE_MEMORY_LIMIT_1"), "2048m");
}

TEST_F(GpuShareTest, CardsAreNumberedByPciAddressWhateverTheirMinorNumbers) {
  auto last = card(0, 100, 2 * kGiB), first = card(1, 200, 16 * kGiB), second = card(2, 300, 4 * kGiB);
  last.pciAddress = "10000:01:00.0", first.pciAddress = "0000:01:00.0", second.pciAddress = "8000:01:00.0";
  const auto reply = plugin->mount(device("o", {last, first, second}, {{"isolation", "hami-core"}}), "p", "c");
  ASSERT_EQ(reply.reply.outcome, ReplyCode::ok) << reply.reply.message;
  EXPECT_EQ(env(reply.edits, "CUDA_DEVICE_ORDER"), "PCI_BUS_ID");
  EXPECT_EQ(env(reply.edits, "ELASTICGPU_CARDS"), "GPU-1,GPU-2,GPU-0");
  EXPECT_EQ(env(reply.edits, "ELASTICGPU_CORE_0"), "200");
  EXPECT_EQ(env(reply.edits, "CUDA_DEVICE_MEMORY_LIMIT_0"), "16384m");
  EXPECT_EQ(env(reply.edits, "CUDA_DEVICE_MEMORY_LIMIT_1"), "4096m");
  EXPECT_EQ(env(reply.edits, "CUDA_DEVICE_MEMORY_LIMIT_2"), "2048m");
}

/// The agent sets the limits of the driver; the plugin adds the limiter for compute.
TEST_F(GpuShareTest, DriverHasTheLimiterForComputeIfTheControllerSaysSo) {
  const core::StringMap plain{{"isolation", "driver"}}, both{{"isolation", "driver"}, {"compute", "limiter"}};
  EXPECT_EQ(outcomeOf(plugin->validate(plain)), ReplyCode::ok) << message;
  EXPECT_EQ(outcomeOf(plugin->validate({{"isolation", "driver"}, {"onBypass", "evict"}})), ReplyCode::ok) << message;
  EXPECT_EQ(outcomeOf(plugin->validate(both)), ReplyCode::invalid) << "compute is not for classes";
  const auto few = device("d", {card(0, 0, (1 << 20) - 1)}, plain);
  EXPECT_EQ(outcomeOf(plugin->provision(few)), ReplyCode::invalid);
  EXPECT_THAT(message, HasSubstr("isolation driver needs a memory share of at least 1 MiB"));
  const auto mounts = [&](const core::StringMap& parameters) {
    const auto reply = plugin->mount(device("d", {card(0, 100, kGiB)}, parameters), "p", "c");
    EXPECT_EQ(reply.reply.outcome, ReplyCode::ok) << reply.reply.message;
    EXPECT_EQ(env(reply.edits, "ELASTICGPU_ISOLATION"), "driver");
    return mountedAt(reply.edits, "/run/elasticgpu/limiter/limits");
  };
  EXPECT_EQ(mounts(plain), "(nothing)");
  if (!isLimiterBuilt()) GTEST_SKIP() << "the limiter is for x86-64 only";
  EXPECT_THAT(mounts(both), HasSubstr("/limiter/devices/d/limits"));
  const auto reply = plugin->provision(device("d", {card(0, 100, kGiB)}, both));
  EXPECT_EQ(reply.isolation, (v1alpha::Isolation{"driver", "Enforced", "Soft", "Soft", "None"}));
  EXPECT_EQ(outcomeOf(plugin->deprovision("d")), ReplyCode::ok);
}

TEST_F(GpuShareTest, MountForHamiCore) {
  const core::StringMap hami{{"isolation", "hami-core"}};
  auto reply = plugin->mount(device("d", {card(0, 105, 4 * kGiB), card(1, 5, 512 << 20)}, hami), "p", "c");
  ASSERT_EQ(reply.reply.outcome, ReplyCode::ok) << reply.reply.message;
  EXPECT_EQ(env(reply.edits, "CUDA_DEVICE_MEMORY_LIMIT_0"), "4096m");
  EXPECT_EQ(env(reply.edits, "CUDA_DEVICE_MEMORY_LIMIT_1"), "512m");
  EXPECT_EQ(env(reply.edits, "CUDA_DEVICE_SM_LIMIT"), "1") << "the smallest share, never 0, which would mean no limit";
  EXPECT_THAT(mountedAt(reply.edits, "/etc/ld.so.preload"), HasSubstr("ld.so.preload"));
  EXPECT_THAT(mountedAt(reply.edits, "/usr/local/vgpu/libvgpu.so"), HasSubstr("libvgpu.so"));
  EXPECT_THAT(mountedAt(reply.edits, "/tmp/vgpu"), HasSubstr("/cache/d"));
  EXPECT_THAT(mountedAt(reply.edits, "/tmp/vgpulock"), HasSubstr("/hami-core/locks/all"));

  EXPECT_EQ(outcomeOf(plugin->provision(device("d", {card(0, 100, (1 << 20) - 1)}, hami))), ReplyCode::invalid)
      << "0m would mean unlimited";
  reply = plugin->mount(device("d", {card(0, 0, kGiB)}, hami), "p", "c");
  EXPECT_EQ(env(reply.edits, "CUDA_DEVICE_SM_LIMIT"), "(unset)") << "no share of compute was asked for";
}

TEST_F(GpuShareTest, MountForMps) {
  const core::StringMap mps{{"isolation", "mps"}};
  const auto reply = plugin->mount(device("e", {card(2, 250, 4 * kGiB)}, mps), "p", "c");
  ASSERT_EQ(reply.reply.outcome, ReplyCode::ok) << reply.reply.message;
  EXPECT_EQ(env(reply.edits, "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"), "25");
  EXPECT_EQ(env(reply.edits, "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"), "0=4096M");
  EXPECT_THAT(mountedAt(reply.edits, env(reply.edits, "CUDA_MPS_PIPE_DIRECTORY")), HasSubstr("/mps/GPU-2"));
  EXPECT_EQ(outcomeOf(plugin->provision(device("e", {card(0, 100, kGiB), card(1, 100, kGiB)}, mps))),
            ReplyCode::invalid);
}

TEST_F(GpuShareTest, AnMpsClientSeesTheNamespaceOfItsDeviceOnly) {
  std::string root = ::testing::TempDir() + "/gpushare-XXXXXX";
  ASSERT_NE(mkdtemp(root.data()), nullptr);
  ASSERT_EQ(setenv("ELASTICGPU_STATE_DIR", root.c_str(), 1), 0);
  const auto mounted = [&] {
    const auto its = device("11111111-2222-4333-8444-55555555555A", {card(2, 250, kGiB)}, {{"isolation", "mps"}});
    const auto reply = plugin->mount(its, "p", "c");
    EXPECT_EQ(reply.reply.outcome, ReplyCode::ok) << reply.reply.message;
    return mountedAt(reply.edits, "/tmp/nvidia-mps");
  };
  const auto own = root + "/mps/GPU-2/card/22224333844455555555555a";
  std::filesystem::create_directories(own + "/control");
  std::filesystem::create_directories(root + "/mps/GPU-2/control");
  EXPECT_EQ(mounted(), root + "/mps/GPU-2") << "a container of version 2 can create the folder";
  std::ofstream(root + "/mps/GPU-2.namespaces") << "";
  EXPECT_EQ(mounted(), own);
  std::filesystem::remove_all(own);
  const auto its = device("11111111-2222-4333-8444-55555555555A", {card(2, 250, kGiB)}, {{"isolation", "mps"}});
  const auto refused = plugin->mount(its, "p", "c").reply;
  EXPECT_EQ(refused.outcome, ReplyCode::unavailable);
  EXPECT_EQ(refused.message, "the MPS control daemon has not opened " + own + "/control");
  std::filesystem::remove_all(root);
}

/// All tenants can read files in the host's /dev/shm.
TEST_F(GpuShareTest, MpsClientsGetTheSharedMemoryOfTheirCardAndNeverTheHosts) {
  const core::StringMap mps{{"isolation", "mps"}};
  for (const int64_t index : {2, 5}) {
    const auto reply = plugin->mount(device("e", {card(index, 250, 4 * kGiB)}, mps), "p", "c");
    ASSERT_EQ(reply.reply.outcome, ReplyCode::ok) << reply.reply.message;
    EXPECT_THAT(mountedAt(reply.edits, "/dev/shm"), ::testing::EndsWith("/mps-shm/GPU-" + std::to_string(index)));
    for (const auto& each : reply.edits.mounts) EXPECT_NE(each.hostPath, "/dev/shm");
  }
}

TEST_F(GpuShareTest, StageRefusesMpsWithoutATmpfsOfTheCard) {
  std::string root = "/dev/shm/gpushare-XXXXXX", disk = ::testing::TempDir() + "/gpushare-XXXXXX";
  if (mkdtemp(root.data()) == nullptr) GTEST_SKIP() << "no tmpfs to make folders in";
  ASSERT_NE(mkdtemp(disk.data()), nullptr);
  const auto staged = [&](const std::string& state, const std::string& host) {
    EXPECT_EQ(setenv("ELASTICGPU_STATE_DIR", state.c_str(), 1), 0);
    EXPECT_EQ(setenv("ELASTICGPU_HOST_ROOT", host.c_str(), 1), 0);
    std::filesystem::create_directories(state + "/mps/GPU-0/control");
    return outcomeOf(plugin->stage(device("g", {card(0, 100, kGiB)}, {{"isolation", "mps"}})));
  };
  EXPECT_EQ(staged(root, disk), ReplyCode::unavailable);
  EXPECT_THAT(message, HasSubstr("/mps-shm/GPU-0 does not exist; mount a tmpfs there"));
  std::filesystem::create_directories(root + "/mps-shm/GPU-0");
  EXPECT_EQ(staged(root, disk), ReplyCode::ok) << message;
  EXPECT_EQ(staged(root, ""), ReplyCode::unavailable);
  EXPECT_THAT(message, HasSubstr("is the host's own /dev/shm"));
  std::filesystem::create_directories(root + "/mps-shm/GPU-1");
  EXPECT_EQ(staged(root, disk), ReplyCode::unavailable);
  EXPECT_THAT(message, HasSubstr("is the same tmpfs as "));
  std::filesystem::create_directories(disk + "/mps-shm/GPU-0");
  struct statfs info {};
  ASSERT_EQ(::statfs(disk.c_str(), &info), 0);
  if (info.f_type != TMPFS_MAGIC) {
    EXPECT_EQ(staged(disk, root), ReplyCode::unavailable);
    EXPECT_THAT(message, HasSubstr("is not a tmpfs"));
  }
  unsetenv("ELASTICGPU_HOST_ROOT");
  for (const auto& folder : {root, disk}) std::filesystem::remove_all(folder);
}

TEST_F(GpuShareTest, StageMakesAndUnstageRemovesTheCache) {
  std::string root = ::testing::TempDir() + "/gpushare-XXXXXX";
  ASSERT_NE(mkdtemp(root.data()), nullptr);
  ASSERT_EQ(setenv("ELASTICGPU_STATE_DIR", root.c_str(), 1), 0);
  const auto d = device("f", {card(0, 100, kGiB)}, {{"isolation", "hami-core"}});
  EXPECT_EQ(outcomeOf(plugin->stage(d)), ReplyCode::ok) << message;
  EXPECT_EQ(outcomeOf(plugin->stage(d)), ReplyCode::ok) << message;
  EXPECT_TRUE(std::filesystem::is_directory(root + "/hami-core/cache/f"));
  EXPECT_EQ(outcomeOf(plugin->unstage("f")), ReplyCode::ok) << message;
  EXPECT_EQ(outcomeOf(plugin->unstage("f")), ReplyCode::noChange) << message;
  EXPECT_FALSE(std::filesystem::exists(root + "/hami-core/cache/f"));
  EXPECT_EQ(outcomeOf(plugin->stage(device("../f", {card(0, 100, kGiB)}, {{"isolation", "hami-core"}}))),
            ReplyCode::invalid);
  EXPECT_EQ(outcomeOf(plugin->stage(device("g", {card(0, 100, kGiB)}, {{"isolation", "mps"}}))),
            ReplyCode::unavailable);
  EXPECT_THAT(message, HasSubstr("start one with CUDA_MPS_PIPE_DIRECTORY"));
  EXPECT_EQ(outcomeOf(plugin->stage(device("h", {card(0, 100, kGiB)}))), ReplyCode::noChange);
  std::filesystem::remove_all(root);
}

TEST_F(GpuShareTest, ContainersOfAnyUserMayWriteTheirCacheAndTheLock) {
  std::string root = ::testing::TempDir() + "/gpushare-XXXXXX";
  ASSERT_NE(mkdtemp(root.data()), nullptr);
  ASSERT_EQ(setenv("ELASTICGPU_STATE_DIR", root.c_str(), 1), 0);
  const auto mask = umask(027);
  std::filesystem::create_directories(root + "/hami-core/locks/all");  // Left by an earlier agent.
  const auto d = device("f", {card(0, 100, kGiB)}, {{"isolation", "hami-core"}});
  EXPECT_EQ(outcomeOf(plugin->stage(d)), ReplyCode::ok) << message;
  umask(mask);
  for (const char* folder : {"/hami-core/cache/f", "/hami-core/locks/all"})
    EXPECT_EQ(std::filesystem::status(root + folder).permissions(), std::filesystem::perms::all) << folder;
  for (const char* folder : {"/hami-core/cache", "/hami-core/locks"})
    EXPECT_NE(std::filesystem::status(root + folder).permissions(), std::filesystem::perms::all) << folder;
  std::filesystem::remove_all(root);
}

TEST_F(GpuShareTest, ResizeChangesWhatIsKnown) {
  // A device of an earlier process.
  EXPECT_EQ(outcomeOf(plugin->resize(device("r", {card(0, 100, kGiB)}))), ReplyCode::ok);
  EXPECT_EQ(outcomeOf(plugin->provision(device("r", {card(0, 100, kGiB)}))), ReplyCode::noChange);
  EXPECT_EQ(outcomeOf(plugin->resize(device("r", {card(0, 200, kGiB)}))), ReplyCode::ok);
  EXPECT_EQ(outcomeOf(plugin->provision(device("r", {card(0, 200, kGiB)}))), ReplyCode::noChange);
  EXPECT_EQ(outcomeOf(plugin->deprovision("r")), ReplyCode::ok);
}

}  // namespace
}  // namespace egpu::plugin::testing

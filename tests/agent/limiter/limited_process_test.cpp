// The whole path of a limit: the plugin stages the files, the limiter in a process finds its share there and refuses
// more, and the agent passes on a resize and frees the memory of killed processes. The driver is the fake of tests/gpu.
#include "tests/gpu/limited_process.h"

#include <gmock/gmock.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <memory>

#include "controller/agent/limiter/limiter.h"
#include "controller/plugin/in_process.h"
#include "tests/agent/limiter/pages.h"
#include "tests/agent/prepare/fixture.h"

namespace egpu::agent::limiter::testing {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr uint64_t kGi = uint64_t{1} << 30;
constexpr int kOutOfMemory = 2;

/// Returns why the call failed, or ""; to be used in a child process, too.
struct Limited {
  gpu::testing::Cuda cuda{gpu::testing::standInPath()};
  void* context = nullptr;

  bool start() {
    int device = -1;
    return cuda("cuInit", 0u) == 0 && cuda("cuDeviceGet", &device, 0) == 0 &&
           cuda("cuCtxCreate_v2", &context, 0u, device) == 0;
  }
  uint64_t total() {
    std::size_t free = 0, all = 0;
    return cuda("cuMemGetInfo_v2", &free, &all) == 0 ? all : 0;
  }
  int allocate(uint64_t bytes) {
    uint64_t address = 0;
    return cuda("cuMemAlloc_v2", &address, static_cast<std::size_t>(bytes));
  }
};

class LimitedProcessTest : public PrepareTest {
 protected:
  void SetUp() override {
    ASSERT_EQ(setenv("ELASTICGPU_STATE_DIR", state.c_str(), 1), 0);
    ASSERT_TRUE(plugins.load(EGPU_PROVISIONER_DIR "/libgpushare.so").ok());
    gpushare = plugins.find("gpushare.provisioner.elasticgpu.io", nullptr);
    ASSERT_NE(gpushare, nullptr);
    request = {"00000000-0000-4000-8000-00000000000a",
               "egpu-a",
               "default/a",
               "n1",
               {{kUuid, "H100", 0, 250, static_cast<int64_t>(kGi), static_cast<int64_t>(16 * kGi)}},
               {{"isolation", "limiter"}},
               0};
    const auto staged = gpushare->stage(request);
    ASSERT_TRUE(staged.ok()) << staged.message;
    pointToTheFake();
    std::ofstream(scratch.path() + "/node.yaml") << gpu::testing::twoCards();
    setenv("ELASTICGPU_LIMITER_FOLDER", folderOf().c_str(), 1);
    setenv("ELASTICGPU_FAKE_NVML", (scratch.path() + "/node.yaml").c_str(), 1);
    setenv("ELASTICGPU_FAKE_CUDA_STATE", (scratch.path() + "/cuda").c_str(), 1);
    publish();
  }
  /// The driver's library is at another path than in a container.
  void pointToTheFake() const {
    auto page = readPage<egpu_limiter_limits>(folderOf() + "/limits");
    EXPECT_THAT(std::string(page.cuda), StartsWith(EGPU_LIMITER_FOLDER "/driver/libcuda.so"));
    const auto old = page;
    ASSERT_EQ(egpu_limiter_make_limits(&page, gpu::testing::fakePath().c_str(), ""), 0);
    page.sequence = old.sequence;
    std::memcpy(page.bank, old.bank, sizeof page.bank);
    std::fstream file(folderOf() + "/limits", std::ios::binary | std::ios::in | std::ios::out);
    file.write(reinterpret_cast<const char*>(&page), sizeof page);
  }
  /// Writes the CDI file as the agent does.
  void publish() {
    const auto reply = gpushare->mount(request, "", "");
    ASSERT_TRUE(reply.reply.ok()) << reply.reply.message;
    cdi::Spec spec;
    spec.device = request.device;
    spec.deviceUid = request.key;
    spec.claimNamespace = "default";
    spec.claimName = "a";
    spec.claimUid = "claim";
    spec.provisioner = gpushare->description().name;
    v1alpha::DeviceCard card;
    card.name = "gpu-a";
    card.uuid = kUuid;
    card.core = 250;
    card.memory = static_cast<int64_t>(kGi);
    spec.cards = {card};
    spec.edits = reply.edits;
    ASSERT_TRUE(folder.write(spec).ok());
    ASSERT_TRUE(folder.publish(spec.deviceUid).ok());
    object.metadata.name = request.device;
    object.metadata.uid = request.key;
    object.spec.cards = spec.cards;
    object.spec.claimRef = v1alpha::ClaimRef{"default", "a", "uid"};
  }
  std::string folderOf() const { return state + "/limiter/devices/" + request.key; }
  uint64_t used() const {
    const auto page = readPage<egpu_limiter_usage>(folderOf() + "/usage");
    return egpu_limiter_used(&page, 0);
  }

  const std::string state = scratch.path() + "/state";
  plugin::InProcessRegistry plugins;
  plugin::Provisioner* gpushare = nullptr;
  plugin::DeviceRequest request;
  cache::Gpu object;
  usage::Prepared shares{client, folder, world.clock, "n1"};
  cache::Store<Gpu> cards;
  LimiterOptions limiterOptions{"n1", "/proc", state};
  Limiter limiter{client,
                  plugins,
                  events,
                  folder,
                  shares,
                  cards,
                  [this](const std::string&) { return std::make_shared<const cache::Gpu>(object); },
                  world.clock,
                  limiterOptions};
};

TEST_F(LimitedProcessTest, SeesItsShareGetsNoMoreAndFollowsAResize) {
  Limited process;
  ASSERT_TRUE(process.start());
  EXPECT_EQ(process.total(), kGi);
  EXPECT_EQ(process.allocate(kGi / 2), 0);
  EXPECT_EQ(process.allocate(kGi), kOutOfMemory);
  EXPECT_EQ(used(), kGi / 2);

  object.status.inForce.emplace();
  object.status.inForce->number = 1;
  object.status.inForce->cards = object.spec.cards;
  object.status.inForce->cards[0].memory = static_cast<int64_t>(2 * kGi);
  limiter.round({});
  EXPECT_EQ(process.total(), 2 * kGi) << "a resize reaches running processes";
  EXPECT_EQ(process.allocate(kGi), 0);
  EXPECT_EQ(process.allocate(kGi), kOutOfMemory);

  // A process that is killed leaves its memory in its slot.
  const pid_t child = fork();
  if (child == 0) {
    Limited other;
    const bool done = other.start() && other.allocate(kGi / 4) == 0;
    if (!done) _exit(1);
    raise(SIGKILL);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFSIGNALED(status));
  EXPECT_EQ(used(), kGi * 3 / 2 + kGi / 4);
  limiter.round({});
  EXPECT_EQ(used(), kGi * 3 / 2);

  // Staged again, as after a restart of the kubelet: nothing that processes have mapped is replaced.
  EXPECT_TRUE(gpushare->stage(request).ok());
  EXPECT_EQ(used(), kGi * 3 / 2);
  EXPECT_EQ(process.total(), kGi) << "until the agent's next round";
  limiter.round({});
  EXPECT_EQ(process.total(), 2 * kGi);
  EXPECT_TRUE(gpushare->unstage(request.key).ok());
  EXPECT_FALSE(std::filesystem::exists(folderOf()));
}

}  // namespace
}  // namespace egpu::agent::limiter::testing

#include "controller/agent/memory_limits/memory_limits.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <functional>
#include <future>
#include <memory>

#include "tests/agent/prepare/fixture.h"
#include "tests/provisioners/driver_limits_fixture.h"

namespace egpu::agent::memory_limits {
namespace {

using driver_limits::testing::kGiB;
using driver_limits::testing::LimitedNode;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
namespace fs = std::filesystem;

constexpr int64_t kGi = int64_t{1} << 30;

/// Programs of this machine, with a function that is called before each.
class ObservedPrograms final : public sharing::HostPrograms {
 public:
  base::Result<std::string> run(const sharing::HostProgram& program, std::chrono::milliseconds timeout) override {
    if (before) before(program);
    return programs_.run(program, timeout);
  }
  base::Result<int64_t> startDaemon(const sharing::HostProgram& program, const sharing::DaemonPaths& paths) override {
    return programs_.startDaemon(program, paths);
  }
  base::Result<bool> hasTmpfs(const std::string& folder) override { return programs_.hasTmpfs(folder); }
  base::Status mountTmpfs(const std::string& folder, const std::string& options) override {
    return programs_.mountTmpfs(folder, options);
  }
  base::Status unmount(const std::string& folder) override { return programs_.unmount(folder); }
  void signal(int64_t pid, int number) override { programs_.signal(pid, number); }
  std::function<void(const sharing::HostProgram&)> before;

 private:
  sharing::NodePrograms programs_{{false, "/proc", ""}};
};

class MemoryLimitsTest : public PrepareTest {
 protected:
  MemoryLimitsTest() {
    node.nvml.file["devices"][0]["uuid"] = uuid;
    node.nvml.write();
    onNode.beforeStage = [this](const Gpu& device, const std::stop_token&) {
      return limits->requireFor(limited(device));
    };
    onNode.shared = [this](const std::string& uid, std::size_t containers) {
      limits->expect(uid, containers * sharers);
    };
    onNode.hooks = [this](const Gpu& device) { return limits->hooksFor(limited(device)); };
    preparer = std::make_unique<ClaimPreparer>(client, registry, events, folder, onNode);
    restartAgent();
  }
  /// As its provisioner reports a device with this mode.
  Gpu limited(Gpu device) const {
    device.status.isolation = v1alpha::Isolation{mode, "Enforced", "None", "Soft"};
    return device;
  }
  void restartAgent() {
    MemoryLimitsOptions settings;
    settings.program.host.state = node.state;
    settings.hostRoot = "";
    settings.program.source = EGPU_DRIVER_LIMITS;
    settings.program.env = node.nvml.environment();
    settings.program.env.push_back("ELASTICGPU_CGROUPS=" + node.cgroups);
    settings.program.env.push_back("ELASTICGPU_PROC=" + node.proc);
    limits = std::make_unique<MemoryLimits>(
        programs, folder, events, world.clock, [this](const std::string& name) { return find(name); },
        [this] { ++probes; }, settings);
  }
  cache::Store<Gpu>::Ptr find(const std::string& name) {
    if (!isDeviceKnown) return nullptr;
    auto device = world.gpu(name);
    if (granted > 0) device.spec.cards[0].memory = granted;
    if (charged > 0) device.spec.cards[0].chargedMemory = charged;
    return std::make_shared<const Gpu>(std::move(device));
  }
  ClaimRef prepared(const std::string& name) {
    const auto claim = claimed(name);
    const auto done = preparer->prepare(claim, {});
    EXPECT_TRUE(done.ok()) << done.status().str();
    return claim;
  }
  std::vector<core::Hook> hooksOf(const ClaimRef& claim) {
    const auto entry = folder.find(uidOf(claim));
    return entry.ok() && *entry && (*entry)->spec ? (*entry)->spec->edits.hooks : std::vector<core::Hook>{};
  }
  /// Starts a container of the claim as a runtime does. Returns its cgroup.
  std::string start(const ClaimRef& claim, const std::string& id) {
    const auto hooks = hooksOf(claim);
    EXPECT_EQ(hooks.size(), 2u);
    const auto path = "/kubepods.slice/kubepods-pod" + world.pod(claim.name).metadata.uid + ".slice/" + id;
    execute(hooks.at(0), node.makeContainer(id, path));
    return node.cgroups + path;
  }
  void execute(const core::Hook& hook, const std::string& input) {
    const auto ran =
        programs.run({hook.path, {hook.args.begin() + 1, hook.args.end()}, hook.env, input}, std::chrono::seconds(30));
    EXPECT_TRUE(ran.ok()) << ran.status().str();
  }
  /// A round of the agent, after everything that it does from time to time is due.
  void round() {
    world.clock.advance(std::chrono::seconds(60));
    limits->round();
  }
  v1alpha::Card card(const std::string& version = "615.71.09") const {
    v1alpha::Card out;
    out.uuid = uuid;
    if (!version.empty()) out.attributes["driverVersion"] = version;
    return out;
  }

  const std::string uuid = "GPU-n1-0";
  LimitedNode node;
  ObservedPrograms programs;
  std::string mode = "driver";
  bool isDeviceKnown = true;
  int64_t granted = 0, charged = 0;  ///< amounts of all devices; 0 = those of the API
  int probes = 0;
  std::size_t sharers = 1;  ///< factor of the number of containers
  PreparerOptions onNode{"n1", {}};
  std::unique_ptr<MemoryLimits> limits;
  std::unique_ptr<ClaimPreparer> preparer;
};

TEST_F(MemoryLimitsTest, TheHooksOfAPreparedClaimLimitItsContainers) {
  const auto claim = prepared("a");
  const auto hooks = hooksOf(claim);
  ASSERT_EQ(hooks.size(), 2u);
  EXPECT_EQ(hooks[0].name, "createRuntime");
  EXPECT_EQ(hooks[1].name, "poststop");
  EXPECT_THAT(hooks[0].path, ::testing::StartsWith(node.state + "/driver-limits/program/"));
  EXPECT_EQ(fs::file_size(hooks[0].path), fs::file_size(EGPU_DRIVER_LIMITS));
  EXPECT_THAT(hooks[0].args, ElementsAre("driver-limits", "create", node.state, uidOf(claim)));
  const auto cgroup = start(claim, "c");
  EXPECT_EQ(node.hard(cgroup, uuid), kGi);
  execute(hooks[1], R"({"id":"c"})");
  EXPECT_TRUE(node.recordOf(uidOf(claim)).containers.empty());
  const auto again = preparer->prepare(claim, {});
  EXPECT_TRUE(again.ok()) << again.status().str();
  EXPECT_EQ(hooksOf(claim), hooks) << "the same file";
}

TEST_F(MemoryLimitsTest, OtherModesHaveNoHooks) {
  mode = "limiter";
  const auto claim = prepared("a");
  EXPECT_TRUE(hooksOf(claim).empty());
  round();
  EXPECT_FALSE(fs::exists(node.records.folder() + "/device-" + uidOf(claim)));
}

TEST_F(MemoryLimitsTest, ACardThatChangesWhileItIsProbedIsProbedAgain) {
  node.makeCgroup("/elastic-gpu-memory-probe");
  EXPECT_EQ(limits->supportOn(card()), "");
  auto changed = card();
  bool isSwitched = false;
  programs.before = [&](const auto&) {
    if (isSwitched) (void)limits->supportOn(changed);
  };
  limits->round();
  EXPECT_EQ(limits->supportOn(card()), "available");
  limits->round();
  EXPECT_EQ(probes, 1);
  changed.attributes["migMode"] = "enabled";
  (void)limits->supportOn(card("616.1"));
  isSwitched = true;
  limits->round();
  limits->round();
  EXPECT_EQ(probes, 3) << "the first answer may be that of the former mode";
}

TEST_F(MemoryLimitsTest, AResizeReachesRunningContainers) {
  const auto claim = prepared("a");
  const auto cgroup = start(claim, "c");
  granted = 3 * kGi;
  isDeviceKnown = false;
  round();
  EXPECT_EQ(node.hard(cgroup, uuid), kGi) << "the last amounts stay until the amounts are known";
  isDeviceKnown = true;
  limits->round();
  EXPECT_EQ(node.hard(cgroup, uuid), 3 * kGi) << "in the next round";
  charged = 2 * kGi;
  limits->round();
  EXPECT_EQ(node.soft(cgroup, uuid), 2 * kGi) << "a class that overcommits memory";
}

TEST_F(MemoryLimitsTest, ContainersThatAreExpectedKeepTheirParts) {
  sharers = 2;
  const auto claim = prepared("a");
  const auto cgroup = start(claim, "c");
  EXPECT_EQ(node.hard(cgroup, uuid), kGi / 2);
  restartAgent();
  round();
  EXPECT_EQ(node.hard(cgroup, uuid), kGi / 2) << "the record has the number";
  limits->expect(uidOf(claim), 4);
  limits->round();
  EXPECT_EQ(node.hard(cgroup, uuid), kGi / 4);
}

TEST_F(MemoryLimitsTest, ALimitBelowTheMemoryInUseIsAnEvent) {
  const auto claim = prepared("a");
  const auto cgroup = start(claim, "c");
  node.use(cgroup, kGiB, uuid);
  granted = kGi / 2;
  limits->round();
  EXPECT_EQ(node.hard(cgroup, uuid), kGi / 2);
  const auto isEvent =
      ::testing::AllOf(HasSubstr("MemoryLimitFailed"), HasSubstr("a container uses 1073741824 bytes of card GPU-n1-0"));
  EXPECT_THAT(events.lines(), ::testing::Contains(isEvent).Times(1));
  round();
  EXPECT_THAT(events.lines(), ::testing::Contains(isEvent).Times(1)) << "once in ten minutes";
}

TEST_F(MemoryLimitsTest, TheSoftLimitOfAnEndedContainerIsReleased) {
  charged = kGi / 4;
  const auto claim = prepared("a");
  const auto cgroup = start(claim, "c");
  limits->round();
  ASSERT_EQ(node.soft(cgroup, uuid), kGi / 4);
  std::ofstream(cgroup + "/cgroup.events") << "populated 0\n";
  round();
  EXPECT_EQ(node.soft(cgroup, uuid), 0) << "before the cgroup is removed";
  EXPECT_EQ(node.soft(node.cgroups + "/kubepods.slice", uuid), 0);
  EXPECT_TRUE(node.recordOf(uidOf(claim)).containers.empty());
}

TEST_F(MemoryLimitsTest, ANextAgentCorrectsLimitsAndForgetsUnpreparedDevices) {
  charged = kGi / 4;
  const auto claim = prepared("a"), other = prepared("b");
  const auto uid = uidOf(other);
  const auto cgroup = start(claim, "c");
  limits->round();
  std::ofstream(cgroup + "/dmem.max") << uuid << " 1\n";
  world.removePod("b");
  ASSERT_TRUE(preparer->unprepare(other, {}).ok());
  restartAgent();
  limits->round();
  EXPECT_EQ(node.hard(cgroup, uuid), kGi);
  EXPECT_FALSE(fs::exists(node.records.folder() + "/device-" + uid));
  EXPECT_TRUE(fs::exists(node.records.folder() + "/device-" + uidOf(claim)));
}

/// The driver can take seconds for each device, and the claims of all provisioners call expect().
TEST_F(MemoryLimitsTest, OtherClaimsArePreparedWhileUnpreparedDevicesAreForgotten) {
  std::vector<std::string> forgotten;
  for (const char* name : {"a", "b", "c"}) {
    const auto claim = prepared(name);
    forgotten.push_back(uidOf(claim));
    ASSERT_TRUE(preparer->unprepare(claim, {}).ok());
  }
  std::vector<std::vector<std::string>> releases;
  programs.before = [&](const sharing::HostProgram& program) {
    if (program.arguments.front() != "release") return;
    releases.push_back({program.arguments.begin() + 2, program.arguments.end()});
    std::async(std::launch::async, [&] {
      limits->expect("another", 1);
      (void)limits->supportOn(card());
      (void)limits->measured();
    }).get();  // never ends if a lock is held
  };
  round();
  std::sort(forgotten.begin(), forgotten.end());
  EXPECT_THAT(releases, ElementsAre(forgotten));
  for (const auto& uid : forgotten) EXPECT_FALSE(fs::exists(node.records.folder() + "/device-" + uid));
}

TEST_F(MemoryLimitsTest, AMissingProgramFailsThePrepare) {
  MemoryLimitsOptions settings;
  settings.program.host.state = node.state;
  settings.program.source = "/does/not/exist";
  limits = std::make_unique<MemoryLimits>(programs, folder, events, world.clock, nullptr, nullptr, settings);
  const auto done = preparer->prepare(claimed("a"), {});
  ASSERT_FALSE(done.ok());
  EXPECT_THAT(done.status().message(), HasSubstr("the program for memory limits is not installed"));
}

TEST_F(MemoryLimitsTest, TheSupportOfACardIsKnownAfterAProbe) {
  node.makeCgroup("/elastic-gpu-memory-probe");
  EXPECT_EQ(limits->supportOn(card("")), "") << "no card of NVIDIA's driver";
  EXPECT_EQ(limits->supportOn(card()), "");
  limits->round();
  EXPECT_EQ(probes, 1);
  EXPECT_EQ(limits->supportOn(card()), "available");
  node.nvml.file["driver"] = "610.1";
  node.nvml.file["missing"].push_back("nvmlDeviceSetMemoryLimits_v1");
  node.nvml.write();
  round();
  EXPECT_EQ(limits->supportOn(card()), "available") << "not probed again for the same driver";
  EXPECT_EQ(limits->supportOn(card("610.1")), "available");
  round();
  EXPECT_THAT(limits->supportOn(card("610.1")), HasSubstr("the driver 610.1 is too old"));
  node.nvml.file["missing"] = YAML::Node(YAML::NodeType::Sequence);
  node.nvml.write();
  for (int minute = 0; minute < 6; ++minute) round();
  EXPECT_EQ(limits->supportOn(card("610.1")), "available") << "cards without limits are probed again";
}

TEST_F(MemoryLimitsTest, TheDriversFigureIsTheUsage) {
  const auto claim = prepared("a");
  const auto cgroup = start(claim, "c");
  round();
  node.use(cgroup, 12345, uuid);
  round();
  const auto measured = limits->measured();
  ASSERT_EQ(measured.size(), 1u);
  EXPECT_EQ(measured[0].deviceUid, uidOf(claim));
  EXPECT_EQ(measured[0].pod, world.pod("a").metadata.uid);
  EXPECT_EQ(measured[0].memory, 12345);
}

}  // namespace
}  // namespace egpu::agent::memory_limits

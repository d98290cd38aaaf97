// The program that limits containers through the driver, as a runtime and the agent execute it.
#include <gmock/gmock.h>

#include "tests/provisioners/driver_limits_fixture.h"

namespace egpu::driver_limits::testing {
namespace {

using ::testing::HasSubstr;

class DriverLimitsTest : public ::testing::Test {
 protected:
  /// A container of the device, limited as at its start. Returns the folder of its cgroup.
  std::string start(const std::string& id, const std::string& device = "d") {
    const auto container = node.makeContainer(id, pod + "/" + id);
    node.output({"create", device}, container);
    return node.cgroups + pod + "/" + id;
  }
  void amounts(const Limits& limits, const std::string& device = "d", uint64_t containers = 1) {
    ASSERT_EQ(node.records.writeAmounts(device, {limits, containers}), "");
  }
  static std::string stopped(const std::string& id) { return R"({"id":")" + id + R"(","pid":0})"; }

  LimitedNode node;
  const std::string pod = "/kubepods.slice/kubepods-pod1.slice";
  const std::string podFolder = node.cgroups + pod;
};

TEST_F(DriverLimitsTest, AContainerGetsExactBytesPerCard) {
  amounts({{kCard, {10 * kGiB + 1, 0}}, {kOther, {3 * kGiB, 0}}});
  const auto cgroup = start("c");
  EXPECT_EQ(node.hard(cgroup), static_cast<int64_t>(10 * kGiB + 1));
  EXPECT_EQ(node.hard(cgroup, kOther), static_cast<int64_t>(3 * kGiB));
  EXPECT_EQ(node.soft(cgroup), 0);
  EXPECT_EQ(node.hard(podFolder), -1) << "the leaf only, so that cuMemGetInfo reports the limit";
  const auto record = node.recordOf("d").containers.at("c");
  EXPECT_EQ(record.cgroup, cgroup);
  EXPECT_EQ(record.parts.at(kOther).hard, 3 * kGiB);
  EXPECT_EQ(node.output({"apply"}), "");
}

TEST_F(DriverLimitsTest, AContainerThatCannotBeLimitedDoesNotStart) {
  const auto container = node.makeContainer("c", pod + "/c");
  EXPECT_THAT(node.failure({"create", "d"}, container), HasSubstr("the agent has recorded no amounts of device d"));
  amounts({{kCard, {kGiB, kGiB / 2}}});
  EXPECT_THAT(node.failure({"create", "d"}, "{}"), HasSubstr("has no id"));
  EXPECT_THAT(node.failure({"create", "d"}, "no"), HasSubstr("is no JSON object"));
  EXPECT_THAT(node.failure({"create", "d"}, R"({"id":"../c","pid":1})"), HasSubstr("can't name a file"));
  EXPECT_THAT(node.failure({"create", "d"}, R"({"id":"c","pid":99})"), HasSubstr("/99/cgroup can't be read"));
  EXPECT_THAT(node.failure({"create", "d/e"}, container), HasSubstr("usage"));
  fs::remove(podFolder + "/c/dmem.min");
  EXPECT_THAT(node.failure({"create", "d"}, container), HasSubstr("lacks the dmem controller"));
  std::ofstream(podFolder + "/c/dmem.min").flush();
  for (const auto& [answer, words] : std::map<int, std::string>{{3, "instead of"}, {999, "can't be read back"}}) {
    node.nvml.file["errors"]["nvmlDeviceGetMemoryLimits_v1"] = answer;
    node.nvml.write();
    EXPECT_THAT(node.failure({"create", "d"}, container), HasSubstr(words));
  }
  EXPECT_EQ(node.soft(podFolder), 0) << "nothing is left on parents";
  EXPECT_TRUE(node.recordOf("d").containers.empty());
  node.nvml.file["missing"].push_back("nvmlDeviceSetMemoryLimits_v1");
  node.nvml.write();
  EXPECT_THAT(node.failure({"create", "d"}, container), HasSubstr("too old: memory limits need R615"));
  fs::remove(node.cgroups + "/cgroup.controllers");
  EXPECT_THAT(node.failure({"create", "d"}, container), HasSubstr("the node does not use cgroup v2"));
}

TEST_F(DriverLimitsTest, ProbeTellsWhichCardsHaveLimits) {
  const std::string probe = node.makeCgroup("/elastic-gpu-memory-probe");
  EXPECT_EQ(node.output({"probe", kCard, kOther}), kCard + " available\n" + kOther + " available\n");
  node.nvml.file["devices"][1]["mig"] = 1;
  node.nvml.write();
  EXPECT_THAT(node.output({"probe", kCard, kOther}), HasSubstr(kOther + " the card is in MIG mode"));
  EXPECT_THAT(node.output({"probe", "GPU-x"}), HasSubstr("GPU-x the driver has no card GPU-x"));
  fs::remove_all(probe);
  EXPECT_THAT(node.output({"probe", kCard}), HasSubstr("lacks the dmem controller"));
  node.nvml.file["memoryLimits"] = "misc";
  node.nvml.write();
  EXPECT_EQ(node.output({"probe", kCard}), kCard + " available\n");
  node.nvml.file.remove("memoryLimits");
  node.nvml.write();
  EXPECT_THAT(node.output({"probe", kCard}), HasSubstr(kCard + " card " + kCard));
  EXPECT_THAT(node.output({"probe", kCard}), HasSubstr("memory limits are not supported"));
  node.nvml.file["missing"].push_back("nvmlDeviceGetMemoryLimits_v1");
  node.nvml.write();
  EXPECT_EQ(node.output({"probe", kCard}),
            kCard + " the driver 615.71.09 is too old: memory limits need R615 or newer\n");
  fs::remove(node.cgroups + "/cgroup.controllers");
  EXPECT_THAT(node.output({"probe", kCard}), HasSubstr(kCard + " the node does not use cgroup v2"));
}

TEST_F(DriverLimitsTest, SoftLimitsLeaveNothingOnParents) {
  amounts({{kCard, {4 * kGiB, kGiB}}});
  amounts({{kCard, {4 * kGiB, 2 * kGiB}}}, "e");
  const auto first = start("c"), second = start("e1", "e");
  EXPECT_EQ(node.soft(first), static_cast<int64_t>(kGiB));
  EXPECT_EQ(node.soft(podFolder), static_cast<int64_t>(3 * kGiB));
  // The cgroup still exists, as with an agent that is quicker than the runtime.
  node.output({"remove", "d"}, stopped("c"));
  EXPECT_EQ(node.soft(first), 0);
  EXPECT_EQ(node.soft(podFolder), static_cast<int64_t>(2 * kGiB));
  // The runtime has removed the cgroup.
  fs::remove_all(second);
  node.output({"remove", "e"}, stopped("e1"));
  for (const auto& parent : {podFolder, node.cgroups + "/kubepods.slice"}) EXPECT_EQ(node.soft(parent), 0) << parent;
  node.output({"remove", "e"}, stopped("e1"));
  EXPECT_TRUE(node.recordOf("e").containers.empty());
}

TEST_F(DriverLimitsTest, SoftLimitsOfARemovedPodLeaveTheRemainingParents) {
  amounts({{kCard, {4 * kGiB, kGiB}}});
  start("c");
  const auto foreign = node.makeCgroup("/kubepods.slice/other");
  std::ofstream(foreign + "/dmem.min") << kCard << " 77\n";
  std::ofstream(node.cgroups + "/kubepods.slice/dmem.min") << kCard << " " << kGiB + 77 << "\n";
  fs::remove_all(podFolder);
  EXPECT_EQ(node.output({"apply"}), "");
  EXPECT_EQ(node.soft(node.cgroups + "/kubepods.slice"), 77) << "that of another program stays";
  EXPECT_EQ(node.output({"apply"}), "");
  EXPECT_EQ(node.soft(node.cgroups + "/kubepods.slice"), 77);
}

TEST_F(DriverLimitsTest, ContainersOfAClaimGetEqualParts) {
  amounts({{kCard, {9 * kGiB, 3 * kGiB}}});
  const auto a = start("a");
  EXPECT_EQ(node.hard(a), static_cast<int64_t>(9 * kGiB));
  const auto b = start("b"), c = start("c");
  for (const auto& each : {a, b, c}) {
    EXPECT_EQ(node.hard(each), static_cast<int64_t>(3 * kGiB));
    EXPECT_EQ(node.soft(each), static_cast<int64_t>(kGiB));
  }
  EXPECT_EQ(node.soft(podFolder), static_cast<int64_t>(3 * kGiB));
  node.use(a, 3 * kGiB);
  const auto fourth = node.makeContainer("d", pod + "/d");
  EXPECT_THAT(node.failure({"create", "d"}, fourth), HasSubstr("another container uses 3221225472 bytes; give each"));
  EXPECT_EQ(node.hard(podFolder + "/d"), -1);
  EXPECT_EQ(node.hard(b), static_cast<int64_t>(3 * kGiB)) << "unchanged";
  fs::remove_all(b);
  EXPECT_EQ(node.output({"apply"}), "");
  EXPECT_EQ(node.hard(a), static_cast<int64_t>(9 * kGiB / 2));
  EXPECT_EQ(node.hard(c), static_cast<int64_t>(9 * kGiB / 2));
}

TEST_F(DriverLimitsTest, TheFirstContainerLeavesThePartsOfExpectedOnes) {
  amounts({{kCard, {9 * kGiB, 0}}}, "d", 2);
  const auto a = start("a");
  EXPECT_EQ(node.hard(a), static_cast<int64_t>(9 * kGiB / 2));
  node.use(a, 9 * kGiB / 2);
  EXPECT_EQ(node.hard(start("b")), static_cast<int64_t>(9 * kGiB / 2));
  EXPECT_EQ(node.output({"apply"}), "");
}

TEST_F(DriverLimitsTest, AContainerWithSeveralClaimsHasTheSum) {
  amounts({{kCard, {2 * kGiB, 0}}});
  amounts({{kCard, {kGiB, 0}}, {kOther, {5 * kGiB, 0}}}, "e");
  const auto container = node.makeContainer("c", pod + "/c");
  node.output({"create", "d"}, container);
  node.output({"create", "e"}, container);
  const auto cgroup = podFolder + "/c";
  EXPECT_EQ(node.hard(cgroup), static_cast<int64_t>(3 * kGiB));
  EXPECT_EQ(node.hard(cgroup, kOther), static_cast<int64_t>(5 * kGiB));
  node.use(cgroup, 3 * kGiB / 2);
  EXPECT_EQ(node.output({"usage"}), "used d " + kCard + " 1073741824 " + cgroup + "\nused e " + kCard + " 536870912 " +
                                        cgroup + "\nused e " + kOther + " 0 " + cgroup + "\n");
  node.output({"release", "e"});
  EXPECT_EQ(node.hard(cgroup), static_cast<int64_t>(2 * kGiB));
  EXPECT_FALSE(node.records.amounts("e"));
}

TEST_F(DriverLimitsTest, AResizeReachesRunningContainers) {
  amounts({{kCard, {4 * kGiB, 0}}});
  const auto cgroup = start("c");
  amounts({{kCard, {6 * kGiB, 0}}});
  EXPECT_EQ(node.output({"apply"}), "");
  EXPECT_EQ(node.hard(cgroup), static_cast<int64_t>(6 * kGiB));
  node.use(cgroup, 5 * kGiB);
  amounts({{kCard, {2 * kGiB, kGiB}}});
  EXPECT_THAT(node.output({"apply"}), HasSubstr("problem d a container uses 5368709120 bytes of card"));
  EXPECT_EQ(node.hard(cgroup), static_cast<int64_t>(2 * kGiB));
  EXPECT_EQ(node.soft(cgroup), static_cast<int64_t>(kGiB));
  node.use(cgroup, kGiB);
  EXPECT_EQ(node.output({"apply"}), "");
}

TEST_F(DriverLimitsTest, MemoryInUseIsNotGivenToOthers) {
  amounts({{kCard, {4 * kGiB, 0}}});
  const auto a = start("a"), b = start("b");
  amounts({{kCard, {2 * kGiB, 0}}});
  node.use(a, 2 * kGiB);
  node.output({"apply"});
  amounts({{kCard, {6 * kGiB, 0}}});
  node.use(a, 5 * kGiB);  // more than its part: as before a resize that made the claim smaller
  node.output({"apply"});
  EXPECT_EQ(node.hard(a), static_cast<int64_t>(3 * kGiB));
  EXPECT_EQ(node.hard(b), static_cast<int64_t>(kGiB)) << "the sum stays within the claim";
}

TEST_F(DriverLimitsTest, LimitsThatAnotherProgramChangedAreCorrected) {
  amounts({{kCard, {4 * kGiB, 0}}});
  const auto cgroup = start("c");
  std::ofstream(cgroup + "/dmem.max") << kCard << " " << 8 * kGiB << "\n";
  EXPECT_EQ(node.output({"apply"}), "");
  EXPECT_EQ(node.hard(cgroup), static_cast<int64_t>(4 * kGiB));
}

TEST_F(DriverLimitsTest, TheDriversOwnAccountingNeedsNoHierarchy) {
  node.nvml.file["memoryLimits"] = "misc";
  node.nvml.write();
  amounts({{kCard, {4 * kGiB, kGiB}}});
  const auto cgroup = start("c");
  EXPECT_EQ(node.valueIn(cgroup, "misc.hard"), static_cast<int64_t>(4 * kGiB));
  fs::remove_all(cgroup);
  EXPECT_EQ(node.output({"apply"}), "");
  EXPECT_TRUE(node.recordOf("d").containers.empty());
}

TEST_F(DriverLimitsTest, RecordsBelongToRootOnly) {
  EXPECT_EQ(fs::status(node.records.folder()).permissions(), fs::perms(0700));
  fs::permissions(node.records.folder(), fs::perms(0755));
  EXPECT_THAT(node.failure({"apply"}), HasSubstr("is no folder that only this user can enter"));
}

/// Kills the program before and after each call of the driver. The next run corrects the limits.
class DriverLimitsCrashTest : public DriverLimitsTest {
 protected:
  void SetUp() override {
    amounts({{kCard, {4 * kGiB, 2 * kGiB}}, {kOther, {2 * kGiB, kGiB}}});
    first_ = start("a");
  }
  /// True if the program ended before the step.
  bool killedAt(int step, std::vector<std::string> words, const std::string& input = {}) {
    const auto ran = node.run(std::move(words), input, step);
    EXPECT_TRUE(ran.ok() || ran.status().message().find("was killed") != std::string::npos) << ran.status().str();
    return !ran.ok();
  }
  /// Only the first container is left, with the whole device, and parents have its soft limits.
  void expectOnlyTheFirst(int step) {
    EXPECT_EQ(node.output({"apply"}), "") << step;
    EXPECT_EQ(node.hard(first_), static_cast<int64_t>(4 * kGiB)) << step;
    EXPECT_EQ(node.hard(first_, kOther), static_cast<int64_t>(2 * kGiB)) << step;
    EXPECT_EQ(node.recordOf("d").containers.size(), 1u) << step;
    for (const auto& folder : {first_, podFolder, node.cgroups + "/kubepods.slice"}) {
      EXPECT_EQ(node.soft(folder), static_cast<int64_t>(2 * kGiB)) << step << " " << folder;
      EXPECT_EQ(node.soft(folder, kOther), static_cast<int64_t>(kGiB)) << step << " " << folder;
    }
  }
  std::string first_;
};

TEST_F(DriverLimitsCrashTest, AKillAtEachStepOfAStart) {
  int step = 0;
  for (;; ++step) {
    const auto container = node.makeContainer("b", pod + "/b");
    const bool killed = killedAt(step, {"create", "d"}, container);
    EXPECT_LE(node.hard(first_) + std::max<int64_t>(0, node.hard(podFolder + "/b")), static_cast<int64_t>(4 * kGiB))
        << "step " << step;
    fs::remove_all(podFolder + "/b");  // the runtime
    expectOnlyTheFirst(step);
    if (!killed) break;
  }
  EXPECT_GE(step, 8) << "number of steps";
}

TEST_F(DriverLimitsCrashTest, AKillAtEachStepOfAnEnd) {
  for (const bool isGone : {false, true}) {
    int step = 0;
    for (;; ++step) {
      const auto cgroup = start("b");
      if (isGone) fs::remove_all(cgroup);
      const bool killed = killedAt(step, {"remove", "d"}, stopped("b"));
      fs::remove_all(cgroup);
      expectOnlyTheFirst(step);
      if (!killed) break;
    }
    EXPECT_GE(step, 6) << "number of steps";
  }
}

TEST_F(DriverLimitsCrashTest, AKillAtEachStepOfAResize) {
  int step = 0;
  for (;; ++step) {
    amounts({{kCard, {step % 2 == 0 ? 3 * kGiB : 5 * kGiB, kGiB}}, {kOther, {kGiB, 0}}});
    const bool killed = killedAt(step, {"apply"});
    amounts({{kCard, {4 * kGiB, 2 * kGiB}}, {kOther, {2 * kGiB, kGiB}}});
    expectOnlyTheFirst(step);
    if (!killed) break;
  }
  EXPECT_GE(step, 4) << "number of steps";
}

TEST_F(DriverLimitsCrashTest, AKillAtEachStepOfARelease) {
  int step = 0;
  for (;; ++step) {
    const bool killed = killedAt(step, {"release", "d"});
    node.output({"release", "d"});
    EXPECT_EQ(node.soft(podFolder), 0) << step;
    EXPECT_FALSE(fs::exists(node.records.folder() + "/device-d")) << step;
    amounts({{kCard, {4 * kGiB, 2 * kGiB}}, {kOther, {2 * kGiB, kGiB}}});
    if (!killed) break;
    fs::remove_all(first_);
    start("a");
  }
  EXPECT_GE(step, 4) << "number of steps";
}

}  // namespace
}  // namespace egpu::driver_limits::testing

#include "controller/agent/health/foreign_use.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>

#include "tests/support/scratch_folder.h"

namespace egpu::agent::health {
namespace {

using ::testing::HasSubstr;

const std::string kOurs = "0123abcd-0000-4000-8000-00000000000a", kTheirs = "0123abcd-0000-4000-8000-00000000000b";

TEST(PodOfTest, ReadsBothSpellings) {
  EXPECT_EQ(podOf("0::/kubepods/burstable/pod" + kOurs + "/4711\n"), kOurs);
  EXPECT_EQ(podOf("12:cpu:/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod0123abcd_0000_4000_8000_"
                  "00000000000a.slice/cri-containerd-77.scope\n"),
            kOurs);
  EXPECT_EQ(podOf("0::/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-pod" + kOurs + ".slice/x"), kOurs);
}

TEST(PodOfTest, AnythingElseIsNoPod) {
  for (const std::string& none :
       {std::string(), std::string("0::/system.slice/sshd.service"), "0::/user.slice/pod" + kOurs,
        std::string("0::/kubepods/burstable"), "0::/kubepods/pod" + kOurs.substr(1),
        "0::/kubepods/pod" + std::string(36, 'g'), std::string("0::/kubepods/pod"), std::string(1 << 16, 'p')})
    EXPECT_EQ(podOf(none), "") << none.substr(0, 80);
}

v1alpha::Card card() {
  v1alpha::Card out;
  out.uuid = "GPU-A";
  out.index = 1;
  return out;
}

TEST(GivenTest, ACardIsKnownByItsUuid) {
  for (const char* id : {"GPU-A", "gpu-a", "GPU-A::3", "MIG-GPU-A/1/0", "nvidia.com/gpu=GPU-A"})
    EXPECT_TRUE(isOf(card(), {"ns/p", "c", "nvidia.com/gpu", "", {"GPU-0", id}})) << id;
  for (const char* id :
       {"", "GPU-", "GPU-AB", "GPU-B::1", "MIG-GPU-AB/1/0", "MIG-0123abcd", "A", "gpu-1", "=", "GPU-A=x"})
    EXPECT_FALSE(isOf(card(), {"ns/p", "c", "nvidia.com/gpu", "", {id}})) << id;
  EXPECT_FALSE(isOf(card(), {}));
}

TEST(GivenTest, NvidiasDriverCallsItByItsMinorNumber) {
  for (const char* id : {"gpu-1", "gpu-1-mig-19-4-1", "k8s.gpu.nvidia.com/device=gpu-1"})
    EXPECT_TRUE(isOf(card(), {"ns/p", "c", "a claim", "gpu.nvidia.com", {id}})) << id;
  for (const char* id : {"gpu-0", "gpu-10", "gpu-vfio-1"})
    EXPECT_FALSE(isOf(card(), {"ns/p", "c", "a claim", "gpu.nvidia.com", {id}})) << id;
  EXPECT_FALSE(isOf(card(), {"ns/p", "c", "a claim", "gpu.example.com", {"gpu-1"}})) << "another driver's number";
}

class ForeignUseTest : public ::testing::Test {
 protected:
  ForeignUseTest() { std::filesystem::create_directories(proc); }
  void process(int64_t pid, const std::string& name, const std::string& cgroup) {
    const auto folder = proc + "/" + std::to_string(pid);
    std::filesystem::create_directories(folder);
    std::ofstream(folder + "/cgroup") << cgroup << "\n";
    std::ofstream(folder + "/comm") << name << "\n";
  }
  std::optional<Finding> found(const std::vector<plugin::CardProcess>& processes,
                               const std::vector<Given>& given = {}) {
    return foreignUse(
        card(), given, processes, {proc, state},
        [&](const std::string& pod, const std::string& card) {
          const auto it = claims.find(pod);
          ++asked;
          EXPECT_EQ(card, "GPU-A");
          return it == claims.end() ? std::nullopt : std::optional(it->second);
        },
        [&](const std::string& pod) { return names.count(pod) > 0 ? names.at(pod) : ""; });
  }

  const support::ScratchFolder scratch;
  const std::string proc = scratch.path() + "/proc", state = scratch.path() + "/state";
  int asked = 0;
  std::map<std::string, bool> claims{{kOurs, true}, {kTheirs, false}};
  std::map<std::string, std::string> names;  ///< pod names by uid
};

TEST_F(ForeignUseTest, WhoHasAClaimMayUseIt) {
  process(1, "python3", "0::/kubepods/pod" + kOurs + "/c");
  process(2, "torch", "0::/kubepods/pod" + kTheirs + "/c");
  EXPECT_FALSE(found({{"GPU-A", 1, 1}, {"GPU-B", 2, 1}})) << "the other one uses another card";
  const auto foreign = found({{"GPU-A", 1, 1}, {"gpu-a", 2, 1}});
  ASSERT_TRUE(foreign);
  EXPECT_FALSE(foreign->healthy);
  EXPECT_EQ(foreign->reason, "ForeignUse");
  EXPECT_THAT(foreign->message, HasSubstr("by process 2 (torch) of pod " + kTheirs));
}

TEST_F(ForeignUseTest, ThePodIsNamed) {
  process(2, "torch", "0::/kubepods/pod" + kTheirs + "/c");
  names[kTheirs] = "team/notebook";
  EXPECT_THAT(found({{"GPU-A", 2, 1}})->message, HasSubstr("by process 2 (torch) of pod team/notebook;"));
  names.clear();
  EXPECT_THAT(found({{"GPU-A", 2, 1}})->message, HasSubstr("of pod " + kTheirs)) << "its uid is better than nothing";
}

/// An idle notebook or an image that is being pulled: no process exists yet.
TEST_F(ForeignUseTest, WhatTheKubeletGaveByOthersIsForeign) {
  const Given notebook{"team/notebook", "main", "nvidia.com/gpu", "", {"GPU-A"}};
  const auto foreign = found({}, {{"team/other", "main", "nvidia.com/gpu", "", {"GPU-B"}}, notebook});
  ASSERT_TRUE(foreign);
  EXPECT_EQ(foreign->reason, "ForeignUse");
  EXPECT_THAT(foreign->message, HasSubstr("by container main of pod team/notebook, which got it from nvidia.com/gpu;"));
  process(2, "torch", "0::/kubepods/pod" + kTheirs + "/c");
  EXPECT_THAT(found({{"GPU-A", 2, 1}}, {notebook})->message, HasSubstr("nvidia.com/gpu, process 2 (torch) of pod "));
}

TEST_F(ForeignUseTest, ProgramsBesideKubernetesAreForeign) {
  for (int64_t pid = 10; pid < 20; ++pid) process(pid, "a\x1b[31m", "0::/user.slice/user-0.slice");
  std::vector<plugin::CardProcess> all;
  for (int64_t pid = 10; pid < 20; ++pid) all.push_back({"GPU-A", pid, -1});
  const auto foreign = found(all);
  ASSERT_TRUE(foreign);
  EXPECT_THAT(foreign->message, HasSubstr("process 10 (a\\x1b[31m) outside of pods"));
  EXPECT_THAT(foreign->message, HasSubstr("and 6 more"));
}

/// A card that claims share by MPS shows the MPS server as a process, which stays after its last client.
TEST_F(ForeignUseTest, TheMpsServerOfClaimsIsNotForeignItsClientsMayBe) {
  process(5, "nvidia-cuda-mps", "0::/system.slice/mps.service");
  process(6, "python3", "0::/kubepods/pod" + kOurs + "/c");
  process(7, "python3", "0::/user.slice");
  ASSERT_TRUE(found({{"GPU-A", 5, 1}})) << "no MPS for claims here";
  std::filesystem::create_directories(state + "/mps/GPU-A");
  ASSERT_TRUE(found({{"GPU-A", 5, 1}})) << "no daemon listens";
  std::ofstream(state + "/mps/GPU-A/control");
  EXPECT_FALSE(found({{"GPU-A", 5, 1}, {"GPU-A", 6, 1}}));
  const auto foreign = found({{"GPU-A", 5, 1}, {"GPU-A", 7, 1}});
  ASSERT_TRUE(foreign);
  EXPECT_THAT(foreign->message, HasSubstr("used without a claim by process 7 (python3) outside of pods;"));
}

/// A program in a pod can choose any name.
TEST_F(ForeignUseTest, InAPodTheNameOfTheMpsServerSavesNobodyButAClaimDoes) {
  process(5, "nvidia-cuda-mps", "0::/kubepods/pod" + kTheirs + "/c");
  process(6, "nvidia-cuda-mps", "0::/kubepods/pod" + kOurs + "/c");
  std::filesystem::create_directories(state + "/mps/GPU-A");
  std::ofstream(state + "/mps/GPU-A/control");
  EXPECT_FALSE(found({{"GPU-A", 6, 1}}));
  const auto foreign = found({{"GPU-A", 5, 1}, {"GPU-A", 6, 1}});
  ASSERT_TRUE(foreign);
  EXPECT_THAT(foreign->message,
              HasSubstr("used without a claim by process 5 (nvidia-cuda-mps) of pod " + kTheirs + ";"));
}

/// The kubelet and the driver report users in no fixed order. A message that changes is written, and each write causes
/// another query.
TEST_F(ForeignUseTest, TheWordsAreTheSameInWhateverOrderUsersAreGiven) {
  std::vector<Given> given;
  std::vector<plugin::CardProcess> processes;
  for (const char* pod : {"team/c", "team/a", "team/b", "team/a"})
    given.push_back({pod, "main", "nvidia.com/gpu", "", {"GPU-A"}});
  for (const int64_t pid : {20, 9, 100}) {
    process(pid, "torch", "0::/user.slice");
    processes.push_back({"GPU-A", pid, 1});
  }
  const auto before = found(processes, given);
  ASSERT_TRUE(before);
  EXPECT_THAT(before->message,
              HasSubstr("of pod team/a, which got it from nvidia.com/gpu, container main of pod team/b,"));
  EXPECT_THAT(before->message, HasSubstr("process 9 (torch) outside of pods and 2 more")) << "each is counted once";
  for (std::size_t i = 0; i < given.size(); ++i) {
    std::rotate(given.begin(), given.begin() + 1, given.end());
    std::rotate(processes.begin(), processes.begin() + 1, processes.end());
    EXPECT_EQ(found(processes, given)->message, before->message);
  }
}

TEST_F(ForeignUseTest, APodIsAskedAboutOnceWhateverItRuns) {
  std::vector<plugin::CardProcess> all;
  for (int64_t pid = 10; pid < 18; ++pid) {
    process(pid, "torch", "0::/kubepods/pod" + kTheirs + "/c");
    all.push_back({"GPU-A", pid, 1});
  }
  EXPECT_TRUE(found(all));
  EXPECT_EQ(asked, 1);
}

TEST_F(ForeignUseTest, NobodyIsAccusedOfWhatIsNotKnown) {
  process(3, "python3", "0::/kubepods/pod0123abcd-0000-4000-8000-00000000000c/c");
  EXPECT_FALSE(found({{"GPU-A", 3, 1}})) << "a pod that could not be looked up";
  EXPECT_FALSE(found({{"GPU-A", 4, 1}})) << "a process that has ended";
  EXPECT_FALSE(found({}));
}

}  // namespace
}  // namespace egpu::agent::health

#include "controller/agent/health/foreign_use.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>

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

class ForeignUseTest : public ::testing::Test {
 protected:
  ForeignUseTest() { std::filesystem::create_directories(proc); }
  ~ForeignUseTest() override { std::filesystem::remove_all(proc); }
  void process(int64_t pid, const std::string& name, const std::string& cgroup) {
    const auto folder = proc + "/" + std::to_string(pid);
    std::filesystem::create_directories(folder);
    std::ofstream(folder + "/cgroup") << cgroup << "\n";
    std::ofstream(folder + "/comm") << name << "\n";
  }
  std::optional<Finding> found(const std::vector<plugin::CardProcess>& processes) {
    return foreignUse("GPU-A", processes, proc, [&](const std::string& pod, const std::string& card) {
      const auto it = claims.find(pod);
      EXPECT_EQ(card, "GPU-A");
      return it == claims.end() ? std::nullopt : std::optional(it->second);
    });
  }

  const std::string proc = ::testing::TempDir() + "/foreign-use-proc";
  std::map<std::string, bool> claims{{kOurs, true}, {kTheirs, false}};
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

TEST_F(ForeignUseTest, ProgramsBesideKubernetesAreForeign) {
  for (int64_t pid = 10; pid < 20; ++pid) process(pid, "a\x1b[31m", "0::/user.slice/user-0.slice");
  std::vector<plugin::CardProcess> all;
  for (int64_t pid = 10; pid < 20; ++pid) all.push_back({"GPU-A", pid, -1});
  const auto foreign = found(all);
  ASSERT_TRUE(foreign);
  EXPECT_THAT(foreign->message, HasSubstr("process 10 (a\\x1b[31m) outside of pods"));
  EXPECT_THAT(foreign->message, HasSubstr("and 6 more"));
}

TEST_F(ForeignUseTest, NobodyIsAccusedOfWhatIsNotKnown) {
  process(3, "python3", "0::/kubepods/pod0123abcd-0000-4000-8000-00000000000c/c");
  EXPECT_FALSE(found({{"GPU-A", 3, 1}})) << "a pod that could not be looked up";
  EXPECT_FALSE(found({{"GPU-A", 4, 1}})) << "a process that has ended";
  EXPECT_FALSE(found({}));
}

}  // namespace
}  // namespace egpu::agent::health

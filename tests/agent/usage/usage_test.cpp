#include "controller/agent/usage/usage.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <ostream>

#include "controller/base/timestamp.h"

namespace egpu::agent::usage {

/// For readable failures.
void PrintTo(const Used& u, std::ostream* out) {
  *out << u.memory << " bytes, " << u.smPercent << " %, " << u.processes << " processes";
}

namespace {

using std::chrono::seconds;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr int64_t kGi = int64_t{1} << 30;
const std::map<int64_t, std::string> kPods = {{1, "pod-a"}, {2, "pod-a"}, {3, "pod-b"}, {4, ""}, {5, "pod-x"}};

std::optional<std::string> podOf(int64_t pid) {
  const auto it = kPods.find(pid);
  return it == kPods.end() ? std::nullopt : std::optional(it->second);
}

Reading reading(std::vector<plugin::CardProcess> processes, const std::string& uuid = "GPU-A") {
  const auto count = static_cast<int64_t>(processes.size());
  return {"gpu-a", uuid, "A100", 80 * kGi, {uuid, 10 * kGi, 60, count}, std::move(processes)};
}
Share share(const std::string& device, const std::string& claim, std::map<std::string, std::string> pods,
            const std::string& card = "GPU-A") {
  return {device, "ns", claim, card, 100, 4 * kGi, std::move(pods)};
}
/// Maps "claim/pod@card" to the usage.
std::map<std::string, Used> byPod(const Usage& usage) {
  std::map<std::string, Used> out;
  for (const auto& each : usage.claims) out[each.claim + "/" + each.pod + "@" + each.card] = each.used;
  return out;
}

TEST(AttributeTest, EachClaimHasWhatItsPodsProcessesUse) {
  const auto usage =
      attribute({reading({{"GPU-A", 1, kGi, 10}, {"GPU-A", 2, 2 * kGi, 20}, {"GPU-A", 3, kGi, 5}})},
                {share("u1", "one", {{"pod-a", "a"}}), share("u2", "two", {{"pod-b", "b"}, {"pod-c", "c"}})}, podOf);
  EXPECT_EQ(byPod(usage),
            (std::map<std::string, Used>{
                {"one/a@GPU-A", {3 * kGi, 30, 2}}, {"two/b@GPU-A", {kGi, 5, 1}}, {"two/c@GPU-A", {0, 0, 0}}}));
  ASSERT_EQ(usage.cards.size(), 1u);
  EXPECT_EQ(usage.cards[0].used, (Used{10 * kGi, 60, 3}));
  EXPECT_EQ(usage.cards[0].devices.at("u1").used, (Used{3 * kGi, 30, 2}));
  EXPECT_EQ(usage.cards[0].devices.at("u2").used, (Used{kGi, 5, 1}));
  EXPECT_THAT(usage.strangers, IsEmpty());
  EXPECT_EQ(usage.claims[0].memory, 4 * kGi);
  EXPECT_EQ(usage.claims[0].core, 100);
}

TEST(AttributeTest, WhoHasNoClaimCountsForTheCardOnly) {
  const auto usage =
      attribute({reading({{"GPU-A", 4, kGi, 1}, {"GPU-A", 5, kGi, 1}, {"GPU-A", 6, kGi, 1}})},
                {share("u1", "one", {{"pod-a", "a"}}), share("u9", "there", {{"pod-x", "x"}}, "GPU-B")}, podOf);
  EXPECT_EQ(byPod(usage), (std::map<std::string, Used>{{"one/a@GPU-A", {0, 0, 0}}})) << "GPU-B was not read";
  EXPECT_EQ(usage.cards[0].used.processes, 3);
  EXPECT_THAT(usage.strangers, ElementsAre("pod-x")) << "not the process beside pods, nor the one that is gone";
}

TEST(AttributeTest, APodWithTwoClaimsOnACardUsesTheFirst) {
  const auto usage = attribute({reading({{"GPU-A", 1, kGi, 10}})},
                               {share("u2", "two", {{"pod-a", "a"}}), share("u1", "one", {{"pod-a", "a"}})}, podOf);
  EXPECT_EQ(byPod(usage).at("one/a@GPU-A"), (Used{kGi, 10, 1}));
  EXPECT_EQ(byPod(usage).at("two/a@GPU-A"), (Used{0, 0, 0}));
}

TEST(AttributeTest, WhatIsNotKnownOfOneProcessIsNotKnownOfItsClaim) {
  const std::vector<Share> shares = {share("u1", "one", {{"pod-a", "a"}}), share("u2", "two", {})};
  auto usage = attribute({reading({{"gpu-a", 1, -1, 10}, {"GPU-A", 2, kGi, -1}})}, shares, podOf);
  EXPECT_EQ(byPod(usage).at("one/a@GPU-A"), (Used{-1, -1, 2}));
  EXPECT_EQ(byPod(usage).at("two/@GPU-A"), (Used{0, 0, 0})) << "its pods are not known yet";
  auto blind = reading({});
  blind.use.processes = -1;
  usage = attribute({blind}, shares, podOf);
  EXPECT_EQ(byPod(usage).at("one/a@GPU-A"), (Used{-1, -1, -1}));
  EXPECT_EQ(usage.cards[0].devices.at("u2").used, (Used{-1, -1, -1}));
}

TEST(AttributeTest, PartsOfTheSmsAreNoMoreThanAll) {
  const auto usage = attribute({reading({{"GPU-A", 1, kGi, 70}, {"GPU-A", 2, kGi, 70}})},
                               {share("u1", "one", {{"pod-a", "a"}})}, podOf);
  EXPECT_EQ(byPod(usage).at("one/a@GPU-A").smPercent, 100);
}

TEST(AttributeTest, WhatTheDriverCountsReplacesTheMemoryOfProcesses) {
  const std::vector<Share> shares = {share("u1", "one", {{"pod-a", "a"}}), share("u2", "two", {})};
  const std::vector<Measured> measured = {{"u1", "pod-a", "gpu-a", 3 * kGi},
                                          {"u1", "pod-a", "GPU-A", kGi},
                                          {"u2", "pod-x", "GPU-A", kGi},
                                          {"u1", "pod-a", "GPU-B", kGi}};
  const auto usage = attribute({reading({{"GPU-A", 1, kGi, 10}})}, shares, podOf, measured);
  EXPECT_EQ(byPod(usage).at("one/a@GPU-A"), (Used{4 * kGi, 10, 1}));
  EXPECT_EQ(byPod(usage).at("two/@GPU-A"), (Used{kGi, 0, 0})) << "its pods are not known yet";
  EXPECT_EQ(usage.cards[0].devices.at("u1").used.memory, 4 * kGi);
}

class ShouldReportTest : public ::testing::Test {
 protected:
  /// Returns true if a usage is due to be written now.
  bool reports() {
    core::HeapOptional<v1alpha::CardUsage> after;
    if (!shouldReport(before, known ? &card : nullptr, clock.wall(), seconds(60), after)) return false;
    before = after;
    return true;
  }
  void uses(int64_t memory, int64_t smPercent) { card.used = {memory, smPercent, 1}; }
  void deviceUses(const std::string& uid, int64_t memory, int64_t smPercent, int64_t granted = 4 * kGi) {
    card.devices[uid] = {{memory, smPercent, memory > 0 ? 1 : 0}, granted};
  }
  base::ManualClock clock;
  core::HeapOptional<v1alpha::CardUsage> before;
  CardUse card{"gpu-a", "GPU-A", "A100", 80 * kGi, {}, {}};
  bool known = true;
};

TEST_F(ShouldReportTest, TheFirstIsReported) {
  deviceUses("u1", kGi, 3);
  deviceUses("u2", 0, 0);
  card.devices["u3"] = {{-1, -1, -1}, kGi};
  uses(kGi, 3);
  ASSERT_TRUE(reports());
  EXPECT_EQ(before->memory, kGi);
  EXPECT_EQ(before->smPercent, 3);
  EXPECT_EQ(before->devices, (decltype(before->devices){{"u1", {kGi, 3}}, {"u3", {-1, -1}}})) << "u2 uses nothing";
  EXPECT_EQ(before->time, base::rfc3339(clock.wall()));
  clock.advance(seconds(60));
  EXPECT_FALSE(reports()) << "nothing moved";
}

TEST_F(ShouldReportTest, OnlyWhatMovedNoticeably) {
  uses(40 * kGi, 50);
  deviceUses("u1", 2 * kGi, 20);
  ASSERT_TRUE(reports());
  const auto after = [&](auto change) {
    clock.advance(seconds(60));
    change();
    return reports();
  };
  EXPECT_FALSE(after([&] { uses(43 * kGi, 54); })) << "less than a twentieth";
  EXPECT_TRUE(after([&] { uses(44 * kGi, 50); }));
  EXPECT_TRUE(after([&] { uses(44 * kGi, 55); }));
  EXPECT_FALSE(after([&] { deviceUses("u1", 2 * kGi + 100 * (1 << 20), 24); })) << "of its grant";
  EXPECT_TRUE(after([&] { deviceUses("u1", 2 * kGi + 300 * (1 << 20), 20); }));
  EXPECT_TRUE(after([&] { deviceUses("u2", 1, 0); })) << "from nothing";
  EXPECT_TRUE(after([&] { card.devices.erase("u2"); })) << "it is prepared no more";
  EXPECT_TRUE(after([&] { uses(44 * kGi, -1); })) << "no longer known";
}

TEST_F(ShouldReportTest, OnceAMinute) {
  uses(kGi, 0);
  ASSERT_TRUE(reports());
  uses(40 * kGi, 90);
  clock.advance(seconds(59));
  EXPECT_FALSE(reports());
  clock.advance(seconds(1));
  EXPECT_TRUE(reports());
  // The clock was set back: a write time in the future delays nothing.
  before->time = base::rfc3339(clock.wall() + seconds(3600));
  uses(0, 0);
  EXPECT_TRUE(reports());
  before->time = "lately";
  uses(kGi, 0);
  EXPECT_TRUE(reports());
}

TEST_F(ShouldReportTest, WhatIsNoLongerKnownIsTakenAway) {
  known = false;
  EXPECT_FALSE(reports());
  known = true;
  uses(kGi, 0);
  ASSERT_TRUE(reports());
  known = false;
  EXPECT_FALSE(reports());
  clock.advance(seconds(60));
  EXPECT_TRUE(reports());
  EXPECT_FALSE(before);
}

}  // namespace
}  // namespace egpu::agent::usage

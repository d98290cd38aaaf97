#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <limits>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "controller/agent/prepare/capacity_guard.h"
#include "tests/support/scratch_folder.h"

namespace egpu::agent {
namespace {

constexpr int64_t kGi = 1LL << 30;

cdi::Spec spec(const std::string& uid, int64_t core, int64_t memory, const std::string& card = "GPU-1") {
  cdi::Spec out;
  out.deviceUid = uid;
  out.claimNamespace = "team";
  out.claimName = "claim-" + uid;
  out.cards = {{"", card, 1000, 80 * kGi, core, memory}};
  return out;
}
cdi::Folder::StoredSpec entry(const cdi::Spec& spec) { return {spec.deviceUid, true, false, spec}; }

const std::vector<v1alpha::Card>& oneCard() {
  static const std::vector<v1alpha::Card> all = [] {
    v1alpha::Card card;
    card.uuid = "GPU-1";
    card.memory = 80 * kGi;
    return std::vector<v1alpha::Card>{card};
  }();
  return all;
}

TEST(CapacityGuard, WhatFitsByItsCharge) {
  EXPECT_TRUE(fits(spec("a", 1000, 80 * kGi), oneCard(), {}).ok());
  EXPECT_TRUE(fits(spec("a", 500, kGi), oneCard(), {entry(spec("b", 500, kGi))}).ok()) << "granted are 1000 each";
  EXPECT_TRUE(fits(spec("a", 1000, kGi), oneCard(), {entry(spec("a", 1000, kGi))}).ok()) << "its own file";
  EXPECT_TRUE(fits(spec("a", 1000, kGi), oneCard(), {entry(spec("b", 1000, kGi, "GPU-2"))}).ok()) << "another card";
}

TEST(CapacityGuard, NoTwoDevicesHaveASlotInCommon) {
  const auto withSlots = [](const std::string& uid, uint16_t slots) {
    auto out = spec(uid, 143, kGi);
    out.cards[0].slots.bits = slots;
    return out;
  };
  EXPECT_TRUE(fits(withSlots("a", 0x0c), oneCard(), {entry(withSlots("b", 0x03))}).ok());
  const auto s = fits(withSlots("a", 0x06), oneCard(), {entry(withSlots("b", 0x03))});
  EXPECT_EQ(s.code(), base::Code::unavailable);
  EXPECT_NE(s.message().find("MIG slots of the claim are still prepared for team/claim-b"), std::string::npos);
  EXPECT_TRUE(fits(withSlots("a", 0x06), oneCard(), {entry(withSlots("a", 0x06))}).ok()) << "its own file";
}

TEST(CapacityGuard, WhatWouldExceedTheCardIsRefusedWithItsHolders) {
  const auto s = fits(spec("a", 300, kGi), oneCard(), {entry(spec("b", 500, kGi)), entry(spec("c", 201, kGi))});
  EXPECT_EQ(s.code(), base::Code::invalid);
  for (const char* word : {"GPU-1", "team/claim-b with core 500", "team/claim-c with core 201"})
    EXPECT_NE(s.message().find(word), std::string::npos) << s.message();
  EXPECT_FALSE(fits(spec("a", 0, 80 * kGi), oneCard(), {entry(spec("b", 0, 1))}).ok()) << "memory alone";
  EXPECT_FALSE(fits(spec("a", 1001, 1), oneCard(), {}).ok()) << "alone on the card";
}

TEST(CapacityGuard, WhoOnlyObservesFitsOnAFullCardAndTakesNothingOfIt) {
  EXPECT_TRUE(fits(spec("eye", 0, 0), oneCard(), {entry(spec("b", 1000, 80 * kGi)), entry(spec("c", 1, 1))}).ok());
  EXPECT_TRUE(fits(spec("a", 1000, 80 * kGi), oneCard(), {entry(spec("eye", 0, 0))}).ok());
}

TEST(CapacityGuard, WhatIsMadeAnewCountsAsTheLargerOfFileAndPart) {
  auto made = entry(spec("b", 200, kGi));
  made.coming = spec("b", 500, 80 * kGi);
  EXPECT_FALSE(fits(spec("a", 501, 0), oneCard(), {made}).ok());
  EXPECT_TRUE(fits(spec("a", 500, 0), oneCard(), {made}).ok());
  made.coming = spec("b", 100, 0);
  EXPECT_FALSE(fits(spec("a", 801, 0), oneCard(), {made}).ok());
}

TEST(CapacityGuard, SumsDontGoRound) {
  constexpr int64_t max = std::numeric_limits<int64_t>::max();
  EXPECT_FALSE(fits(spec("a", max, 1), oneCard(), {entry(spec("b", max, 1))}).ok());
}

TEST(CapacityGuard, AFileThatCantBeReadMayHoldTheCard) {
  const cdi::Folder::StoredSpec broken{"b", true, false, base::Status(base::Code::malformed, "/x/b.json: not JSON")};
  const auto s = fits(spec("a", 1, 1), oneCard(), {broken});
  EXPECT_EQ(s.code(), base::Code::unavailable);
  EXPECT_NE(s.message().find("/x/b.json: not JSON"), std::string::npos);
  EXPECT_TRUE(fits(spec("b", 1, 1), oneCard(), {broken}).ok()) << "its own file is made anew";
}

TEST(CapacityGuard, OfTwoAgentsBesideEachOtherNeitherOverlooksTheOther) {
  const support::ScratchFolder scratch;
  constexpr int kProcesses = 4, kClaims = 40;
  const std::string path = scratch.path() + "/cdi";
  ASSERT_TRUE(cdi::Folder(path).open().ok());
  std::vector<pid_t> agents;
  for (int i = 0; i < kProcesses; ++i) {
    agents.push_back(::fork());
    ASSERT_GE(agents.back(), 0);
    if (agents.back() != 0) continue;
    cdi::Folder folder(path);
    bool allFit = true;
    for (int n = 0; n < kClaims; ++n) {
      const auto s =
          CapacityGuard(folder).reserve(spec(std::to_string(i) + "-" + std::to_string(n), 25, kGi), oneCard());
      if (!s.ok() && s.code() != base::Code::invalid) ::_exit(2);
      allFit = allFit && s.ok();
    }
    ::_exit(allFit ? 0 : 1);
  }
  for (const auto agent : agents) {
    int status = 0;
    ASSERT_EQ(::waitpid(agent, &status, 0), agent);
    ASSERT_TRUE(WIFEXITED(status));
    EXPECT_LT(WEXITSTATUS(status), 2) << "nothing but the card's room kept a claim out";
  }
  const auto all = cdi::Folder(path).list();
  ASSERT_TRUE(all.ok());
  EXPECT_EQ(all->size(), 40U) << "of 25 each, 1000 hold 40";
}

TEST(CapacityGuard, WhoHoldsTheFolderBlocksOthersUntilItIsGone) {
  const support::ScratchFolder scratch;
  cdi::Folder mine(scratch.path());
  ASSERT_TRUE(mine.open().ok());
  { ASSERT_TRUE(mine.hold().ok()); }
  struct stat is {};
  ASSERT_EQ(::stat((scratch.path() + "/.egpu-agent.lock").c_str(), &is), 0);
  EXPECT_EQ(is.st_mode & 0777, 0600U) << "or anybody could keep all agents out";
  const pid_t other = ::fork();
  if (other == 0) {
    cdi::Folder its(scratch.path());
    if (!CapacityGuard(its).reserve(spec("a", 1, 1), oneCard()).ok()) ::_exit(1);
    const auto held = its.hold();
    ::_exit(held.ok() ? 0 : 2);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(other, &status, 0), other);
  EXPECT_EQ(status, 0) << "one that has died holds nothing";
  EXPECT_TRUE(mine.hold().ok());
  EXPECT_EQ(mine.list()->size(), 1U);
}

class CountingFolder final : public cdi::Folder {
 public:
  using Folder::Folder;
  base::Result<Held> hold() override {
    ++holds;
    return Folder::hold();
  }
  std::atomic<int> holds{0};
};

TEST(CapacityGuard, ThoseWhoWaitAreServedTogetherAndGetNoMoreCapacityThanThereIs) {
  const support::ScratchFolder scratch;
  cdi::Folder other(scratch.path());
  CountingFolder mine(scratch.path());
  ASSERT_TRUE(mine.open().ok());
  ASSERT_TRUE(mine.write(spec("0", 100, kGi)).ok() && mine.publish("0").ok()) << "one that is prepared anew";
  CapacityGuard fence(mine);
  std::optional<cdi::Folder::Held> held(std::move(*other.hold()));
  std::vector<base::Status> answers(10);
  {
    std::vector<std::jthread> threads;
    threads.emplace_back([&] { answers[9] = fence.reserve(spec("first", 200, kGi), oneCard()); });
    while (mine.holds == 0) std::this_thread::yield();
    for (int i = 0; i < 9; ++i)
      threads.emplace_back([&, i] { answers[i] = fence.reserve(spec(std::to_string(i), 100, kGi), oneCard()); });
    while (fence.waiting() < 9) std::this_thread::yield();
    held.reset();
  }
  EXPECT_EQ(mine.holds, 2);
  EXPECT_EQ(std::count_if(answers.begin(), answers.end(), [](const auto& s) { return s.ok(); }), 9);
  EXPECT_TRUE(answers[0].ok()) << "its own file does not count against it";
  const auto all = mine.list();
  ASSERT_TRUE(all.ok());
  EXPECT_EQ(all->size(), 9U);
  for (const auto& s : answers) {
    EXPECT_TRUE(s.ok() || s.message().find("would exceed it on this node") != std::string::npos) << s.message();
  }
}

TEST(CapacityGuard, WhatFailsForOneIsThatOnesAlone) {
  const support::ScratchFolder scratch;
  cdi::Folder mine(scratch.path()), other(scratch.path());
  ASSERT_TRUE(mine.open().ok());
  CapacityGuard fence(mine);
  std::optional<cdi::Folder::Held> held(std::move(*other.hold()));
  base::Status a, b, c;
  {
    std::jthread first([&] { a = fence.reserve(spec("a", 100, kGi), oneCard()); });
    const auto drafts = [&] {
      std::vector<std::string> out;
      for (const auto& each : std::filesystem::directory_iterator(scratch.path()))
        if (each.path().string().back() == '~') out.push_back(each.path());
      return out;
    };
    while (drafts().empty()) std::this_thread::yield();
    ASSERT_TRUE(other.open().ok()) << "an agent that starts takes it for a dead one's";
    std::jthread second([&] { b = fence.reserve(spec("b", 100, kGi), oneCard()); });
    std::jthread third([&] { c = fence.reserve(spec("c", 100, kGi), oneCard()); });
    while (fence.waiting() < 2) std::this_thread::yield();
    held.reset();
  }
  EXPECT_EQ(a.code(), base::Code::unavailable);
  EXPECT_TRUE(b.ok() && c.ok());
}

/// A draft of an agent that was killed before the rename neither holds capacity nor blocks other claims.
TEST(CapacityGuard, ADraftOfADeadAgentCountsForNothing) {
  const support::ScratchFolder scratch;
  cdi::Folder mine(scratch.path());
  ASSERT_TRUE(mine.open().ok());
  const auto names = [&] {
    std::vector<std::string> out;
    for (const auto& each : std::filesystem::directory_iterator(scratch.path()))
      if (const auto name = each.path().filename().string(); name.front() != '.') out.push_back(name);
    return out;
  };
  const pid_t other = ::fork();
  if (other == 0) {
    const auto draft = cdi::Folder(scratch.path()).draft(spec("a", 1000, kGi));
    if (draft.ok()) ::kill(::getpid(), SIGKILL);
    ::_exit(1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(other, &status, 0), other);
  ASSERT_TRUE(WIFSIGNALED(status));
  ASSERT_EQ(names().size(), 1U);
  EXPECT_EQ(names()[0].back(), '~');
  EXPECT_TRUE(mine.list()->empty());
  EXPECT_TRUE(CapacityGuard(mine).reserve(spec("b", 1000, kGi), oneCard()).ok());
  EXPECT_EQ(CapacityGuard(mine).reserve(spec("c", 1, 1), oneCard()).code(), base::Code::invalid);
  EXPECT_EQ(names().size(), 2U) << "what is refused leaves nothing";
  ASSERT_TRUE(mine.open().ok());
  EXPECT_EQ(names(), std::vector<std::string>{"elasticgpu.io-device_b.json.part"});
}

TEST(CapacityGuard, WaitsForNobodysDisk) {
  const support::ScratchFolder scratch;
  cdi::Folder mine(scratch.path()), other(scratch.path());
  ASSERT_TRUE(mine.open().ok());
  auto draft = mine.draft(spec("a", 600, kGi));
  ASSERT_TRUE(draft.ok());
  EXPECT_TRUE(CapacityGuard(other).reserve(spec("b", 600, kGi), oneCard()).ok())
      << "only the look and the rename are under the lock";
  const auto held = mine.hold();
  ASSERT_TRUE(held.ok());
  EXPECT_FALSE(fits(spec("a", 600, kGi), oneCard(), *mine.list()).ok());
}

TEST(CapacityGuard, ManyHoldersAreCountedNotNamed) {
  std::vector<cdi::Folder::StoredSpec> all;
  for (int i = 0; i < 20; ++i) all.push_back(entry(spec("b" + std::to_string(i), 50, 1)));
  EXPECT_NE(fits(spec("a", 1, 1), oneCard(), all).message().find("and 12 more"), std::string::npos);
}

}  // namespace
}  // namespace egpu::agent

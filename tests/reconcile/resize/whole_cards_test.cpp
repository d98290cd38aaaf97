// Claims of whole cards follow the usable memory of their cards: a driver that reserves more, ECC switched on or off.
#include <algorithm>

#include "api/v1alpha/size.h"
#include "tests/reconcile/fixture.h"

namespace egpu::reconcile {
namespace {

constexpr int64_t kMiB = 1 << 20;

class WholeCardsTest : public ReconcileTest {
 protected:
  void bind(const std::string& name, core::StringMap requests, const std::string& cls = "share",
            const std::string& named = {}) {
    world.addClaim(name, cls, std::move(requests), named);
    settle();
    ASSERT_EQ(world.claim(name).status.phase, "Bound") << world.message(name);
  }
  cache::Gpu device(const std::string& name) { return world.gpu(deviceOf(name)); }
  std::string cardOf(const std::string& name) { return device(name).spec.cards.front().name; }
  v1alpha::LedgerEntry entry(const std::string& name) {
    return world.gpu(cardOf(name)).spec.allocations.at(device(name).metadata.uid);
  }
  void memory(const std::string& card, int64_t bytes) {
    world.shrunk.insert(card);
    world.json<cache::Gpu>({"", card}, R"({"spec":{"card":{"memory":)" + std::to_string(bytes) + "}}}");
    settle();
  }
  /// Checks all places that state the claim's memory.
  void has(const std::string& name, int64_t bytes) {
    const auto now = device(name);
    EXPECT_FALSE(v1alpha::isResizing(now));
    EXPECT_EQ(v1alpha::cardsInForce(now).front().memory, bytes);
    EXPECT_EQ(v1alpha::cardsInForce(now).front().chargedMemory, bytes);
    EXPECT_EQ(entry(name).memory, bytes);
    EXPECT_EQ(entry(name).core, 1000);
    EXPECT_EQ(now.status.allocated->memory, bytes);
    EXPECT_EQ(world.claim(name).status.phase, "Bound");
    EXPECT_EQ(status(name, "Healthy"), "") << world.message(name, "Healthy");
  }
  std::string status(const std::string& name, std::string_view type) {
    for (const auto& condition : world.claim(name).status.conditions)
      if (condition.type == type) return condition.status;
    return {};
  }
  core::Condition onCard(const std::string& card, const std::string& type) {
    for (const auto& condition : world.gpu(card).status.conditions)
      if (condition.type == type) return condition;
    return {};
  }
};

/// The driver reserves 64 MiB more. Earlier the ledger charged more than the card had, and every prepare failed.
TEST_F(WholeCardsTest, R1_ACardThatHasLessIsChargedAnew) {
  bind("a", {{"gpu", "1"}});
  const auto card = cardOf("a");
  memory(card, 16 * kGi - 64 * kMiB);
  has("a", 16 * kGi - 64 * kMiB);
  EXPECT_EQ(world.claim("a").status.capacity.at("memory"), "16320Mi");
  EXPECT_EQ(countEvents("a Normal CardMemoryChanged"), 1);
  EXPECT_EQ(driver->reconciler.drift().count("overCommitted"), 0U);
  const auto before = writes();
  driver->run();
  EXPECT_EQ(writes(), before) << "once";
}

TEST_F(WholeCardsTest, R1_ACardThatHasMoreIsChargedAnew) {
  bind("a", {{"gpu", "1"}});
  for (const int64_t bytes : {15 * kGi, 17 * kGi, 16 * kGi}) {
    memory(cardOf("a"), bytes);
    has("a", bytes);
  }
}

/// ECC is switched off: until the entry is charged again, the card has more memory than its ledger counts.
TEST_F(WholeCardsTest, NoOtherClaimGetsTheMemoryThatTheCardGains) {
  bind("a", {{"gpu", "1"}}, "share", "gpu-n1-0");
  world.addClaim("m", "share", {{"gpu-memory", "512Mi"}}, "gpu-n1-0");
  settle();
  ASSERT_EQ(world.claim("m").status.phase, "Pending");
  memory("gpu-n1-0", 17 * kGi);
  has("a", 17 * kGi);
  EXPECT_EQ(world.claim("m").status.phase, "Pending");
}

/// All compute of a card is not a whole card if the class charges less memory than it grants.
TEST_F(WholeCardsTest, OvercommittedMemoryIsChargedByTheSameRatio) {
  world.addClass("double", "Delete", "Immediate", {{"memoryOvercommit", "2"}});
  bind("a", {{"gpu-core", "100"}}, "double", "gpu-n1-0");
  bind("m", {{"gpu-memory", "12Gi"}}, "double", "gpu-n1-0");
  ASSERT_EQ(entry("a").memory, 8 * kGi);
  memory("gpu-n1-0", 15 * kGi);
  EXPECT_EQ(v1alpha::cardsInForce(device("a")).front().memory, 15 * kGi);
  EXPECT_EQ(entry("a").memory, 15 * kGi / 2);
  EXPECT_EQ(status("a", "Healthy"), "");
  const auto before = writes();
  world.clock.advance(std::chrono::minutes(2));
  driver->run();
  EXPECT_EQ(writes(), before);
}

TEST_F(WholeCardsTest, EachOfSeveralCardsFollowsItself) {
  bind("a", {{"gpu", "2"}});
  memory("gpu-n1-1", 15 * kGi);
  const auto now = device("a");
  for (const auto& share : v1alpha::cardsInForce(now)) {
    const int64_t bytes = (share.name == "gpu-n1-1" ? 15 : 16) * kGi;
    EXPECT_EQ(share.memory, bytes);
    EXPECT_EQ(world.gpu(share.name).spec.allocations.at(now.metadata.uid).memory, bytes);
  }
}

TEST_F(WholeCardsTest, AllWaysToAskForAWholeCardFollowIt) {
  bind("percent", {{"gpu-core", "100"}});
  memory(cardOf("percent"), 15 * kGi);
  has("percent", 15 * kGi);
  bind("named", {}, "share", cardOf("percent") == "gpu-n1-0" ? "gpu-n1-1" : "gpu-n1-0");
  memory(cardOf("named"), 14 * kGi);
  has("named", 14 * kGi);
}

TEST_F(WholeCardsTest, ItFollowsWhileItsPodRuns) {
  bind("a", {{"gpu", "1"}});
  runPod("p", {"a"});
  memory(cardOf("a"), 15 * kGi);
  has("a", 15 * kGi);
  EXPECT_EQ(status("a", "Bound"), "True");
}

TEST_F(WholeCardsTest, APluginThatCannotResizeNeedNotKnow) {
  world.plugin.resizes(false);
  start();
  bind("a", {{"gpu", "1"}});
  memory(cardOf("a"), 15 * kGi);
  has("a", 15 * kGi);
}

TEST_F(WholeCardsTest, ACardThatChangesWhileNobodyReconcilesIsFollowedByTheNextLeader) {
  bind("a", {{"gpu", "1"}});
  const auto card = cardOf("a");
  world.json<cache::Gpu>({"", card}, R"({"spec":{"card":{"memory":)" + std::to_string(15 * kGi) + "}}}");
  start();
  driver->run();
  has("a", 15 * kGi);
}

TEST_F(WholeCardsTest, AnAmountOfMemoryIsAShareAndStaysAsItWasAskedFor) {
  start(std::chrono::milliseconds(1000));
  bind("a", {{"gpu-core", "100"}, {"gpu-memory", "16Gi"}});
  memory(cardOf("a"), 16 * kGi - 64 * kMiB);
  driver->run();
  EXPECT_EQ(entry("a").memory, 16 * kGi);
  EXPECT_EQ(world.reason("a", "Healthy"), "CardTooSmall");
  EXPECT_NE(world.message("a", "Healthy").find("64Mi less than the shares on it hold"), std::string::npos)
      << world.message("a", "Healthy");
}

TEST_F(WholeCardsTest, SharesThatNoLongerFitAreReportedOnClaimDeviceAndCard) {
  start(std::chrono::milliseconds(1000));
  bind("a", {{"gpu-core", "40"}, {"gpu-memory", "8Gi"}}, "share", "gpu-n1-0");
  bind("b", {{"gpu-core", "40"}, {"gpu-memory", "8Gi"}}, "share", "gpu-n1-0");
  bind("c", {{"gpu-core", "40"}, {"gpu-memory", "8Gi"}}, "share", "gpu-n1-1");
  memory("gpu-n1-0", 16 * kGi - 64 * kMiB);
  driver->run();
  for (const char* name : {"a", "b"}) {
    EXPECT_EQ(status(name, "Healthy"), "False");
    EXPECT_EQ(world.reason(name, "Healthy"), "CardTooSmall");
    const auto words = world.message(name, "Healthy");
    for (const char* part : {"card gpu-n1-0 on node n1", "16320Mi", "64Mi less", "recreate a claim"})
      EXPECT_NE(words.find(part), std::string::npos) << part << ": " << words;
    EXPECT_EQ(entry(name).memory, 8 * kGi) << "nobody decides who loses";
  }
  EXPECT_EQ(status("c", "Healthy"), "");
  EXPECT_EQ(onCard("gpu-n1-0", "SharesFit").status, "False");
  EXPECT_EQ(onCard("gpu-n1-0", "SharesFit").reason, "CardTooSmall");
  EXPECT_EQ(world.gpu("gpu-n1-0").status.reason, "CardTooSmall");
  EXPECT_EQ(onCard("gpu-n1-1", "SharesFit").type, "");
  world.removeClaim("a");
  driver->run();
  EXPECT_EQ(status("b", "Healthy"), "True");
  EXPECT_EQ(onCard("gpu-n1-0", "SharesFit").type, "") << "all fit again";
  EXPECT_EQ(world.gpu("gpu-n1-0").status.reason, "");
  const auto before = writes();
  driver->run();
  EXPECT_EQ(writes(), before);
}

TEST_F(WholeCardsTest, WhoComesNextGetsWhatTheCardHas) {
  bind("a", {{"gpu", "1"}}, "share", "gpu-n1-0");
  memory("gpu-n1-0", 15 * kGi);
  world.removeClaim("a");
  settle();
  bind("b", {{"gpu", "1"}}, "share", "gpu-n1-0");
  has("b", 15 * kGi);
}

}  // namespace
}  // namespace egpu::reconcile

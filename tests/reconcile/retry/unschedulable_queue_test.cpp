// Turns of claims that wait for capacity: in queue order, one at a time, only those that the capacity may suit.
#include "controller/reconcile/retry/unschedulable_queue.h"

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "tests/reconcile/fixture.h"

namespace egpu::reconcile {
namespace {

using std::chrono::milliseconds;
using Keys = std::vector<std::string>;
using DecisionResult = UnschedulableQueue::DecisionResult;

class UnschedulableQueueTest : public ::testing::Test {
 protected:
  static std::string keyOf(int i) { return "k" + std::string(i < 10 ? "0" : "") + std::to_string(i); }
  /// The claim's uid is its queue key.
  bool add(const std::string& key, int64_t priority = 0) { return admit(key, priority).isGranted; }
  UnschedulableQueue::Admission admit(const std::string& key, int64_t priority = 0) {
    return queue.add(key, {"2026-01-01T00:00:00Z", key}, priority, {{{key, "default/" + key, {}, {}}}});
  }
  void grew() { queue.grew(++releases); }
  /// A step of the key that searches for capacity.
  bool decides(const std::string& key, int64_t priority = 0) {
    EXPECT_TRUE(add(key, priority));
    return queue.decided(key, DecisionResult::nothing);
  }
  void addMany(int n) {
    for (int i = 0; i < n; ++i) EXPECT_TRUE(add(keyOf(i)));
  }
  UnschedulableQueue::NextKeys next() {
    return queue.next([this](const CapacityNeeds& needs) { return fits.contains(needs.anyOf.front().claimUid); });
  }
  /// Returns the keys that get turns until the round ends. No decision succeeds.
  Keys round() {
    Keys all;
    for (;;) {
      const auto selected = next();
      for (const auto& key : selected.keys) {
        all.push_back(key);
        EXPECT_TRUE(queue.isCurrent(key));
        EXPECT_TRUE(add(key));
        EXPECT_TRUE(queue.decided(key, DecisionResult::nothing));
      }
      if (selected.keys.empty() && selected.again != milliseconds(0)) return all;
    }
  }

  base::ManualClock clock;
  UnschedulableQueue queue{clock, kDefaultTimeouts};
  std::set<std::string> fits;
  uint64_t releases = 0;
};

TEST_F(UnschedulableQueueTest, TheHighestPriorityIsFirstThenTheOldest) {
  add("b", 0);
  add("a", 0);
  add("c", 5);
  EXPECT_EQ(next().keys, Keys());
  grew();
  EXPECT_EQ(next().keys, Keys{"c"});
  EXPECT_EQ(next().keys, Keys()) << "it has not decided";
  EXPECT_FALSE(queue.decided("a", DecisionResult::nothing));
  EXPECT_TRUE(decides("c", 5));
  EXPECT_EQ(next().keys, Keys{"a"});
  EXPECT_TRUE(decides("a"));
  EXPECT_EQ(next().keys, Keys{"b"});
  EXPECT_TRUE(decides("b"));
  EXPECT_EQ(next().keys, Keys());
}

TEST_F(UnschedulableQueueTest, OnlyTheFirstKeyMayTakeWhatIsReleasedAfterItsAdmission) {
  grew();
  EXPECT_EQ(next().keys, Keys());
  EXPECT_EQ(admit("b").releases, std::nullopt) << "no other key waits";
  EXPECT_EQ(admit("a").releases, std::nullopt) << "it comes first";
  EXPECT_EQ(admit("b").releases, 1U);
  grew();
  const auto yields = admit("b");
  EXPECT_FALSE(yields.isGranted);
  EXPECT_EQ(next().keys, Keys{"a"});
  EXPECT_TRUE(decides("a"));
  EXPECT_EQ(next().keys, Keys{"b"});
  EXPECT_EQ(admit("b").releases, 2U) << "in its turn too: later releases belong to a";
}

TEST_F(UnschedulableQueueTest, AStepThatBeganBeforeTheAttemptDoesNotEndIt) {
  add("a");
  add("b");
  grew();
  EXPECT_EQ(next().keys, Keys{"a"});
  EXPECT_FALSE(queue.decided("a", DecisionResult::nothing)) << "of a step that may have decided before there was room";
  EXPECT_TRUE(queue.isCurrent("a"));
  EXPECT_EQ(next().keys, Keys());
  EXPECT_TRUE(decides("a"));
  EXPECT_EQ(next().keys, Keys{"b"});
}

TEST_F(UnschedulableQueueTest, TheCurrentKeyTakesNothingThatBecameFreeSince) {
  addMany(3);
  grew();
  EXPECT_EQ(next().keys, Keys{keyOf(0)});
  EXPECT_TRUE(decides(keyOf(0)));
  EXPECT_EQ(next().keys, Keys{keyOf(1)});
  grew();
  EXPECT_FALSE(add(keyOf(1))) << "k00 may take what became free";
  EXPECT_TRUE(queue.decided(keyOf(1), DecisionResult::nothing));
  EXPECT_EQ(round(), (Keys{keyOf(0), keyOf(1), keyOf(2)}));
}

TEST_F(UnschedulableQueueTest, OfManyOnlyThoseThatMayFitAreSelected) {
  addMany(40);
  fits = {keyOf(7), keyOf(3)};
  grew();
  EXPECT_EQ(round(), (Keys{keyOf(3), keyOf(7)}));
}

TEST_F(UnschedulableQueueTest, NobodyElseYieldsForLongToANamespaceWhoseAttemptsFail) {
  const auto at = [](int i) { return "pod/flood/" + keyOf(i); };
  for (int i = 0; i < 80; ++i) {
    add(at(i), 1);
    fits.insert(at(i));
  }
  grew();
  const auto findNothing = [&](int i) {
    EXPECT_EQ(next().keys, Keys{at(i)});
    add(at(i), 1);
    EXPECT_TRUE(queue.decided(at(i), DecisionResult::nothing));
  };
  for (int i = 0; i < 31; ++i) findNothing(i);
  EXPECT_FALSE(add("pod/other/a"));
  findNothing(31);
  EXPECT_TRUE(add("pod/other/b")) << "and then it looks at once";
  EXPECT_FALSE(add("pod/flood/c")) << "its own keys yield as before";
}

TEST_F(UnschedulableQueueTest, OthersYieldToANamespaceWhoseAttemptsFindCapacity) {
  const auto at = [](int i) { return "claim/first/" + keyOf(i); };
  for (int i = 0; i < 80; ++i) {
    add(at(i), 1);
    fits.insert(at(i));
  }
  grew();
  for (int i = 0; i < 70; ++i) {
    EXPECT_EQ(next().keys, Keys{at(i)});
    add(at(i), 1);
    const bool isUnsuccessful = i % 32 != 31;
    EXPECT_TRUE(queue.decided(at(i), isUnsuccessful ? DecisionResult::nothing : DecisionResult::capacity));
    if (!isUnsuccessful) queue.remove(at(i));
  }
  EXPECT_FALSE(add("claim/other/a")) << "it comes after them, and they take what becomes free";
}

TEST_F(UnschedulableQueueTest, OneWhoseNeedsAreNotKnownIsSelected) {
  addMany(40);
  queue.add("unknown", {"2026-01-01T00:00:00Z", "z"});
  grew();
  const auto selected = queue.next([](const CapacityNeeds& needs) { return needs.anyOf.empty(); });
  EXPECT_EQ(selected.keys, Keys{"unknown"});
}

TEST_F(UnschedulableQueueTest, TheOthersAreEvaluatedAFewAtATimeAndThenThereIsRest) {
  addMany(40);
  grew();
  EXPECT_EQ(round(), Keys());
  EXPECT_EQ(next().again, kDefaultTimeouts.explainInterval);
  std::set<std::string> evaluated;
  for (const std::size_t max : {UnschedulableQueue::kMaxEvaluations, 40 - UnschedulableQueue::kMaxEvaluations}) {
    clock.advance(kDefaultTimeouts.explainInterval);
    const auto selected = next();
    EXPECT_EQ(selected.keys.size(), max);
    for (const auto& key : selected.keys) {
      EXPECT_TRUE(add(key));
      EXPECT_TRUE(evaluated.insert(key).second) << key << " looked twice";
    }
    EXPECT_EQ(next().keys, Keys());
  }
  clock.advance(kDefaultTimeouts.explainInterval);
  const auto rest = next();
  EXPECT_EQ(rest.keys, Keys());
  EXPECT_FALSE(rest.again.has_value());
}

TEST_F(UnschedulableQueueTest, AllAreEvaluatedWhileCapacityChangesAllTheTime) {
  addMany(100);
  std::set<std::string> evaluated;
  for (int i = 0; i < 400; ++i) {
    grew();
    for (auto selected = next();; selected = next()) {
      for (const auto& key : selected.keys) {
        evaluated.insert(key);
        add(key);
      }
      if (selected.again != milliseconds(0)) break;
    }
    clock.advance(milliseconds(200));
  }
  EXPECT_EQ(evaluated.size(), 100U);
}

TEST_F(UnschedulableQueueTest, OneThatComesLaterYieldsAndIsSelectedInTheRound) {
  addMany(40);
  fits = {keyOf(5)};
  grew();
  EXPECT_FALSE(add("late")) << "k05 may take what became free";
  EXPECT_EQ(round(), (Keys{keyOf(5), "late"}));
}

TEST_F(UnschedulableQueueTest, OneThatComesBeforeTheOthersDoesNotYield) {
  addMany(40);
  grew();
  EXPECT_TRUE(add(keyOf(0)));
  EXPECT_TRUE(add("urgent", 10));
  EXPECT_FALSE(add(keyOf(1)));
}

TEST_F(UnschedulableQueueTest, NobodyYieldsForLong) {
  addMany(40);
  fits = {keyOf(0)};
  grew();
  EXPECT_EQ(next().keys, Keys{keyOf(0)});
  EXPECT_FALSE(add("late"));
  clock.advance(kDefaultTimeouts.queueYieldTimeout);
  EXPECT_TRUE(add("late"));
}

TEST_F(UnschedulableQueueTest, OneThatDoesNotStepLosesItsAttempt) {
  addMany(40);
  fits = {keyOf(0), keyOf(1)};
  grew();
  EXPECT_EQ(next().keys, Keys{keyOf(0)});
  EXPECT_EQ(next().again, kDefaultTimeouts.queueAttemptTimeout);
  clock.advance(kDefaultTimeouts.queueAttemptTimeout);
  EXPECT_EQ(next().keys, Keys{keyOf(1)});
  EXPECT_FALSE(queue.decided(keyOf(0), DecisionResult::nothing));
}

TEST_F(UnschedulableQueueTest, ANamespaceWhoseStepsHangIsWaitedForOnce) {
  const auto keyIn = [](const std::string& ns, int i) { return "claim/" + ns + "/" + keyOf(i); };
  for (int i = 0; i < 10; ++i) EXPECT_TRUE(add(keyIn("hangs", i), 1));
  for (int i = 0; i < 2; ++i) EXPECT_TRUE(add(keyIn("other", i)));
  grew();
  EXPECT_EQ(next().keys, Keys{keyIn("hangs", 0)});
  clock.advance(kDefaultTimeouts.queueAttemptTimeout);
  const auto selected = next();
  ASSERT_EQ(selected.keys.size(), 10U) << "the nine others, and the first of the other namespace";
  EXPECT_EQ(selected.keys.back(), keyIn("other", 0));
  EXPECT_TRUE(queue.isCurrent(keyIn("other", 0)));
}

TEST_F(UnschedulableQueueTest, RoundsThatFollowEachOtherReachAllKeys) {
  addMany(40);
  for (int i = 0; i < 40; ++i) fits.insert(keyOf(i));
  std::set<std::string> had;
  for (int i = 0; i < 40; ++i) {
    grew();
    for (const auto& key : next().keys) {
      had.insert(key);
      add(key);
      EXPECT_TRUE(queue.decided(key, DecisionResult::nothing));
    }
    clock.advance(milliseconds(1));
  }
  EXPECT_EQ(had.size(), 40U);
  // Keys that were passed over get their turn afterwards. Until then no key yields to them.
  EXPECT_EQ(round(), Keys());
  EXPECT_TRUE(add("late"));
  queue.remove("late");
  EXPECT_EQ(next().again, kDefaultTimeouts.queueAttemptBackoff);
  clock.advance(kDefaultTimeouts.queueAttemptBackoff);
  EXPECT_EQ(round().size(), 40U);
}

TEST_F(UnschedulableQueueTest, OneThatGoesAwayIsNotWaitedFor) {
  add("a");
  add("b");
  grew();
  queue.remove("a");
  EXPECT_EQ(next().keys, Keys{"b"});
  EXPECT_EQ(queue.size(), 1U);
}

class CrowdTest : public ReconcileTest {
 protected:
  void addCrowd(int n) {
    for (int i = 0; i < n; ++i) world.addClaim("c" + std::to_string(i), "share", {{"gpu", "1"}});
    settle();
  }
  std::vector<std::string> bound(int n) {
    std::vector<std::string> names;
    for (int i = 0; i < n; ++i)
      if (world.claim("c" + std::to_string(i)).status.phase == "Bound") names.push_back("c" + std::to_string(i));
    return names;
  }
};

TEST_F(CrowdTest, AFreedCardIsGivenInFewStepsHoweverManyWait) {
  constexpr int kMany = 400;
  addCrowd(kMany);
  const auto had = bound(kMany);
  ASSERT_EQ(had.size(), 2U);
  const auto before = driver->steps;
  world.removeClaim(had.front());
  settle();
  EXPECT_LE(driver->steps - before, 40);
  std::size_t now = 0;
  for (int i = 0; i < kMany; ++i)
    if ("c" + std::to_string(i) != had.front()) now += world.claim("c" + std::to_string(i)).status.phase == "Bound";
  EXPECT_EQ(now, 2U);
  // Each other claim is evaluated once more, and then the controller is idle.
  driver->run(std::chrono::minutes(10));
  const auto rested = driver->steps;
  driver->run(std::chrono::minutes(10));
  EXPECT_EQ(driver->steps, rested);
  for (int i = 0; i < kMany; ++i)
    if ("c" + std::to_string(i) != had.front()) world.removeClaim("c" + std::to_string(i));
}

}  // namespace
}  // namespace egpu::reconcile

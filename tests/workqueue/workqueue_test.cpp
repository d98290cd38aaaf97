#include "controller/workqueue/workqueue.h"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "controller/base/ids.h"

namespace egpu::workqueue {
namespace {

using std::chrono::milliseconds;

class WorkQueueTest : public ::testing::Test {
 protected:
  /// Returns the next key, which must be ready.
  std::string take() {
    auto key = queue.get();
    return key ? *key : std::string("<none>");
  }
  base::ManualClock clock;
  base::NoMetrics metrics;
  WorkQueue queue{"test", clock, metrics};
};

TEST_F(WorkQueueTest, HandsOutInOrderAndOncePerKey) {
  queue.add("a");
  queue.add("b");
  queue.add("a");
  EXPECT_EQ(queue.depth(), 2U);
  EXPECT_EQ(take(), "a");
  EXPECT_EQ(take(), "b");
  EXPECT_EQ(queue.depth(), 0U);
  EXPECT_FALSE(queue.idle());
  queue.done("a");
  queue.done("b");
  EXPECT_TRUE(queue.idle());
}

TEST_F(WorkQueueTest, KeyAddedWhileWorkedOnComesBackAfterDoneOnly) {
  queue.add("a");
  EXPECT_EQ(take(), "a");
  queue.add("a");
  queue.add("a");
  EXPECT_EQ(queue.depth(), 0U);  // no other worker may get it now
  queue.add("b");
  EXPECT_EQ(take(), "b");
  queue.done("a");
  EXPECT_EQ(queue.depth(), 1U);
  EXPECT_EQ(take(), "a");
  queue.done("a");
  EXPECT_EQ(queue.depth(), 0U);
}

TEST_F(WorkQueueTest, DoneOfAKeyNobodyTookIsIgnored) {
  queue.add("a");
  queue.done("a");
  EXPECT_EQ(queue.depth(), 1U);
}

TEST_F(WorkQueueTest, DelayedKeyComesWhenItsTimeHasCome) {
  queue.addAfter("late", milliseconds(2000));
  queue.addAfter("early", milliseconds(1000));
  EXPECT_EQ(queue.waiting(), 2U);
  EXPECT_EQ(queue.depth(), 0U);
  clock.advance(milliseconds(1000));
  EXPECT_EQ(take(), "early");
  EXPECT_EQ(queue.waiting(), 1U);
  clock.advance(milliseconds(1000));
  EXPECT_EQ(take(), "late");
}

TEST_F(WorkQueueTest, EarliestOfSeveralDelaysWins) {
  queue.addAfter("a", milliseconds(5000));
  queue.addAfter("a", milliseconds(1000));
  queue.addAfter("a", milliseconds(9000));
  EXPECT_EQ(queue.waiting(), 1U);
  clock.advance(milliseconds(1000));
  EXPECT_EQ(take(), "a");
  EXPECT_EQ(queue.waiting(), 0U);
}

TEST_F(WorkQueueTest, NoDelayMeansNow) {
  queue.addAfter("a", milliseconds(0));
  queue.addAfter("b", milliseconds(-5));
  EXPECT_EQ(queue.depth(), 2U);
}

TEST_F(WorkQueueTest, RateLimitDoublesPerKeyUntilForgotten) {
  // 5, 10, 20 ms: each key becomes ready exactly at its time.
  for (const int wait : {5, 10, 20, 40}) {
    queue.addRateLimited("a");
    clock.advance(milliseconds(wait - 1));
    EXPECT_EQ(queue.depth(), 0U);
    EXPECT_EQ(queue.waiting(), 1U);
    clock.advance(milliseconds(1));
    EXPECT_EQ(take(), "a");
    queue.done("a");
  }
  EXPECT_EQ(queue.retries("a"), 4);
  queue.forget("a");
  EXPECT_EQ(queue.retries("a"), 0);
  queue.addRateLimited("a");
  clock.advance(milliseconds(5));
  EXPECT_EQ(take(), "a");
}

TEST_F(WorkQueueTest, RateLimitIsCapped) {
  WorkQueue capped("capped", clock, metrics, RateLimit{milliseconds(5), milliseconds(1'000'000), 1e9, 1'000'000});
  for (int i = 0; i < 200; ++i) capped.addRateLimited("a");  // 5 ms · 2^199 would overflow anything
  clock.advance(milliseconds(5));
  EXPECT_EQ(*capped.get(), "a");  // the first, earliest one
  capped.done("a");
  capped.addRateLimited("a");
  clock.advance(milliseconds(999'999));
  EXPECT_EQ(capped.waiting(), 1U);
  clock.advance(milliseconds(1));
  EXPECT_EQ(*capped.get(), "a");
}

TEST_F(WorkQueueTest, BucketSpacesOutRetriesOfManyKeys) {
  for (int i = 0; i < 100; ++i) queue.addRateLimited("k" + std::to_string(i));
  queue.addRateLimited("x");  // beyond the burst each key is delayed by a tenth of a second
  queue.addRateLimited("y");
  clock.advance(milliseconds(5));
  for (int i = 0; i < 100; ++i) take();
  EXPECT_EQ(queue.waiting(), 2U);
  clock.advance(milliseconds(95));
  EXPECT_EQ(take(), "x");
  EXPECT_EQ(queue.waiting(), 1U);
  clock.advance(milliseconds(100));
  EXPECT_EQ(take(), "y");
}

TEST_F(WorkQueueTest, RateLimitedKeyWaitsAtLeastAsLongAsRequested) {
  queue.addRateLimited("a", milliseconds(3000));
  clock.advance(milliseconds(2999));
  EXPECT_EQ(queue.depth(), 0U);
  EXPECT_EQ(queue.waiting(), 1U);
  clock.advance(milliseconds(1));
  EXPECT_EQ(take(), "a");
}

/// Keys are "group/name".
class FairWorkQueueTest : public ::testing::Test {
 protected:
  static Fairness byPrefix(int workers) {
    return {workers, [](const std::string& key) { return key.substr(0, key.find('/')); }};
  }
  static void addMany(WorkQueue& queue, const std::string& group, int n) {
    for (int i = 0; i < n; ++i) queue.add(group + "/" + std::to_string(i));
  }
  /// Takes all keys that workers can get without finishing any.
  static std::vector<std::string> takeAll(WorkQueue& queue) {
    std::vector<std::string> taken;
    while (auto key = queue.tryGet()) taken.push_back(*key);
    return taken;
  }
  static std::map<std::string, int> perGroup(const std::vector<std::string>& keys) {
    std::map<std::string, int> counts;
    for (const auto& key : keys) ++counts[key.substr(0, key.find('/'))];
    return counts;
  }
  base::ManualClock clock;
  base::NoMetrics metrics;
};

/// A clock that advances at each read.
class CreepingClock final : public base::Clock {
 public:
  /// Only the owner's reads advance the clock; the queue's own thread also reads it.
  Steady now() const override {
    if (std::this_thread::get_id() == owner_) now_ = now_.load() + each;
    return now_;
  }
  Wall wall() const override { return {}; }
  bool sleepUntil(Steady, std::stop_token stop) override { return !stop.stop_requested(); }
  milliseconds each{0};

 private:
  const std::thread::id owner_ = std::this_thread::get_id();
  mutable std::atomic<Steady> now_{Steady(std::chrono::hours(1))};
};

TEST_F(FairWorkQueueTest, AStepMayBecomeSlowWhileAKeyIsTaken) {
  CreepingClock creeping;
  WorkQueue queue("test", creeping, metrics, {}, byPrefix(5));
  for (const auto* group : {"a", "b", "c"}) {
    addMany(queue, group, 1);
    ASSERT_TRUE(queue.tryGet());
  }
  queue.add("a/1");
  creeping.each = milliseconds(600);  // the second read finds three slow groups, the maximum
  EXPECT_EQ(queue.tryGet(), "a/1");
}

TEST_F(FairWorkQueueTest, KeysThatGoFirstDoSoWithinTheirGroup) {
  auto fairness = byPrefix(0);
  fairness.goesFirst = [](const std::string& key) { return key.ends_with("!"); };
  WorkQueue queue("test", clock, metrics, {}, fairness);
  for (const auto* key : {"a/1", "b/1", "a/2!", "a/3!", "b/2"}) queue.add(key);
  EXPECT_EQ(queue.depth(), 5U);
  EXPECT_EQ(takeAll(queue), (std::vector<std::string>{"a/2!", "b/1", "a/3!", "b/2", "a/1"}));
  queue.add("a/2!");  // while a worker has it
  queue.add("a/4");
  queue.done("a/2!");
  EXPECT_EQ(takeAll(queue), (std::vector<std::string>{"a/2!", "a/4"}));
}

TEST_F(FairWorkQueueTest, ReadyKeyGoesFirstOnceItMay) {
  std::set<std::string> nearer;
  auto fairness = byPrefix(0);
  fairness.goesFirst = [&nearer](const std::string& key) { return nearer.contains(key); };
  WorkQueue queue("test", clock, metrics, {}, fairness);
  addMany(queue, "a", 4);
  nearer = {"a/2", "a/3"};
  for (const auto* key : {"a/3", "a/2", "a/3", "a/1"}) queue.add(key);
  EXPECT_EQ(queue.depth(), 4U);
  EXPECT_EQ(takeAll(queue), (std::vector<std::string>{"a/3", "a/2", "a/0", "a/1"}));
  EXPECT_EQ(queue.depth(), 0U);
  nearer.clear();
  for (const auto* key : {"a/0", "a/1"}) queue.add(key);  // while workers have them
  queue.add("a/9");
  nearer = {"a/1"};  // the step made this key near
  for (const auto* key : {"a/0", "a/1"}) queue.done(key);
  EXPECT_EQ(takeAll(queue), (std::vector<std::string>{"a/1", "a/9", "a/0"}));
}

TEST_F(FairWorkQueueTest, GroupsAlternate) {
  WorkQueue queue("test", clock, metrics, {}, byPrefix(0));
  addMany(queue, "a", 3);
  addMany(queue, "b", 1);
  addMany(queue, "c", 2);
  EXPECT_EQ(takeAll(queue), (std::vector<std::string>{"a/0", "b/0", "c/0", "a/1", "c/1", "a/2"}));
}

TEST_F(FairWorkQueueTest, GroupAloneLeavesWorkersForOthers) {
  for (const auto& [workers, share] : std::map<int, int>{{1, 1}, {2, 1}, {3, 2}, {4, 3}, {8, 6}, {16, 12}}) {
    WorkQueue queue("test", clock, metrics, {}, byPrefix(workers));
    addMany(queue, "a", 100);
    EXPECT_EQ(takeAll(queue).size(), static_cast<std::size_t>(share)) << workers;
    addMany(queue, "b", 1);
    EXPECT_EQ(queue.tryGet().has_value(), true) << workers;
  }
}

TEST_F(FairWorkQueueTest, NoGroupHasMoreThanHalfWhileOthersHaveKeys) {
  WorkQueue queue("test", clock, metrics, {}, byPrefix(16));
  addMany(queue, "a", 100);
  addMany(queue, "b", 100);
  const auto counts = perGroup(takeAll(queue));
  EXPECT_LE(counts.at("a"), 8);
  EXPECT_LE(counts.at("b"), 8);
  EXPECT_GE(counts.at("a") + counts.at("b"), 12);
  addMany(queue, "c", 100);
  EXPECT_GE(takeAll(queue).size(), 2U);  // regardless of how slow a and b are
}

TEST_F(FairWorkQueueTest, ManyGroupsTakeAllWorkers) {
  WorkQueue queue("test", clock, metrics, {}, byPrefix(16));
  for (int g = 0; g < 20; ++g) addMany(queue, "g" + std::to_string(g), 3);
  EXPECT_EQ(takeAll(queue).size(), 20U);  // a group without a worker always gets one
}

/// A queue with 16 workers. Keys of the groups "sick…" were just found slow and are ready again.
class SlowGroupsTest : public FairWorkQueueTest {
 protected:
  void makeSlow(int groups, int keys) {
    for (int g = 0; g < groups; ++g) addMany(queue, sick(g), keys);
    for (int left = groups * keys; left > 0;) {
      const auto taken = takeAll(queue);
      clock.advance(milliseconds(10'000));
      for (const auto& key : taken) queue.done(key);
      left -= static_cast<int>(taken.size());
    }
    for (int g = 0; g < groups; ++g) addMany(queue, sick(g), keys);
  }
  void finish(const std::vector<std::string>& keys) {
    for (const auto& key : keys) queue.done(key);
  }
  static std::string sick(int g) { return "sick" + std::to_string(g); }
  WorkQueue queue{"test", clock, metrics, {}, byPrefix(16)};
};

TEST_F(SlowGroupsTest, LeaveWorkersHoweverManyTheyAre) {
  makeSlow(20, 10);
  EXPECT_EQ(takeAll(queue).size(), 12U);  // a quarter remains free for other groups
  addMany(queue, "well", 2);
  EXPECT_EQ(queue.tryGet(), "well/0");
  EXPECT_EQ(queue.tryGet(), "well/1");
}

TEST_F(SlowGroupsTest, HaveHalfOfTheWorkersWhileOthersWait) {
  makeSlow(20, 10);
  addMany(queue, "well", 100);
  addMany(queue, "fine", 100);
  const auto taken = takeAll(queue);
  const auto counts = perGroup(taken);
  int slow = 0;
  for (const auto& [group, n] : counts) slow += group.starts_with("sick") ? n : 0;
  EXPECT_LE(slow, 8);
  EXPECT_GE(counts.at("well") + counts.at("fine"), 6);
}

TEST_F(SlowGroupsTest, AreServedRoundRobin) {
  makeSlow(20, 1);
  std::map<std::string, int> served;
  for (std::size_t left = 20; left > 0;) {
    const auto taken = takeAll(queue);
    ASSERT_FALSE(taken.empty());
    clock.advance(milliseconds(10'000));
    for (const auto& [group, n] : perGroup(taken)) served[group] += n;
    finish(taken);
    left -= taken.size();
  }
  EXPECT_EQ(served.size(), 20U);
}

TEST_F(SlowGroupsTest, AreFoundWhileTheyHang) {
  for (int g = 0; g < 12; ++g) addMany(queue, sick(g), 10);
  for (int i = 0; i < 10; ++i) ASSERT_TRUE(queue.tryGet());
  clock.advance(milliseconds(1'001));
  const auto counts = perGroup(takeAll(queue));
  EXPECT_EQ(counts.size(), 2U);  // the groups not known as slow
  EXPECT_EQ(counts.count(sick(10)) + counts.count(sick(11)), 2U);
}

TEST_F(SlowGroupsTest, AreSlowUntilWhatWasSlowIsQuick) {
  makeSlow(20, 1);
  const auto taken = takeAll(queue);
  ASSERT_EQ(perGroup(taken).count("sick0"), 1U);
  queue.add("sick0/other");
  queue.done("sick0/0");
  for (int i = 0; i < 2; ++i) queue.add("sick0/" + std::to_string(i));
  // The group has recovered: it takes no worker from those that the other groups share.
  EXPECT_EQ(takeAll(queue).size(), 1U + 3U);
}

TEST_F(SlowGroupsTest, QuickStepsOfOtherKeysProveNothing) {
  makeSlow(16, 1);
  const auto taken = takeAll(queue);  // twelve
  queue.add("sick0/other");
  clock.advance(milliseconds(10'000));
  finish(taken);
  for (int round = 0; round < 3; ++round) {
    const auto all = takeAll(queue);
    EXPECT_LE(all.size(), 12U);
    for (const auto& key : all)
      if (key == "sick0/other") queue.done(key);
    queue.add("sick0/other");
    EXPECT_LE(takeAll(queue).size() + all.size(), 13U);
    clock.advance(milliseconds(10'000));
    finish(all);
    for (int g = 0; g < 16; ++g) addMany(queue, sick(g), 1);
  }
}

TEST_F(SlowGroupsTest, AreForgottenIfNothingIsHeardOfThem) {
  makeSlow(20, 1);
  auto taken = takeAll(queue);
  clock.advance(std::chrono::minutes(11));
  finish(taken);  // these again; the other eight were idle for eleven minutes
  EXPECT_EQ(takeAll(queue).size(), 8U);
  for (int g = 0; g < 20; ++g) queue.add(sick(g) + "/new");
  EXPECT_EQ(takeAll(queue).size(), 8U);
}

TEST_F(FairWorkQueueTest, SlowGroupOfAnyNumberOfWorkersIsServed) {
  for (const int workers : {1, 2, 3, 4}) {
    WorkQueue queue("test", clock, metrics, {}, byPrefix(workers));
    for (int i = 0; i < 3; ++i) {
      queue.add("sick/0");
      ASSERT_EQ(queue.tryGet(), "sick/0") << workers;
      clock.advance(milliseconds(5'000));
      queue.done("sick/0");
    }
  }
}

TEST_F(FairWorkQueueTest, WhatAGroupGivesBackItMayTakeAgain) {
  WorkQueue queue("test", clock, metrics, {}, byPrefix(4));
  addMany(queue, "a", 9);
  auto taken = takeAll(queue);
  std::size_t all = taken.size();
  while (!taken.empty()) {
    queue.done(taken.back());
    taken.pop_back();
    for (auto& key : takeAll(queue)) {
      taken.push_back(std::move(key));
      ++all;
    }
  }
  EXPECT_EQ(all, 9U);
  EXPECT_TRUE(queue.idle());
}

TEST_F(FairWorkQueueTest, WorkerThatWaitsGetsWhatAnotherGivesBack) {
  WorkQueue queue("test", clock, metrics, {}, byPrefix(4));
  addMany(queue, "a", 4);
  auto taken = takeAll(queue);
  ASSERT_EQ(taken.size(), 3U);
  std::jthread waiting([&] { EXPECT_EQ(queue.get(), "a/3"); });
  queue.done(taken[0]);
  waiting.join();
}

TEST_F(FairWorkQueueTest, KeyAddedWhileWorkedOnWaitsInTheGroupItBelongsToByThen) {
  std::map<std::string, std::string> groups{{"x", "a"}};
  WorkQueue queue("test", clock, metrics, {}, {4, [&](const std::string& key) { return groups[key]; }});
  queue.add("x");
  EXPECT_EQ(queue.tryGet(), "x");
  groups["x"] = "b";
  queue.add("x");
  queue.done("x");
  EXPECT_EQ(queue.tryGet(), "x");
  queue.done("x");
  EXPECT_TRUE(queue.idle());
}

TEST_F(FairWorkQueueTest, RetriesOfOneGroupDoNotPutOffThoseOfAnother) {
  WorkQueue queue("test", clock, metrics, RateLimit{milliseconds(5), milliseconds(60'000), 100, 1000}, byPrefix(16));
  for (int i = 0; i < 5000; ++i) queue.addRateLimited("a/" + std::to_string(i));  // its last key is due in 40 s
  queue.addRateLimited("b/0");
  clock.advance(milliseconds(5));
  std::optional<std::string> key;
  while ((key = queue.get()) && *key != "b/0") queue.done(*key);
  EXPECT_EQ(key, "b/0");
  EXPECT_GE(queue.waiting(), 3990U);
}

TEST_F(FairWorkQueueTest, ThreadsOfAllGroupsGetEverythingDone) {
  WorkQueue queue("test", clock, metrics, {}, byPrefix(8));
  std::atomic<int> left{3000};
  {
    std::vector<std::jthread> workers;
    for (int w = 0; w < 8; ++w)
      workers.emplace_back([&] {
        while (auto key = queue.get()) {
          queue.done(*key);
          if (--left == 0) queue.shutDown();
        }
      });
    for (int i = 0; i < 1000; ++i)
      for (const char* group : {"a", "b", "c"}) queue.add(std::string(group) + "/" + std::to_string(i));
  }
  EXPECT_EQ(left, 0);
}

TEST_F(WorkQueueTest, StopEndsAWaitingGet) {
  std::jthread worker([this](std::stop_token stop) { EXPECT_EQ(queue.get(stop), std::nullopt); });
  worker.request_stop();
  worker.join();
}

TEST_F(WorkQueueTest, ShutDownHandsOutNothingMoreAndDrains) {
  queue.add("a");
  queue.add("b");
  EXPECT_EQ(take(), "a");
  queue.addAfter("c", milliseconds(1));
  queue.shutDown();
  EXPECT_EQ(queue.get(), std::nullopt);
  queue.add("d");
  EXPECT_EQ(queue.depth(), 0U);
  EXPECT_EQ(queue.waiting(), 0U);
  std::jthread worker([this] { queue.done("a"); });
  EXPECT_TRUE(queue.drain(milliseconds(1000)));  // the clock stands: only done() can end this
}

TEST_F(WorkQueueTest, DrainGivesUpWhenTimeIsUp) {
  queue.add("a");
  take();
  queue.shutDown();
  EXPECT_FALSE(queue.drain(milliseconds(0)));
  queue.done("a");
}

/// Counts reports by name.
class QueueMetrics final : public base::Metrics {
 public:
  void add(std::string_view name, double by, const base::MetricLabels&) override { count(name, by); }
  void set(std::string_view name, double value, const base::MetricLabels&) override {
    std::lock_guard lock(mutex);
    values[std::string(name)] = value;
  }
  void observe(std::string_view name, double seconds, const base::MetricLabels&) override { count(name, seconds); }
  void forget(std::string_view, const base::MetricLabels&) override {}
  void count(std::string_view name, double by) {
    std::lock_guard lock(mutex);
    values[std::string(name)] += by;
  }
  std::mutex mutex;
  std::map<std::string, double> values;
};

TEST(WorkQueueMetrics, ReportDepthLatencyAndRetries) {
  base::ManualClock clock;
  QueueMetrics metrics;
  WorkQueue queue("m", clock, metrics);
  queue.add("a");
  queue.add("b");
  EXPECT_EQ(metrics.values["elasticgpu_workqueue_depth"], 2);
  clock.advance(milliseconds(3000));
  queue.get();
  clock.advance(milliseconds(2000));
  queue.done("a");
  EXPECT_EQ(metrics.values["elasticgpu_workqueue_depth"], 1);
  EXPECT_EQ(metrics.values["elasticgpu_workqueue_adds_total"], 2);
  EXPECT_DOUBLE_EQ(metrics.values["elasticgpu_workqueue_queue_duration_seconds"], 3);
  EXPECT_DOUBLE_EQ(metrics.values["elasticgpu_workqueue_work_duration_seconds"], 2);
  queue.addRateLimited("a");
  EXPECT_EQ(metrics.values["elasticgpu_workqueue_retries_total"], 1);
}

// Property: with many producers and workers, no two workers have the same key at once. The last change of every key
// before its last add() is seen by a worker that takes the key afterwards.
TEST(WorkQueueProperty, OneWorkerPerKeyAndNothingLost) {
  constexpr int kKeys = 16, kProducers = 4, kWorkers = 4, kAdds = 3000;
  base::SystemClock clock;
  base::NoMetrics metrics;
  WorkQueue queue("property", clock, metrics, RateLimit{milliseconds(1), milliseconds(4), 1e6, 1'000'000});
  std::array<std::atomic<int>, kKeys> wanted{}, seen{}, inside{};
  std::atomic<int> violations{0};
  std::atomic<int> settled{0};

  std::vector<std::jthread> workers;
  for (int w = 0; w < kWorkers; ++w)
    workers.emplace_back([&, w](std::stop_token stop) {
      base::Random random(static_cast<uint64_t>(w) + 100);
      while (auto key = queue.get(stop)) {
        const auto k = static_cast<std::size_t>(std::stoi(*key));
        if (inside[k].fetch_add(1) != 0) ++violations;
        const int want = wanted[k].load();
        if (random.below(8) == 0) {
          queue.addRateLimited(*key);  // the step "failed": the key must come again, or the test never ends
        } else {
          if (want < seen[k].load()) ++violations;
          seen[k].store(want);
          queue.forget(*key);
        }
        inside[k].fetch_sub(1);
        queue.done(*key);
        settled.fetch_add(1);
        settled.notify_all();
      }
    });
  {
    std::vector<std::jthread> producers;
    for (int p = 0; p < kProducers; ++p)
      producers.emplace_back([&, p] {
        base::Random random(static_cast<uint64_t>(p));
        for (int i = 0; i < kAdds; ++i) {
          const auto k = static_cast<std::size_t>(random.below(kKeys));
          wanted[k].fetch_add(1);
          const std::string key = std::to_string(k);
          if (random.below(4) == 0)
            queue.addAfter(key, milliseconds(random.below(3)));
          else
            queue.add(key);
        }
      });
  }
  for (;;) {
    const int before = settled.load();
    bool all = true;
    for (std::size_t k = 0; k < kKeys; ++k) all = all && seen[k].load() == wanted[k].load();
    if (all) break;
    settled.wait(before);
  }
  EXPECT_EQ(violations.load(), 0);
  queue.shutDown();
}

}  // namespace
}  // namespace egpu::workqueue

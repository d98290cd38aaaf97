// Writes of a status that alternates are delayed more and more, and its last contents are never lost.
#include "controller/reconcile/status_alternations.h"

#include "tests/reconcile/fixture.h"

namespace egpu::reconcile {
namespace {

using std::chrono::milliseconds;

/// Counts alternations.
class Counters final : public base::Metrics {
 public:
  void add(std::string_view counter, double by, const base::MetricLabels& labels) override {
    if (counter == "elasticgpu_status_alternations_total") counted[labels.at("kind")] += by;
  }
  void set(std::string_view, double, const base::MetricLabels&) override {}
  void observe(std::string_view, double, const base::MetricLabels&) override {}
  void forget(std::string_view, const base::MetricLabels&) override {}

  std::map<std::string, double> counted;
};

class StatusAlternationsTest : public ReconcileTest {
 protected:
  StatusAlternationsTest() : alternations(world.clock, kDefaultTimeouts, counters) {}
  void SetUp() override {
    ReconcileTest::SetUp();
    driver.reset();  // the tests write the status themselves
    world.addClaim("a", "absent", {{"gpu-core", "10"}});
  }
  /// Writes these words to the status of claim a.
  base::Status write(const std::string& words) {
    const auto claim = world.claim("a");
    auto after = claim.status;
    after.phase = "Pending";
    setCondition(after.conditions, {kReady.data(), "False", "Reason", words, {}, 0}, base::rfc3339(world.clock.wall()));
    cache::Stores stores;
    Writer writer(world.client, stores, alternations);
    const auto& meta = claim.metadata;
    return writer
        .patch(claim, codec::patch::claimStatus(meta.uid, meta.resourceVersion, claim.status, after), "status", {})
        .status();
  }
  /// Writes this status if no wait is left. Returns how long the write must still wait.
  milliseconds wait(const std::string& words) {
    const auto status = write(words);
    if (status.ok()) return milliseconds(0);
    EXPECT_EQ(status.code(), base::Code::throttled);
    return status.retryAfter.value_or(milliseconds(-1));
  }
  std::string words() { return world.message("a", kReady); }
  double counted() { return counters.counted["ElasticGPUClaim"]; }

  Counters counters;
  StatusAlternations alternations;
};

TEST_F(StatusAlternationsTest, ContentsThatReturnAreWrittenLaterAndLaterUpToABound) {
  int writes = 0;
  milliseconds longest{0};
  for (int i = 0; i < 200; ++i) {
    const auto time = wait(i % 2 == 0 ? "one" : "other");
    longest = std::max(longest, time);
    if (time.count() == 0)
      ++writes;
    else
      world.clock.advance(time);
  }
  EXPECT_GT(counted(), 10);
  EXPECT_LE(writes, 120) << "each write after the first few waited";
  EXPECT_EQ(longest, kDefaultTimeouts.maxAlternationBackoff);
}

TEST_F(StatusAlternationsTest, TheLastContentsAreWrittenOnceTheTimeHasPassed) {
  ASSERT_EQ(wait("at first").count(), 0);  // the first patch of a status has more fields
  int writes = 0;
  while (writes < 100 && wait(writes % 2 == 0 ? "one" : "other").count() == 0) ++writes;
  EXPECT_EQ(writes, 2 * StatusAlternations::kMaxReturns + 1) << "without any time passing";
  const std::string last = writes % 2 == 0 ? "one" : "other";
  EXPECT_NE(words(), last);
  world.clock.advance(wait(last));
  EXPECT_EQ(wait(last).count(), 0);
  EXPECT_EQ(words(), last);
}

TEST_F(StatusAlternationsTest, OtherContentsDoNotWait) {
  for (int i = 0; i < 20; ++i) (void)write(i % 2 == 0 ? "one" : "other");
  EXPECT_GT(wait("one").count() + wait("other").count(), 0);
  EXPECT_EQ(wait("a third").count(), 0);
  EXPECT_EQ(words(), "a third");
}

TEST_F(StatusAlternationsTest, NumbersThatReturnWaitLater) {
  const auto writesOf = [this](const std::string& one, const std::string& other) {
    int writes = 0;
    while (writes < 100 && wait(writes % 2 == 0 ? one : other).count() == 0) ++writes;
    return writes;
  };
  ASSERT_EQ(wait("at first").count(), 0);  // the first patch of a status has more fields
  const int max = 2 * StatusAlternations::kMaxNumberReturns + 1;
  EXPECT_EQ(writesOf("6 of 8 members are here", "7 of 8 members are here"), max);
  world.clock.advance(std::chrono::hours(1));
  EXPECT_EQ(writesOf("on node-1", "on node-2"), 2 * StatusAlternations::kMaxReturns + 1) << "a name is no number";
}

TEST_F(StatusAlternationsTest, AChangedSpecBeginsAnew) {
  core::ObjectMeta object;
  object.uid = "u";
  const auto writesAll = [&](int times) {
    for (int i = 0; i < times; ++i) {
      if (alternations.backoff(object, i % 2 == 0 ? "{a}" : "{b}").count() > 0) return false;
      alternations.wrote("ElasticGPUClaim", object, i % 2 == 0 ? "{a}" : "{b}");
    }
    return true;
  };
  for (object.generation = 1; object.generation < 20; ++object.generation) EXPECT_TRUE(writesAll(8));
  EXPECT_EQ(counted(), 0);
  EXPECT_FALSE(writesAll(20));
  ++object.generation;
  EXPECT_TRUE(writesAll(8));
}

TEST_F(StatusAlternationsTest, ContentsThatReturnSeldomDoNotWait) {
  for (int i = 0; i < 40; ++i) {
    EXPECT_EQ(wait(i % 2 == 0 ? "one" : "other").count(), 0);
    world.clock.advance(std::chrono::seconds(20));
  }
  EXPECT_EQ(counted(), 0);
}

TEST_F(StatusAlternationsTest, OnlyTheObjectsThatWereWrittenLastAreRemembered) {
  core::ObjectMeta object;
  for (int i = 0; i < 10'000; ++i) {
    object.uid = std::to_string(i);
    alternations.wrote("ElasticGPUClaim", object, "{}");
  }
  EXPECT_EQ(alternations.size(), 4096u);
}

}  // namespace
}  // namespace egpu::reconcile

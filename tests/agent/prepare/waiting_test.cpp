// Obstacles that disappear while the kubelet waits.
#include <atomic>

#include "tests/agent/prepare/fixture.h"

namespace egpu::agent {
namespace {

using base::Code;
using std::chrono::milliseconds;
using std::chrono::seconds;

/// A clock whose sleeps end immediately. It calls `before` first.
class SleptThrough final : public base::Clock {
 public:
  std::function<void()> before;
  std::vector<milliseconds> sleeps;

  Steady now() const override { return now_; }
  Wall wall() const override { return Wall(now_.time_since_epoch()); }
  bool sleepUntil(Steady until, std::stop_token stop) override {
    sleeps.push_back(std::chrono::duration_cast<milliseconds>(until - now_));
    if (before) before();
    if (stop.stop_requested()) return false;
    now_ = until;
    return true;
  }

 private:
  Steady now_{std::chrono::hours(1)};
};

class WaitingTest : public PrepareTest {
 protected:
  WaitingTest() { options.patience = seconds(20); }
  milliseconds slept() const {
    milliseconds sum{0};
    for (const auto& each : clock.sleeps) sum += each;
    return sum;
  }

  SleptThrough clock;
  kube::Client own{line, clock, world.random, world.metrics, support::Driver::options()};
};

TEST_F(WaitingTest, APluginThatComesBackIsWaitedFor) {
  const auto claim = claimed("a");
  plugin.stageAnswers = {plugin::ReplyCode::unavailable, "it starts"};
  clock.before = [&] {
    if (clock.sleeps.size() == 3) plugin.stageAnswers = {};
  };
  ClaimPreparer patient(own, registry, events, folder, options);
  EXPECT_TRUE(patient.prepare(claim, {}).ok());
  EXPECT_EQ(clock.sleeps, (std::vector<milliseconds>{milliseconds(250), milliseconds(500), milliseconds(1000)}));
  EXPECT_EQ(events.lines().size(), 1U) << "told at the first failure, and once";
  EXPECT_TRUE(hasEvent("a", "it starts"));
}

TEST_F(WaitingTest, WhatTheApiDoesNotShowYetIsWaitedFor) {
  const auto claim = claimed("a");
  const auto device = deviceOf(claim).metadata.name;
  world.json<cache::Gpu>({"", device}, R"({"status":{"phase":"Pending"}})", "status");
  clock.before = [&] {
    if (clock.sleeps.size() == 2) world.json<cache::Gpu>({"", device}, R"({"status":{"phase":"Bound"}})", "status");
  };
  ClaimPreparer patient(own, registry, events, folder, options);
  const auto prepared = patient.prepare(claim, {});
  EXPECT_TRUE(prepared.ok()) << prepared.status().str();
  EXPECT_EQ(clock.sleeps.size(), 2U);
}

TEST_F(WaitingTest, NotForLongerThanItsPatience) {
  const auto claim = claimed("a");
  plugin.stageAnswers = {plugin::ReplyCode::unavailable, "it starts"};
  clock.before = [&] {
    if (clock.sleeps.size() == 4) plugin.stageAnswers = {plugin::ReplyCode::unavailable, "it fails"};
  };
  ClaimPreparer patient(own, registry, events, folder, options);
  EXPECT_EQ(patient.prepare(claim, {}).status().code(), Code::unavailable);
  EXPECT_LE(slept(), seconds(20));
  EXPECT_GE(slept(), seconds(15));
  EXPECT_TRUE(std::is_sorted(clock.sleeps.begin(), clock.sleeps.end()));
  EXPECT_EQ(events.lines().size(), 2U) << "the last one is another";
  EXPECT_TRUE(hasEvent("a", "it fails"));
}

TEST_F(WaitingTest, WhatMayNotBeIsNotWaitedFor) {
  const auto claim = claimed("a");
  ClaimPreparer patient(own, registry, events, folder, options);
  plugin.stageAnswers = {plugin::ReplyCode::unavailable, "it starts"};
  clock.before = [&] { plugin.stageAnswers = {plugin::ReplyCode::invalid, "never"}; };
  EXPECT_EQ(patient.prepare(claim, {}).status().code(), Code::invalid);
  EXPECT_EQ(clock.sleeps.size(), 1U);
  clock.sleeps.clear();
  EXPECT_EQ(patient.prepare(claim, {}).status().code(), Code::invalid);
  EXPECT_TRUE(clock.sleeps.empty());
}

TEST_F(WaitingTest, NotMoreAtOnceThanStatedSoThatOthersAreServed) {
  const auto waits = claimed("waits"), comes = claimed("comes"), fits = claimed("fits");
  options.maxWaiting = 1;
  ClaimPreparer patient(own, registry, events, folder, options);
  plugin.stageAnswers = {plugin::ReplyCode::unavailable, "it starts"};
  std::vector<bool> fitted;
  clock.before = [&] {
    if (clock.sleeps.size() > 1) return;
    EXPECT_EQ(patient.prepare(comes, {}).status().code(), Code::unavailable);
    EXPECT_EQ(clock.sleeps.size(), 1U) << "one that finds all places taken does not wait";
    EXPECT_TRUE(hasEvent("comes", "it starts"));
    plugin.stageAnswers = {};
    fitted.push_back(patient.prepare(fits, {}).ok());
  };
  EXPECT_TRUE(patient.prepare(waits, {}).ok());
  EXPECT_EQ(fitted, std::vector<bool>{true}) << "one that need not wait is not held up";
  EXPECT_TRUE(patient.prepare(comes, {}).ok());

  // The slot is free again.
  const auto later = claimed("later");
  plugin.stageAnswers = {plugin::ReplyCode::unavailable, "it starts"};
  clock.sleeps.clear();
  clock.before = [&] { plugin.stageAnswers = {}; };
  EXPECT_TRUE(patient.prepare(later, {}).ok());
  EXPECT_EQ(clock.sleeps.size(), 1U);
}

TEST_F(WaitingTest, AStopEndsItAtOnce) {
  const auto claim = claimed("a");
  plugin.stageAnswers = {plugin::ReplyCode::unavailable, "it starts"};
  std::stop_source stop;
  clock.before = [&] { stop.request_stop(); };
  ClaimPreparer patient(own, registry, events, folder, options);
  EXPECT_EQ(patient.prepare(claim, stop.get_token()).status().code(), Code::cancelled);
  EXPECT_EQ(clock.sleeps.size(), 1U);
}

TEST_F(WaitingTest, WithoutPatienceTheFirstAnswerIsTheLast) {
  const auto claim = claimed("a");
  plugin.stageAnswers = {plugin::ReplyCode::unavailable, "it starts"};
  ClaimPreparer hasty(own, registry, events, folder, {"n1", {}});
  EXPECT_EQ(hasty.prepare(claim, {}).status().code(), Code::unavailable);
  EXPECT_TRUE(clock.sleeps.empty());
}

}  // namespace
}  // namespace egpu::agent

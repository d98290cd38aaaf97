// The running controller with its threads: failing or slow writes in one namespace delay no other namespace. The clock
// stands still, so a worker that waits for time to pass waits forever.
#include "controller/reconcile/controller.h"

#include <gtest/gtest.h>

#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "controller/reconcile/queue_key.h"
#include "tests/support/forwarding_transport.h"
#include "tests/support/world.h"
#include "tests/support/write_observer.h"

namespace egpu::reconcile {
namespace {

/// Lets writes to objects of one namespace fail, or block while they are held.
class SickNamespace final : public support::ForwardingTransport {
 public:
  SickNamespace(kube::Transport& next, const std::string& name)
      : ForwardingTransport(next), part_("/namespaces/" + name + "/") {}

  /// 0: requests are forwarded.
  void answer(int code, kube::Headers headers = {}) {
    std::lock_guard lock(mutex_);
    code_ = code;
    headers_ = std::move(headers);
  }
  void hold(bool held) {
    std::lock_guard lock(mutex_);
    held_ = held;
    changed_.notify_all();
  }
  /// Maps method and path to the number of attempts.
  std::map<std::string, int> attempts() const {
    std::lock_guard lock(mutex_);
    return attempts_;
  }

  base::Result<kube::HttpResponse> perform(const kube::HttpRequest& request, std::stop_token stop) override {
    if (request.method == kube::Method::get || request.target.find(part_) == std::string::npos)
      return ForwardingTransport::perform(request, std::move(stop));
    {
      std::unique_lock lock(mutex_);
      ++attempts_[std::string(kube::toString(request.method)) + " " + request.target];
      if (!changed_.wait(lock, stop, [this] { return !held_; })) return base::Status(base::Code::cancelled, "stopped");
      if (code_ != 0) {
        kube::HttpResponse no;
        no.status = code_;
        no.headers = headers_;
        no.body = R"({"kind":"Status","apiVersion":"v1","status":"Failure","reason":"InternalError","code":500,)"
                  R"("message":"Internal error occurred: failed calling webhook \"guard\": connection refused"})";
        return no;
      }
    }
    return ForwardingTransport::perform(request, std::move(stop));
  }

 private:
  const std::string part_;
  mutable std::mutex mutex_;
  mutable std::condition_variable_any changed_;
  int code_ = 0;
  kube::Headers headers_;
  bool held_ = false;
  std::map<std::string, int> attempts_;
};

class FairControllerTest : public ::testing::Test {
 protected:
  void SetUp() override {
    world.addNamespace("default");
    world.addNamespace("sick");
    world.addNode("n1");
    for (int i = 0; i < 8; ++i) world.addCard("n1", i);
    world.addClass("share");
  }
  void TearDown() override {
    line.hold(false);
    controller.reset();
    EXPECT_EQ(writes.oscillations(), "");
    world.registry.forgetListeners();
  }
  void start(int workers, bool standby = false) {
    ControllerOptions options;
    options.workers = workers;
    // A claim that waits for a plugin's call limit would wait for time to pass.
    options.reconciler.callsPerPlugin = workers;
    options.standby = standby;
    controller = std::make_unique<Controller>(client, world.registry, clock, events, world.metrics, options);
    controller->start();
    ASSERT_TRUE(controller->waitUntilReady());
  }
  void addClaims(const std::string& ns, int n) {
    addClaims(ns, "c", n, {{"elasticgpu.io/gpu-core", "1"}, {"elasticgpu.io/gpu-memory", "1Mi"}});
  }
  void addClaims(const std::string& ns, const std::string& name, int n, const core::StringMap& requests,
                 const std::string& priority = {}) {
    for (int i = 0; i < n; ++i) {
      cache::Claim claim;
      claim.metadata.name = name + std::to_string(i);
      claim.metadata.namespace_ = ns;
      claim.spec.className = "share";
      claim.spec.priorityClassName = priority;
      claim.spec.requests = requests;
      world.must(world.client.create(claim));
    }
  }
  int bound(const std::string& ns) const {
    int count = 0;
    controller->stores().claims.forEach(
        [&](const auto& c) { count += c->metadata.namespace_ == ns && c->status.phase == "Bound"; });
    return count;
  }
  /// Returns false if the condition does not hold within a minute.
  static bool comesTrue(const std::function<bool()>& holds) {
    base::SystemClock real;
    const auto deadline = real.now() + std::chrono::seconds(60);
    while (!holds()) {
      if (real.now() > deadline) return false;
      real.sleepFor(std::chrono::milliseconds(2), {});
    }
    return true;
  }
  /// Advances the clock meanwhile: a key whose step hangs loses its turn for capacity only when time passes.
  bool comesTrueInTime(const std::function<bool()>& holds) {
    return comesTrue([&] {
      clock.advance(std::chrono::milliseconds(2));
      return holds();
    });
  }

  support::World world;
  base::ManualClock clock;
  SickNamespace line{*world.transport, "sick"};
  support::WriteObserver writes{line, [this] { return world.writes(); }};
  kube::Client client{writes, clock, world.random, world.metrics};
  support::EventLog events;
  std::unique_ptr<Controller> controller;
};

TEST_F(FairControllerTest, FailingWritesOfOneNamespaceDelayNobodyElse) {
  line.answer(500);
  addClaims("sick", 100);
  start(16);
  addClaims("default", 20);
  EXPECT_TRUE(comesTrue([&] { return bound("default") == 20; }));
  EXPECT_TRUE(comesTrue([&] { return !line.attempts().empty() && controller->quiet(); }));
  EXPECT_EQ(bound("sick"), 0);
  // Time stands still: besides the first attempt, only events of the claim's own device and ResourceClaim cause more.
  for (const auto& [request, times] : line.attempts()) EXPECT_LE(times, 8) << request;
}

TEST_F(FairControllerTest, FailingWritesComeAgainWithBackOffAndSucceedOnceTheyCan) {
  line.answer(500);
  addClaims("sick", 3);
  start(4);
  ASSERT_TRUE(comesTrue([&] { return !line.attempts().empty() && controller->quiet(); }));
  line.answer(0);
  EXPECT_TRUE(comesTrue([&] {
    clock.advance(std::chrono::milliseconds(100));
    return bound("sick") == 3;
  }));
  EXPECT_EQ(world.garbage(), "");
}

TEST_F(FairControllerTest, WhatAStandbySawIsDoneOnceItLeads) {
  start(4, true);
  auto pod = support::World::podOf("p", {}, true);
  pod.resourceClaims.push_back({"egpu", "", "egpu-amounts.core-10.class-share"});
  pod.containers[0].resourceClaims.push_back("egpu");
  world.must(world.client.create(pod));
  addClaims("default", 2);
  ASSERT_TRUE(
      comesTrue([&] { return controller->stores().pods.size() == 1 && controller->stores().claims.size() == 2; }));
  EXPECT_EQ(world.must(world.client.listAll<core::ResourceClaimTemplate>({})).size(), 0u);
  controller->lead();
  EXPECT_TRUE(comesTrue([&] { return bound("default") == 2; }));
  EXPECT_TRUE(comesTrue([&] { return world.must(world.client.listAll<core::ResourceClaimTemplate>({})).size() == 1; }))
      << "of a template that is not there yet only the pod tells";
}

TEST_F(FairControllerTest, HangingWritesOfOneNamespaceLeaveWorkersToOthers) {
  line.hold(true);
  addClaims("sick", 40);
  start(4);
  ASSERT_TRUE(comesTrue([&] { return !line.attempts().empty(); }));
  addClaims("default", 20);
  EXPECT_TRUE(comesTrueInTime([&] { return bound("default") == 20; }));
  EXPECT_EQ(bound("sick"), 0);
  line.hold(false);
  EXPECT_TRUE(comesTrueInTime([&] { return bound("sick") == 40; }));
}

TEST_F(FairControllerTest, ReleasesOfAHangingNamespaceLeaveWorkersToOthers) {
  addClaims("sick", 20);
  addClaims("default", 5);
  start(4);
  ASSERT_TRUE(comesTrue([&] { return bound("sick") == 20 && bound("default") == 5; }));
  line.hold(true);
  for (int i = 0; i < 20; ++i) world.mustOk(world.client.remove<cache::Claim>({"sick", "c" + std::to_string(i)}));
  ASSERT_TRUE(comesTrue([&] { return !line.attempts().empty(); }));
  for (int i = 0; i < 5; ++i) world.removeClaim("c" + std::to_string(i));
  // Only those of the sick namespace remain.
  EXPECT_TRUE(comesTrueInTime([&] { return controller->stores().claims.size() == 20; }));
}

TEST_F(FairControllerTest, FreedCardsGoToThoseOfTheHighestPriorityInWhateverNamespace) {
  core::PriorityClass high;
  high.metadata.name = "high";
  high.value = 1000;
  world.must(world.client.create(high));
  const core::StringMap card{{"elasticgpu.io/gpu", "1"}};
  addClaims("default", "c", 8, card);
  start(16);
  ASSERT_TRUE(comesTrue([&] { return bound("default") == 8; }));
  addClaims("default", "low", 80, card);
  addClaims("sick", "high", 5, card, "high");
  ASSERT_TRUE(comesTrue([&] { return controller->reconciler().waitingForCapacity() == 85 && controller->quiet(); }));
  for (int i = 0; i < 5; ++i) world.removeClaim("c" + std::to_string(i));
  EXPECT_TRUE(comesTrue([&] {
    return controller->stores().claims.size() == 88 && bound("default") + bound("sick") == 8 && controller->quiet();
  }));
  EXPECT_EQ(bound("sick"), 5);
}

TEST(QueueKeyTest, RoundTrip) {
  for (const std::string text :
       {"claim/ns/a", "device/egpu-1", "card/gpu-1", "resourceclaim/ns/a", "pod/ns/p", "node/n", "class/c",
        "plugin/p.io", "calls/p.io", "usage/ns/a", "capacity/all", "plans/all"}) {
    auto key = QueueKey::parse(text);
    ASSERT_TRUE(key) << text;
    EXPECT_EQ(key->str(), text);
  }
  EXPECT_FALSE(QueueKey::parse("claim/only"));
  EXPECT_FALSE(QueueKey::parse("what/ever"));
}

TEST(ThreadsTest, TwoHundredClaimsAreBoundAndReleased) {
  support::World world;
  world.addNamespace("default");
  for (int n = 0; n < 4; ++n) {
    world.addNode("n" + std::to_string(n));
    for (int i = 0; i < 4; ++i) world.addCard("n" + std::to_string(n), i);
  }
  world.addClass("share");
  base::SystemClock clock;
  kube::Client client(*world.transport, clock, world.random, world.metrics);
  support::EventLog events;
  ControllerOptions options;
  options.workers = 8;
  options.reconciler.auditor.summaryDelay = std::chrono::milliseconds(10);
  Controller controller(client, world.registry, clock, events, world.metrics, options);
  controller.start();
  ASSERT_TRUE(controller.waitUntilReady());
  const auto until = [&](const std::function<bool()>& holds) {
    const auto deadline = clock.now() + std::chrono::seconds(60);
    while (!holds()) {
      ASSERT_LT(clock.now(), deadline);
      clock.sleepFor(std::chrono::milliseconds(5), {});
    }
  };
  for (int i = 0; i < 150; ++i)
    world.addClaim("c" + std::to_string(i), "share", {{"gpu-core", "10"}, {"gpu-memory", "1"}});
  until([&] {
    int bound = 0;
    controller.stores().claims.forEach([&](const auto& c) { bound += c->status.phase == "Bound"; });
    return bound == 150 && controller.quiet();
  });
  EXPECT_EQ(world.violation(), "");
  const auto totals = controller.cluster().allocationMap().totals();
  EXPECT_EQ(totals.cards, 16);
  EXPECT_EQ(totals.usedCore, 15'000);
  for (int i = 0; i < 150; ++i) world.removeClaim("c" + std::to_string(i));
  until([&] {
    return controller.stores().claims.size() == 0 && controller.stores().devices.size() == 0 && controller.quiet();
  });
  EXPECT_EQ(world.garbage(), "");
  controller.stop();
  EXPECT_EQ(controller.cluster().allocationMap().totals().usedCore, 0);
  world.registry.forgetListeners();
}

}  // namespace
}  // namespace egpu::reconcile

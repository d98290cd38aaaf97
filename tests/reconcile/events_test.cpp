// Whatever a claim waits for brings it back by event; what was decided and came to nothing is given back; nothing goes
// round and round.
#include "controller/reconcile/queue_key.h"
#include "tests/reconcile/fixture.h"
#include "tests/support/refusing_transport.h"

namespace egpu::reconcile {
namespace {

using EventsTest = ReconcileTest;

TEST_F(EventsTest, C2_AFirstConsumerOfAClassThatComesLater) {
  world.addClaim("a", "later", {{"gpu-core", "10"}});
  world.addPod("p", {"a"});
  settle();
  EXPECT_EQ(world.reason("a"), "ClassNotFound");
  world.addClass("later", "Delete", "WaitForFirstConsumer");
  settle();
  EXPECT_TRUE(world.pod("p").schedulingGates.empty());
  EXPECT_TRUE(world.exists(deviceOf("a")));
}

TEST_F(EventsTest, C2_AFirstConsumerOfADefaultClassThatComesLater) {
  world.addClaim("a", "", {{"gpu-core", "10"}});
  world.addPod("p", {"a"});
  settle();
  EXPECT_EQ(world.reason("a"), "ClassNotFound");
  world.json<cache::Class>({"", "late"}, R"({"metadata":{"annotations":{"elasticgpu.io/is-default-class":"true"}}})");
  settle();
  EXPECT_TRUE(world.pod("p").schedulingGates.empty());
}

TEST_F(EventsTest, C3_AFirstConsumerOfAPluginThatComesLater) {
  support::FakeProvisioner other("other.example.com", "physicalGPU");
  world.addClass("other", "Delete", "WaitForFirstConsumer", {}, "other.example.com");
  world.addClaim("a", "other", {{"gpu", "1"}});
  world.addPod("p", {"a"});
  settle();
  EXPECT_EQ(world.reason("a"), "ProvisionerUnavailable");
  world.registry.add(other);
  settle();
  EXPECT_TRUE(world.pod("p").schedulingGates.empty());
  world.removePod("p");
  world.removeClaim("a");
  driver->run();
  driver.reset();
}

TEST_F(EventsTest, C3_AClassWhosePluginCouldNotAnswerIsAskedAgain) {
  world.plugin.failValidations(6);
  world.addClass("moody");
  world.addClaim("a", "moody", {{"gpu-core", "10"}});
  settle();
  EXPECT_EQ(world.reason("a"), "ProvisionerUnavailable");
  EXPECT_NE(world.message("a").find("out of sorts"), std::string::npos);
  driver->run();
  EXPECT_EQ(world.claim("a").status.phase, "Bound");
}

TEST_F(EventsTest, C3_AClaimThatThePluginCouldNotAnswerForIsTriedAgain) {
  world.addClaim("a", "share", {{"gpu", "7"}});
  settle();
  ASSERT_EQ(world.reason("a"), "NoFit");
  world.plugin.failValidations(1);
  driver->enqueue(claimKey({"default", "a"}));  // it asks first, and is told that the plugin can't say
  world.registry.changed(world.plugin.description().name);
  driver->run();
  EXPECT_EQ(world.reason("a"), "NoFit") << world.message("a");
}

TEST_F(EventsTest, C3_WhileThePluginCanNotAnswerTheClassSaysSoAndAloneAsks) {
  for (int i = 0; i < 20; ++i) world.addClaim("a" + std::to_string(i), "share", {{"gpu", "7"}});
  settle();
  world.plugin.failValidations(1'000);
  const int before = world.plugin.validations();
  driver->enqueue(claimKey({"default", "a0"}));
  world.registry.changed(world.plugin.description().name);
  settle();
  EXPECT_EQ(world.reason("a7"), "ProvisionerUnavailable");
  const auto cls = support::World::must(world.client.get<cache::Class>({"", "share"}));
  const auto* ready = findCondition(cls.conditions, kReady);
  ASSERT_NE(ready, nullptr);
  EXPECT_EQ(ready->status, "False");
  EXPECT_NE(ready->message.find("out of sorts"), std::string::npos);
  EXPECT_LE(world.plugin.validations() - before, 10) << "not one per claim";
  world.plugin.failValidations(0);
  driver->run();
  EXPECT_EQ(world.reason("a7"), "NoFit");
}

TEST_F(EventsTest, C2_AClassThatTheCacheHasNotSeenYetIsAskedFor) {
  driver->classes.faults.delay = driver->classes.events();
  world.addClass("new");
  world.addClaim("a", "new", {{"gpu-core", "10"}});
  settle();
  EXPECT_EQ(world.claim("a").status.phase, "Bound");
  EXPECT_EQ(told("a Warning ClassNotFound"), 0);
  driver->classes.faults.delay = driver->classes.events();
  world.json<cache::Class>({"", "new"}, R"({"metadata":{"annotations":{"elasticgpu.io/is-default-class":"true"}}})");
  world.addClaim("b", "", {{"gpu-core", "10"}});
  settle();
  EXPECT_EQ(world.claim("b").status.phase, "Bound");
  EXPECT_EQ(told("b Warning ClassNotFound"), 0);
}

TEST_F(EventsTest, W9_AClaimThatTheCacheHasNotSeenYetIsAskedFor) {
  driver->claims.faults.delay = driver->claims.events();
  world.addClaim("a", "share", {{"gpu-core", "10"}});
  world.addPod("p", {"a"});
  settle();
  EXPECT_TRUE(world.pod("p").schedulingGates.empty());
  EXPECT_EQ(told("p Warning WaitingForClaim"), 0);
}

TEST_F(EventsTest, W3_AClaimSaysThatItsPluginTakesItsTime) {
  std::string during;
  world.plugin.before = [&] {
    world.clock.advance(std::chrono::seconds(2));
    (void)driver->reconciler.step(callsKey(support::World::kPlugin));
    during = world.claim("a").status.phase + " " + world.reason("a");
  };
  world.addClaim("a", "share", {{"gpu-core", "10"}});
  driver->run();
  EXPECT_EQ(during, "Pending Provisioning");
  EXPECT_EQ(world.claim("a").status.phase, "Bound");
  world.plugin.before = nullptr;
  const auto before = writes();
  world.addClaim("b", "share", {{"gpu-core", "10"}});
  settle();
  EXPECT_EQ(writes() - before, 6u) << "the usual call is not worth a word";
}

TEST_F(EventsTest, C3_AClassSaysThatItsPluginCannotBeReliedOn) {
  const auto ready = [&] {
    const auto cls = support::World::must(world.client.get<cache::Class>({"", "share"}));
    const auto* condition = findCondition(cls.conditions, kReady);
    return condition == nullptr ? "" : condition->status + " " + condition->message;
  };
  EXPECT_EQ(ready(), "True ");
  world.plugin.answer({{plugin::ReplyCode::garbage, "no such code"}}, true);
  world.addClaim("a", "share", {{"gpu-core", "10"}});
  settle();
  EXPECT_NE(ready().find("False provisioner gpushare.provisioner.elasticgpu.io: provision: "), std::string::npos)
      << ready();
  world.plugin.answer({});
  driver->run();
  EXPECT_EQ(world.claim("a").status.phase, "Bound");
  EXPECT_EQ(ready(), "True ");
}

TEST_F(EventsTest, C7_ACrowdBeforeABusyPluginComesSeldom) {
  base::NoMetrics metrics;
  Provisioning provisioning(world.registry, driver->stores, world.clock, 0);
  cache::Gpu device;
  device.spec.provisioner = support::World::kPlugin;
  EXPECT_EQ(provisioning.delay(device), std::chrono::milliseconds(50));
  for (int i = 0; i < 2000; ++i) EXPECT_FALSE(provisioning.provision(device));
  EXPECT_EQ(provisioning.delay(device), std::chrono::milliseconds(1000));
}

TEST_F(EventsTest, C6_APodWithoutGateFollowsALabelThatItWaitsFor) {
  world.addClaim("a", "late", {{"gpu-core", "10"}});
  world.addPod("p", {"a"}, false, {{"zone", "x"}});
  settle();
  EXPECT_EQ(world.reason("a"), "NoFit");
  world.json<core::Node>({"", "n1"}, R"({"metadata":{"labels":{"zone":"x"}}})");
  settle();
  ASSERT_TRUE(world.carrier("a"));
  EXPECT_TRUE(world.carrier("a")->allocation);
}

TEST_F(EventsTest, C6_ACordonedNodeIsTriedAgainWhenItIsBack) {
  world.json<core::Node>({"", "n1"}, R"({"spec":{"unschedulable":true}})");
  settle();
  world.addClaim("a", "share", {{"gpu-core", "10"}});
  settle();
  EXPECT_EQ(world.reason("a"), "NoFit");
  EXPECT_NE(world.message("a").find("cordoned"), std::string::npos) << world.message("a");
  world.json<core::Node>({"", "n1"}, R"({"spec":{"unschedulable":null}})");
  settle();
  EXPECT_EQ(world.claim("a").status.phase, "Bound");
}

TEST_F(EventsTest, C6_ARetainedDeviceThatIsDeletedMakesRoom) {
  world.addClaim("a", "keep", {{"gpu", "2"}});
  settle();
  const auto name = deviceOf("a");
  world.removeClaim("a");
  settle();
  world.addClaim("b", "share", {{"gpu", "1"}});
  settle();
  EXPECT_EQ(world.reason("b"), "NoFit");
  support::World::mustOk(world.client.remove<cache::Gpu>({"", name}));
  settle();
  EXPECT_EQ(world.claim("b").status.phase, "Bound");
}

TEST_F(EventsTest, C7_TheOnlyNodeRefusedForAWhileIsTriedAgainAfterIt) {
  world.plugin.answer({{plugin::ReplyCode::reschedule, "no slot"}, {}});
  world.addClaim("a", "share", {{"gpu-core", "10"}});
  settle();
  EXPECT_EQ(world.reason("a"), "NoFit");
  EXPECT_NE(world.message("a").find("no slot"), std::string::npos) << world.message("a");
  driver->run(std::chrono::minutes(4));
  EXPECT_EQ(world.claim("a").status.phase, "Bound");
}

TEST_F(EventsTest, C7_ARefusalByThePluginEnds) {
  world.plugin.answer({{plugin::ReplyCode::invalid, "no such profile"}, {}});
  world.addClaim("a", "share", {{"gpu-core", "10"}});
  settle();
  EXPECT_EQ(world.reason("a"), "ProvisionFailed");
  driver->run(std::chrono::minutes(6));
  EXPECT_EQ(world.claim("a").status.phase, "Bound");
}

TEST_F(EventsTest, C7_ARefusalOfAFirstConsumersClaimEnds) {
  world.plugin.answer({{plugin::ReplyCode::invalid, "no such profile"}, {}});
  world.addClaim("a", "late", {{"gpu-core", "10"}});
  world.addPod("p", {"a"});
  settle();
  world.schedule("p");
  settle();
  EXPECT_EQ(world.reason("a"), "ProvisionFailed");
  world.removePod("p");
  settle();
  world.addPod("q", {"a"});
  driver->run(std::chrono::minutes(6));
  EXPECT_TRUE(world.pod("q").schedulingGates.empty());
  world.schedule("q");
  settle();
  EXPECT_EQ(world.claim("a").status.phase, "Bound");
  world.removePod("q");
}

TEST_F(EventsTest, C7_ARescheduleUnderAReservationSaysSoAndIsAskedAgain) {
  world.plugin.answer({{plugin::ReplyCode::reschedule, "no slot"}}, true);
  world.addClaim("a", "late", {{"gpu-core", "10"}});
  world.addPod("p", {"a"});
  settle();
  world.schedule("p");
  settle();
  EXPECT_EQ(world.reason("a"), "ProvisionFailed");
  EXPECT_NE(world.message("a").find("no slot"), std::string::npos) << world.message("a");
  world.plugin.answer({});
  driver->run();
  EXPECT_EQ(world.claim("a").status.phase, "Bound");
  world.removePod("p");
}

TEST_F(EventsTest, C9_APluginThatRefusesANamedDeviceIsNotAskedInALoop) {
  world.addClaim("a", "keep", {{"gpu-core", "10"}});
  settle();
  const auto name = deviceOf("a");
  world.removeClaim("a");
  settle();
  world.json<cache::Gpu>({"", name}, R"({"spec":{"claimRef":null}})");
  settle();
  for (const auto outcome : {plugin::ReplyCode::invalid, plugin::ReplyCode::reschedule}) {
    const auto asked = world.plugin.provisions();
    world.plugin.answer({{outcome, "broken"}}, true);
    world.addClaim("b", "keep", {}, name);
    ASSERT_NO_THROW(settle());
    EXPECT_EQ(world.reason("b"), "ProvisionFailed");
    EXPECT_NE(world.message("b").find("broken"), std::string::npos) << world.message("b");
    EXPECT_LT(world.plugin.provisions() - asked, 5);
    world.plugin.answer({});
    driver->run(std::chrono::minutes(6));
    EXPECT_EQ(world.claim("b").status.phase, "Bound");
    world.removeClaim("b");
    driver->run();
    world.json<cache::Gpu>({"", name}, R"({"spec":{"claimRef":null}})");
    settle();
    EXPECT_EQ(world.gpu(name).status.phase, "Available");
  }
  support::World::mustOk(world.client.remove<cache::Gpu>({"", name}));
}

TEST_F(EventsTest, W2_ALedgerHoldsSoManyEntriesAndNoMore) {
  world.json<cache::Gpu>({"", "gpu-n1-1"}, R"({"status":{"phase":"Failed","reason":"Broken"}})", "status");
  settle();
  for (int i = 0; i < 130; ++i) world.addClaim("m" + std::to_string(i), "share", {{"gpu-memory", "1Mi"}});
  settle();
  int bound = 0, noFit = 0;
  std::string why;
  for (int i = 0; i < 130; ++i) {
    const auto name = "m" + std::to_string(i);
    bound += world.claim(name).status.phase == "Bound";
    if (world.reason(name) == "NoFit") {
      ++noFit;
      why = world.message(name);
    }
  }
  EXPECT_EQ(bound, 128);
  EXPECT_EQ(noFit, 2);
  EXPECT_NE(why.find("128 claims per card"), std::string::npos) << why;
}

TEST_F(EventsTest, W1_AnAssumptionOfUnknownOutcomeEndsWithItsClaim) {
  support::RefusingTransport line(*world.transport);
  line.code = 0;
  startOver(line);
  line.refuses = [](const kube::HttpRequest& r) {
    return r.target.find("/elasticgpus") != std::string::npos && r.method != kube::Method::patch;
  };
  world.addClaim("a", "share", {{"gpu", "2"}});
  settle();
  EXPECT_EQ(driver->cluster.totals().usedCore, 2000);  // it may exist
  world.removeClaim("a");
  settle();
  line.refuses = nullptr;
  driver->run();
  EXPECT_EQ(driver->cluster.totals().usedCore, 0);
  world.addClaim("b", "share", {{"gpu", "2"}});
  driver->run();
  EXPECT_EQ(world.claim("b").status.phase, "Bound");
  driver.reset();
}

TEST_F(EventsTest, W1_AnAssumptionOfAnEarlierClaimOfThatNameIsGivenBack) {
  support::RefusingTransport line(*world.transport);
  line.code = 0;
  startOver(line);
  line.refuses = [](const kube::HttpRequest& r) {
    return r.target.find("/elasticgpus") != std::string::npos && r.method != kube::Method::patch;
  };
  world.addClaim("a", "share", {{"gpu", "2"}});
  settle();
  line.refuses = nullptr;
  world.removeClaim("a");
  world.addClaim("a", "share", {{"gpu", "2"}});
  driver->run();
  EXPECT_EQ(world.claim("a").status.phase, "Bound") << world.message("a");
  driver.reset();
}

TEST_F(EventsTest, W2_AServerThatRefusesTheEntryForGoodIsNotAskedInALoop) {
  support::RefusingTransport line(*world.transport);
  line.code = 422;
  line.message = "denied by policy";
  line.refuses = [](const kube::HttpRequest& request) {
    return request.body.find("\"allocations\"") != std::string::npos &&
           request.body.find("\"core\"") != std::string::npos;
  };
  startOver(line);
  driver->limit = 2000;
  world.addClaim("a", "share", {{"gpu-core", "10"}});
  ASSERT_NO_THROW(settle());
  EXPECT_LT(line.refused, 20);
  EXPECT_EQ(world.claim("a").status.phase, "Pending");
  EXPECT_NE(world.message("a").find("denied by policy"), std::string::npos) << world.message("a");
  world.removeClaim("a");
  driver->run();
  driver.reset();
}

}  // namespace
}  // namespace egpu::reconcile

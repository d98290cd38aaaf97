// What users and operators do to claims, devices, classes and pods by hand, and what they see.
#include "tests/reconcile/fixture.h"

namespace egpu::reconcile {
namespace {

using UsersTest = ReconcileTest;

TEST_F(UsersTest, AClaimMadeAnewAtOnceUnderTheSameName) {
  // Pending, then Provisioning, then Bound: each time the old one goes and a new one of that name comes.
  world.addClaim("a", "share", {{"gpu", "3"}});
  settle();
  world.removeClaim("a");
  world.plugin.answer({{plugin::ReplyCode::inProgress, ""}}, true);
  world.addClaim("a", "share", {{"gpu-core", "10"}});
  settle();
  EXPECT_EQ(world.reason("a"), "Provisioning");
  const auto old = deviceOf("a");
  world.removeClaim("a");
  world.plugin.answer({});
  world.addClaim("a", "share", {{"gpu-core", "20"}});
  settle();
  EXPECT_EQ(world.claim("a").status.phase, "Bound");
  EXPECT_FALSE(world.exists(old));
  const auto bound = deviceOf("a");
  world.removeClaim("a");
  driver->run();
  world.addClaim("a", "share", {{"gpu-core", "30"}});
  settle();
  EXPECT_EQ(world.claim("a").status.phase, "Bound");
  EXPECT_FALSE(world.exists(bound));
  EXPECT_EQ(driver->cluster.totals().usedCore, 300);
}

TEST_F(UsersTest, AClassThatGoesTakesNothingFromItsClaims) {
  world.addClass("brief");
  world.addClaim("a", "brief", {{"gpu-core", "10"}});
  settle();
  support::World::mustOk(world.client.remove<cache::Class>({"", "brief"}));
  world.addPod("p", {"a"});
  settle();
  EXPECT_EQ(world.claim("a").status.phase, "Bound");
  EXPECT_TRUE(world.pod("p").schedulingGates.empty());
  world.removePod("p");
  settle();
  world.removeClaim("a");
  settle();
  EXPECT_EQ(driver->cluster.totals().usedCore, 0);
}

TEST_F(UsersTest, StaticBindingToWhatIsNotThereYet) {
  world.addClaim("dev", "", {}, "by-hand");
  world.addClaim("card", "share", {}, "gpu-n1-2");
  settle();
  EXPECT_EQ(world.reason("dev"), "StaticNotAvailable");
  EXPECT_NE(world.message("dev").find("by-hand"), std::string::npos);
  EXPECT_EQ(world.reason("card"), "StaticNotAvailable");
  world.addCard("n1", 2);
  settle();
  EXPECT_EQ(world.claim("card").status.phase, "Bound");
  EXPECT_EQ(world.gpu("gpu-n1-2").spec.allocations.begin()->second.core, 1000);
  cache::Gpu device;
  device.metadata.name = "by-hand";
  device.spec.cards = {{"gpu-n1-0", "GPU-n1-0", 500, 8 * kGi, 500, 8 * kGi}};
  device.spec.nodeName = "n1";
  (void)support::World::must(world.client.create(device));
  settle();
  EXPECT_EQ(world.claim("dev").status.phase, "Bound");
}

TEST_F(UsersTest, ANameGivenWhileItIsProvisionedIsFollowed) {
  world.plugin.answer({{plugin::ReplyCode::inProgress, ""}}, true);
  world.addClaim("a", "share", {{"gpu-core", "10"}});
  settle();
  const auto was = world.gpu(deviceOf("a")).spec.cards[0].name;
  const std::string other = was == "gpu-n1-0" ? "gpu-n1-1" : "gpu-n1-0";
  world.json<cache::Claim>({"default", "a"}, R"({"spec":{"elasticGPUName":")" + other + R"("}})");
  world.plugin.answer({});
  driver->run();
  const auto claim = world.claim("a");
  EXPECT_EQ(claim.status.phase, "Bound");
  EXPECT_EQ(claim.spec.elasticGPUName, other);
  EXPECT_EQ(world.gpu(claim.status.elasticGPUName).spec.cards[0].name, other);
}

TEST_F(UsersTest, AFirstConsumerStaysOneWhenTheDefaultClassChanges) {
  const auto annotate = [&](const std::string& cls, const std::string& value) {
    world.json<cache::Class>({"", cls},
                             R"({"metadata":{"annotations":{"elasticgpu.io/is-default-class":)" + value + "}}}");
  };
  annotate("late", R"("true")");
  world.addClaim("a", "", {{"gpu-core", "10"}});
  world.addPod("p", {"a"});
  settle();
  annotate("late", "null");
  annotate("share", R"("true")");
  driver->run();
  EXPECT_TRUE(world.plugin.made().empty());  // nobody has reserved it
  world.schedule("p");
  settle();
  EXPECT_EQ(world.claim("a").status.phase, "Bound");
  world.removePod("p");
}

TEST_F(UsersTest, ANamedCardUnderAFirstConsumerClass) {
  world.addClaim("a", "late", {{"gpu-core", "10"}}, "gpu-n1-1");
  settle();
  EXPECT_EQ(world.reason("a"), "WaitingForConsumer");
  world.addPod("p", {"a"});
  settle();
  EXPECT_TRUE(world.pod("p").schedulingGates.empty());
  EXPECT_EQ(world.gpu(deviceOf("a")).spec.cards[0].name, "gpu-n1-1");
  world.schedule("p");
  settle();
  EXPECT_EQ(world.claim("a").status.phase, "Bound");
  world.removePod("p");
}

TEST_F(UsersTest, ANodeGoesAndComesWithNowhereElseToGo) {
  world.addClaim("a", "share", {{"gpu-core", "10"}});
  settle();
  world.removeNode("n1");
  driver->run();
  EXPECT_EQ(world.claim("a").status.phase, "Pending");
  EXPECT_EQ(world.reason("a"), "NoFit");
  world.addNode("n1");
  driver->run();
  EXPECT_EQ(world.claim("a").status.phase, "Bound");
  EXPECT_EQ(world.gpu("gpu-n1-0").status.phase, "Available");
}

TEST_F(UsersTest, ACardDeletedUnderAClaimInUseLeavesWithItsPod) {
  world.addClaim("a", "share", {{"gpu-core", "10"}}, "gpu-n1-0");
  world.addPod("p", {"a"});
  settle();
  world.schedule("p");
  settle();
  support::World::mustOk(world.client.remove<cache::Gpu>({"", "gpu-n1-0"}));
  driver->run();
  EXPECT_EQ(world.claim("a").status.phase, "Lost");
  EXPECT_TRUE(world.exists("gpu-n1-0"));
  world.removePod("p");
  driver->run();
  EXPECT_FALSE(world.exists("gpu-n1-0"));
  EXPECT_NE(world.claim("a").status.phase, "Bound");
  world.removeClaim("a");
  driver->run();
}

TEST_F(UsersTest, OfTwoDefaultClassesTheOlderOneThenTheFirstByName) {
  for (const auto* name : {"share", "keep"})
    world.json<cache::Class>({"", name}, R"({"metadata":{"annotations":{"elasticgpu.io/is-default-class":"true"}}})");
  world.addClaim("a", "", {{"gpu-core", "10"}});
  settle();
  EXPECT_EQ(world.claim("a").status.phase, "Bound");
  const auto cls = world.gpu(deviceOf("a")).spec.className;
  world.addClaim("b", "", {{"gpu-core", "10"}});
  settle();
  EXPECT_EQ(world.gpu(deviceOf("b")).spec.className, cls);
}

TEST_F(UsersTest, ACarrierThatIsTakenIsMadeOnceItIsFree) {
  core::ResourceClaim foreign;
  foreign.metadata.name = "a";
  foreign.metadata.namespace_ = "default";
  foreign.deviceClassName = "other";
  foreign.requestName = "x";
  (void)support::World::must(world.client.create(foreign));
  world.addClaim("a", "share", {{"gpu-core", "10"}});
  world.addPod("p", {"a"});
  settle();
  EXPECT_EQ(world.reason("a", "Carried"), "CarrierTaken");
  support::World::mustOk(world.client.remove<core::ResourceClaim>({"default", "a"}));
  settle();
  EXPECT_TRUE(world.pod("p").schedulingGates.empty());
  EXPECT_EQ(world.reason("a", "Carried"), "Carried");
}

TEST_F(UsersTest, ACarrierThatWasTakenIsNotHeldAgainstAClaimWithoutPods) {
  core::ResourceClaim foreign;
  foreign.metadata.name = "a";
  foreign.metadata.namespace_ = "default";
  foreign.deviceClassName = "other";
  foreign.requestName = "x";
  (void)support::World::must(world.client.create(foreign));
  world.addClaim("a", "share", {{"gpu-core", "10"}});
  settle();
  EXPECT_EQ(world.reason("a", "Carried"), "CarrierTaken");
  support::World::mustOk(world.client.remove<core::ResourceClaim>({"default", "a"}));
  settle();
  EXPECT_NE(world.reason("a", "Carried"), "CarrierTaken");
}

TEST_F(UsersTest, AnUnsuitableNodeIsForgottenWithItsPod) {
  world.addClaim("a", "share", {{"gpu-core", "10"}});
  world.addPod("p", {"a"}, true, {{"zone", "x"}});
  settle();
  EXPECT_EQ(world.reason("a", "Carried"), "NodeUnsuitable");
  world.removePod("p");
  settle();
  EXPECT_NE(world.reason("a", "Carried"), "NodeUnsuitable");
}

TEST_F(UsersTest, ANewPodIsNotPinnedToACardThatIsGone) {
  world.addClaim("a", "share", {{"gpu-core", "10"}});
  world.addPod("p", {"a"});
  settle();
  world.schedule("p");
  settle();
  const auto card = world.gpu(deviceOf("a")).spec.cards[0].name;
  world.json<cache::Gpu>({"", card}, R"({"status":{"phase":"Failed","reason":"Xid79"}})", "status");
  settle();
  EXPECT_EQ(world.claim("a").status.phase, "Lost");
  world.addPod("q", {"a"});
  settle();
  EXPECT_FALSE(world.pod("q").schedulingGates.empty());
  world.json<cache::Gpu>({"", card}, R"({"status":{"phase":"Available","reason":null}})", "status");
  settle();
  EXPECT_EQ(world.claim("a").status.phase, "Bound");
  EXPECT_TRUE(world.pod("q").schedulingGates.empty());
  world.removePod("p");
  world.removePod("q");
}

TEST_F(UsersTest, ADeviceTornOutByForceIsReplacedAndItsEffectUndone) {
  world.addClaim("a", "share", {{"gpu-core", "10"}});
  settle();
  const auto name = deviceOf("a");
  const auto uid = world.gpu(name).metadata.uid;
  world.json<cache::Gpu>({"", name}, R"({"metadata":{"finalizers":null}})");
  support::World::mustOk(world.client.remove<cache::Gpu>({"", name}));
  driver->run();
  EXPECT_EQ(world.claim("a").status.phase, "Bound");
  EXPECT_NE(world.gpu(name).metadata.uid, uid);
  EXPECT_EQ(world.garbage(), "");
}

TEST_F(UsersTest, ADeviceDeletedAndThenTornOutIsReplacedAndItsEffectUndone) {
  world.addClaim("a", "share", {{"gpu-core", "10"}});
  settle();
  const auto name = deviceOf("a");
  const auto uid = world.gpu(name).metadata.uid;
  support::World::mustOk(world.client.remove<cache::Gpu>({"", name}));
  settle();
  world.json<cache::Gpu>({"", name}, R"({"metadata":{"finalizers":null}})");
  driver->run();
  EXPECT_EQ(world.claim("a").status.phase, "Bound");
  EXPECT_NE(world.gpu(name).metadata.uid, uid);
  EXPECT_EQ(world.garbage(), "");
}

TEST_F(UsersTest, TwoClaimsOfOnePodAndThePodGoesBeforeItRan) {
  world.addClaim("a", "late", {{"gpu-core", "10"}});
  world.addClaim("b", "late", {{"gpu-core", "20"}});
  world.addPod("p", {"a", "b"});
  settle();
  EXPECT_TRUE(world.pod("p").schedulingGates.empty());
  EXPECT_EQ(driver->cluster.totals().usedCore, 300);
  world.removePod("p");
  driver->run();
  EXPECT_EQ(driver->cluster.totals().usedCore, 0);
  for (const auto* name : {"a", "b"}) EXPECT_EQ(world.reason(name), "WaitingForConsumer");
  EXPECT_TRUE(world.plugin.made().empty());
  world.addPod("q", {"a", "b"});
  driver->run();  // what was taken back stays empty for a moment
  world.schedule("q");
  settle();
  for (const auto* name : {"a", "b"}) EXPECT_EQ(world.claim(name).status.phase, "Bound");
  world.removePod("q");
}

TEST_F(UsersTest, AGateIsLiftedOnce) {
  world.addClaim("a", "share", {{"gpu-core", "10"}});
  world.addPod("p", {"a"});
  settle();
  const auto version = world.pod("p").metadata.resourceVersion;
  world.clearAllocation("a");
  driver->run();
  start();
  driver->run();
  EXPECT_EQ(world.pod("p").metadata.resourceVersion, version);
}

TEST_F(UsersTest, TheClassIsShownUnderEitherSpellingAndByDefault) {
  cache::Claim other;
  other.metadata.name = "other";
  other.metadata.namespace_ = "default";
  other.spec.classNameAlias = "late";
  other.spec.requests = {{"elasticgpu.io/gpu-core", "10"}};
  (void)support::World::must(world.client.create(other));
  world.addClaim("none", "nosuch", {{"gpu-core", "10"}});
  world.addClaim("default", "", {{"gpu-core", "10"}});
  settle();
  EXPECT_EQ(world.claim("other").status.className, "late");
  EXPECT_EQ(world.claim("none").status.className, "nosuch");
  EXPECT_EQ(world.claim("default").status.className, "");
  world.json<cache::Class>({"", "share"}, R"({"metadata":{"annotations":{"elasticgpu.io/is-default-class":"true"}}})");
  settle();
  EXPECT_EQ(world.claim("default").status.className, "share");
  EXPECT_EQ(world.claim("default").status.phase, "Bound");
}

TEST_F(UsersTest, AShareIsNoWholeCard) {
  world.addClaim("a", "keep", {{"gpu-core", "30"}, {"gpu-memory", "4"}});
  settle();
  const auto share = deviceOf("a");
  world.addClaim("pair", "keep", {{"gpu", "2"}, {"gpu-core", "20"}});
  settle();
  const auto pair = deviceOf("pair");
  world.removeClaim("a");
  world.removeClaim("pair");
  settle();
  world.addClaim("early", "keep", {}, share);
  settle();
  EXPECT_EQ(world.message("early"), "device " + share +
                                        " is Released: it was kept for claim default/a, which is gone; clear its "
                                        "spec.claimRef to make it Available");
  world.removeClaim("early");
  for (const auto& name : {share, pair}) world.json<cache::Gpu>({"", name}, R"({"spec":{"claimRef":null}})");
  settle();
  world.addClaim("whole", "keep", {{"gpu", "1"}}, share);
  world.addClaim("wholes", "keep", {{"gpu", "2"}}, pair);
  world.addClaim("more", "keep", {{"gpu", "2"}, {"gpu-core", "30"}}, pair);
  settle();
  for (const auto* name : {"whole", "wholes", "more"}) {
    EXPECT_EQ(world.reason(name), "StaticNotAvailable") << name;
    EXPECT_NE(world.message(name).find("smaller than requested"), std::string::npos) << world.message(name);
  }
  world.addClaim("fits", "keep", {{"gpu", "2"}, {"gpu-core", "20"}}, pair);
  settle();
  EXPECT_EQ(world.claim("fits").status.elasticGPUName, pair);
}

TEST_F(UsersTest, ADeviceTakenFromItsClaimByHandIsGivenBackToIt) {
  world.addClaim("a", "share", {{"gpu-core", "10"}});
  settle();
  const auto name = deviceOf("a");
  world.json<cache::Gpu>({"", name}, R"({"spec":{"claimRef":null}})");
  driver->run();
  EXPECT_EQ(world.claim("a").status.phase, "Bound");
  EXPECT_EQ(world.claim("a").status.elasticGPUName, name);
  EXPECT_EQ(driver->cluster.totals().usedCore, 100);
}

TEST_F(UsersTest, ADeviceBeingDeletedSaysWhatItWaitsFor) {
  world.addClaim("a", "share", {{"gpu-core", "10"}});
  settle();
  const auto name = deviceOf("a");
  support::World::mustOk(world.client.remove<cache::Gpu>({"", name}));
  driver->run();
  EXPECT_EQ(world.gpu(name).status.phase, "Bound");
  EXPECT_EQ(world.gpu(name).status.reason, "InUse");
  EXPECT_EQ(told(name + " Normal InUse is being deleted; waits for its claim default/a to be deleted"), 1);
  EXPECT_EQ(world.claim("a").status.phase, "Bound");
  const auto before = writes();
  start();
  driver->run();
  EXPECT_EQ(writes(), before);
  world.removeClaim("a");
  driver->run();
  EXPECT_FALSE(world.exists(name));
}

TEST_F(UsersTest, APodIsToldThatItsClaimsCarrierIsStillUsedByOthers) {
  world.addClaim("a", "share", {{"gpu-core", "10"}});
  world.addPod("p", {"a"});
  settle();
  world.schedule("p");
  settle();
  support::World::mustOk(world.client.remove<core::ResourceClaim>({"default", "a"}));
  world.addPod("q", {"a"});
  settle();
  EXPECT_EQ(told("q Warning WaitingForClaim claim a: its ResourceClaim is being deleted"), 1);
  world.removePod("p");
  driver->run();
  EXPECT_TRUE(world.pod("q").schedulingGates.empty());
  world.removePod("q");
}

TEST_F(UsersTest, ACardThatIsNotOfferedSaysWhy) {
  start(std::chrono::milliseconds(1000));
  const auto healthy = [&](const std::string& status) {
    world.json<cache::Gpu>(
        {"", "gpu-n1-0"},
        R"({"status":{"conditions":[{"type":"Healthy","status":")" + status + R"(","reason":"Xid79"}]}})", "status");
    driver->run();
  };
  healthy("False");
  EXPECT_EQ(world.gpu("gpu-n1-0").status.phase, "Unhealthy");
  EXPECT_EQ(world.gpu("gpu-n1-0").status.reason, "Xid79");
  healthy("True");
  EXPECT_EQ(world.gpu("gpu-n1-0").status.phase, "Available");
  EXPECT_EQ(world.gpu("gpu-n1-0").status.reason, "");
}

TEST_F(UsersTest, AnUnknownParameterIsRefusedWithAllThatIsKnown) {
  world.addClass("odd", "Delete", "Immediate", {{"refuse", "x"}});
  world.addClaim("a", "odd", {{"gpu-core", "10"}});
  settle();
  EXPECT_EQ(world.reason("a", "Accepted"), "InvalidParameter");
  EXPECT_NE(world.message("a").find("known to the scheduler are preset, nodePolicy, cardPolicy"), std::string::npos)
      << world.message("a");
}

TEST_F(UsersTest, OvercommitGrantsMoreThanItCharges) {
  world.addClass("over", "Delete", "Immediate", {{"coreOvercommit", "2"}, {"memoryOvercommit", "1.5"}});
  world.addClaim("a", "over", {{"gpu-core", "25"}, {"gpu-memory", "3"}});
  settle();
  const auto device = world.gpu(deviceOf("a"));
  ASSERT_EQ(device.spec.cards.size(), 1u);
  EXPECT_EQ(device.spec.cards[0].core, 250);
  EXPECT_EQ(device.spec.cards[0].chargedCore, 125);
  EXPECT_EQ(device.spec.cards[0].memory, 3 * kGi);
  EXPECT_EQ(device.spec.cards[0].chargedMemory, 2 * kGi);
  EXPECT_EQ(world.gpu(device.spec.cards[0].name).spec.allocations.at(device.metadata.uid).core, 125);
  EXPECT_EQ(world.claim("a").status.capacity.at("core"), "25%");
}

TEST_F(UsersTest, LimitsOfClaimsPerCardAndNode) {
  world.addClass("few", "Delete", "Immediate", {{"maxClaimsPerCard", "1"}});
  world.addClass("fewer", "Delete", "Immediate", {{"maxClaimsPerNode", "2"}});
  world.addClaim("a", "few", {{"gpu-core", "10"}});
  settle();
  world.addClaim("b", "few", {{"gpu-core", "10"}});
  settle();
  EXPECT_NE(world.gpu(deviceOf("a")).spec.cards[0].name, world.gpu(deviceOf("b")).spec.cards[0].name);
  world.addClaim("c", "few", {{"gpu-core", "10"}});
  world.nextSecond();  // the older one comes first, and leaves no room for the other
  world.addClaim("d", "fewer", {{"gpu-core", "10"}});
  settle();
  EXPECT_EQ(world.reason("c"), "NoFit");
  EXPECT_NE(world.message("c").find("1 claims per card"), std::string::npos) << world.message("c");
  EXPECT_EQ(world.reason("d"), "NoFit");
  world.removeClaim("a");
  driver->run();
  EXPECT_EQ(world.claim("c").status.phase, "Bound");
  EXPECT_EQ(world.reason("d"), "NoFit");
}

TEST_F(UsersTest, ModelAndMinMemory) {
  world.addClass("a100", "Delete", "Immediate", {{"model", "A100|H100"}});
  world.addClass("large", "Delete", "Immediate", {{"minMemory", "32"}});
  world.addClaim("m", "a100", {{"gpu-core", "10"}});
  world.addClaim("l", "large", {{"gpu-core", "10"}});
  settle();
  EXPECT_EQ(world.reason("m"), "NoFit");
  EXPECT_EQ(world.reason("l"), "NoFit");
  world.addCard("n1", 2, 40 * kGi);
  settle();
  EXPECT_EQ(world.reason("m"), "NoFit");
  EXPECT_EQ(world.claim("l").status.phase, "Bound");
  EXPECT_EQ(world.gpu(deviceOf("l")).spec.cards[0].name, "gpu-n1-2");
}

TEST_F(UsersTest, WaitingIsToldAsNormalAndRefusalAsWarning) {
  world.addClaim("a", "late", {{"gpu-core", "10"}});
  world.addClaim("b", "share", {{"gpu", "3"}});
  settle();
  const auto lines = driver->events.lines();
  const auto told = [&](const std::string& start) {
    return std::any_of(lines.begin(), lines.end(), [&](const auto& l) { return l.rfind(start, 0) == 0; });
  };
  EXPECT_TRUE(told("a Normal WaitingForConsumer"));
  EXPECT_TRUE(told("b Warning NoFit"));
}

TEST_F(UsersTest, WhatKubectlShowsOfCardsAndDevicesIsRightAfterBindAndRelease) {
  start(std::chrono::milliseconds(1000));
  world.addClaim("a", "share", {{"gpu-core", "10"}, {"gpu-memory", "4"}});
  world.addClaim("b", "share", {{"gpu-core", "25"}, {"gpu-memory", "2"}}, "gpu-n1-0");
  driver->run();
  world.removeClaim("a");
  driver->run();
  auto card = world.gpu("gpu-n1-0");
  ASSERT_TRUE(card.status.allocated);
  EXPECT_EQ(card.status.allocated->coreText, "25%");
  EXPECT_EQ(card.status.allocated->memoryText, "2Gi/16Gi");
  EXPECT_EQ(card.status.allocated->claims, 1);
  const auto device = world.gpu(deviceOf("b"));
  ASSERT_TRUE(device.status.allocated);
  EXPECT_EQ(device.status.allocated->coreText, "25%");
  EXPECT_EQ(device.status.allocated->memoryText, "2Gi");
  EXPECT_EQ(device.status.allocated->claims, 1);
  world.removeClaim("b");
  driver->run();
  card = world.gpu("gpu-n1-0");
  EXPECT_EQ(card.status.allocated->coreText, "0%");
  EXPECT_EQ(card.status.allocated->claims, 0);
}

TEST_F(UsersTest, ACardsColumnsWaitForClaimsButNotForever) {
  start(std::chrono::milliseconds(3000));  // ten is no multiple of it
  using std::chrono::milliseconds;
  const auto shown = [this] {
    const auto card = world.gpu("gpu-n1-0");
    return card.status.allocated ? card.status.allocated->coreText : "nothing";
  };
  const auto pass = [this](milliseconds time) {
    const auto end = world.clock.now() + time;
    driver->run(time);
    world.clock.advance(std::chrono::duration_cast<milliseconds>(end - world.clock.now()));
  };
  world.addClaim("a", "share", {{"gpu-core", "10"}}, "gpu-n1-0");
  pass(milliseconds(900));
  // Another claim is bound, on another card, just before each second is over.
  for (int n = 1; n <= 9; ++n) {
    world.addClaim("b" + std::to_string(n), "share", {{"gpu-core", "5"}}, "gpu-n1-1");
    pass(milliseconds(1000));
    EXPECT_EQ(shown(), "nothing") << "after " << n << " s";
  }
  world.addClaim("c", "share", {{"gpu-core", "5"}}, "gpu-n1-1");
  pass(milliseconds(200));
  EXPECT_EQ(shown(), "10%") << "ten seconds are enough";
  // Nothing else is bound: three seconds.
  world.addClaim("d", "share", {{"gpu-core", "25"}}, "gpu-n1-0");
  pass(milliseconds(2900));
  EXPECT_EQ(shown(), "10%");
  pass(milliseconds(200));
  EXPECT_EQ(shown(), "35%");
}

TEST_F(UsersTest, ARetainedDeviceShowsNoClaim) {
  world.addClaim("a", "keep", {{"gpu-core", "10"}});
  settle();
  const auto name = deviceOf("a");
  world.removeClaim("a");
  settle();
  const auto device = world.gpu(name);
  EXPECT_EQ(device.status.phase, "Released");
  ASSERT_TRUE(device.status.allocated);
  EXPECT_EQ(device.status.allocated->claims, 0);
  EXPECT_EQ(device.status.allocated->coreText, "10%");
}

}  // namespace
}  // namespace egpu::reconcile

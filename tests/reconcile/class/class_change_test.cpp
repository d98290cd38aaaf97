// (C2) to (C4): classes and plugins that are missing, created, changed and deleted.
#include "controller/reconcile/queue_key.h"
#include "tests/reconcile/fixture.h"

namespace egpu::reconcile {
namespace {

using ClassChangeTest = ReconcileTest;

TEST_F(ClassChangeTest, C2_ClassNotFoundUntilItComes) {
  world.addClaim("a", "later", {{"gpu-core", "10"}});
  settle();
  EXPECT_EQ(world.reason("a", "Accepted"), "ClassNotFound");
  EXPECT_EQ(world.reason("a"), "ClassNotFound");
  EXPECT_EQ(world.claim("a").status.phase, "Pending");
  world.addClass("later");
  settle();
  EXPECT_EQ(world.claim("a").status.phase, "Bound");
}

TEST_F(ClassChangeTest, C2_DefaultClass) {
  world.addClaim("a", "", {{"gpu-core", "10"}});
  settle();
  EXPECT_EQ(world.reason("a"), "ClassNotFound");
  world.json<cache::Class>({"", "share"}, R"({"metadata":{"annotations":{"elasticgpu.io/is-default-class":"true"}}})");
  settle();
  EXPECT_EQ(world.claim("a").status.phase, "Bound");
}

TEST_F(ClassChangeTest, C3_ProvisionerUnavailableUntilItIsLoaded) {
  support::FakeProvisioner other("other.example.com", "physicalGPU");
  world.addClass("other", "Delete", "Immediate", {}, "other.example.com");
  world.addClaim("a", "other", {{"gpu", "1"}});
  settle();
  EXPECT_EQ(world.reason("a"), "ProvisionerUnavailable");
  auto cls = support::World::must(world.client.get<cache::Class>({"", "other"}));
  ASSERT_NE(findCondition(cls.conditions, "Ready"), nullptr);
  EXPECT_EQ(findCondition(cls.conditions, "Ready")->reason, "ProvisionerUnavailable");
  world.registry.add(other);
  settle();
  EXPECT_EQ(world.claim("a").status.phase, "Bound");
  EXPECT_EQ(world.gpu(deviceOf("a")).spec.source->kind, v1alpha::SourceKind::physicalGPU);
  cls = support::World::must(world.client.get<cache::Class>({"", "other"}));
  EXPECT_EQ(findCondition(cls.conditions, "Ready")->status, "True");
  other.deprovision(world.gpu(deviceOf("a")).metadata.uid);
  world.removeClaim("a");
  driver->run();
  driver.reset();
}

TEST_F(ClassChangeTest, C4_InvalidParameterOfTheCoreAndOfThePlugin) {
  world.addClass("badcore", "Delete", "Immediate", {{"nodePolicy", "nonsense"}});
  world.addClass("badplugin", "Delete", "Immediate", {{"refuse", "yes"}});
  world.addClaim("a", "badcore", {{"gpu-core", "10"}});
  world.addClaim("b", "badplugin", {{"gpu-core", "10"}});
  settle();
  EXPECT_EQ(world.reason("a", "Accepted"), "InvalidParameter");
  EXPECT_EQ(world.reason("b", "Accepted"), "InvalidParameter");
  EXPECT_NE(world.message("a").find("binpack"), std::string::npos) << world.message("a");
}

TEST_F(ClassChangeTest, C4_APolicyOfTheClaimsOwnNeedsAClassThatAllowsIt) {
  cache::Claim claim;
  claim.metadata.name = "a";
  claim.metadata.namespace_ = "default";
  claim.metadata.annotations["elasticgpu.io/card-policy"] = "spread";
  claim.spec.className = "share";
  claim.spec.requests["elasticgpu.io/gpu-core"] = "10";
  (void)support::World::must(world.client.create(claim));
  settle();
  EXPECT_EQ(world.reason("a", "Accepted"), "InvalidParameter");
  EXPECT_EQ(world.message("a").rfind("metadata.annotations[elasticgpu.io/card-policy]: the class doesn't let", 0), 0U)
      << world.message("a");
  world.json<cache::Claim>({"default", "a"}, R"({"metadata":{"annotations":{"elasticgpu.io/card-policy":null}}})");
  settle();
  EXPECT_EQ(world.claim("a").status.phase, "Bound") << world.message("a");
  const auto cardOf = [&](const char* name) { return world.gpu(deviceOf(name)).spec.cards.at(0).name; };
  world.addClass("chosen", "Delete", "Immediate", {{"claimPolicies", "true"}});
  claim.metadata.name = "b";
  claim.spec.className = "chosen";
  (void)support::World::must(world.client.create(claim));
  settle();
  EXPECT_EQ(world.claim("b").status.phase, "Bound") << world.message("b");
  EXPECT_NE(cardOf("b"), cardOf("a"));
  // A policy changed on a bound claim, even to an invalid one, has no effect.
  world.json<cache::Claim>({"default", "b"}, R"({"metadata":{"annotations":{"elasticgpu.io/card-policy":"none"}}})");
  start();
  settle();
  EXPECT_EQ(world.claim("b").status.phase, "Bound");
  EXPECT_EQ(findCondition(world.claim("b").status.conditions, kBound)->status, "True");
}

TEST_F(ClassChangeTest, C4_HostPathsThatAreNoneAreReportedBeforeAnyPodRuns) {
  world.addClass("badpaths", "Delete", "Immediate", {{"hostPaths", "/dev/vendor*, vendor"}});
  world.addClaim("a", "badpaths", {{"gpu-core", "10"}});
  settle();
  EXPECT_EQ(world.reason("a", "Accepted"), "InvalidParameter");
  const auto cls = support::World::must(world.client.get<cache::Class>({"", "badpaths"}));
  const auto* ready = findCondition(cls.conditions, kReady);
  ASSERT_NE(ready, nullptr);
  EXPECT_EQ(ready->reason, "InvalidParameter");
  EXPECT_EQ(ready->message.rfind("parameters[hostPaths]: \"vendor\" is neither an absolute path", 0), 0U)
      << ready->message;
  world.addClass("paths", "Delete", "Immediate", {{"hostPaths", "/dev/vendor*, vendor.com/x=*"}});
  world.addClaim("b", "paths", {{"gpu-core", "10"}});
  settle();
  EXPECT_EQ(world.claim("b").status.phase, "Bound") << world.message("b");
}

TEST_F(ClassChangeTest, C4_NotRepresentable) {
  world.addClaim("a", "share", {{"gpu-core", "150"}});
  settle();
  EXPECT_EQ(world.reason("a", "Accepted"), "NotRepresentable");
  EXPECT_EQ(world.reason("a"), "NotRepresentable");
}

TEST_F(ClassChangeTest, C2_AFirstConsumerOfAClassThatComesLater) {
  world.addClaim("a", "later", {{"gpu-core", "10"}});
  world.addPod("p", {"a"});
  settle();
  EXPECT_EQ(world.reason("a"), "ClassNotFound");
  world.addClass("later", "Delete", "WaitForFirstConsumer");
  settle();
  EXPECT_TRUE(world.pod("p").schedulingGates.empty());
  EXPECT_TRUE(world.exists(deviceOf("a")));
}

TEST_F(ClassChangeTest, C2_AFirstConsumerOfADefaultClassThatComesLater) {
  world.addClaim("a", "", {{"gpu-core", "10"}});
  world.addPod("p", {"a"});
  settle();
  EXPECT_EQ(world.reason("a"), "ClassNotFound");
  world.json<cache::Class>({"", "late"}, R"({"metadata":{"annotations":{"elasticgpu.io/is-default-class":"true"}}})");
  settle();
  EXPECT_TRUE(world.pod("p").schedulingGates.empty());
}

TEST_F(ClassChangeTest, C3_AFirstConsumerOfAPluginThatComesLater) {
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

TEST_F(ClassChangeTest, C3_AClassWhosePluginCouldNotAnswerIsAskedAgain) {
  world.plugin.failValidations(6);
  world.addClass("moody");
  world.addClaim("a", "moody", {{"gpu-core", "10"}});
  settle();
  EXPECT_EQ(world.reason("a"), "ProvisionerUnavailable");
  EXPECT_NE(world.message("a").find("out of sorts"), std::string::npos);
  driver->run();
  EXPECT_EQ(world.claim("a").status.phase, "Bound");
}

TEST_F(ClassChangeTest, C3_AClaimThatThePluginCouldNotAnswerForIsTriedAgain) {
  world.addClaim("a", "share", {{"gpu", "7"}});
  settle();
  ASSERT_EQ(world.reason("a"), "NoFit");
  world.plugin.failValidations(1);
  driver->enqueue(claimKey({"default", "a"}));  // its validation fails, because the plugin can't answer
  world.registry.changed(world.plugin.description().name);
  driver->run();
  EXPECT_EQ(world.reason("a"), "NoFit") << world.message("a");
}

TEST_F(ClassChangeTest, C3_WhileThePluginCanNotAnswerTheClassReportsItAndAloneAsks) {
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

TEST_F(ClassChangeTest, C2_AClassThatTheCacheHasNotSeenYetIsAskedFor) {
  driver->classes.faults.delay = driver->classes.events();
  world.addClass("new");
  world.addClaim("a", "new", {{"gpu-core", "10"}});
  settle();
  EXPECT_EQ(world.claim("a").status.phase, "Bound");
  EXPECT_EQ(countEvents("a Warning ClassNotFound"), 0);
  driver->classes.faults.delay = driver->classes.events();
  world.json<cache::Class>({"", "new"}, R"({"metadata":{"annotations":{"elasticgpu.io/is-default-class":"true"}}})");
  world.addClaim("b", "", {{"gpu-core", "10"}});
  settle();
  EXPECT_EQ(world.claim("b").status.phase, "Bound");
  EXPECT_EQ(countEvents("b Warning ClassNotFound"), 0);
}

TEST_F(ClassChangeTest, C3_AClassReportsThatItsPluginCannotBeReliedOn) {
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

TEST_F(ClassChangeTest, AClassThatGoesTakesNothingFromItsClaims) {
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
  EXPECT_EQ(driver->cluster.allocationMap().totals().usedCore, 0);
}

TEST_F(ClassChangeTest, AFirstConsumerStaysOneWhenTheDefaultClassChanges) {
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
  EXPECT_TRUE(world.plugin.made().empty());  // no pod has reserved it
  world.schedule("p");
  settle();
  EXPECT_EQ(world.claim("a").status.phase, "Bound");
  world.removePod("p");
}

TEST_F(ClassChangeTest, OfTwoDefaultClassesTheOlderOneThenTheFirstByName) {
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

TEST_F(ClassChangeTest, W6_TheClassIsShownUnderEitherSpellingAndByDefault) {
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

TEST_F(ClassChangeTest, AnUnknownParameterIsRefusedWithAllThatIsKnown) {
  world.addClass("odd", "Delete", "Immediate", {{"refuse", "x"}});
  world.addClaim("a", "odd", {{"gpu-core", "10"}});
  settle();
  EXPECT_EQ(world.reason("a", "Accepted"), "InvalidParameter");
  EXPECT_NE(world.message("a").find("known to the scheduler are preset, nodePolicy, cardPolicy"), std::string::npos)
      << world.message("a");
}

TEST_F(ClassChangeTest, AClassThatIsBeingDeletedStillReportsWhetherItIsReady) {
  world.addClass("late-plugin", "Delete", "Immediate", {}, "late.example.com");
  const auto ready = [&] {
    const auto cls = support::World::must(world.client.get<cache::Class>({"", "late-plugin"}));
    const auto* condition = findCondition(cls.conditions, kReady);
    return condition == nullptr ? std::string() : condition->status + " " + condition->reason;
  };
  world.setClass("late-plugin", R"({"metadata":{"finalizers":["example.com/keeps"]}})");
  settle();
  EXPECT_EQ(ready(), "False ProvisionerUnavailable");
  support::World::mustOk(world.client.remove<cache::Class>({"", "late-plugin"}));
  settle();
  support::FakeProvisioner late("late.example.com");
  world.registry.add(late);
  driver->run();
  EXPECT_EQ(ready(), "True Ready");
  world.setClass("late-plugin", R"({"metadata":{"finalizers":null}})");
  driver->run();
  driver.reset();  // before the plugin is removed
}

}  // namespace
}  // namespace egpu::reconcile

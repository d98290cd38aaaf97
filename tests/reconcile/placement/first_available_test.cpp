// (C6) with spec.firstAvailable: the choice of an alternative, the report on the other ones, and that the choice is
// final.
#include <memory>
#include <utility>
#include <vector>

#include "tests/reconcile/fixture.h"
#include "tests/support/forwarding_transport.h"
#include "tests/support/stock_scheduler.h"

namespace egpu::reconcile {
namespace {

using support::World;
using Alternatives = std::vector<v1alpha::ClaimAlternative>;

v1alpha::ClaimAlternative cards(const std::string& name, const std::string& count) {
  return {name, {}, {{"elasticgpu.io/gpu", count}}};
}
v1alpha::ClaimAlternative memory(const std::string& name, const std::string& amount) {
  return {name, {}, {{"elasticgpu.io/gpu-memory", amount}}};
}

/// The controller dies at its first write whose path contains this text.
class DyingTransport final : public support::ForwardingTransport {
 public:
  DyingTransport(kube::Transport& next, std::string at) : ForwardingTransport(next), at_(std::move(at)) {}
  base::Result<kube::HttpResponse> perform(const kube::HttpRequest& request, std::stop_token stop) override {
    if (request.method == kube::Method::patch && request.target.find(at_) != std::string::npos)
      throw std::runtime_error("died");
    return ForwardingTransport::perform(request, stop);
  }

 private:
  std::string at_;
};

/// One node of two cards of 16Gi.
class FirstAvailableTest : public ReconcileTest {
 protected:
  void claim(const std::string& name, Alternatives alternatives, const std::string& cls = "share") {
    cache::Claim made;
    made.metadata.name = name;
    made.metadata.namespace_ = "default";
    made.spec.className = cls;
    made.spec.firstAvailable = std::move(alternatives);
    (void)World::must(world.client.create(made));
    settle();
  }
  void take(const std::string& name, core::StringMap requests) {
    world.addClaim(name, "share", std::move(requests));
    settle();
  }
  void raise(const std::string& quota) {
    (void)World::must(world.client.patch<cache::Quota>({"default", "team"}, kube::PatchType::merge, quota, {}));
    settle();
  }
  std::string got(const std::string& name) {
    const auto claim = world.claim(name);
    return claim.status.phase + (claim.status.alternative.empty() ? "" : " " + claim.status.alternative);
  }
};

TEST_F(FirstAvailableTest, C6_TheFirstThatFitsIsGivenAndReportedOnDeviceAndClaim) {
  claim("free", {cards("two", "2"), cards("one", "1")});
  EXPECT_EQ(got("free"), "Bound two");
  EXPECT_EQ(world.gpu(deviceOf("free")).spec.alternative, "two");
  EXPECT_EQ(world.gpu(deviceOf("free")).spec.cards.size(), 2u);
  world.removeClaim("free");
  take("other", {{"gpu", "1"}});
  claim("beside", {cards("two", "2"), cards("one", "1"), memory("some", "1Gi")});
  EXPECT_EQ(got("beside"), "Bound one");
  EXPECT_EQ(world.gpu(deviceOf("beside")).spec.alternative, "one");
  EXPECT_EQ(world.gpu(deviceOf("beside")).spec.cards.size(), 1u);
  EXPECT_EQ(world.claim("beside").status.capacity.at("memory"), "16Gi");
}

TEST_F(FirstAvailableTest, C6_WithoutCapacityEachReportsWhyNotAndWhateverHelpsAnyOfThemWakes) {
  take("a", {{"gpu", "1"}});
  take("b", {{"gpu-memory", "12Gi"}});
  claim("c", {cards("two", "2"), memory("most", "8Gi")});
  EXPECT_EQ(got("c"), "Pending");
  EXPECT_EQ(world.reason("c"), "NoFit");
  EXPECT_EQ(world.message("c").rfind("two: ", 0), 0u) << world.message("c");
  EXPECT_NE(world.message("c").find("; most: "), std::string::npos) << world.message("c");
  EXPECT_EQ(driver->reconciler.waitingForCapacity(), 1u);
  world.removeClaim("b");  // capacity for the second alternative only
  settle();
  EXPECT_EQ(got("c"), "Bound most");
}

TEST_F(FirstAvailableTest, W1_TheChoiceStandsWhateverIsFreeLater) {
  take("a", {{"gpu", "1"}});
  DyingTransport dying(*world.transport, "/elasticgpus/");  // dies at W2
  startOver(dying);
  EXPECT_THROW(claim("b", {cards("two", "2"), cards("one", "1")}), std::runtime_error);
  EXPECT_EQ(world.gpu(deviceOf("b")).spec.alternative, "one");
  const auto uid = world.gpu(deviceOf("b")).metadata.uid;
  world.mustOk(world.client.remove<cache::Claim>({"default", "a"}));  // both cards will become free soon
  start();
  EXPECT_EQ(got("b"), "Bound one");
  EXPECT_EQ(world.gpu(deviceOf("b")).metadata.uid, uid);
}

TEST_F(FirstAvailableTest, C6_AQuotaThatOneIsBeyondLeavesTheOthers) {
  cache::Quota quota;
  quota.metadata.name = "team";
  quota.metadata.namespace_ = "default";
  quota.spec.hard = {{"gpu", "1"}};
  (void)World::must(world.client.create(quota));
  settle();
  claim("a", {cards("two", "2"), memory("some", "4Gi")});
  EXPECT_EQ(got("a"), "Bound some");
  claim("b", {cards("two", "2"), cards("one", "1")});  // both exceed the quota
  EXPECT_EQ(world.reason("b"), "QuotaExceeded");
  raise(R"({"spec":{"hard":{"gpu":2}}})");
  EXPECT_EQ(got("b"), "Bound one");
  raise(R"({"spec":{"hard":{"gpu":3}}})");
  claim("c", {cards("two", "2"), cards("whole", "1")});  // the first exceeds the quota, the second does not fit
  EXPECT_EQ(world.reason("c"), "NoFit");
  world.removeClaim("a");
  settle();
  EXPECT_EQ(got("c"), "Bound whole");
}

TEST_F(FirstAvailableTest, C2_OnCardsOfTheModelsThatAnAlternativeNames) {
  const auto model = world.gpu("gpu-n1-0").spec.card->model;
  claim("a",
        {{"rare", {"H999"}, {{"elasticgpu.io/gpu", "1"}}}, {"usual", {"H998", model}, {{"elasticgpu.io/gpu", "1"}}}});
  EXPECT_EQ(got("a"), "Bound usual");
  world.addClass("only", "Delete", "Immediate", {{"model", model}});
  claim("b", {{"rare", {"H999"}, {{"elasticgpu.io/gpu", "1"}}}}, "only");
  EXPECT_EQ(world.reason("b", "Accepted"), "InvalidParameter");
  EXPECT_NE(world.message("b").find("spec.firstAvailable[0].models"), std::string::npos) << world.message("b");
}

TEST_F(FirstAvailableTest, C4_WhatCantBeRepresentedIsReportedOfItsAlternative) {
  claim("a", {cards("one", "1"), {"odd", {}, {{"elasticgpu.io/gpu-core", "150"}}}});
  EXPECT_EQ(world.reason("a", "Accepted"), "NotRepresentable");
  EXPECT_EQ(world.message("a").rfind("spec.firstAvailable[1].resources.requests[elasticgpu.io/gpu-core]", 0), 0u)
      << world.message("a");
}

TEST_F(FirstAvailableTest, C14_NoMemberOfAGangHasAlternatives) {
  cache::Claim made;
  made.metadata.name = "a";
  made.metadata.namespace_ = "default";
  made.metadata.annotations = {{"elasticgpu.io/gang", "g"}, {"elasticgpu.io/gang-size", "2"}};
  made.spec.className = "share";
  made.spec.firstAvailable = {cards("one", "1")};
  (void)World::must(world.client.create(made));
  settle();
  EXPECT_EQ(world.reason("a", "Accepted"), "InvalidParameter");
  EXPECT_NE(world.message("a").find("firstAvailable"), std::string::npos) << world.message("a");
}

TEST_F(FirstAvailableTest, C5_AFirstConsumersClaimsAreTriedInEachCombination) {
  take("hog", {{"gpu-memory", "12Gi"}});
  claim("a", {cards("two", "2"), cards("one", "1")}, "late");
  claim("b", {memory("most", "8Gi"), memory("little", "2Gi")}, "late");
  world.addPod("p", {"a", "b"});
  settle();
  EXPECT_EQ(world.gpu(deviceOf("a")).spec.alternative, "one");
  EXPECT_EQ(world.gpu(deviceOf("b")).spec.alternative, "little");
  world.schedule("p");
  settle();
  EXPECT_EQ(got("a"), "Bound one");
  EXPECT_EQ(got("b"), "Bound little");
}

TEST_F(FirstAvailableTest, C5_AFirstConsumerWithoutCapacityReportsWhyOfEach) {
  take("hog", {{"gpu", "2"}});
  claim("a", {cards("two", "2"), memory("some", "2Gi")}, "late");
  world.addPod("p", {"a"});
  settle();
  EXPECT_EQ(world.reason("a"), "NoFit");
  EXPECT_NE(world.message("a").find("; some: "), std::string::npos) << world.message("a");
  world.removeClaim("hog");
  settle();
  EXPECT_EQ(world.gpu(deviceOf("a")).spec.alternative, "two");
}

TEST_F(FirstAvailableTest, C9_ADeviceThatStandsDoesIfAnyAlternativeIsContentWithIt) {
  world.addClass("keep2", "Retain");
  world.addClaim("old", "keep2", {{"gpu-memory", "4Gi"}});
  settle();
  const auto device = deviceOf("old");
  world.removeClaim("old");
  settle();
  world.json<cache::Gpu>({"", device}, R"({"spec":{"claimRef":null}})");
  settle();
  cache::Claim made;
  made.metadata.name = "again";
  made.metadata.namespace_ = "default";
  made.spec.className = "keep2";
  made.spec.elasticGPUName = device;
  made.spec.firstAvailable = {memory("much", "8Gi"), memory("enough", "4Gi")};
  (void)World::must(world.client.create(made));
  settle();
  EXPECT_EQ(world.claim("again").status.phase, "Bound");
  world.removeClaim("again");
  settle();
  World::mustOk(world.client.remove<cache::Gpu>({"", device}));
}

TEST_F(FirstAvailableTest, C11_ALostClaimIsDecidedAnewOverAllOfThem) {
  take("hog", {{"gpu", "1"}});
  claim("a", {cards("two", "2"), cards("one", "1")});
  EXPECT_EQ(got("a"), "Bound one");
  const auto card = world.gpu(deviceOf("a")).spec.cards.front().name;
  world.removeClaim("hog");
  settle();
  world.addNode("n2");
  world.addCard("n2", 0);
  world.addCard("n2", 1);
  settle();
  world.removeNode("n1");
  driver->run();
  EXPECT_EQ(got("a"), "Bound two");
}

}  // namespace
}  // namespace egpu::reconcile

// If the API server refuses a write for reasons of its own, the claim reports it and the write is retried, never in a
// hot loop.
#include "controller/reconcile/api_rejections.h"

#include "tests/reconcile/fixture.h"
#include "tests/support/refusing_transport.h"

namespace egpu::reconcile {
namespace {

class ApiRejectionsTest : public ReconcileTest {
 protected:
  void SetUp() override {
    ReconcileTest::SetUp();
    startOver(line);
    driver->limit = 2000;
  }
  void TearDown() override {
    line.refuses = nullptr;
    ReconcileTest::TearDown();
    driver.reset();
  }
  /// Makes all further writes of this kind fail.
  void refuse(kube::Method method, const std::string& target, const std::string& body = {}) {
    line.refuses = [=](const kube::HttpRequest& request) {
      return request.method == method && request.target.find(target) != std::string::npos &&
             request.body.find(body) != std::string::npos;
    };
  }
  support::RefusingTransport line{*world.transport};
};

TEST_F(ApiRejectionsTest, W1_AQuotaOnDevices) {
  refuse(kube::Method::post, "/elasticgpus");
  world.addClaim("a", "share", {{"gpu-core", "10"}});
  driver->run();
  EXPECT_EQ(world.reason("a"), "Refused");
  EXPECT_EQ(world.message("a"), "the API server refuses it: exceeded quota");
  EXPECT_EQ(countEvents("a Warning Refused"), 1);
  EXPECT_LT(line.refused, 40);
  line.refuses = nullptr;
  driver->run();
  EXPECT_EQ(world.claim("a").status.phase, "Bound");
  EXPECT_EQ(world.reason("a"), "Bound");
}

TEST_F(ApiRejectionsTest, W1_APolicyThatAnswers422IsAskedAgainWithBackOff) {
  line.code = 422;
  line.message = "denied by policy";
  refuse(kube::Method::post, "/elasticgpus");
  world.addClaim("a", "share", {{"gpu-core", "10"}});
  driver->run(std::chrono::minutes(20));
  EXPECT_EQ(world.reason("a"), "ProvisionFailed");
  EXPECT_NE(world.message("a").find("denied by policy"), std::string::npos);
  EXPECT_LT(line.refused, 20);
  line.refuses = nullptr;
  driver->run(std::chrono::minutes(5));
  EXPECT_EQ(world.claim("a").status.phase, "Bound");
}

TEST_F(ApiRejectionsTest, W1_AFirstConsumersClaim) {
  refuse(kube::Method::post, "/elasticgpus");
  world.addClaim("a", "late", {{"gpu-core", "10"}});
  world.addPod("p", {"a"});
  driver->run();
  EXPECT_EQ(world.reason("a"), "Refused");
  EXPECT_EQ(countEvents("p Warning Refused"), 1);
  EXPECT_LT(line.refused, 40);
  line.refuses = nullptr;
  driver->run();
  EXPECT_TRUE(world.pod("p").schedulingGates.empty());
}

TEST_F(ApiRejectionsTest, W1_AFirstConsumersClaimGoesToANodeWhereItIsNotRefused) {
  world.addNode("n0");
  world.addCard("n0", 0);
  for (const int code : {403, 422}) {
    line.code = code;
    refuse(kube::Method::post, "/elasticgpus", "\"n0\"");
    world.addClaim("a", "late", {{"gpu", "1"}});
    world.addPod("p", {"a"});
    driver->run();
    EXPECT_TRUE(world.pod("p").schedulingGates.empty()) << code << ": " << world.message("a");
    EXPECT_GT(line.refused, 0) << "n0 comes first";
    line.refuses = nullptr;
    line.refused = 0;
    world.removePod("p");
    world.removeClaim("a");
    driver->run();
  }
}

TEST_F(ApiRejectionsTest, W1_AWebhookThatFailsOnIsReportedAndOneThatFailsOnceIsNot) {
  line.code = 500;
  line.message = "failed calling webhook";
  line.refuses = [this](const kube::HttpRequest& request) {
    return line.refused < 2 && request.method == kube::Method::post &&
           request.target.find("/elasticgpus") != std::string::npos;
  };
  world.addClaim("a", "share", {{"gpu-core", "10"}});
  driver->run();
  EXPECT_EQ(world.claim("a").status.phase, "Bound");
  EXPECT_EQ(countEvents("a Warning Refused"), 0);
  refuse(kube::Method::post, "/elasticgpus");
  world.addClaim("b", "share", {{"gpu-core", "10"}});
  driver->run();
  EXPECT_EQ(world.reason("b"), "Refused");
  EXPECT_EQ(world.message("b"), "the API server fails, it is tried again: failed calling webhook");
  EXPECT_EQ(countEvents("b Warning Refused"), 1);
  line.refuses = nullptr;
  driver->run();
  EXPECT_EQ(world.claim("b").status.phase, "Bound");
}

TEST_F(ApiRejectionsTest, W7_MayHaveArrivedAndDidNot) {
  line.code = 0;
  refuse(kube::Method::post, "/resourceclaims");
  world.addClaim("a", "late", {{"gpu-core", "10"}});
  world.addPod("p", {"a"});
  settle();
  EXPECT_GT(line.refused, 0);
  line.refuses = nullptr;
  driver->run();
  EXPECT_TRUE(world.pod("p").schedulingGates.empty());
}

TEST_F(ApiRejectionsTest, W5_TheClaimItself) {
  refuse(kube::Method::patch, "/elasticgpuclaims/a", "finalizers");
  world.addClaim("a", "share", {{"gpu-core", "10"}});
  driver->run();
  EXPECT_EQ(world.reason("a"), "Refused");
  line.refuses = nullptr;
  driver->run();
  EXPECT_EQ(world.claim("a").status.phase, "Bound");
}

TEST_F(ApiRejectionsTest, W7_TheResourceClaim) {
  world.addClaim("a", "share", {{"gpu-core", "10"}});
  settle();
  refuse(kube::Method::post, "/resourceclaims");
  world.addPod("p", {"a"});
  driver->run();
  EXPECT_EQ(world.claim("a").status.phase, "Bound");
  EXPECT_EQ(world.reason("a", "ResourceClaimReady"), "Refused");
  EXPECT_EQ(countEvents("a Warning Refused"), 1);
  EXPECT_LT(line.refused, 40);
  line.refuses = nullptr;
  driver->run();
  EXPECT_TRUE(world.pod("p").schedulingGates.empty());
  EXPECT_EQ(world.reason("a", "ResourceClaimReady"), "ResourceClaimReady");
}

TEST_F(ApiRejectionsTest, W9_ThePodReportsIt) {
  world.addClaim("a", "share", {{"gpu-core", "10"}});
  settle();
  refuse(kube::Method::patch, "/pods/p");
  world.addPod("p", {"a"});
  driver->run();
  EXPECT_EQ(countEvents("p Warning Refused the API server refuses it: exceeded quota"), 1);
  EXPECT_LT(line.refused, 40);
  line.refuses = nullptr;
  driver->run();
  EXPECT_TRUE(world.pod("p").schedulingGates.empty());
}

TEST_F(ApiRejectionsTest, ReleaseIsReportedByEvent) {
  world.addClaim("a", "share", {{"gpu-core", "10"}});
  settle();
  refuse(kube::Method::del, "/elasticgpus/egpu-");
  world.removeClaim("a");
  driver->run();
  EXPECT_EQ(countEvents("a Warning Refused"), 1);
  line.refuses = nullptr;
  driver->run();
  EXPECT_FALSE(world.client.get<cache::Claim>({"default", "a"}).ok());
}

TEST_F(ApiRejectionsTest, MessagesThatChangeMakeNoLoop) {
  line.refuses = [this](const kube::HttpRequest& request) {
    if (request.method != kube::Method::post || request.target.find("/elasticgpus") == std::string::npos) return false;
    line.message = "used so far: " + std::to_string(line.refused);
    return true;
  };
  world.addClaim("a", "share", {{"gpu-core", "10"}});
  const auto before = writes();
  driver->run();
  EXPECT_LT(line.refused, 60);
  EXPECT_LT(writes() - before, 8u);
}

TEST_F(ApiRejectionsTest, W1_WhatIsRefusedOnOneNodeIsTriedOnOthers) {
  world.addNode("n2");
  world.addCard("n2", 0);
  settle();
  for (const int code : {403, 422}) {
    line.code = code;
    line.message = "not on n1";
    line.refuses = [](const kube::HttpRequest& request) {
      return request.method == kube::Method::post && request.target.find("/elasticgpus") != std::string::npos &&
             request.body.find(R"("nodeName":"n1")") != std::string::npos;
    };
    line.refused = 0;
    const auto name = "on-n1-" + std::to_string(code);
    // binpack prefers n1, where another device exists.
    world.addClaim(name, "share", {{"gpu-core", "10"}});
    driver->run();
    EXPECT_EQ(world.claim(name).status.phase, "Bound") << code;
    EXPECT_EQ(world.claim(name).status.nodeName, "n2") << code;
    EXPECT_LE(line.refused, 2) << code;
    line.refuses = nullptr;
    world.removeClaim(name);
    driver->run();
  }
}

TEST_F(ApiRejectionsTest, W1_AFirstConsumersDeviceIsTriedOnOtherNodes) {
  world.addNode("n2");
  world.addCard("n2", 0);
  line.code = 422;
  line.message = "not on n1";
  line.refuses = [](const kube::HttpRequest& request) {
    return request.method == kube::Method::post && request.target.find("/elasticgpus") != std::string::npos &&
           request.body.find(R"("nodeName":"n1")") != std::string::npos;
  };
  world.addClaim("a", "late", {{"gpu-core", "10"}});
  world.addPod("p", {"a"});
  driver->run();
  EXPECT_TRUE(world.pod("p").schedulingGates.empty());
  EXPECT_EQ(world.resourceClaim("a")->allocation->nodeName, "n2");
  line.refuses = nullptr;
  world.removePod("p");
}

TEST_F(ApiRejectionsTest, W1_ANodeWhoseNameIsLongerThanALabelIsUsed) {
  const std::string node = "ip-10-0-0-1." + std::string(60, 'a') + ".compute.internal";
  ASSERT_GT(node.size(), 63u);
  world.addNode(node);
  const auto card = world.addCard(node, 0, 100 * kGi);
  world.addClaim("a", "share", {{"gpu-core", "10"}, {"gpu-memory", "50"}});  // fits only there
  world.addClaim("b", "late", {{"gpu-core", "10"}, {"gpu-memory", "40"}});
  world.addPod("p", {"b"});
  driver->run();
  EXPECT_EQ(world.claim("a").status.phase, "Bound");
  EXPECT_EQ(world.claim("a").status.nodeName, node);
  EXPECT_EQ(world.resourceClaim("b")->allocation->nodeName, node);
  const std::string label(world.gpu(deviceOf("a")).metadata.label("elasticgpu.io/node"));
  EXPECT_EQ(label, world.gpu(card).metadata.label("elasticgpu.io/node"));
  EXPECT_EQ(label.size(), 63u);
  EXPECT_EQ(label.substr(0, 12), "ip-10-0-0-1.");
  world.removePod("p");
}

TEST_F(ApiRejectionsTest, ConditionsAreNeverTooLongToBeWritten) {
  for (int i = 0; i < 500; ++i) {
    const auto name = "tainted-" + std::to_string(i);
    world.addNode(name);
    world.json<core::Node>({"", name}, R"({"spec":{"taints":[{"key":"example.com/)" + std::string(60, 'k') +
                                           R"(","value":"v)" + std::to_string(i) + R"(","effect":"NoSchedule"}]}})");
  }
  world.addClaim("a", "late", {{"gpu-core", "10"}});
  world.json<core::Node>({"", "n1"}, R"({"spec":{"unschedulable":true}})");
  settle();
  world.addPod("p", {"a"});
  driver->run();
  EXPECT_EQ(world.reason("a"), "NoFit");
  EXPECT_LE(world.message("a").size(), kMaxMessageLength);
  EXPECT_EQ(world.message("a").find("0/"), 0u) << "how many there are";
  EXPECT_NE(world.message("a").find("nodes that don't suit pod p"), std::string::npos);
  world.removePod("p");
  world.json<core::Node>({"", "n1"}, R"({"spec":{"unschedulable":false}})");
  settle();

  // Messages of plugins are not bounded either.
  const std::string message = "first" + std::string(40'000, 'x') + "€€€last";
  world.plugin.answer({{plugin::ReplyCode::invalid, message}}, true);
  world.addClaim("b", "share", {{"gpu-core", "10"}});
  driver->run();
  EXPECT_EQ(world.reason("b"), "ProvisionFailed");
  EXPECT_LE(world.message("b").size(), kMaxMessageLength);
  EXPECT_NE(world.message("b").find("first"), std::string::npos);
  EXPECT_NE(world.message("b").find("€€€last"), std::string::npos);
  world.plugin.answer({});
}

TEST_F(ApiRejectionsTest, TheStatusOfAClaimWhosePluginIsDown) {
  refuse(kube::Method::patch, "/elasticgpuclaims/a/status");
  world.plugin.answer({{plugin::ReplyCode::crashed, "signal 11"}, {plugin::ReplyCode::crashed, "signal 11"}, {}});
  world.addClaim("a", "share", {{"gpu-core", "10"}});
  driver->run();
  EXPECT_GE(countEvents("a Warning Refused"), 1);
  line.refuses = nullptr;
  driver->run();
  EXPECT_EQ(world.claim("a").status.phase, "Bound");
}

TEST_F(ApiRejectionsTest, OneClaimsStatusDoesNotHoldUpTheWordAboutAPluginsOtherCalls) {
  refuse(kube::Method::patch, "/elasticgpuclaims/a/status");
  Outcome outcome;
  world.plugin.before = [&] {
    world.clock.advance(std::chrono::seconds(2));
    outcome = driver->reconciler.step(callsKey(support::World::kPlugin));
  };
  world.addClaim("a", "share", {{"gpu-core", "10"}});
  settle();
  world.plugin.before = nullptr;
  EXPECT_EQ(outcome.kind, Outcome::Kind::after);
  EXPECT_GE(line.refused, 1);
}

TEST_F(ApiRejectionsTest, AClaimThatIsAlwaysAnotherOneDoesNotDelayOthers) {
  line.code = 409;
  refuse(kube::Method::patch, "/elasticgpuclaims/a/status");
  world.addClaim("a", "nosuch", {{"gpu-core", "10"}});
  settle();
  EXPECT_GE(line.refused, 1);
  EXPECT_LE(line.refused, 40) << "and then it rests a moment";
  line.refuses = nullptr;
  driver->run();
  EXPECT_EQ(world.reason("a"), "ClassNotFound");
}

}  // namespace
}  // namespace egpu::reconcile

// What the API server refuses for reasons of its own is said on the claim and tried again, never in a hot loop.
#include "controller/reconcile/refusals.h"

#include "tests/reconcile/fixture.h"
#include "tests/support/refusing_transport.h"

namespace egpu::reconcile {
namespace {

class RefusalsTest : public ReconcileTest {
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
  /// From now on writes of this kind get no.
  void refuse(kube::Method method, const std::string& target, const std::string& body = {}) {
    line.refuses = [=](const kube::HttpRequest& request) {
      return request.method == method && request.target.find(target) != std::string::npos &&
             request.body.find(body) != std::string::npos;
    };
  }
  support::RefusingTransport line{*world.transport};
};

TEST_F(RefusalsTest, W1_AQuotaOnDevices) {
  refuse(kube::Method::post, "/elasticgpus");
  world.addClaim("a", "share", {{"gpu-core", "10"}});
  driver->run();
  EXPECT_EQ(world.reason("a"), "Refused");
  EXPECT_EQ(world.message("a"), "the API server refuses it: exceeded quota");
  EXPECT_EQ(told("a Warning Refused"), 1);
  EXPECT_LT(line.refused, 40);
  line.refuses = nullptr;
  driver->run();
  EXPECT_EQ(world.claim("a").status.phase, "Bound");
  EXPECT_EQ(world.reason("a"), "Bound");
}

TEST_F(RefusalsTest, W1_APolicyThatSays422IsAskedAgainWithBackOff) {
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

TEST_F(RefusalsTest, W1_AFirstConsumersClaim) {
  refuse(kube::Method::post, "/elasticgpus");
  world.addClaim("a", "late", {{"gpu-core", "10"}});
  world.addPod("p", {"a"});
  driver->run();
  EXPECT_EQ(world.reason("a"), "Refused");
  EXPECT_EQ(told("p Warning Refused"), 1);
  EXPECT_LT(line.refused, 40);
  line.refuses = nullptr;
  driver->run();
  EXPECT_TRUE(world.pod("p").schedulingGates.empty());
}

TEST_F(RefusalsTest, W7_MayHaveArrivedAndDidNot) {
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

TEST_F(RefusalsTest, W5_TheClaimItself) {
  refuse(kube::Method::patch, "/elasticgpuclaims/a", "finalizers");
  world.addClaim("a", "share", {{"gpu-core", "10"}});
  driver->run();
  EXPECT_EQ(world.reason("a"), "Refused");
  line.refuses = nullptr;
  driver->run();
  EXPECT_EQ(world.claim("a").status.phase, "Bound");
}

TEST_F(RefusalsTest, W7_TheCarrier) {
  world.addClaim("a", "share", {{"gpu-core", "10"}});
  settle();
  refuse(kube::Method::post, "/resourceclaims");
  world.addPod("p", {"a"});
  driver->run();
  EXPECT_EQ(world.claim("a").status.phase, "Bound");
  EXPECT_EQ(world.reason("a", "Carried"), "Refused");
  EXPECT_EQ(told("a Warning Refused"), 1);
  EXPECT_LT(line.refused, 40);
  line.refuses = nullptr;
  driver->run();
  EXPECT_TRUE(world.pod("p").schedulingGates.empty());
  EXPECT_EQ(world.reason("a", "Carried"), "Carried");
}

TEST_F(RefusalsTest, W9_ThePodIsTold) {
  world.addClaim("a", "share", {{"gpu-core", "10"}});
  settle();
  refuse(kube::Method::patch, "/pods/p");
  world.addPod("p", {"a"});
  driver->run();
  EXPECT_EQ(told("p Warning Refused the API server refuses it: exceeded quota"), 1);
  EXPECT_LT(line.refused, 40);
  line.refuses = nullptr;
  driver->run();
  EXPECT_TRUE(world.pod("p").schedulingGates.empty());
}

TEST_F(RefusalsTest, ReleaseIsToldByEvent) {
  world.addClaim("a", "share", {{"gpu-core", "10"}});
  settle();
  refuse(kube::Method::del, "/elasticgpus/egpu-");
  world.removeClaim("a");
  driver->run();
  EXPECT_EQ(told("a Warning Refused"), 1);
  line.refuses = nullptr;
  driver->run();
  EXPECT_FALSE(world.client.get<cache::Claim>({"default", "a"}).ok());
}

TEST_F(RefusalsTest, MessagesThatChangeMakeNoLoop) {
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

}  // namespace
}  // namespace egpu::reconcile

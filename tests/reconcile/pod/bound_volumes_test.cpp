#include "controller/reconcile/pod/bound_volumes.h"

#include <gtest/gtest.h>

#include "controller/base/ids.h"
#include "controller/base/metrics.h"

namespace egpu::reconcile {
namespace {

/// Serves the given objects by path, 404 otherwise.
class Volumes final : public kube::Transport {
 public:
  std::map<std::string, std::string> objects;
  int code = 404;
  int reads = 0;
  base::Result<kube::HttpResponse> perform(const kube::HttpRequest& request, std::stop_token) override {
    ++reads;
    kube::HttpResponse answer;
    const auto it = objects.find(request.target.substr(0, request.target.find('?')));
    answer.status = it == objects.end() ? code : 200;
    answer.headers = {{"content-type", "application/json"}};
    answer.body = it == objects.end()
                      ? R"({"kind":"Status","apiVersion":"v1","status":"Failure","code":)" + std::to_string(code) + "}"
                      : it->second;
    return answer;
  }
  base::Result<kube::HttpResponse> stream(const kube::HttpRequest&, const std::function<bool(std::string_view)>&,
                                          std::stop_token) override {
    return base::Status(base::Code::internal, "not here");
  }
};

class BoundVolumesTest : public ::testing::Test {
 protected:
  BoundVolumesTest() {
    pod.metadata.name = "p";
    pod.metadata.namespace_ = "ns";
    pod.volumes = {{"data", "disk", false}};
    server.objects[kClaims + "disk"] =
        R"({"kind":"PersistentVolumeClaim","apiVersion":"v1","metadata":{"name":"disk"},"spec":{"volumeName":"pv-1"}})";
    server.objects["/api/v1/persistentvolumes/pv-1"] =
        R"({"kind":"PersistentVolume","apiVersion":"v1","metadata":{"name":"pv-1"},"spec":{"nodeAffinity":{"required":)"
        R"({"nodeSelectorTerms":[{"matchExpressions":[{"key":"zone","operator":"In","values":["x"]}]}]}}}})";
  }
  std::vector<core::NodeSelector> read() {
    auto got = volumes.of(pod, {});
    EXPECT_TRUE(got.ok()) << got.status().str();
    return got.ok() ? *got : std::vector<core::NodeSelector>();
  }
  const std::string kClaims = "/api/v1/namespaces/ns/persistentvolumeclaims/";
  base::ManualClock clock;
  base::Random random{1};
  base::NoMetrics metrics;
  Volumes server;
  kube::Client client{server, clock, random, metrics};
  BoundVolumes volumes{client, clock, kDefaultTimeouts};
  core::Pod pod;
};

TEST_F(BoundVolumesTest, ABoundVolumesAffinityIsReadAndRememberedForAWhile) {
  const auto got = read();
  ASSERT_EQ(got.size(), 1u);
  EXPECT_EQ(got[0].terms.at(0).matchExpressions.at(0).key, "zone");
  EXPECT_EQ(server.reads, 2);
  (void)read();
  EXPECT_EQ(server.reads, 2);
  clock.advance(std::chrono::seconds(31));
  (void)read();
  EXPECT_EQ(server.reads, 4);
}

TEST_F(BoundVolumesTest, WhatIsNotBoundRestrictsNothingAndIsAskedForAgain) {
  server.objects[kClaims + "disk"] = R"({"kind":"PersistentVolumeClaim","apiVersion":"v1","spec":{}})";
  EXPECT_TRUE(read().empty());
  (void)read();
  EXPECT_EQ(server.reads, 2);
  server.objects.erase(kClaims + "disk");
  EXPECT_TRUE(read().empty());
  server.code = 403;
  EXPECT_TRUE(read().empty());
}

TEST_F(BoundVolumesTest, AnEphemeralVolumesClaimIsNamedAfterThePod) {
  server.objects[kClaims + "p-scratch"] = server.objects[kClaims + "disk"];
  pod.volumes = {{"scratch", "", true}};
  EXPECT_EQ(read().size(), 1u);
}

TEST_F(BoundVolumesTest, AVolumeThatAnyNodeReachesRestrictsNothing) {
  server.objects["/api/v1/persistentvolumes/pv-1"] = R"({"kind":"PersistentVolume","apiVersion":"v1","spec":{}})";
  EXPECT_TRUE(read().empty());
}

TEST_F(BoundVolumesTest, AServerThatCannotAnswerIsAnError) {
  server.objects.clear();
  server.code = 401;
  EXPECT_FALSE(volumes.of(pod, {}).ok());
}

TEST_F(BoundVolumesTest, NoVolumesNoReads) {
  pod.volumes.clear();
  EXPECT_TRUE(read().empty());
  EXPECT_EQ(server.reads, 0);
}

}  // namespace
}  // namespace egpu::reconcile

// /defrag with execute: one eviction per request, with the caller's own token, replanned for each request.
#include "controller/server/moves.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "controller/base/ids.h"
#include "controller/base/metrics.h"
#include "tests/whatif/questions.h"

namespace egpu::server {
namespace {

using namespace whatif;  // the fixture of the questions

/// Accepts evictions and annotations from callers with the token "ann".
class Evictions final : public kube::Transport {
 public:
  base::Result<kube::HttpResponse> perform(const kube::HttpRequest& request, std::stop_token) override {
    const bool dry = (request.target + request.body).find("dryRun") != std::string::npos;
    bodies.push_back(request.body);
    std::string token;
    for (const auto& [name, value] : request.headers)
      if (name == "Authorization") token = value;
    asked.push_back(request.target + (dry ? " dry " : " ") + token);
    if (token != "Bearer ann") return no(403, "Forbidden", "User \\\"bob\\\" cannot create resource");
    if (budget) return no(429, "TooManyRequests", "would violate the pod's disruption budget");
    return kube::HttpResponse{201, {}, "{}"};
  }
  base::Result<kube::HttpResponse> stream(const kube::HttpRequest&, const std::function<bool(std::string_view)>&,
                                          std::stop_token) override {
    return base::Status(base::Code::internal, "not asked for");
  }
  bool budget = false;
  std::vector<std::string> asked, bodies;

 private:
  static kube::HttpResponse no(int code, const std::string& reason, const std::string& message) {
    return {code,
            {{"retry-after", "10"}},
            R"({"kind":"Status","status":"Failure","code":)" + std::to_string(code) + R"(,"reason":")" + reason +
                R"(","message":")" + message + "\"}"};
  }
};

class MovesTest : public QuestionsTest {
 protected:
  void SetUp() override {
    QuestionsTest::SetUp();
    for (const std::string name : {"c", "d"}) {
      movable(name);
      auto stamped = *stores.claims.get({"default", name});
      stamped.metadata.resourceVersion = next();
      stamped.metadata.ownerReferences = {{"resource.k8s.io/v1", "ResourceClaim", name, "uid-of-" + name, true}};
      stores.claims.informed(stamped);
      stores.pods.informed(podOn2("p-" + name, {name}, "ReplicaSet"));
    }
  }
  /// Removes c's owner references, so that c was created by a user.
  void byHand() {
    auto made = *stores.claims.get({"default", "c"});
    made.metadata.resourceVersion = next();
    made.metadata.ownerReferences.clear();
    stores.claims.informed(made);
  }
  void annotated() {
    auto asked = *stores.claims.get({"default", "c"});
    asked.metadata.resourceVersion = next();
    asked.metadata.annotations = {{"elasticgpu.io/move", "device-c"}};
    stores.claims.informed(asked);
  }
  http::Response move(const std::string& query, const std::string& token = "ann", const std::string& method = "POST") {
    http::Request r;
    r.method = method;
    r.path = "/defrag";
    r.query = query;
    if (!token.empty()) r.headers = {{"authorization", "Bearer " + token}};
    EXPECT_TRUE(Moves::serves(r)) << query;
    return moves.answer(r, {});
  }
  void refusesMove(int status, const std::string& message, const std::string& query, const std::string& token = "ann",
                   const std::string& method = "POST") {
    const auto r = move(query, token, method);
    EXPECT_EQ(r.status, status) << query;
    EXPECT_NE(r.body.find(message), std::string::npos) << r.body;
  }
  static bool hasHeader(const http::Response& r, const std::string& name) {
    for (const auto& each : r.headers)
      if (each.first == name) return true;
    return false;
  }
  static kube::ClientOptions once() {
    kube::ClientOptions options;
    options.maxAttempts = 1;
    return options;
  }
  Evictions api;
  base::Random random;
  base::NoMetrics metrics;
  Moves moves{stores, [this](const http::Request& r, std::stop_token) { return questions.answer(r); },
              kube::Client(api, clock, random, metrics, once()), clock};
};

TEST_F(MovesTest, OneMoveIsOneEvictionAsWhoeverCalls) {
  const auto r = move("claim=waits&execute=true");
  EXPECT_EQ(r.status, 200) << r.body;
  has(r.body, R"({"moved":{"claim":"default/c","device":"egpu-c","to":"n)");
  has(r.body, R"("pods":["default/p-c"]},"left":0,"possible":true,"text":"claim default/c: its pod is evicted)");
  EXPECT_EQ(api.asked, (std::vector<std::string>{"/api/v1/namespaces/default/pods/p-c/eviction dry Bearer ann",
                                                 "/api/v1/namespaces/default/pods/p-c/eviction Bearer ann"}));
}

TEST_F(MovesTest, NobodyGoesForAClaimThatCapacityAloneWouldNotHaveBound) {
  addClass("own");
  auto waits = *stores.claims.get({"default", "waits"});
  waits.spec.className = "own";
  const auto refused = [&](const std::string& text) {
    waits.metadata.resourceVersion = next();
    stores.claims.informed(waits);
    const auto r = move("claim=waits&execute=true");
    EXPECT_EQ(r.status, 200) << r.body;
    has(r.body, R"({"left":0,"possible":false,"text":")" + text);
  };
  const auto nothing = [&](const std::string& why) {
    refused("more capacity alone would not bind it: " + why);
    // Without execute a move is still planned.
    has(answer("/defrag", "claim=waits"), R"("text":"1 move would make it fit")");
  };
  waits.metadata.annotations = {{"elasticgpu.io/gang", "train"}, {"elasticgpu.io/gang-size", "4"}};
  refused("no moves are planned for gang train: 1 of 4 members of gang train is here; here: waits");
  waits.metadata.annotations = {{"elasticgpu.io/gang", "train"}};
  refused("no moves are planned for gang train: metadata.annotations[elasticgpu.io/gang-size]: ");
  waits.metadata.annotations.clear();
  auto cls = *stores.classes.get({"", "own"});
  cls.metadata.resourceVersion = next();
  cls.conditions.push_back({"Ready", "False", "ProvisionerUnavailable", "gone", {}, 0});
  stores.classes.informed(cls);
  nothing("the class is not ready: gone");
  cls.metadata.resourceVersion = next();
  cls.conditions.clear();
  stores.classes.informed(cls);
  bindsForItsPod("own");
  nothing("it waits for the first pod that uses it");
  EXPECT_TRUE(api.asked.empty());
  auto pod = podOn2("user", {"waits"}, "ReplicaSet");
  pod.nodeName.clear();
  pod.requiredNodeAffinity.reset();
  stores.pods.informed(pod);
  has(move("claim=waits&execute=true").body, R"({"moved":{"claim":"default/c")");
}

TEST_F(MovesTest, AGangIsLetInUntilAllItsMembersAreBound) {
  claim("mate", "40");
  const auto ofGang = [this](const std::string& name, const std::string& phase) {
    auto member = *stores.claims.get({"default", name});
    member.metadata.resourceVersion = next();
    member.metadata.annotations = {{"elasticgpu.io/gang", "train"}, {"elasticgpu.io/gang-size", "2"}};
    member.status.phase = phase;
    stores.claims.informed(member);
  };
  for (const std::string name : {"waits", "mate"}) ofGang(name, "Pending");
  const auto r = move("claim=mate&execute=true");
  EXPECT_EQ(r.status, 200) << r.body;
  has(r.body, R"({"moved":{"claim":"default/c","device":"egpu-c","to":"n)");
  has(r.body, R"("pods":["default/p-c"]},"left":0,"possible":true)");
  EXPECT_EQ(api.asked.size(), 2U);
  stores.devices.informedGone(*stores.devices.get({"", "egpu-c"}));
  stores.pods.informedGone(*stores.pods.get({"default", "p-c"}));
  stores.claims.informedGone(*stores.claims.get({"default", "c"}));
  auto ledger = *stores.cards.get({"", "n2-c0"});
  ledger.metadata.resourceVersion = next();
  ledger.spec.allocations.clear();
  stores.cards.informed(ledger);
  stores.pods.informed(podOn2("p-c2", {}, "ReplicaSet"));
  has(move("claim=mate&execute=true").body,
      R"({"left":0,"possible":true,"text":"all 2 open members of gang train fit as they are"})");
  ofGang("mate", "Bound");
  has(move("claim=mate&execute=true").body, R"("possible":true,"text":"all )");
  ofGang("waits", "Bound");
  has(move("claim=mate&execute=true").body, R"({"left":0,"possible":true,"text":"gang train is Bound"})");
  EXPECT_EQ(api.asked.size(), 2U);
}

TEST_F(MovesTest, TheNextOneWaitsUntilThatIsDone) {
  ASSERT_EQ(move("claim=waits&execute=true").status, 200);
  const auto waits = move("claim=waits&execute=true");
  EXPECT_EQ(waits.status, 409);
  EXPECT_TRUE(hasHeader(waits, "Retry-After"));
  has(waits.body, "a move is under way: device egpu-c of claim default/c is still there");
  EXPECT_EQ(api.asked.size(), 2U);
  stores.devices.informedGone(*stores.devices.get({"", "egpu-c"}));
  stores.pods.informedGone(*stores.pods.get({"default", "p-c"}));
  stores.claims.informedGone(*stores.claims.get({"default", "c"}));
  has(move("claim=waits&execute=true").body, "no pod has replaced default/p-c");
  stores.pods.informed(podOn2("p-c2", {}, "ReplicaSet"));
  has(move("claim=waits&execute=true").body, R"({"moved":{"claim":"default/d")");
}

TEST_F(MovesTest, AMoveThatDoesNotEndIsReportedOnceAndForgotten) {
  ASSERT_EQ(move("claim=waits&execute=true").status, 200);
  clock.advance(Moves::kDoneTimeout);
  const auto stopped = move("claim=waits&execute=true");
  EXPECT_EQ(stopped.status, 409);
  EXPECT_FALSE(hasHeader(stopped, "Retry-After"));
  has(stopped.body, "stopped: device egpu-c of claim default/c is still there after 20 minutes");
  EXPECT_EQ(move("claim=waits&execute=true").status, 200);
}

TEST_F(MovesTest, AClaimMadeByHandIsAskedToMoveBeforeItsPodGoes) {
  byHand();
  const auto first = move("claim=waits&execute=true");
  EXPECT_EQ(first.status, 409) << first.body;
  EXPECT_TRUE(hasHeader(first, "Retry-After"));
  has(first.body,
      "claim default/c is requested to leave device egpu-c: its pod is evicted once the controller has marked the "
      "device");
  const std::string claim = "/apis/elasticgpu.io/v1alpha/namespaces/default/elasticgpuclaims/c";
  const std::string eviction = "/api/v1/namespaces/default/pods/p-c/eviction";
  EXPECT_EQ(api.asked, (std::vector<std::string>{claim + "?dryRun=All dry Bearer ann", eviction + " dry Bearer ann",
                                                 claim + " Bearer ann"}));
  has(api.bodies.back(), R"("annotations":{"elasticgpu.io/move":"device-c"})");
  has(api.bodies.back(), R"("uid":"c")");
  annotated();
  auto marked = *stores.devices.get({"", "egpu-c"});
  marked.metadata.resourceVersion = next();
  marked.status.reason = "Preempted";
  stores.devices.informed(marked);
  api.asked.clear();
  const auto second = move("claim=waits&execute=true");
  has(second.body, "claim default/c: its pod is evicted, so that it goes to node");
  EXPECT_EQ(api.asked, (std::vector<std::string>{eviction + " dry Bearer ann", eviction + " Bearer ann"}));
  has(move("claim=waits&execute=true").body, "device egpu-c of claim default/c is still there");
  stores.pods.informedGone(*stores.pods.get({"default", "p-c"}));
  marked.metadata.uid = "another";  // a pod of the same name, because its claim has the same name
  marked.metadata.resourceVersion = next();
  stores.devices.informed(marked);
  has(move("claim=waits&execute=true").body, "no pod has replaced default/p-c");
}

TEST_F(MovesTest, OneThatNobodyUsesIsAskedToMoveAndNobodyGoes) {
  byHand();
  stores.pods.informedGone(*stores.pods.get({"default", "p-c"}));
  const auto r = move("claim=waits&execute=true");
  has(r.body,
      R"("pods":[]},"left":0,"possible":true,"text":"claim default/c: it is scheduled again, so that it goes to)");
  ASSERT_EQ(api.asked.size(), 2U);
  EXPECT_EQ(move("claim=waits&execute=true").status, 409) << "it is under way";
}

TEST_F(MovesTest, WhoMayNotChangeTheClaimMovesNothing) {
  byHand();
  refusesMove(403, "claim default/c may not be changed now: User \"bob\" cannot", "claim=waits&execute=true", "bob");
  ASSERT_EQ(api.asked.size(), 1U);
  has(api.asked.front(), " dry ");
}

TEST_F(MovesTest, WhoMayNotEvictIsRefusedAndNobodyGoes) {
  refusesMove(403, "User \"bob\" cannot create resource", "claim=waits&execute=true", "bob");
  refusesMove(403, "with the caller's permissions", "claim=waits&execute=true", "");
  for (const auto& each : api.asked) EXPECT_NE(each.find(" dry "), std::string::npos) << each;
}

TEST_F(MovesTest, ABudgetHoldsItUp) {
  api.budget = true;
  const auto r = move("claim=waits&execute=true");
  EXPECT_EQ(r.status, 429) << r.body;
  EXPECT_TRUE(hasHeader(r, "Retry-After"));
  has(r.body, "pod default/p-c may not be evicted now");
  api.budget = false;
  EXPECT_EQ(move("claim=waits&execute=true").status, 200);
}

TEST_F(MovesTest, WhereThereIsNothingToDoNobodyGoes) {
  has(move("class=share&gpu-core=40&execute=true").body, R"({"left":0,"possible":true,"text":"it fits as it is"})");
  has(move("moves=0&execute=true").body, R"({"left":0,"possible":false,"text":"no move would free a whole card)");
  has(move("claim=a&execute=true&format=text").body, "claim default/a is Bound\n");
  EXPECT_TRUE(api.asked.empty());
}

TEST_F(MovesTest, RefusalsNameTheField) {
  refusesMove(405, "only a POST moves", "execute=true", "ann", "GET");
  refusesMove(400, "execute: \"maybe\" is unknown; known is true", "execute=maybe");
  refusesMove(400, "format: \"xml\" is unknown", "execute=true&format=xml");
  refusesMove(400, "moves: applies to freeing whole cards", "claim=waits&moves=3&execute=true");
  refusesMove(404, "there is no ElasticGPUClaim \"default/x\"", "claim=x&execute=true");
  EXPECT_TRUE(api.asked.empty());
}

}  // namespace
}  // namespace egpu::server

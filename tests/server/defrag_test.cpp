// /defrag: which claims to move, and who may be moved.
#include <gtest/gtest.h>

#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "tests/server/questions.h"

namespace egpu::server {
namespace {

TEST_F(QuestionsTest, APodsPinToItsNodeIsNoConditionOfItsOwn) {
  bindsForItsPod("share");
  stores.pods.informed(podOn2("p", {"c"}, "ReplicaSet"));
  has(answer("/simulate", "drain=n2"), R"({"claim":"default/c","from":"n2","to":{"fits":true,"node":"n1")");
  stores.pods.informed(podOn2("p", {"c"}, "DaemonSet"));
  has(answer("/simulate", "drain=n2"), R"({"claim":"default/c","from":"n2","to":{"fits":false)");
}

TEST_F(QuestionsTest, AnUnpinnedPodKeepsWhatItAsksOfNodes) {
  bindsForItsPod("share");
  auto pod = podOn2("p", {"c"}, "ReplicaSet");
  pod.requiredNodeAffinity->terms[0].matchExpressions = {{"zone", "Exists", {}}};
  stores.pods.informed(pod);
  has(answer("/simulate", "drain=n2"), R"({"claim":"default/c","from":"n2","to":{"fits":false)");
}

TEST_F(QuestionsTest, FewestMovesThatLetAClaimIn) {
  movable("c");
  movable("d");
  stores.pods.informed(podOn2("p", {"c"}, "ReplicaSet"));
  const auto json = answer("/defrag", "claim=waits");
  has(json, R"("claim":"default/waits")");
  has(json, R"j("text":"1 move would let it in","possible":true,"exact":true,"movable":2,"moves":[{"claim":)j"
            R"j("default/c","device":"egpu-c","from":{"node":"n2","cards":[{"name":"n2-c0","charged":{"core":300,)j");
  has(json, R"("to":{"fits":true,"node":"n2","cards":[{"name":"n2-c1")");
  has(json, R"("pods":["default/p"]}],"decision":{"fits":true,"node":"n2","cards":[{"name":"n2-c0")");
  const auto text = answer("/defrag", "claim=waits&format=text");
  has(text, "1 move would let it in\n");
  has(text, "  #  CLAIM      FROM  CARDS      TO  CARDS      PODS\n  1  default/c  n2    n2-c0 [0]  n2  n2-c1 [1]  default/p\n");
  has(text, "\nafter that it would go to node n2\n");
  EXPECT_EQ(answer("/defrag", "class=share&gpu-core=90&node=n2"), answer("/defrag", "class=share&gpu-core=90"));
  has(answer("/defrag", "class=share&gpu-core=90&node=n1"), R"("text":"no move would let it in; 2 claims that may)");
  has(answer("/defrag", "", R"({kind: ElasticGPUClaim, apiVersion: elasticgpu.io/v1alpha, metadata: {name: x},
                               spec: {egpuClassName: share, resources: {requests: {elasticgpu.io/gpu-core: 90}}}})"),
      R"("text":"1 move would let it in")");
  has(answer("/defrag", "class=share&gpu-core=40"), R"("text":"it fits as it is","possible":true)");
}

TEST_F(QuestionsTest, WholeCardsAreFreedByMoves) {
  movable("c");
  movable("d");
  has(answer("/defrag"),
      R"j("text":"1 move would free 1 whole card","possible":true,"exact":true,"movable":2,"moves":)j"
      R"j([{"claim":"default/c")j");
  has(answer("/defrag"), R"("pods":[]}],"freedCards":1})");
  has(answer("/defrag", "moves=0"), R"("text":"no move would free a whole card; 2 claims that may move","possible":f)");
  has(answer("/defrag", "format=text"), "1 move would free 1 whole card\n  #  CLAIM");
}

TEST_F(QuestionsTest, OnlyWhoMayMoveAndComesBackIsMoved) {
  const auto moves = [&](bool yes, const char* why) {
    EXPECT_EQ(ask("/defrag").body.find(R"("moves":[{"claim":"default/c")") != std::string::npos, yes) << why;
  };
  moves(false, "its class does not say so");
  movable("c", {{"movable", "false"}});
  moves(false, "its class says no");
  movable("c");
  moves(true, "nobody uses it");
  for (const auto& [owner, claims, yes, why] :
       {std::tuple{"ReplicaSet", std::vector<std::string>{"c"}, true, "its pod is made anew"},
        std::tuple{"", std::vector<std::string>{"c"}, false, "nobody makes its pod anew"},
        std::tuple{"DaemonSet", std::vector<std::string>{"c"}, false, "its pod comes back to the node"},
        std::tuple{"ReplicaSet", std::vector<std::string>{"c", "d"}, false, "its pod has another claim there"}}) {
    stores.pods.informed(podOn2("p", claims, owner));
    moves(yes, why);
  }
  stores.pods.informed(podOn2("p", {"c"}, "ReplicaSet"));
  auto device = *stores.devices.get({"", "egpu-c"});
  for (const auto& [reclaim, reason] : {std::pair{"Retain", ""}, std::pair{"Delete", "Preempted"}}) {
    device.metadata.resourceVersion = next();
    device.spec.reclaimPolicy = reclaim;
    device.status.reason = reason;
    stores.devices.informed(device);
    moves(false, reason);
  }
}

TEST_F(QuestionsTest, WhoeverEndsWithItsPodIsMovedByItsEviction) {
  movable("c");
  has(answer("/defrag", "evictable=1"), R"("evictable":true,"annotate":"device-c","pods":[]}],"holds":true)");
  stores.pods.informed(podOn2("p", {"c"}, "ReplicaSet"));
  has(answer("/defrag"), R"("evictable":true,"annotate":"device-c","pods":["default/p"])");
  EXPECT_EQ(answer("/defrag").find("holds"), std::string::npos);
  auto stamped = *stores.claims.get({"default", "c"});
  stamped.metadata.resourceVersion = next();
  stamped.metadata.ownerReferences = {{"resource.k8s.io/v1", "ResourceClaim", "c", "uid-of-c", true}};
  stores.claims.informed(stamped);
  has(answer("/defrag", "evictable=1"), R"("evictable":true,"pods":["default/p"]}],"holds":true,"freedCards":1)");
  // Made anew after its pod has gone, it would go to the fuller node n1, which is as well.
  has(answer("/defrag", "evictable=1&claim=waits"), R"("holds":true,"decision":{"fits":true,"node":"n2")");
}

TEST_F(QuestionsTest, WhoIsUsedBySeveralPodsIsNotMovedByEvictions) {
  movable("c");
  stores.pods.informed(podOn2("p", {"c"}, "ReplicaSet"));
  stores.pods.informed(podOn2("q", {"c"}, "ReplicaSet"));
  has(answer("/defrag"), R"("evictable":false,"annotate":"device-c","pods":["default/p","default/q"])");
  has(answer("/defrag", "evictable=1"), R"("text":"no move would free a whole card; 0 claims that may move")");
}

TEST_F(QuestionsTest, WhoIsOnItsWayAsItWasAskedToIsStillInThePlan) {
  movable("c");
  auto device = *stores.devices.get({"", "egpu-c"});
  device.metadata.resourceVersion = next();
  device.status.reason = "Preempted";
  stores.devices.informed(device);
  has(answer("/defrag", "evictable=1"), "0 claims that may move");
  auto asked = *stores.claims.get({"default", "c"});
  asked.metadata.resourceVersion = next();
  asked.metadata.annotations = {{"elasticgpu.io/move", "device-c"}};
  stores.claims.informed(asked);
  has(answer("/defrag", "evictable=1"), R"("claim":"default/c")");
}

TEST_F(QuestionsTest, WhoWouldNotBeBoundAnewIsNotMoved) {
  movable("c");
  movable("d");
  cache::Quota quota;
  quota.metadata.name = quota.metadata.uid = "team";
  quota.metadata.namespace_ = "default";
  const auto allow = [&](const char* core) {
    quota.metadata.resourceVersion = next();
    quota.spec.hard = {{"gpu-core", core}};
    stores.quotas.informed(quota);
  };
  allow("210");
  has(answer("/defrag"), R"("movable":2)");
  allow("209");  // lowered under what is used
  has(answer("/defrag"), R"("movable":0)");
  has(answer("/defrag", "claim=waits"), R"("movable":0)");
  allow("300");
  auto cls = *stores.classes.get({"", stores.devices.get({"", "egpu-c"})->spec.className});
  cls.metadata.resourceVersion = next();
  cls.conditions.push_back({"Ready", "False", "ProvisionerUnavailable", "gone", {}, 0});
  stores.classes.informed(cls);
  has(answer("/defrag"), R"("movable":0)");
}

TEST_F(QuestionsTest, NobodyMovesToAModelThatItsQuotaCloses) {
  for (const std::string card : {"n1-c0", "n1-c1"}) {
    auto other = *stores.cards.get({"", card});
    other.metadata.resourceVersion = next();
    other.spec.card->model = "A100";
    stores.cards.informed(other);
  }
  claim("e", "20", "n2", "n2-c1");
  movable("c");  // beside d and e is no room for it
  has(answer("/defrag", "claim=waits"), R"("to":{"fits":true,"node":"n1")");
  cache::Quota quota;
  quota.metadata.name = quota.metadata.uid = "team";
  quota.metadata.namespace_ = "default";
  quota.metadata.resourceVersion = next();
  quota.spec.hard = {{"gpu-core", "149"}};  // 120 are used
  quota.spec.models = {"A100"};
  stores.quotas.informed(quota);
  has(answer("/defrag", "claim=waits"), R"("text":"no move would let it in; 1 claim that may move")");
  quota.metadata.resourceVersion = next();
  quota.spec.hard = {{"gpu-core", "150"}};
  stores.quotas.informed(quota);
  has(answer("/defrag", "claim=waits"), R"("to":{"fits":true,"node":"n1")");
}

TEST_F(QuestionsTest, NobodyMovesToWhereRoomIsKept) {
  movable("c");
  has(answer("/defrag"), R"("moves":[{"claim":"default/c")");
  cache::Claim owner;
  owner.metadata.name = owner.metadata.uid = "owner";
  owner.metadata.namespace_ = "default";
  owner.metadata.resourceVersion = next();
  owner.status.phase = "Pending";
  owner.status.nominated = v1alpha::Nomination{"n1", {{"n1-c0", 400, 0}}, {"somebody"}};
  stores.claims.informed(owner);
  owner.metadata.name = owner.metadata.uid = "other";
  owner.metadata.resourceVersion = next();
  owner.status.nominated = v1alpha::Nomination{"n2", {{"n2-c1", 400, 0}}, {"somebody"}};
  stores.claims.informed(owner);
  has(answer("/defrag"), R"("moves":[])");
}

TEST_F(QuestionsTest, AMoveGoesWhereThePodsCanRun) {
  movable("c");
  auto pod = podOn2("p", {"c"}, "ReplicaSet");
  pod.nodeSelector = {{"zone", "far"}};
  stores.pods.informed(pod);  // of a class that binds without a look at it
  has(answer("/defrag", "claim=waits"), R"("text":"no move would let it in; 1 claim that may move")");
}

TEST_F(QuestionsTest, RefusalsOfDefragNameTheField) {
  refuses(400, "moves: is for freeing whole cards", "/defrag", "claim=waits&moves=3");
  refuses(400, "moves: \"1001\" is no whole number from 0 to 1000", "/defrag", "moves=1001");
  refuses(400, "node: is for a claim that is to be let in", "/defrag", "node=n1");
  refuses(400, "unknown parameter \"names\"; known are", "/defrag", "names=3");
  refuses(404, "there is no ElasticGPUClaim \"default/x\"", "/defrag", "claim=x");
  refuses(400, "body: a Pod is for /simulate only", "/defrag", "",
          "{kind: Pod, apiVersion: v1, metadata: {name: p}, spec: {}}");
}

}  // namespace
}  // namespace egpu::server

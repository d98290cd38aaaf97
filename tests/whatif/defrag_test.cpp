// /defrag: which claims are moved, and which may be moved.
#include <gtest/gtest.h>

#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "tests/whatif/questions.h"

namespace egpu::whatif {
namespace {

TEST_F(QuestionsTest, APodsPinToItsNodeIsNoConditionOfItsOwn) {
  bindsForItsPod("share");
  stores.pods.informed(podOn2("p", {"c"}, "ReplicaSet"));
  has(answer("/simulate", "drain=n2"), R"({"claim":"default/c","from":"n2","to":{"fits":true,"node":"n1")");
  stores.pods.informed(podOn2("p", {"c"}, "DaemonSet"));
  has(answer("/simulate", "drain=n2"), R"({"claim":"default/c","from":"n2","to":{"fits":false)");
}

TEST_F(QuestionsTest, AnUnpinnedPodRetainsWhatItAsksOfNodes) {
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
  has(json, R"j("text":"1 move would make it fit","possible":true,"exact":true,"movable":2,"moves":[{"claim":)j"
            R"j("default/c","device":"egpu-c","from":{"node":"n2","cards":[{"name":"n2-c0","charged":{"core":300,)j");
  has(json, R"("to":{"fits":true,"node":"n2","cards":[{"name":"n2-c1")");
  has(json, R"("pods":["default/p"]}],"decision":{"fits":true,"node":"n2","cards":[{"name":"n2-c0")");
  const auto text = answer("/defrag", "claim=waits&format=text");
  has(text, "1 move would make it fit\n");
  has(text,
      "  #  CLAIM      FROM  CARDS      TO  CARDS      PODS\n  1  default/c  n2    n2-c0 [0]  n2  n2-c1 [1]  "
      "default/p\n");
  has(text, "\nafter that it would go to node n2\n");
  EXPECT_EQ(answer("/defrag", "class=share&gpu-core=90&node=n2"), answer("/defrag", "class=share&gpu-core=90"));
  has(answer("/defrag", "class=share&gpu-core=90&node=n1"), R"("text":"no move would make it fit; 2 claims that may)");
  has(answer("/defrag", "", R"({kind: ElasticGPUClaim, apiVersion: elasticgpu.io/v1alpha, metadata: {name: x},
                               spec: {egpuClassName: share, resources: {requests: {elasticgpu.io/gpu-core: 90}}}})"),
      R"("text":"1 move would make it fit")");
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
  // After its pod is deleted, the recreated claim would go to the fuller node n1, which is also fine.
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
  allow("209");  // lowered below the usage
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
  movable("c");  // it does not fit beside d and e
  has(answer("/defrag", "claim=waits"), R"("to":{"fits":true,"node":"n1")");
  cache::Quota quota;
  quota.metadata.name = quota.metadata.uid = "team";
  quota.metadata.namespace_ = "default";
  quota.metadata.resourceVersion = next();
  quota.spec.hard = {{"gpu-core", "149"}};  // 120 are used
  quota.spec.models = {"A100"};
  stores.quotas.informed(quota);
  has(answer("/defrag", "claim=waits"), R"("text":"no move would make it fit; 1 claim that may move")");
  quota.metadata.resourceVersion = next();
  quota.spec.hard = {{"gpu-core", "150"}};
  stores.quotas.informed(quota);
  has(answer("/defrag", "claim=waits"), R"("to":{"fits":true,"node":"n1")");
}

TEST_F(QuestionsTest, NobodyMovesToWhereCapacityIsReserved) {
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
  stores.pods.informed(pod);  // its class binds without regard to pods
  has(answer("/defrag", "claim=waits"), R"("text":"no move would make it fit; 1 claim that may move")");
}

TEST_F(QuestionsTest, RefusalsOfDefragNameTheField) {
  refuses(400, "moves: applies to freeing whole cards", "/defrag", "claim=waits&moves=3");
  refuses(400, "moves: \"1001\" is not a whole number from 0 to 1000", "/defrag", "moves=1001");
  refuses(400, "node: applies only to moves for a claim", "/defrag", "node=n1");
  refuses(400, "unknown parameter \"names\"; known are", "/defrag", "names=3");
  refuses(404, "there is no ElasticGPUClaim \"default/x\"", "/defrag", "claim=x");
  refuses(400, "body: a Pod is for /simulate only", "/defrag", "",
          "{kind: Pod, apiVersion: v1, metadata: {name: p}, spec: {}}");
}

class GangDefragTest : public QuestionsTest {
 protected:
  /// The gang has the members waits (90 %) and mate (40 %). c may move.
  void SetUp() override {
    QuestionsTest::SetUp();
    claim("mate", "40");
    for (const std::string name : {"waits", "mate"}) change(name, [this](auto& member) { ofGang(member, "2"); });
    movable("c");
  }
  template <class F>
  void change(const std::string& name, F f) {
    auto changed = *stores.claims.get({"default", name});
    changed.metadata.resourceVersion = next();
    f(changed);
    stores.claims.informed(changed);
  }
  static void ofGang(cache::Claim& member, const std::string& size) {
    member.metadata.annotations = {{"elasticgpu.io/gang", "train"}, {"elasticgpu.io/gang-size", size}};
  }
};

TEST_F(GangDefragTest, FewestMovesThatLetAllMembersIn) {
  const auto json = answer("/defrag", "claim=waits");
  has(json, R"j("text":"1 move would make gang train fit: 1 of 2 open members fits without a move","possible":true)j");
  has(json, R"("moves":[{"claim":"default/c","device":"egpu-c","from":{"node":"n2")");
  has(json, R"j("gang":{"name":"train","podGroup":false,"size":2,"phase":"Pending","decided":0,)j"
            R"j("fit":1,"lacking":"default/waits",)j"
            R"j("members":[{"claim":"default/mate","to":{"fits":true,"node":"n1",)j");
  has(json, R"({"claim":"default/waits","to":{"fits":true,"node":"n2","cards":[{"name":"n2-c0")");
  has(json, R"("decision":{"fits":true,"node":"n2","cards":[{"name":"n2-c0")");
  EXPECT_EQ(json.find("this answer is for the claim alone"), std::string::npos) << json;
  has(answer("/defrag", "claim=mate"), R"("decision":{"fits":true,"node":"n1")");
  const auto text = answer("/defrag", "claim=mate&format=text");
  has(text, "1 move would make gang train fit: 1 of 2 open members fits without a move\n");
  has(text, "\nafter that they would go to:\n  MEMBER         TO  CARDS\n  default/mate   n1  n1-c0 [0]\n");
  has(text, "default/waits  n2  n2-c0 [0]\n");
  has(answer("/defrag", "claim=waits&format=yaml"), "gang:\n  name: train\n");
  has(answer("/defrag", "claim=waits&evictable=1"), R"("holds":true)");
  refuses(400, "node: members of a gang are placed on several nodes", "/defrag", "claim=waits&node=n2");
}

TEST_F(GangDefragTest, WhatNoMoveHelpsIsReported) {
  change("mate", [](auto& mate) { mate.spec.requests = {{"elasticgpu.io/gpu-core", "90"}}; });
  has(answer("/defrag", "claim=mate"), R"j("text":"no moves would make gang train fit,)j"
                                       R"j( as far as was tried: 0 of 2 open members fit without a move, claim )j"
                                       R"j(default/mate does not; 1 claim that may move","possible":false)j");
  change("mate", [](auto& mate) { mate.spec.requests = {{"elasticgpu.io/gpu", "2"}}; });
  has(answer("/defrag", "claim=mate"), R"("possible":false)");
  change("mate", [](auto& mate) { mate.spec.requests = {{"elasticgpu.io/gpu-core", "20"}}; });
  change("waits", [](auto& waits) { waits.spec.requests = {{"elasticgpu.io/gpu-core", "40"}}; });
  has(answer("/defrag", "claim=waits"), R"("text":"all 2 open members of gang train fit as they are","possible":true)");
}

TEST_F(GangDefragTest, AGangThatCannotBeDecidedGetsTheReason) {
  const auto refusal = [this](const std::string& why, const std::string& query = "claim=waits") {
    const auto json = answer("/defrag", query);
    has(json, R"("text":"no moves are planned for gang train: )" + why);
    has(json, R"("possible":false)");
    has(json, R"("moves":[])");
    has(json, R"("notDecided":")" + why);
  };
  for (const std::string name : {"waits", "mate"}) change(name, [](auto& member) { ofGang(member, "3"); });
  refusal("2 of 3 members of gang train are here; here: mate, waits");
  claim("late", "20");
  change("late", [](auto& late) {
    ofGang(late, "3");
    late.metadata.deletionTimestamp = "2026-01-01T00:00:00Z";
  });
  refusal("2 of 3 members of gang train are here; here: mate, waits; claim late does not count: is being deleted");
  for (const std::string name : {"waits", "mate"}) change(name, [](auto& member) { ofGang(member, "2"); });
  claim("more", "20");
  change("more", [](auto& more) { ofGang(more, "2"); });
  has(answer("/defrag", "claim=more"), R"("possible":true)");  // the two oldest claims are the members
  refusal("gang train has its 2 members already");
  change("more", [](auto& more) { more.metadata.deletionTimestamp = "2026-01-01T00:00:00Z"; });
  change("mate", [](auto& mate) { mate.spec.requests = {{"elasticgpu.io/gpu-core", "100.5"}}; });
  refusal("claim mate: ");
  change("mate", [](auto& mate) { mate.spec.requests = {{"elasticgpu.io/gpu-core", "40"}}; });
  change("mate", [](auto& mate) { mate.metadata.annotations["elasticgpu.io/gang-size"] = "x"; });
  has(answer("/defrag", "claim=mate"), R"("notDecided":"metadata.annotations[elasticgpu.io/gang-size]: )");
}

TEST_F(GangDefragTest, NoClaimMovesForAGangThatCapacityAloneWouldNotHaveBound) {
  bindsForItsPod("share");
  has(answer("/defrag", "claim=waits"), R"("text":"1 move would make gang train fit)");
  has(answer("/defrag", "claim=waits&evictable=1"),
      R"("text":"no moves are planned for gang train: more capacity alone would not bind it: )"
      "claim mate of gang train: it waits for the first pod that uses it\",\"possible\":false");
  auto both = podOn2("user", {"waits", "mate"}, "Job");
  both.nodeName.clear();
  both.requiredNodeAffinity.reset();
  both.phase = "Pending";
  stores.pods.informed(both);
  // One pod uses both claims, so they need the same node.
  change("mate", [](auto& mate) { mate.spec.requests = {{"elasticgpu.io/gpu-core", "50"}}; });
  const auto json = answer("/defrag", "claim=waits&evictable=1");
  has(json, R"j("text":"no moves would make gang train fit, as far as was tried)j");
  change("mate", [](auto& mate) { mate.spec.requests = {{"elasticgpu.io/gpu-core", "10"}}; });
  has(answer("/defrag", "claim=waits&evictable=1"),
      R"({"claim":"default/mate","to":{"fits":true,"node":"n2","cards":[{"name":"n2-c)");
}

TEST_F(GangDefragTest, ATopologyHoldsMembersTogether) {
  for (const std::string name : {"n1", "n2"}) {
    auto node = *stores.nodes.get({"", name});
    node.metadata.resourceVersion = next();
    node.metadata.labels = {{"rack", name}};
    stores.nodes.informed(node);
  }
  for (const std::string name : {"waits", "mate"})
    change(name, [](auto& member) { member.metadata.annotations["elasticgpu.io/gang-topology"] = "rack"; });
  change("mate", [](auto& mate) { mate.spec.requests = {{"elasticgpu.io/gpu-core", "50"}}; });
  // n2 has capacity for one member.
  has(answer("/defrag", "claim=waits"), R"("text":"no moves would make gang train fit)");
  change("mate", [](auto& mate) { mate.spec.requests = {{"elasticgpu.io/gpu-core", "10"}}; });
  const auto json = answer("/defrag", "claim=waits");
  has(json, R"("topology":"rack","group":"n2")");
  has(answer("/defrag", "claim=waits&format=text"), "after that they would go to rack n2:\n");
}

TEST_F(GangDefragTest, AQuotaIsNoReasonToMove) {
  cache::Quota quota;
  quota.metadata.name = quota.metadata.uid = "team";
  quota.metadata.namespace_ = "default";
  quota.metadata.resourceVersion = next();
  quota.spec.hard = {{"gpu-core", "300"}};  // 210 are used
  stores.quotas.informed(quota);
  const auto json = answer("/defrag", "claim=waits");
  has(json, R"("quota":"QuotaExceeded: quota team)");
  has(json, R"("text":"gang train: QuotaExceeded: quota team)");
  has(json, R"("moves":[])");
}

TEST_F(GangDefragTest, MembersThatAreDecidedStay) {
  for (const auto& [name, card] : {std::pair{"one", "n1-c0"}, std::pair{"two", "n1-c1"}}) {
    claim(name, "20", "n1", card);
    change(name, [](auto& member) {
      member.metadata.annotations = {{"elasticgpu.io/gang", "pair"}, {"elasticgpu.io/gang-size", "2"}};
    });
    movable(name);
  }
  const auto json = answer("/defrag", "claim=one");
  has(json, R"("text":"all members of gang pair are Bound","possible":true)");
  has(json, R"("phase":"Bound","decided":2,"members":[])");
  has(answer("/defrag"), R"("movable":1)");  // c
  change("two", [](auto& member) { member.metadata.deletionTimestamp = "2026-01-01T00:00:00Z"; });
  has(answer("/defrag", "claim=one"), R"("subject":{"claim":"default/one")");
}

}  // namespace
}  // namespace egpu::whatif

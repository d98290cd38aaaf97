// filter, prioritize and preempt, and the handling of requests in general.
#include <algorithm>

#include "api/v1alpha/keys.h"
#include "tests/extender/fixture.h"

namespace egpu::server {
namespace {

using std::chrono::seconds;

TEST_F(ExtenderTest, APodWithoutClaimsPassesEverywhereWithoutASearch) {
  auto pod = World::podOf("plain", {}, false);
  pod.resourceClaims = {};
  EXPECT_EQ(passing(pod), (Names{"n1", "n2"}));
  EXPECT_EQ(answer("filter", args(pod, {"nobody", "knows"}))["NodeNames"], (Json{"nobody", "knows"}));
  EXPECT_EQ(score(pod, "n1"), 0);
  const auto whole = answer("filter", wholeArgs(pod));
  EXPECT_EQ(whole["Nodes"]["items"].size(), 2u);
  EXPECT_EQ(whole["Nodes"]["items"][0]["metadata"]["labels"]["a"], "b");
  EXPECT_FALSE(whole.contains("NodeNames"));
}

TEST_F(ExtenderTest, AnUnboundClaimIsJudgedOnEachNode) {
  world.addClaim("a", "late", {{"gpu", "2"}});
  const auto pod = addPod("p", {"a"});
  EXPECT_EQ(passing(pod), (Names{"n1", "n2"}));
  fill("n1", 0);
  EXPECT_EQ(passing(pod), Names{"n2"});
  EXPECT_EQ(why(pod, "n1"), "not enough free capacity for the pod's ElasticGPU claims");
  EXPECT_EQ(why(pod, "n2"), "");
  const auto whole = answer("filter", wholeArgs(pod));
  ASSERT_EQ(whole["Nodes"]["items"].size(), 1u);
  EXPECT_EQ(whole["Nodes"]["items"][0]["metadata"]["name"], "n2");
  EXPECT_TRUE(whole["FailedAndUnresolvableNodes"].contains("n1"));
  EXPECT_FALSE(world.exists(deviceOf("a"))) << "nothing is decided by asking";
  EXPECT_EQ(world.reason("a"), "WaitingForConsumer");
  EXPECT_NE(world.message("a").find("the scheduler of its pods chooses the node"), std::string::npos);
}

TEST_F(ExtenderTest, SeveralClaimsMustFitTheNodeTogether) {
  world.addClaim("a", "late", {{"gpu", "1"}});
  world.addClaim("b", "late", {{"gpu", "1"}});
  const auto pod = addPod("p", {"a", "b"});
  EXPECT_EQ(passing(pod), (Names{"n1", "n2"}));
  fill("n2", 1);
  EXPECT_EQ(passing(pod), Names{"n1"}) << "each by itself would fit n2";
}

TEST_F(ExtenderTest, ClaimsNamedByAnnotationCountToo) {
  world.addClaim("a", "late", {{"gpu", "2"}});
  settle();
  fill("n2", 0);
  auto pod = World::podOf("p", {}, false);
  pod.metadata.annotations["egpuc.elasticgpu.io/main"] = "a";
  pod.schedulerName = "own-scheduler";
  EXPECT_EQ(passing(pod), Names{"n1"});
  const auto made = World::must(world.client.create(pod));
  settle();
  EXPECT_NE(bind(made, "n1").find("named by annotation alone: a"), std::string::npos);
  EXPECT_EQ(world.pod("p").nodeName, "");
}

TEST_F(ExtenderTest, ABoundClaimPinsAndTheOthersAreJudgedThere) {
  world.addClaim("bound", "share", {{"gpu", "1"}}, "gpu-n2-0");
  world.addClaim("open", "late", {{"gpu", "1"}});
  settle();
  ASSERT_EQ(phaseOf("bound"), "Bound");
  const auto pod = addPod("p", {"bound", "open"});
  EXPECT_EQ(passing(pod), Names{"n2"});
  EXPECT_EQ(why(pod, "n1"), "claim bound is on node n2");
  EXPECT_EQ(score(pod, "n2"), 10);
  EXPECT_EQ(score(pod, "n1"), 0);
  fill("n2", 1);
  EXPECT_EQ(passing(pod), Names{});
  EXPECT_EQ(why(pod, "n2"), "not enough free capacity for the pod's ElasticGPU claims");
}

TEST_F(ExtenderTest, ClaimsBoundApartFitNowhere) {
  world.addClaim("one", "share", {{"gpu", "1"}}, "gpu-n1-0");
  world.addClaim("two", "share", {{"gpu", "1"}}, "gpu-n2-0");
  settle();
  const auto pod = addPod("p", {"one", "two"});
  EXPECT_EQ(passing(pod), Names{});
  EXPECT_EQ(why(pod, "n1"), "claim one is on node n1, claim two on node n2");
}

TEST_F(ExtenderTest, WhatEndsByItselfIsAnErrorAndWhatDoesNotIsUnresolvable) {
  auto pod = World::podOf("p", {"missing"}, false);
  EXPECT_EQ(error(pod), "claim missing: there is no such ElasticGPUClaim") << "asked again with back-off";
  world.addClaim("nothing", "no-such-class", {{"gpu", "1"}});
  world.addClaim("odd", "late", {{"gpu-core", "150"}});
  world.addClaim("full", "share", {{"gpu", "3"}});
  settle();
  pod = World::podOf("p", {"nothing"}, false);
  EXPECT_EQ(error(pod), "");
  EXPECT_NE(why(pod, "n1").find("claim nothing: ClassNotFound: "), std::string::npos) << why(pod, "n1");
  EXPECT_NE(why(World::podOf("p", {"odd"}, false), "n2").find("claim odd: NotRepresentable: "), std::string::npos);
  EXPECT_NE(error(World::podOf("p", {"full"}, false)).find("claim full: it is not bound yet: "), std::string::npos);
}

TEST_F(ExtenderTest, AClaimThatTheCacheLacksIsRead) {
  world.addClaim("a", "late", {{"gpu", "1"}});  // no watch has delivered it
  EXPECT_EQ(passing(World::podOf("p", {"a"}, false)), (Names{"n1", "n2"}));
}

TEST_F(ExtenderTest, AnotherDriversClaimIsNoneOfOurs) {
  core::ResourceClaim other;
  other.metadata.name = "net";
  other.metadata.namespace_ = "default";
  other.deviceClassName = "nic.example.com";
  other.requestName = "nic";
  (void)World::must(world.client.create(other));
  settle();
  EXPECT_EQ(passing(World::podOf("p", {"net"}, false)), (Names{"n1", "n2"}));
  World::mustOk(world.client.remove<core::ResourceClaim>({"default", "net"}));
}

TEST_F(ExtenderTest, ANodeThatIsLeftAloneFallsOut) {
  world.addClaim("a", "late", {{"gpu", "1"}});
  const auto pod = addPod("p", {"a"});
  world.plugin.answer({{plugin::ReplyCode::reschedule, "not on this one"}});
  EXPECT_NE(bind(pod, "n1"), "");
  EXPECT_EQ(passing(pod), Names{"n2"});
  EXPECT_EQ(why(pod, "n1"), "in backoff for the pod's ElasticGPU claims");
}

TEST_F(ExtenderTest, ScoresFollowTheClassesPolicy) {
  world.addClass("packed", "Delete", "WaitForFirstConsumer", {{"nodePolicy", "binpack"}});
  world.addClass("spread", "Delete", "WaitForFirstConsumer", {{"nodePolicy", "spread"}});
  world.addClaim("half", "share", {{"gpu-core", "50"}}, "gpu-n2-0");
  world.addClaim("a", "packed", {{"gpu-core", "10"}});
  world.addClaim("b", "spread", {{"gpu-core", "10"}});
  settle();
  const auto packed = World::podOf("p", {"a"}, false), spread = World::podOf("q", {"b"}, false);
  EXPECT_EQ(score(packed, "n2"), 10);
  EXPECT_LT(score(packed, "n1"), 10);
  EXPECT_EQ(score(spread, "n1"), 10);
  EXPECT_LT(score(spread, "n2"), 10);
  for (const auto& each : answer("prioritize", args(packed, {"n1", "n2", "gone"}))) {
    EXPECT_GE(each["Score"], 0);
    EXPECT_LE(each["Score"], 10);
  }
  EXPECT_EQ(answer("prioritize", args(packed, {})), Json::array());
}

TEST_F(ExtenderTest, PreemptRetainsNodesWhereTheVictimsClaimsGoWithThem) {
  const auto stamped = [&](const std::string& name) {
    const auto made = World::must(world.client.create(World::podOf(name, {name + "-gpu"}, true)));
    core::ResourceClaim rc;
    rc.metadata.name = name + "-gpu";
    rc.metadata.namespace_ = "default";
    rc.metadata.ownerReferences.push_back({"v1", "Pod", name, made.metadata.uid, true, false});
    rc.deviceClassName = "elasticgpu.io";
    rc.requestName = "gpu";
    rc.config.push_back(
        {{}, "elasticgpu.io", R"({"egpuClassName":"share","resources":{"requests":{"elasticgpu.io/gpu":2}}})"});
    (void)World::must(world.client.create(rc));
    settle();
    return made.metadata.uid;
  };
  const auto first = stamped("v1"), second = stamped("v2");
  ASSERT_EQ(phaseOf("v1-gpu"), "Bound");
  ASSERT_EQ(phaseOf("v2-gpu"), "Bound");
  const auto on = nodeOf("v1-gpu"), other = nodeOf("v2-gpu");
  ASSERT_NE(on, other);
  world.addClaim("a", "late", {{"gpu", "1"}});
  const auto pod = addPod("p", {"a"});
  EXPECT_EQ(passing(pod), Names{});
  const Json victims = {{on, {{"Pods", {{{"UID", first}}}}, {"NumPDBViolations", 1}}},
                        {other, {{"Pods", {{{"UID", "somebody-else"}}}}, {"NumPDBViolations", 0}}}};
  const auto got =
      answer("preempt", Json{{"Pod", asSent(pod)}, {"NodeNameToMetaVictims", victims}}.dump())["NodeNameToMetaVictims"];
  EXPECT_EQ(got, (Json{{on, victims[on]}})) << "whoever goes from the other node has no GPU";
  const Json whole = {
      {other, {{"Pods", {{{"metadata", {{"name", "v2"}, {"uid", second}}}}}}, {"NumPDBViolations", 0}}}};
  EXPECT_EQ(answer("preempt", Json{{"Pod", asSent(pod)}, {"NodeNameToVictims", whole}}.dump())["NodeNameToMetaVictims"],
            (Json{{other, {{"Pods", {{{"UID", second}}}}, {"NumPDBViolations", 0}}}}));
  EXPECT_TRUE(world.exists(deviceOf("v1-gpu"))) << "nothing is given back by asking";
  for (const auto* name : {"v1", "v2"}) {
    world.removePod(name);
    World::mustOk(world.client.remove<core::ResourceClaim>({"default", std::string(name) + "-gpu"}));
  }
}

TEST_F(ExtenderTest, PreemptKnowsThatAClaimMadeByHandStays) {
  world.addClaim("kept", "late", {{"gpu", "2"}});
  const auto holder = addPod("holder", {"kept"});
  ASSERT_EQ(bind(holder, "n1"), "");
  world.addClaim("a", "late", {{"gpu", "1"}});
  const auto pod = addPod("p", {"a"});
  const Json victims = {{"n1", {{"Pods", {{{"UID", holder.metadata.uid}}}}, {"NumPDBViolations", 0}}},
                        {"n2", {{"Pods", Json::array()}, {"NumPDBViolations", 0}}}};
  const auto body = Json{{"Pod", asSent(pod)}, {"NodeNameToMetaVictims", victims}}.dump();
  EXPECT_EQ(answer("preempt", body)["NodeNameToMetaVictims"], (Json{{"n2", victims["n2"]}}))
      << "its claim stays Bound when the pod goes";
  const auto plain = World::podOf("q", {}, false);
  EXPECT_EQ(answer("preempt",
                   Json{{"Pod", asSent(plain)}, {"NodeNameToMetaVictims", victims}}.dump())["NodeNameToMetaVictims"]
                .size(),
            2u)
      << "what has no claims is none of ours";
}

const char* const kReserved =
    "not enough free capacity for the pod's ElasticGPU claims beside what is reserved for other claims";

TEST_F(ExtenderTest, ANodeThatIsReservedForOneThatHasWaitedForLongIsNotOffered) {
  for (const auto& [node, card] : {std::pair("n1", 0), {"n1", 1}, {"n2", 0}, {"n2", 1}}) fill(node, card);
  world.addClaim("large", "share", {{"gpu", "2"}});
  settle();
  world.clock.advance(seconds(601));
  world.removeClaim("full-n1-1");
  settle();
  ASSERT_EQ(world.reason("large"), "NoFit");
  ASSERT_EQ(driver->cluster.queries().nodeReservations(),
            (std::vector<scheduler::ReservedNode>{{"default/large", "n1"}}));
  world.nextSecond();
  world.addClaim("a", "late", {{"gpu", "1"}});
  const auto pod = addPod("p", {"a"});
  EXPECT_EQ(passing(pod), Names{}) << "its binding would fail again and again";
  EXPECT_EQ(why(pod, "n1"), kReserved);
  EXPECT_EQ(why(pod, "n2"), "not enough free capacity for the pod's ElasticGPU claims");
  EXPECT_NE(bind(pod, "n1"), "") << "as it does";
  const Json victims = {{"n1", {{"Pods", Json::array()}, {"NumPDBViolations", 0}}}};
  EXPECT_EQ(
      answer("preempt", Json{{"Pod", asSent(pod)}, {"NodeNameToMetaVictims", victims}}.dump())["NodeNameToMetaVictims"]
          .size(),
      0u)
      << "nobody is evicted there for room that it would not get";
  world.removeClaim("large");
  settle();
  EXPECT_EQ(passing(pod), Names{"n1"});
}

TEST_F(ExtenderTest, CapacityThatIsReservedForAPreemptorIsNotOffered) {
  world.addClass("spare", "Delete", "Immediate", {{"preemptible", "true"}});
  core::PriorityClass high;
  high.metadata.name = "high";
  high.value = 1000;
  (void)World::must(world.client.create(high));
  fill("n2", 0);
  fill("n2", 1);
  world.addClaim("low", "spare", {{"gpu", "1"}});
  settle();
  world.addPod("runs", {"low"});
  settle();
  world.schedule("runs");
  cache::Claim big;
  big.metadata.name = "big";
  big.metadata.namespace_ = "default";
  big.spec.className = "share";
  big.spec.priorityClassName = "high";
  big.spec.requests["elasticgpu.io/gpu"] = "2";
  (void)World::must(world.client.create(big));
  settle();
  ASSERT_TRUE(world.claim("big").status.nominated) << world.message("big");
  world.addClaim("a", "late", {{"gpu", "1"}});
  const auto pod = addPod("p", {"a"});
  EXPECT_EQ(passing(pod), Names{}) << "a card of n1 is free, and kept";
  EXPECT_EQ(why(pod, "n1"), kReserved);
  world.removeClaim("big");
  settle();
  EXPECT_EQ(passing(pod), Names{"n1"});
  world.removePod("runs");
  world.unreserve("low", "runs");
  settle();
}

TEST_F(ExtenderTest, RequestsThatCantBeAnsweredReportWhy) {
  EXPECT_EQ(ask("filter", "{", "POST").status, 400);
  EXPECT_EQ(Json::parse(ask("filter", "{}").body)["message"], "Pod: is missing: the pod to be scheduled");
  EXPECT_EQ(ask("prioritize", "[]").status, 400);
  EXPECT_EQ(ask("bind", R"({"PodName":""})").status, 400);
  EXPECT_EQ(ask("preempt", R"({"Pod":7})").status, 400);
  EXPECT_EQ(ask("filter", "", "GET").status, 405);
  EXPECT_EQ(ask("nothing", "{}").status, 404);
  EXPECT_EQ(extender->handle({"POST", "/metrics", "", {}, ""}, {}).status, 404);
}

TEST_F(ExtenderTest, WhoDoesNotDecideReportsItInTheSchedulersOwnWords) {
  unavailable = "this replica is not the leader";
  const auto pod = World::podOf("p", {}, false);
  EXPECT_EQ(error(pod), unavailable);
  EXPECT_EQ(answer("bind", R"({"PodName":"p","PodNamespace":"default","PodUID":"","Node":"n1"})")["Error"],
            unavailable);
  const auto response = ask("prioritize", args(pod));
  EXPECT_EQ(response.status, 503);
  EXPECT_EQ(response.headers, (decltype(response.headers){{"Connection", "close"}}))
      << "or the same replica is asked again";
}

}  // namespace
}  // namespace egpu::server

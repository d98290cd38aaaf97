// bind: places the claims on the scheduler's node by the usual writes, then binds the pod; or changes nothing.
#include <algorithm>
#include <atomic>
#include <string>
#include <utility>

#include "tests/extender/fixture.h"

namespace egpu::server {
namespace {

using std::chrono::seconds;

TEST_F(ExtenderTest, BindBindsTheClaimsThenThePod) {
  world.addClaim("a", "late", {{"gpu-core", "30"}});
  world.addClaim("b", "late", {{"gpu", "1"}});
  const auto pod = addPod("p", {"a", "b"});
  EXPECT_EQ(bind(pod, "n2"), "");
  EXPECT_EQ(world.pod("p").nodeName, "n2");
  for (const auto* claim : {"a", "b"}) {
    EXPECT_EQ(phaseOf(claim), "Bound");
    EXPECT_EQ(nodeOf(claim), "n2");
    ASSERT_TRUE(world.resourceClaim(claim) && world.resourceClaim(claim)->allocation);
    EXPECT_EQ(world.resourceClaim(claim)->allocation->nodeName, "n2");
  }
  EXPECT_EQ(world.plugin.made().size(), 2u);
  EXPECT_EQ(world.violation(), "");
  EXPECT_EQ(bind(pod, "n2"), "") << "asked once more, as after a time-out";
  EXPECT_NE(bind(pod, "n1").find("the pod is on node n2"), std::string::npos);
}

TEST_F(ExtenderTest, BindOfAPodWithoutClaimsIsTheBindingAlone) {
  const auto pod = addPod("p", {});
  EXPECT_EQ(bind(pod, "n1"), "");
  EXPECT_EQ(world.pod("p").nodeName, "n1");
}

TEST_F(ExtenderTest, ARemoteClaimSuitsEveryNode) {
  world.remote.replySource({{}, {}, "10.0.0.1:7000"});
  world.registry.add(world.remote);
  world.addClass("pool", "Delete", "WaitForFirstConsumer", {}, World::kRemotePlugin);
  world.remote.answer({{plugin::ReplyCode::reschedule, "the pool is full"}}, true);
  world.addClaim("a", "pool", {{"gpu", "1"}});
  world.addClaim("b", "late", {{"gpu", "1"}});
  const auto pod = addPod("p", {"a", "b"});
  EXPECT_NE(error(pod).find("claim a: it is not bound yet"), std::string::npos) << error(pod);
  world.remote.answer({});
  driver->run();
  ASSERT_EQ(phaseOf("a"), "Bound") << world.message("a");
  EXPECT_EQ(passing(pod), (Names{"n1", "n2"}));
  EXPECT_EQ(bind(pod, "n2"), "");
  EXPECT_EQ(nodeOf("a"), "");
  EXPECT_EQ(nodeOf("b"), "n2");
}

TEST_F(ExtenderTest, BindToWhereTheBoundClaimIs) {
  world.addClaim("a", "share", {{"gpu", "1"}}, "gpu-n2-0");
  world.addClaim("b", "late", {{"gpu", "1"}});
  const auto pod = addPod("p", {"a", "b"});
  EXPECT_EQ(bind(pod, "n1"), "claim a is on node n2, not on n1");
  EXPECT_FALSE(world.exists(deviceOf("b"))) << "nothing was begun";
  EXPECT_EQ(bind(pod, "n2"), "");
  EXPECT_EQ(nodeOf("b"), "n2");
}

TEST_F(ExtenderTest, AGatedPodOfThatSchedulerIsLetGoUnpinned) {
  world.addClaim("a", "late", {{"gpu", "1"}});
  const auto pod = addPod("p", {"a"}, "own-scheduler", true);
  EXPECT_TRUE(world.pod("p").schedulingGates.empty()) << "or its scheduler would never see it";
  EXPECT_FALSE(world.pod("p").requiredNodeAffinity);
  EXPECT_FALSE(world.exists(deviceOf("a")));
  EXPECT_EQ(bind(world.pod("p"), "n1"), "");
  EXPECT_EQ(phaseOf("a"), "Bound");
}

TEST_F(ExtenderTest, AGatedPodOfAnotherSchedulerIsNotBound) {
  world.addClaim("a", "late", {{"gpu", "5"}});  // fits nowhere, so the gate stays
  const auto pod = addPod("p", {"a"}, "default-scheduler", true);
  EXPECT_NE(bind(pod, "n1").find("behind the scheduling gate"), std::string::npos);
}

TEST_F(ExtenderTest, ThePodOfAnotherSchedulerHasItsNodeChosenByUsAndMayStillMove) {
  world.addClaim("a", "late", {{"gpu", "1"}});
  const auto pod = addPod("p", {"a"}, "default-scheduler");
  ASSERT_EQ(nodeOf("a"), "n1") << "the first consumer's choice";
  EXPECT_EQ(passing(pod), (Names{"n1", "n2"})) << "nobody has reserved it: it would follow";
  meanwhile = [this] { driver->run(seconds(5)); };  // a cleared allocation stays empty for some seconds
  EXPECT_EQ(bind(pod, "n2"), "");
  EXPECT_EQ(nodeOf("a"), "n2");
  EXPECT_EQ(phaseOf("a"), "Bound");
}

TEST_F(ExtenderTest, NobodyGoesToADeviceThatItsClaimIsToLeave) {
  const std::pair<std::string, std::string> marks[] = {{"Preempted", "0"}, {"WaitingForGang", "1"}};
  for (const auto& [reason, card] : marks) {
    const auto claim = "a" + card;
    world.addClaim(claim, "share", {{"gpu", "1"}}, "gpu-n2-" + card);
    const auto pod = addPod("p" + card, {claim});
    ASSERT_EQ(passing(pod), Names{"n2"});
    world.json<cache::Gpu>({"", deviceOf(claim)}, R"({"status":{"reason":")" + reason + R"(","message":"makes room"}})",
                           "status");
    driver->poll();  // not evaluated by the controller yet
    EXPECT_EQ(error(pod), "claim " + claim + ": it is leaving its device: makes room");
    const auto bound = driver->reconciler.bindPod(core::keyOf(pod.metadata), pod.metadata.uid, "n2", seconds(0), {});
    EXPECT_EQ(bound.message(), "claim " + claim + " is leaving its device: makes room");
    EXPECT_EQ(world.pod(pod.metadata.name).nodeName, "");
    settle();
    EXPECT_EQ(bind(pod, "n2"), "") << "nobody needs it: the mark is off";
  }
}

TEST_F(ExtenderTest, APodWhoseTemplateIsNotThereYetIsNotBound) {
  auto pod = World::podOf("p", {}, false);
  pod.schedulerName = "own-scheduler";
  const std::string amounts = "egpu-amounts.core-10.memory-2-gi.class-share";
  pod.resourceClaims = {{"fpga", "", "another-drivers"}, {"egpu", "", amounts}};
  pod.containers[0].resourceClaims = {"fpga", "egpu"};
  core::ResourceClaimTemplate others;
  others.metadata.name = "another-drivers";
  others.metadata.namespace_ = "default";
  others.claim.deviceClassName = "fpga.example.com";
  others.claim.requestName = "fpga";
  (void)World::must(world.client.create(others));
  settle();
  pod = World::must(world.client.create(pod));
  driver->poll();  // the controller has not evaluated it yet
  const auto why = "no ResourceClaim is made yet from its template " + amounts;
  EXPECT_EQ(error(pod), why);
  EXPECT_EQ(bind(pod, "n1"), why);
  EXPECT_EQ(world.pod("p").nodeName, "");
  settle();
  EXPECT_TRUE(world.client.get<core::ResourceClaimTemplate>({"default", amounts}).ok());
  EXPECT_EQ(error(pod), why) << "nor is it stamped yet";
  pod.resourceClaims.pop_back();
  EXPECT_EQ(passing(pod), (Names{"n1", "n2"})) << "another driver's is not waited for";
}

TEST_F(ExtenderTest, NoSpaceIsAnErrorAndNothingIsLeft) {
  world.addClaim("a", "late", {{"gpu", "1"}});
  world.addClaim("b", "late", {{"gpu", "1"}});
  const auto pod = addPod("p", {"a", "b"});
  fill("n1", 1);
  const auto before = writes();
  EXPECT_NE(bind(pod, "n1").find("no capacity for the pod's claims on node n1"), std::string::npos);
  EXPECT_FALSE(world.exists(deviceOf("a")));
  EXPECT_FALSE(world.exists(deviceOf("b")));
  EXPECT_EQ(world.pod("p").nodeName, "");
  EXPECT_LE(writes() - before, 4u) << "what the claims say, no more";
  EXPECT_EQ(bind(pod, "n2"), "") << "another node is not held up by it";
}

TEST_F(ExtenderTest, ARefusalByTheProvisionerIsAnErrorAndNothingIsLeft) {
  world.addClaim("a", "late", {{"gpu", "1"}});
  world.addClaim("b", "late", {{"gpu", "1"}});
  const auto pod = addPod("p", {"a", "b"});
  world.plugin.answer({{plugin::ReplyCode::ok, ""}, {plugin::ReplyCode::invalid, "no such thing"}});
  const auto why = bind(pod, "n1");
  EXPECT_NE(why.find("no such thing"), std::string::npos) << why;
  EXPECT_EQ(world.pod("p").nodeName, "");
  driver->run(seconds(10));
  int left = 0;  // a claim that was Bound before stays Bound, as after any pod
  for (const auto* claim : {"a", "b"}) left += world.exists(deviceOf(claim)) ? 1 : 0;
  EXPECT_LE(left, 1);
  EXPECT_EQ(world.garbage(), "");
}

TEST_F(ExtenderTest, AProvisionerThatTakesTooLongIsAnErrorAndNothingIsLeft) {
  world.addClaim("a", "late", {{"gpu", "1"}});
  const auto pod = addPod("p", {"a"});
  world.plugin.answer({{plugin::ReplyCode::inProgress, "soon"}}, true);
  std::atomic<int> reads{0};
  meanwhile = [&] {
    if (++reads == 20) world.clock.advance(seconds(30));
  };
  const auto why = bind(pod, "n1");
  EXPECT_NE(why.find("not all of the pod's claims are bound on node n1 in 20000 ms"), std::string::npos) << why;
  world.plugin.answer({});
  driver->run(seconds(10));
  EXPECT_FALSE(world.exists(deviceOf("a"))) << "the intent is given up";
  EXPECT_EQ(world.pod("p").nodeName, "");
  meanwhile = [this] { driver->run(seconds(5)); };
  EXPECT_EQ(bind(pod, "n2"), "");
}

TEST_F(ExtenderTest, ThePodMayBeAnotherOneOrGoneOrDone) {
  world.addClaim("a", "late", {{"gpu", "1"}});
  const auto pod = addPod("p", {"a"});
  EXPECT_NE(bind(pod, "n1", "an-older-uid").find("was recreated"), std::string::npos);
  auto missing = pod;
  missing.metadata.name = "nobody";
  EXPECT_NE(bind(missing, "n1"), "");
  world.finishPod("p");
  settle();
  EXPECT_EQ(bind(pod, "n1"), "the pod has finished");
  EXPECT_FALSE(world.exists(deviceOf("a")));
}

TEST_F(ExtenderTest, TwoPodsOfOneClaimEndOnOneNode) {
  world.addClaim("a", "late", {{"gpu", "1"}});
  const auto one = addPod("one", {"a"}), two = addPod("two", {"a"});
  EXPECT_EQ(bind(one, "n1"), "");
  EXPECT_EQ(passing(two), Names{"n1"});
  EXPECT_EQ(bind(two, "n2"), "claim a is on node n1, not on n2");
  EXPECT_EQ(bind(two, "n1"), "");
}

TEST_F(ExtenderTest, TwoBindingsAtOnceOfOneClaimNeverSplitIt) {
  for (int round = 0; round < 5; ++round) {
    const auto claim = "a" + std::to_string(round);
    world.addClaim(claim, "late", {{"gpu-core", "10"}});
    const auto one = addPod("one" + std::to_string(round), {claim}),
               two = addPod("two" + std::to_string(round), {claim});
    const auto body = [](const core::Pod& pod, const char* node) {
      return Json{
          {"PodName", pod.metadata.name}, {"PodNamespace", "default"}, {"PodUID", pod.metadata.uid}, {"Node", node}}
          .dump();
    };
    auto first = std::async(std::launch::async, [&] { return extender->bind(body(one, "n1"), {}).body; });
    auto second = std::async(std::launch::async, [&] { return extender->bind(body(two, "n2"), {}).body; });
    while (first.wait_for(std::chrono::milliseconds(1)) != std::future_status::ready ||
           second.wait_for(std::chrono::milliseconds(1)) != std::future_status::ready)
      driver->run(seconds(5));
    settle();
    const auto a = Json::parse(first.get())["Error"].get<std::string>();
    const auto b = Json::parse(second.get())["Error"].get<std::string>();
    EXPECT_FALSE(a.empty() && b.empty()) << "one claim is on one node";
    for (const auto& pod : {one, two}) {
      const auto node = world.pod(pod.metadata.name).nodeName;
      EXPECT_TRUE(node.empty() || node == nodeOf(claim)) << node;
    }
    EXPECT_EQ(world.violation(), "");
  }
}

TEST_F(ExtenderTest, W10_ABindingThatIsRefusedIsReportedAndMadeWhenAskedAgain) {
  world.addClaim("a", "late", {{"gpu", "1"}});
  const auto pod = addPod("p", {"a"});
  line->refuses = [](const kube::HttpRequest& request) {
    return request.target.find("/binding") != std::string::npos && request.target.find("/pods/") != std::string::npos;
  };
  EXPECT_NE(bind(pod, "n1"), "");
  EXPECT_EQ(world.pod("p").nodeName, "");
  EXPECT_EQ(phaseOf("a"), "Bound") << "as after a pod that has left";
  EXPECT_EQ(passing(pod), Names{"n1"});
  line->refuses = nullptr;
  EXPECT_EQ(bind(pod, "n1"), "") << "W10 again";
  EXPECT_EQ(world.pod("p").nodeName, "n1");
}

// W10 and every write before it: the controller dies, another one takes over, the scheduler calls again.
TEST_F(ExtenderTest, AControllerThatDiesAtAnyWriteLeavesNothingAndTheNextOneBinds) {
  bool finished = false;
  for (int dies = 1; !finished && dies < 60; ++dies) {
    const auto n = std::to_string(dies);
    world.addClaim("a" + n, "late", {{"gpu-core", "10"}});
    world.addClaim("b" + n, "late", {{"gpu-core", "10"}});
    const auto pod = addPod("p" + n, {"a" + n, "b" + n});
    std::atomic<int> seen{0};
    std::atomic<bool> dead{false};
    line->refuses = [&](const kube::HttpRequest& request) {
      if (request.method != kube::Method::get && ++seen >= dies) dead = true;
      return dead.load();
    };
    std::stop_source stop;
    auto future = std::async(std::launch::async, [&] {
      return extender
          ->bind(Json{{"PodName", pod.metadata.name},
                      {"PodNamespace", "default"},
                      {"PodUID", pod.metadata.uid},
                      {"Node", dies % 2 == 0 ? "n1" : "n2"}}
                     .dump(),
                 stop.get_token())
          .body;
    });
    while (future.wait_for(std::chrono::milliseconds(1)) != std::future_status::ready) {
      settle();
      if (dead) stop.request_stop();
    }
    finished = !dead;
    (void)future.get();
    line->refuses = nullptr;
    begin();
    driver->run(seconds(20));
    EXPECT_EQ(world.violation(), "") << "after write " << dies;
    const auto sits = world.pod(pod.metadata.name).nodeName;
    for (const auto& claim : {"a" + n, "b" + n})
      EXPECT_TRUE(!sits.empty() || !world.exists(deviceOf(claim)) || phaseOf(claim) == "Bound")
          << claim << " after write " << dies;
    const auto nodes = passing(pod);
    if (!sits.empty()) {
      EXPECT_EQ(nodes, Names{sits});
    } else {
      // A claim of the two may already be Bound: then both go to its node.
      ASSERT_FALSE(nodes.empty()) << "after write " << dies;
      meanwhile = [this] { driver->run(seconds(5)); };
      EXPECT_EQ(bind(pod, nodes.front()), "") << "after write " << dies;
      meanwhile = nullptr;
      EXPECT_EQ(world.pod(pod.metadata.name).nodeName, nodes.front());
    }
    world.removePod(pod.metadata.name);
    world.removeClaim("a" + n);
    world.removeClaim("b" + n);
    driver->run(seconds(20));
    EXPECT_EQ(world.garbage(), "") << "after write " << dies;
  }
  EXPECT_TRUE(finished) << "some write was never reached";
}

}  // namespace
}  // namespace egpu::server

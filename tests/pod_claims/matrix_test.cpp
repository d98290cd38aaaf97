// Tests every way in which a pod gets a claim, in both binding modes, with every feature that resolves a pod's claims:
// preemption, gangs, resize, moves, the extender, and questions about pods that do not exist yet. All 72 cells are run.
// Pods with two claims do not move, because no plan covers several claims of one pod: their cells expect that no move
// is offered.
#include <gtest/gtest.h>

#include <string>
#include <tuple>

#include "controller/whatif/answer/movable_claims.h"
#include "controller/whatif/service.h"
#include "tests/pod_claims/fixture.h"

namespace egpu::server {
namespace {

enum class Mode { immediate, firstConsumer };
using Cell = std::tuple<Source, Mode>;

class PodClaimsMatrix : public ClaimedPodsTest, public ::testing::WithParamInterface<Cell> {
 protected:
  void SetUp() override {
    ClaimedPodsTest::SetUp();
    source = std::get<Source>(GetParam());
    addClassOf(isImmediate() ? "Immediate" : "WaitForFirstConsumer");
  }
  static bool isImmediate() { return std::get<Mode>(GetParam()) == Mode::immediate; }
  Json simulate(const core::Pod& pod) {
    whatif::QuestionService questions{driver->stores, driver->cluster, world.clock};
    const auto response = questions.answer({"POST", "/simulate", "", {}, codec::encode(pod)});
    EXPECT_EQ(response.status, 200) << response.body;
    return Json::parse(response.body, nullptr, false);
  }
};

TEST_P(PodClaimsMatrix, APodOfHigherPriorityGetsTheCardsOfOthers) {
  const auto lows = 4 / claimsPerPod();
  for (std::size_t i = 0; i < lows; ++i) {
    addPod("low-" + std::to_string(i), {{"gpu", "1"}});
    ASSERT_TRUE(rests());  // otherwise Immediate claims of two pods would share each node, and neither pod could run
  }
  ASSERT_EQ(running("low"), lows);
  addPod("high", {{"gpu", "1"}}, [](auto& pod) { pod.priority = 1000; });
  EXPECT_TRUE(rests()) << "objects are written again and again";
  for (const auto& name : claimsOf("high")) EXPECT_EQ(phaseOf(name), "Bound") << world.message(name);
  EXPECT_EQ(world.violation(), "");
  EXPECT_TRUE(runs("high")) << messagesOf("high");
  EXPECT_EQ(running("low"), lows - 1);
  EXPECT_EQ(world.violation(), "");
}

TEST_P(PodClaimsMatrix, AGangIsDecidedTogether) {
  const auto inGang = [&](core::Pod& pod) {
    pod.metadata.annotations["elasticgpu.io/gang"] = "train";
    pod.metadata.annotations["elasticgpu.io/gang-size"] = std::to_string(2 * claimsPerPod());
  };
  addPod("first", {{"gpu-core", "40"}}, inGang);
  EXPECT_TRUE(rests());
  EXPECT_FALSE(runs("first"));
  EXPECT_EQ(usedCore(), 0) << messagesOf("first");
  addPod("second", {{"gpu-core", "40"}}, inGang);
  EXPECT_TRUE(rests());
  EXPECT_TRUE(runs("first")) << messagesOf("first");
  EXPECT_TRUE(runs("second")) << messagesOf("second");
  EXPECT_EQ(usedCore(), static_cast<int64_t>(2 * claimsPerPod()) * 400);
}

TEST_P(PodClaimsMatrix, ClaimsOfARunningPodGrow) {
  addPod("p", {{"gpu-core", "20"}, {"gpu-memory", "2Gi"}});
  ASSERT_TRUE(rests());
  ASSERT_TRUE(runs("p")) << messagesOf("p");
  const auto claims = claimsOf("p");
  ASSERT_EQ(claims.size(), claimsPerPod());
  for (const auto& name : claims)
    world.json<cache::Claim>(
        {"default", name},
        R"({"spec":{"resources":{"requests":{"elasticgpu.io/gpu-core":"40","elasticgpu.io/gpu-memory":"4Gi"}}}})");
  EXPECT_TRUE(rests());
  for (const auto& name : claims)
    EXPECT_EQ(world.claim(name).status.capacity, (core::StringMap{{"core", "40%"}, {"memory", "4Gi"}}))
        << world.message(name, "Resized");
  EXPECT_TRUE(runs("p"));
}

TEST_P(PodClaimsMatrix, AClaimMovesWithItsPod) {
  addPod("p.1", {{"gpu", "1"}});
  ASSERT_TRUE(rests());
  ASSERT_TRUE(runs("p.1")) << messagesOf("p.1");
  const auto offered = whatif::movableClaims(driver->stores, true).known;
  if (claimsPerPod() > 1) {
    EXPECT_TRUE(offered.empty());
    return;
  }
  ASSERT_EQ(offered.size(), 1u);
  const auto& [device, movable] = *offered.begin();
  const auto name = claimsOf("p.1").front();
  EXPECT_EQ(movable.claim, "default/" + name);
  EXPECT_EQ(movable.pods, std::vector<std::string>{"default/p.1"});
  EXPECT_EQ(movable.moveAnnotation, namesOwnClaim() ? device : "") << "a stamped claim ends with its pod";
  if (!movable.moveAnnotation.empty())
    world.json<cache::Claim>({"default", name},
                             R"({"metadata":{"annotations":{"elasticgpu.io/move":")" + device + R"("}}})");
  settle();
  world.removePod("p.1");
  addPod("p.2", {{"gpu", "1"}});
  EXPECT_TRUE(rests());
  EXPECT_TRUE(runs("p.2")) << messagesOf("p.2");
  const auto now = claimsOf("p.2").front();
  EXPECT_EQ(now == name, namesOwnClaim());
  EXPECT_NE(world.gpu(deviceOf(now)).metadata.uid, device);
  EXPECT_EQ(usedCore(), 1000);
}

TEST_P(PodClaimsMatrix, AnotherSchedulerBindsThePodThroughTheExtender) {
  addPod("p", {{"gpu-core", "30"}}, [](auto& pod) { pod.schedulerName = "own-scheduler"; });
  if (source != Source::annotation) {
    EXPECT_NE(error(world.pod("p")).find("no ResourceClaim is made yet from its template"), std::string::npos);
  }
  manage();
  driver->run(std::chrono::seconds(5));
  const auto pod = world.pod("p");
  const auto nodes = passing(pod);
  ASSERT_FALSE(nodes.empty()) << error(pod) << messagesOf("p");
  // A claim that a user created, of an Immediate class, is bound before the scheduler chooses a node.
  EXPECT_EQ(nodes.size(), isImmediate() && namesOwnClaim() ? 1u : 2u);
  EXPECT_EQ(bind(pod, nodes.back()), "");
  EXPECT_EQ(world.pod("p").nodeName, nodes.back());
  ASSERT_EQ(claimsOf("p").size(), claimsPerPod());
  for (const auto& name : claimsOf("p")) {
    EXPECT_EQ(phaseOf(name), "Bound") << world.message(name);
    EXPECT_EQ(nodeOf(name), nodes.back());
  }
}

TEST_P(PodClaimsMatrix, WhatIfKnowsAllClaimsBeforeAndAfterTheyAreStamped) {
  const auto asked = manifest("p", {{"gpu-core", "30"}});
  const auto knowsAll = [&](const core::Pod& pod, const std::string& when) {
    const auto answer = simulate(pod);
    ASSERT_TRUE(answer.is_object()) << when;
    EXPECT_TRUE(answer.value("fits", false)) << when << answer.dump();
    EXPECT_EQ(answer["claims"].size(), claimsPerPod()) << when << answer.dump();
  };
  knowsAll(asked, "before admission");
  create(asked);
  knowsAll(world.pod("p"), "pending");
  manage();
  knowsAll(world.pod("p"), "stamped");
  EXPECT_TRUE(rests());
  ASSERT_TRUE(runs("p")) << messagesOf("p");
  knowsAll(world.pod("p"), "running");
  const Json answer = simulate(world.pod("p"));
  for (const auto& claim : answer.at("claims")) EXPECT_TRUE(claim.value("bound", false)) << claim.dump();
}

std::string textOf(const ::testing::TestParamInfo<Cell>& cell) {
  static constexpr const char* kSources[] = {"Annotation", "ClaimTemplate",    "ResourceClaimTemplate",
                                             "Amounts",    "TwoOfOneTemplate", "Mixed"};
  const auto [source, mode] = cell.param;
  return std::string(kSources[static_cast<int>(source)]) + (mode == Mode::immediate ? "Immediate" : "FirstConsumer");
}

INSTANTIATE_TEST_SUITE_P(Cells, PodClaimsMatrix,
                         ::testing::Combine(::testing::Values(Source::annotation, Source::claimTemplate,
                                                              Source::resourceClaimTemplate, Source::amounts,
                                                              Source::twoOfOneTemplate, Source::mixed),
                                            ::testing::Values(Mode::immediate, Mode::firstConsumer)),
                         textOf);

}  // namespace
}  // namespace egpu::server

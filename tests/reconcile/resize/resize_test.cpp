// (C15) A bound claim is asked to have other amounts: R1 to R6, refused resizes with their reasons, and that no
// capacity is allocated twice meanwhile.
#include <algorithm>

#include "api/v1alpha/size.h"
#include "tests/reconcile/fixture.h"
#include "tests/support/forwarding_transport.h"

namespace egpu::reconcile {
namespace {

using support::World;

/// Dies before the n-th write of a resize's path, or calls a hook there.
class Interrupted final : public support::ForwardingTransport {
 public:
  explicit Interrupted(kube::Transport& next) : ForwardingTransport(next) {}
  std::function<void(const kube::HttpRequest&)> before;
  base::Result<kube::HttpResponse> perform(const kube::HttpRequest& request, std::stop_token stop) override {
    if (request.method != kube::Method::get && before) before(request);
    return ForwardingTransport::perform(request, std::move(stop));
  }
};

class ResizeTest : public ReconcileTest {
 protected:
  void SetUp() override {
    ReconcileTest::SetUp();
    world.addClass("flex", "Delete", "Immediate", {{"resizable", "true"}});
  }
  void claim(const std::string& name, core::StringMap requests, const std::string& cls = "flex") {
    world.addClaim(name, cls, std::move(requests));
    settle();
    ASSERT_EQ(world.claim(name).status.phase, "Bound");
  }
  base::Status edit(const std::string& name, const std::string& requests, std::string_view query = {}) {
    const auto body = R"({"spec":{"resources":{"requests":)" + requests + "}}}";
    (void)query;
    return world.client.patch<cache::Claim>({"default", name}, kube::PatchType::merge, body, {}).status();
  }
  void resize(const std::string& name, const std::string& requests) {
    World::mustOk(edit(name, requests));
    settle();
  }
  cache::Gpu device(const std::string& name) { return world.gpu(deviceOf(name)); }
  v1alpha::LedgerEntry entry(const std::string& name) {
    const auto of = device(name);
    return world.gpu(of.spec.cards.front().name).spec.allocations.at(of.metadata.uid);
  }
  std::string core(const std::string& name) { return world.claim(name).status.capacity["core"]; }
  const std::string why(const std::string& name) { return world.reason(name, "Resized"); }
};

TEST_F(ResizeTest, C15_GrowsOnItsCard) {
  claim("a", {{"gpu-core", "30"}, {"gpu-memory", "4Gi"}});
  EXPECT_EQ(world.claim("a").status.requests.at("elasticgpu.io/gpu-core"), "30");
  resize("a", R"({"elasticgpu.io/gpu-core":"50","elasticgpu.io/gpu-memory":"6Gi"})");
  const auto now = device("a");
  EXPECT_EQ(v1alpha::cardsInForce(now).front().core, 500);
  EXPECT_EQ(v1alpha::cardsInForce(now).front().memory, 6 * kGi);
  EXPECT_EQ(now.spec.cards.front().core, 300);  // as it was created
  EXPECT_EQ(now.spec.target->number, 1);
  EXPECT_FALSE(v1alpha::isResizing(now));
  EXPECT_EQ(entry("a").core, 500);
  EXPECT_EQ(entry("a").memory, 6 * kGi);
  EXPECT_EQ(entry("a").resize, 1);
  EXPECT_EQ(core("a"), "50%");
  EXPECT_EQ(world.claim("a").status.requests.at("elasticgpu.io/gpu-core"), "50");
  EXPECT_EQ(world.plugin.size(now.metadata.uid).cards.front().core, 500);
  EXPECT_EQ(now.status.allocated->core, 500);
  EXPECT_EQ(why("a"), "Resized");
  EXPECT_EQ(countEvents("a Normal Resized"), 1);
}

TEST_F(ResizeTest, R4_TheIsolationOfTheNewAmountsIsReported) {
  world.plugin.isolateBy(v1alpha::Isolation{"mps", "Soft", "Soft", "None"});
  claim("a", {{"gpu-core", "30"}, {"gpu-memory", "4Gi"}});
  const v1alpha::Isolation whole{"whole-card", "Enforced", "Enforced", "Enforced"};
  world.plugin.isolateBy(whole);
  resize("a", R"({"elasticgpu.io/gpu-core":"100","elasticgpu.io/gpu-memory":"16Gi"})");
  EXPECT_EQ(*device("a").status.isolation, whole);
  EXPECT_EQ(*world.claim("a").status.isolation, whole);
}

TEST_F(ResizeTest, ADeviceThatIsBeingDeletedStaysAsItIsAndItsClaimReportsIt) {
  claim("a", {{"gpu-core", "30"}, {"gpu-memory", "4Gi"}});
  const auto name = deviceOf("a");
  World::mustOk(world.client.remove<cache::Gpu>({"", name}));
  settle();
  resize("a", R"({"elasticgpu.io/gpu-core":"50","elasticgpu.io/gpu-memory":"6Gi"})");
  EXPECT_EQ(why("a"), "NotResizable");
  EXPECT_EQ(world.message("a", "Resized"),
            "device " + name + " is being deleted: it is not resized until the claim is deleted");
  EXPECT_EQ(core("a"), "30%");
  world.removeClaim("a");
}

TEST_F(ResizeTest, C15_ShrinksAndOthersGetWhatItGivesBack) {
  claim("a", {{"gpu", "1"}, {"gpu-core", "90"}});
  claim("b", {{"gpu", "1"}, {"gpu-core", "90"}});
  world.addClaim("c", "share", {{"gpu-core", "40"}});
  settle();
  EXPECT_EQ(world.reason("c"), "NoFit");
  resize("a", R"({"elasticgpu.io/gpu-core":"50"})");
  EXPECT_EQ(core("a"), "50%");
  EXPECT_EQ(entry("a").core, 500);
  EXPECT_EQ(world.claim("c").status.phase, "Bound");
}

TEST_F(ResizeTest, R5_WhatAPodThatRunsBeganWithCountsUntilItEnds) {
  cache::Quota quota;
  quota.metadata.name = "team";
  quota.metadata.namespace_ = "default";
  quota.spec.hard = {{"gpu-core", "190"}};
  (void)World::must(world.client.create(quota));
  claim("a", {{"gpu", "1"}, {"gpu-core", "90"}});
  claim("b", {{"gpu", "1"}, {"gpu-core", "90"}});
  runPod("p", {"a"});
  resize("a", R"({"elasticgpu.io/gpu-core":"50"})");
  EXPECT_EQ(core("a"), "50%") << "what its next pod gets";
  EXPECT_EQ(why("a"), "Resized");
  EXPECT_EQ(entry("a").core, 900) << "its containers may use all of that";
  EXPECT_EQ(entry("a").resize, 1);
  world.addClaim("c", "share", {{"gpu-core", "40"}});
  settle();
  EXPECT_EQ(world.reason("c"), "QuotaExceeded") << world.message("c");
  World::mustOk(world.client.remove<cache::Quota>({"default", "team"}));
  settle();
  EXPECT_EQ(world.reason("c"), "NoFit") << world.message("c");
  start();  // also after a takeover by a new leader
  driver->run();
  EXPECT_EQ(entry("a").core, 900);
  world.removePod("p");
  settle();
  EXPECT_EQ(entry("a").core, 500);
  EXPECT_EQ(world.claim("c").status.phase, "Bound") << world.message("c");
}

TEST_F(ResizeTest, C15_ToGrowItsNamespaceMustStillBeAllowedItsClass) {
  claim("a", {{"gpu-core", "30"}});
  world.setClass("flex", R"({"allowedNamespaces":{"matchLabels":{"team":"gold"}}})");
  settle();
  resize("a", R"({"elasticgpu.io/gpu-core":"50"})");
  EXPECT_EQ(core("a"), "30%");
  EXPECT_EQ(why("a"), "InvalidParameter") << world.message("a", "Resized");
  resize("a", R"({"elasticgpu.io/gpu-core":"20"})");
  EXPECT_EQ(core("a"), "20%") << "less is nobody's loss";
}

TEST_F(ResizeTest, R2_LateAfterR5OfTheSameNumberIsLoweredAgain) {
  claim("a", {{"gpu", "1"}, {"gpu-core", "90"}});
  resize("a", R"({"elasticgpu.io/gpu-core":"50"})");
  ASSERT_EQ(entry("a").core, 500);
  const auto now = device("a");
  world.json<cache::Gpu>({"", now.spec.cards.front().name}, R"({"spec":{"allocations":{")" + now.metadata.uid +
                                                                R"(":{"core":900,"resize":)" +
                                                                std::to_string(entry("a").resize) + "}}}}");
  ASSERT_EQ(entry("a").core, 900) << "a number that stands is no older";
  driver->run();
  EXPECT_EQ(entry("a").core, 500);
}

TEST_F(ResizeTest, C15_NothingIsWrittenWhereNothingIsAsked) {
  claim("a", {{"gpu-core", "30"}});
  resize("a", R"({"elasticgpu.io/gpu-core":"50"})");
  const auto before = writes();
  start();
  driver->run();
  EXPECT_EQ(writes(), before);
}

TEST_F(ResizeTest, C15_WhatItsClassDoesNotAllowTheApiRefuses) {
  claim("a", {{"gpu-core", "30"}}, "share");
  const auto refused = edit("a", R"({"elasticgpu.io/gpu-core":"50"})");
  EXPECT_EQ(refused.code(), base::Code::invalid);
  EXPECT_NE(refused.message().find("its class is resizable"), std::string::npos) << refused.str();
  EXPECT_TRUE(world.claim("a").status.requests.empty());
}

TEST_F(ResizeTest, C15_WhatSlippedThroughIsReportedAndWithoutEffectAndOverOnceUndone) {
  claim("a", {{"gpu-core", "30"}}, "share");
  world.json<cache::Claim>({"default", "a"}, R"({"status":{"requests":{"elasticgpu.io/gpu-core":"30"}}})", "status");
  World::mustOk(edit("a", R"({"elasticgpu.io/gpu-core":"50"})"));
  settle();
  EXPECT_EQ(why("a"), "NotResizable");
  EXPECT_NE(world.message("a", "Resized").find("class share does not set resizable"), std::string::npos);
  EXPECT_EQ(entry("a").core, 300);
  EXPECT_EQ(world.claim("a").status.phase, "Bound");
  resize("a", R"({"elasticgpu.io/gpu-core":"30"})");
  EXPECT_EQ(why("a"), "Resized");
  EXPECT_TRUE(world.claim("a").status.requests.empty());
}

TEST_F(ResizeTest, C15_APluginWithoutTheSlotIsNotAsked) {
  claim("a", {{"gpu-core", "30"}});
  world.plugin.resizes(false);
  resize("a", R"({"elasticgpu.io/gpu-core":"50"})");
  EXPECT_EQ(why("a"), "NotResizable");
  EXPECT_FALSE(device("a").spec.target);
  EXPECT_EQ(entry("a").core, 300);
  resize("a", R"({"elasticgpu.io/gpu-core":"30"})");
  EXPECT_EQ(why("a"), "Resized");
}

TEST_F(ResizeTest, C15_TooLargeReportsWhatItsCardCouldGiveAndWhereItWouldFitAndComesTrueOnceThereIsCapacity) {
  claim("a", {{"gpu-core", "30"}, {"gpu-memory", "1Gi"}});
  claim("b", {{"gpu-core", "50"}, {"gpu-memory", "1Gi"}}, "share");  // on the same card, because of binpack
  resize("a", R"({"elasticgpu.io/gpu-core":"70","elasticgpu.io/gpu-memory":"1Gi"})");
  EXPECT_EQ(why("a"), "ResizeInfeasible");
  EXPECT_EQ(world.message("a", "Resized"),
            "card gpu-n1-0 can provide core 50% and memory 15Gi, the claim would need core 70% and memory 1Gi; a new "
            "claim for these amounts would fit on node n1");
  EXPECT_EQ(core("a"), "30%");
  EXPECT_EQ(entry("a").core, 300);
  EXPECT_FALSE(device("a").spec.target);
  world.removeClaim("b");
  settle();
  EXPECT_EQ(core("a"), "70%");
  EXPECT_EQ(why("a"), "Resized");
}

TEST_F(ResizeTest, C15_FreedCapacityGoesToAPendingClaimOfHigherPriorityBeforeAResize) {
  core::PriorityClass high;
  high.metadata.name = "high";
  high.value = 1000;
  (void)World::must(world.client.create(high));
  claim("a", {{"gpu-core", "30"}});
  claim("b", {{"gpu-core", "70"}}, "share");  // the first card is full
  claim("c", {{"gpu-core", "100"}}, "share");
  resize("a", R"({"elasticgpu.io/gpu-core":"60"})");
  ASSERT_EQ(why("a"), "ResizeInfeasible");
  cache::Claim urgent;
  urgent.metadata.name = "urgent";
  urgent.metadata.namespace_ = "default";
  urgent.spec.className = "share";
  urgent.spec.priorityClassName = "high";
  urgent.spec.requests["elasticgpu.io/gpu-core"] = "60";
  (void)World::must(world.client.create(urgent));
  settle();
  ASSERT_EQ(world.claim("urgent").status.phase, "Pending");
  world.removeClaim("b");
  settle();
  EXPECT_EQ(world.claim("urgent").status.phase, "Bound");
  EXPECT_EQ(core("a"), "30%");
  world.removeClaim("urgent");
  settle();
  EXPECT_EQ(core("a"), "60%") << why("a");
}

TEST_F(ResizeTest, C15_UndoneWhileItWaitsItIsQuietAndReservesNothing) {
  claim("a", {{"gpu-core", "30"}});
  claim("b", {{"gpu-core", "50"}}, "share");
  resize("a", R"({"elasticgpu.io/gpu-core":"70"})");
  EXPECT_EQ(why("a"), "ResizeInfeasible");
  resize("a", R"({"elasticgpu.io/gpu-core":"30"})");
  EXPECT_EQ(why("a"), "Resized");
  EXPECT_EQ(driver->reconciler.waitingForCapacity(), 0u);
  EXPECT_EQ(entry("a").core, 300);
}

TEST_F(ResizeTest, C15_TheNumberOfCardsStays) {
  claim("a", {{"gpu-core", "30"}});
  resize("a", R"({"elasticgpu.io/gpu":"2","elasticgpu.io/gpu-core":"30"})");
  EXPECT_EQ(why("a"), "ResizeInfeasible");
  EXPECT_NE(world.message("a", "Resized").find("it has 1 card and would have 2"), std::string::npos);
  EXPECT_EQ(entry("a").core, 300);
}

TEST_F(ResizeTest, C15_WhatCantBeRepresentedIsReported) {
  claim("a", {{"gpu-core", "30"}});
  resize("a", R"({"elasticgpu.io/gpu-core":"150"})");
  EXPECT_EQ(why("a"), "NotRepresentable");
  EXPECT_EQ(entry("a").core, 300);
}

TEST_F(ResizeTest, C15_AQuotaCountsWhatItGrowsAndLetsItShrink) {
  cache::Quota quota;
  quota.metadata.name = "team";
  quota.metadata.namespace_ = "default";
  quota.spec.hard = {{"gpu-core", "60"}};
  (void)World::must(world.client.create(quota));
  settle();
  claim("a", {{"gpu-core", "30"}, {"gpu-memory", "1Gi"}});
  claim("b", {{"gpu-core", "20"}, {"gpu-memory", "1Gi"}});
  resize("a", R"({"elasticgpu.io/gpu-core":"50"})");
  EXPECT_EQ(why("a"), "ScalingQuotaExceeded");
  EXPECT_EQ(
      world.message("a", "Resized"),
      "quota team allows gpu-core 60, 50 is used (30 of it by this claim): 10 too little for this one to have 50; "
      "held by default/b 20: without default/b it would be within its quotas");
  EXPECT_EQ(entry("a").core, 300);
  resize("b", R"({"elasticgpu.io/gpu-core":"10"})");
  EXPECT_EQ(core("b"), "10%");
  EXPECT_EQ(core("a"), "50%");  // it has waited for the quota
  driver->run();
  EXPECT_EQ(World::must(world.client.get<cache::Quota>({"default", "team"})).status.used.at("gpu-core"), "60");
}

TEST_F(ResizeTest, R3_WhatAPluginRefusesGoesBack) {
  claim("a", {{"gpu-core", "30"}});
  world.plugin.answerResizes({{plugin::ReplyCode::invalid, "not so much"}});
  resize("a", R"({"elasticgpu.io/gpu-core":"50"})");
  EXPECT_EQ(why("a"), "ResizeFailed");
  EXPECT_NE(world.message("a", "Resized").find("not so much"), std::string::npos);
  EXPECT_EQ(core("a"), "30%");
  EXPECT_EQ(entry("a").core, 300);
  EXPECT_EQ(device("a").spec.target->number, 2);
  EXPECT_FALSE(v1alpha::isResizing(device("a")));
  ASSERT_FALSE(world.plugin.size(device("a").metadata.uid).cards.empty());
  EXPECT_EQ(world.plugin.size(device("a").metadata.uid).cards.front().core, 300);
  driver->run(std::chrono::minutes(10));  // and is tried again after the backoff
  EXPECT_EQ(core("a"), "50%");
  EXPECT_EQ(why("a"), "Resized");
}

TEST_F(ResizeTest, R3_WhatTakesItsTimeIsReportedAndAskedAgain) {
  claim("a", {{"gpu-core", "30"}});
  world.plugin.answerResizes({{plugin::ReplyCode::inProgress, "half way"}});
  resize("a", R"({"elasticgpu.io/gpu-core":"50"})");
  EXPECT_EQ(why("a"), "Resizing");
  EXPECT_EQ(entry("a").core, 500);
  EXPECT_EQ(core("a"), "30%");
  driver->run();
  EXPECT_EQ(core("a"), "50%");
  EXPECT_EQ(why("a"), "Resized");
}

TEST_F(ResizeTest, R3_WhileAPluginIsAwayItMayBeUndone) {
  claim("a", {{"gpu-core", "30"}});
  world.plugin.answerResizes({{plugin::ReplyCode::unavailable, "gone fishing"}});
  resize("a", R"({"elasticgpu.io/gpu-core":"50"})");
  EXPECT_EQ(why("a"), "ProvisionerUnavailable");
  resize("a", R"({"elasticgpu.io/gpu-core":"30"})");
  driver->run();
  EXPECT_EQ(entry("a").core, 300);
  EXPECT_EQ(why("a"), "Resized");
  EXPECT_EQ(device("a").spec.target->number, 2);
}

TEST_F(ResizeTest, R2_TheLedgerHasTheLastWord) {
  claim("a", {{"gpu-core", "30"}});
  Interrupted line(*world.transport);
  startOver(line);
  bool done = false;
  line.before = [&](const kube::HttpRequest& request) {
    // Another leader allocates the capacity just before the entry is raised.
    if (done || request.target.find("gpu-n1-0") == std::string::npos ||
        request.body.find("allocations") == std::string::npos)
      return;
    done = true;
    world.json<cache::Gpu>(
        {"", "gpu-n1-0"},
        R"({"spec":{"allocations":{"rival":{"device":"egpu-rival","claim":"x/y","core":600,"memory":0}}}})");
  };
  resize("a", R"({"elasticgpu.io/gpu-core":"50"})");
  EXPECT_TRUE(done);
  EXPECT_EQ(entry("a").core, 300);
  EXPECT_EQ(core("a"), "30%");
  EXPECT_FALSE(v1alpha::isResizing(device("a")));
  EXPECT_EQ(world.violation(), "");
  driver->run();  // the rival's entry has no device: it is swept, and the resize fits
  EXPECT_EQ(core("a"), "50%");
}

TEST_F(ResizeTest, R5_AnEntryOfAnEarlierResizeIsRefused) {
  claim("a", {{"gpu-core", "30"}});
  const auto uid = device("a").metadata.uid;
  resize("a", R"({"elasticgpu.io/gpu-core":"50"})");
  resize("a", R"({"elasticgpu.io/gpu-core":"60"})");
  const auto late = [&](int64_t core, int64_t number) {
    const v1alpha::LedgerEntry entry{deviceOf("a"), "default/a", core, 16 * kGi * core / 1000, number};
    return world.client
        .patch<cache::Gpu>({"", "gpu-n1-0"}, kube::PatchType::merge, codec::patch::ledgerEntry({}, uid, entry), {})
        .status()
        .code();
  };
  EXPECT_EQ(late(300, 0), base::Code::invalid);  // W2 of a former leader
  EXPECT_EQ(late(500, 1), base::Code::invalid);  // R5 of a former leader
  EXPECT_EQ(late(500, 3), base::Code::invalid);  // a new resize must not start below the existing entry
  EXPECT_EQ(entry("a").core, 600);
}

TEST_F(ResizeTest, DeletedWhileItIsResizedAllGoes) {
  claim("a", {{"gpu-core", "30"}});
  world.plugin.answerResizes({{plugin::ReplyCode::inProgress, "half way"}});
  resize("a", R"({"elasticgpu.io/gpu-core":"50"})");
  world.removeClaim("a");
  driver->run();
  EXPECT_FALSE(world.client.get<cache::Claim>({"default", "a"}).ok());
  EXPECT_TRUE(world.gpu("gpu-n1-0").spec.allocations.empty());
  EXPECT_TRUE(world.plugin.made().empty());
}

TEST_F(ResizeTest, SeveralCardsAreResizedTogether) {
  claim("a", {{"gpu", "2"}, {"gpu-core", "30"}});
  claim("b", {{"gpu-core", "50"}}, "share");
  resize("a", R"({"elasticgpu.io/gpu-core":"60"})");  // a card of the claim lacks capacity
  EXPECT_EQ(why("a"), "ResizeInfeasible");
  resize("a", R"({"elasticgpu.io/gpu-core":"50"})");
  for (const char* card : {"gpu-n1-0", "gpu-n1-1"})
    EXPECT_EQ(world.gpu(card).spec.allocations.at(device("a").metadata.uid).core, 500) << card;
  EXPECT_EQ(world.plugin.size(device("a").metadata.uid).cards.size(), 2u);
}

/// A claim that waits to grow becomes a victim of preemption.
class PreemptedResizeTest : public ResizeTest {
 protected:
  void SetUp() override {
    ResizeTest::SetUp();
    world.addClass("spare", "Delete", "Immediate", {{"resizable", "true"}, {"preemptible", "true"}});
    core::PriorityClass high;
    high.metadata.name = "high";
    high.value = 1000;
    (void)World::must(world.client.create(high));
    settle();
    claim("full", {{"gpu", "1"}}, "share");
    claim("a", {{"gpu-core", "30"}, {"gpu-memory", "1Gi"}}, "spare");
    claim("b", {{"gpu-core", "50"}, {"gpu-memory", "1Gi"}}, "share");  // on the same card
    resize("a", R"({"elasticgpu.io/gpu-core":"80","elasticgpu.io/gpu-memory":"1Gi"})");
    ASSERT_EQ(why("a"), "ResizeInfeasible");
  }
  void big() {
    cache::Claim big;
    big.metadata.name = "big";
    big.metadata.namespace_ = "default";
    big.spec.className = "share";
    big.spec.priorityClassName = "high";
    big.spec.requests = {{"elasticgpu.io/gpu-core", "40"}, {"elasticgpu.io/gpu-memory", "1Gi"}};
    (void)World::must(world.client.create(big));
  }
  std::string inForce() { return world.claim("a").status.requests["elasticgpu.io/gpu-core"]; }
};

TEST_F(PreemptedResizeTest, V4_WhoRetainsTheDeviceAfterAllHasWhatWasInForceAndGrowsOnceThereIsCapacity) {
  Interrupted line(*world.transport);
  startOver(line);
  const auto name = deviceOf("a");
  bool done = false;
  line.before = [&](const kube::HttpRequest& request) {  // V5; just before it the preemption ends
    if (done || request.target.find(name + "/status") == std::string::npos ||
        request.body.find("Failed") == std::string::npos)
      return;
    done = true;
    EXPECT_EQ(world.claim("a").status.phase, "Pending") << "V4";
    world.removeClaim("big");
    world.json<cache::Gpu>({"", name}, R"({"metadata":{"annotations":{"seen":"by another"}}})");
  };
  big();
  driver->run();
  ASSERT_TRUE(done);
  EXPECT_EQ(world.claim("a").status.phase, "Bound");
  EXPECT_EQ(inForce(), "30");
  EXPECT_EQ(core("a"), "30%");
  EXPECT_EQ(why("a"), "ResizeInfeasible");
  world.removeClaim("b");
  driver->run();
  EXPECT_EQ(core("a"), "80%");
  EXPECT_EQ(inForce(), "80");
}

TEST_F(PreemptedResizeTest, V6_TheNextDeviceIsMadeOfWhatTheSpecAsksFor) {
  big();
  driver->run();
  EXPECT_EQ(world.claim("big").status.phase, "Bound");
  EXPECT_EQ(world.claim("a").status.phase, "Pending");
  EXPECT_TRUE(world.claim("a").status.requests.empty()) << "it has no device";
  world.removeClaim("full");
  driver->run();
  EXPECT_EQ(world.claim("a").status.phase, "Bound");
  EXPECT_EQ(inForce(), "80");
  EXPECT_EQ(core("a"), "80%");
  EXPECT_FALSE(device("a").spec.target) << "it was made so";
}

TEST_F(ResizeTest, WhatItIsToHaveCountsForOthersAtOnce) {
  claim("a", {{"gpu", "1"}, {"gpu-core", "30"}});
  claim("b", {{"gpu", "1"}, {"gpu-core", "90"}}, "share");
  world.plugin.answerResizes({{plugin::ReplyCode::inProgress, "half way"}});
  resize("a", R"({"elasticgpu.io/gpu-core":"80"})");
  world.addClaim("c", "share", {{"gpu-core", "40"}});
  settle();
  EXPECT_EQ(world.reason("c"), "NoFit");
  driver->run();
  EXPECT_EQ(core("a"), "80%");
  EXPECT_EQ(world.reason("c"), "NoFit");
}

TEST_F(ResizeTest, ACardThatShrankLetsItShrinkToo) {
  claim("a", {{"gpu-core", "30"}, {"gpu-memory", "12Gi"}});
  world.json<cache::Gpu>({"", "gpu-n1-0"}, R"({"spec":{"card":{"memory":8589934592}}})");
  settle();
  resize("a", R"({"elasticgpu.io/gpu-core":"30","elasticgpu.io/gpu-memory":"10Gi"})");
  EXPECT_EQ(world.claim("a").status.capacity["memory"], "10Gi");  // more than the card has, but less than before
  resize("a", R"({"elasticgpu.io/gpu-core":"30","elasticgpu.io/gpu-memory":"6Gi"})");
  EXPECT_EQ(world.claim("a").status.capacity["memory"], "6Gi");
}

TEST_F(ResizeTest, ARetainedDeviceRetainsTheSizeThatItHad) {
  world.addClass("keepflex", "Retain", "Immediate", {{"resizable", "true"}});
  claim("a", {{"gpu-core", "30"}}, "keepflex");
  const auto name = deviceOf("a");
  resize("a", R"({"elasticgpu.io/gpu-core":"50"})");
  world.removeClaim("a");
  driver->run();
  EXPECT_EQ(world.gpu(name).status.phase, "Released");
  world.json<cache::Gpu>({"", name}, R"({"spec":{"claimRef":null}})");
  driver->run();
  EXPECT_EQ(world.gpu(name).status.phase, "Available");
  world.addClaim("b", "keepflex", {{"gpu-core", "50"}}, name);
  driver->run();
  EXPECT_EQ(world.claim("b").status.phase, "Bound");
  EXPECT_EQ(core("b"), "50%");
  EXPECT_TRUE(world.claim("b").status.requests.empty());  // it was created for another claim
  EXPECT_EQ(edit("b", R"({"elasticgpu.io/gpu-core":"60"})").code(), base::Code::invalid);
}

}  // namespace
}  // namespace egpu::reconcile

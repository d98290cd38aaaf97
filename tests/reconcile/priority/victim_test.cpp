// Requests and reports of victims, and of their cards, while other victims of the same preemptor still have pods.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "tests/reconcile/priority/preempting.h"
#include "tests/support/request_log.h"

namespace egpu::reconcile {
namespace {

using std::chrono::seconds;

class VictimTest : public PreemptionTest {
 protected:
  /// Two claims on the node's two cards are victims of a third one. The pod of the second one does not end.
  void preempt() {
    claim("idle", "spare");
    claim("used", "spare");
    pod("p", "used");
    claim("big", "share", "high", {{"gpu", "2"}});
    ASSERT_EQ(phase("idle"), "Pending");
    ASSERT_EQ(victims("big"), std::vector<std::string>{deviceOf("used")});
  }
  std::string columns(const std::string& card) {
    const auto now = world.gpu(card);
    return now.status.phase + " " + (now.status.allocated ? now.status.allocated->coreText : "-");
  }
};

TEST_F(VictimTest, ItReportsNoFitOnceItsPreemptorIsBound) {
  preempt();
  driver->run(seconds(60));
  EXPECT_EQ(phase("idle"), "Pending");
  EXPECT_EQ(world.reason("idle"), "Preempted");
  EXPECT_EQ(countEvents("idle Warning NoFit"), 0);
  ends("p", "used");
  driver->run(seconds(5));
  EXPECT_EQ(phase("big"), "Bound");
  for (const auto* name : {"idle", "used"}) {
    EXPECT_EQ(world.reason(name), "NoFit") << name;
    EXPECT_EQ(countEvents(std::string(name) + " Warning NoFit"), 1) << name;
  }
}

TEST_F(VictimTest, ItDoesNotWaitForeverForItsPreemptor) {
  preempt();
  driver->run(seconds(110));
  EXPECT_EQ(world.reason("idle"), "Preempted");
  driver->run(seconds(60));
  EXPECT_EQ(world.reason("idle"), "NoFit");
  EXPECT_FALSE(victims("big").empty());
}

TEST_F(VictimTest, ItReportsNoFitAtOnceIfTheNominationEnds) {
  preempt();
  ASSERT_EQ(world.reason("idle"), "Preempted");
  claim("other", "share");
  world.removeClaim("big");
  driver->run(seconds(5));
  EXPECT_EQ(phase("idle"), "Bound") << "it is older than the other one";
  EXPECT_EQ(world.reason("other"), "NoFit");
}

TEST_F(VictimTest, ItsOwnVictimsAreSearchedMeanwhile) {
  claim("middle", "spare", "middle");
  claim("used", "spare");
  pod("p", "used");
  world.addNode("n2");
  world.addCard("n2", 0);
  settle();
  claim("low", "spare");
  claim("big", "share", "high", {{"gpu", "2"}});
  driver->run(seconds(30));
  EXPECT_FALSE(victims("big").empty());
  EXPECT_EQ(phase("middle"), "Bound") << "on the other node";
  EXPECT_EQ(phase("low"), "Pending");
}

TEST_F(VictimTest, TheColumnsOfANominatedCardWaitForThePreemptorButNotForever) {
  start(std::chrono::milliseconds(1000));
  claim("idle", "spare");
  driver->run(seconds(20));
  const auto card = world.gpu(deviceOf("idle")).spec.cards[0].name;
  ASSERT_EQ(columns(card), "Full 100%");
  claim("used", "spare");
  pod("p", "used");
  claim("big", "share", "high", {{"gpu", "2"}});
  driver->run(seconds(100));
  ASSERT_EQ(phase("idle"), "Pending");
  ASSERT_TRUE(world.gpu(card).spec.allocations.empty());
  const auto version = world.gpu(card).metadata.resourceVersion;
  EXPECT_EQ(columns(card), "Full 100%");
  driver->run(seconds(60));
  EXPECT_EQ(columns(card), "Available 0%");
  EXPECT_NE(world.gpu(card).metadata.resourceVersion, version);
  ends("p", "used");
  driver->run(seconds(60));
  EXPECT_EQ(columns(card), "Full 100%");
}

TEST_F(VictimTest, ACardThatFailsWhileItIsNominatedSaysSoAtOnce) {
  start(std::chrono::milliseconds(1000));
  preempt();
  const auto card = world.claim("big").status.nominated->cards[0].name;
  world.json<cache::Gpu>(
      {"", card}, R"({"status":{"conditions":[{"type":"Healthy","status":"False","reason":"Xid79"}]}})", "status");
  driver->run(seconds(15));
  EXPECT_EQ(world.gpu(card).status.phase, "Unhealthy");
}

TEST_F(VictimTest, V4_V6_ItCostsOneReadOfItsPodsAndOneOfItsResourceClaim) {
  claim("stays", "share");
  claim("low", "spare");
  support::RequestLog log{*world.transport};
  startOver(log);
  settle();
  const auto device = deviceOf("low");
  log.requests.clear();
  log.missed.clear();
  claim("high", "share", "high");
  driver->run(seconds(5));
  ASSERT_EQ(phase("high"), "Bound");
  const auto count = [&log](const std::string& start, const std::string& part) {
    return std::count_if(log.requests.begin(), log.requests.end(), [&](const std::string& each) {
      return each.starts_with(start) && each.find(part) != std::string::npos &&
             each.find("watch=") == std::string::npos;
    });
  };
  EXPECT_EQ(count("GET", "/resourceclaims/low"), 1);
  EXPECT_EQ(count("GET", "/pods?"), 1);
  EXPECT_EQ(count("GET", "/elasticgpus/" + device), 0);
  EXPECT_EQ(count("PATCH", "/elasticgpus/" + device + "/status"), 2) << "mark and V5";
  EXPECT_EQ(count("DELETE", "/elasticgpus/" + device), 1);
  EXPECT_EQ(count("PATCH", "/elasticgpuclaims/low/status"), 2) << "V4 and NoFit";
  TearDown();
  driver.reset();
}

TEST_F(VictimTest, V5_APodThatTheCacheLacksKeepsTheDevice) {
  claim("low", "spare");
  claim("stays", "share");
  world.addPod("p", {"low"});
  settle();
  driver->pods.faults.delay = driver->pods.events();  // its placement is seen late
  driver->pods.faults.holdPolls = 1000;
  world.schedule("p");
  const auto device = deviceOf("low");
  claim("high", "share", "high");
  driver->run(seconds(5));
  EXPECT_NE(world.gpu(device).status.phase, "Failed");
  EXPECT_NE(phase("high"), "Bound");
}

}  // namespace
}  // namespace egpu::reconcile

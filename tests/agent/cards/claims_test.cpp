// From the answers of a node's plugins about a card to the conditions of claims that have the card or wait for it.
#include <unistd.h>

#include <functional>
#include <memory>

#include "tests/agent/cards/fixture.h"
#include "tests/support/world.h"

namespace egpu::agent::cards {
namespace {

using std::chrono::minutes;

/// A node whose agent publishes two cards, and the controller.
class ClaimsTest : public ::testing::Test {
 protected:
  ClaimsTest() {
    world.addNamespace("default");
    world.addNode("n1");
    world.addClass("share");
    driver = std::make_unique<support::Driver>(world.handler(), *world.transport, world.registry, world.clock);
    driver->start();
    discover(well());
    world.addClaim("one", "share", {}, "gpu-a");
    world.addClaim("two", "share", {}, "gpu-b");
    driver->settle();
  }
  ~ClaimsTest() override { world.registry.forgetListeners(); }

  static Answers well() { return {{"physical", answer({gpu("GPU-A"), gpu("GPU-B", 1)})}}; }
  static Answers ill(const std::string& words) {
    return {{"physical", answer({gpu("GPU-A"), gpu("GPU-B", 1)}, {{"GPU-A", false, words}})}};
  }
  /// The agent queries its plugins, and the controller sees the result.
  void discover(const Answers& answers) {
    kube::ListOptions ofNode;
    ofNode.fieldSelector = "spec.card.nodeName=n1";
    store.listBegins();
    for (const auto& each : support::World::must(world.client.listAll<Gpu>(ofNode))) store.listed(each);
    store.listEnds(std::to_string(world.writes()));
    support::World::mustOk(publisher.publish(answers, {}));
    driver->settle();
  }
  std::string status(const std::string& claim) {
    const auto object = world.claim(claim);
    const auto* healthy = reconcile::findCondition(object.status.conditions, reconcile::kHealthy);
    return healthy ? healthy->status + " " + healthy->reason + " " + healthy->message : "";
  }

  support::World world;
  std::unique_ptr<support::Driver> driver;
  cache::Store<Gpu> store;
  Events events;
  PublisherOptions options{
      "n1", [](const std::string&, const std::string&) { return false; }, {}, minutes(5), minutes(10), minutes(3)};
  Publisher publisher{world.client, store, events, world.clock, options};
};

/// A way in which a card becomes unhealthy, and the reason.
struct Illness {
  const char* reason;
  Answers answers;
  minutes lasts{0};  ///< time until it takes effect
};

std::vector<Illness> illnesses() {
  const auto words = [](const std::string& text) {
    return Answers{{"physical", answer({gpu("GPU-A"), gpu("GPU-B", 1)}, {{"GPU-A", false, text}})}};
  };
  auto mig = gpu("GPU-A");
  mig.attributes["migMode"] = "enabled";
  auto used = answer({gpu("GPU-A"), gpu("GPU-B", 1)});
  used.health.processes = {{"GPU-A", getpid(), 1}};
  return {{"Xid79", words("Xid79: it has fallen off the bus; reboot")},
          {"NvlinkDown", words("NvlinkDown: 1 of its NVLinks are down")},
          {"Lost", {{"physical", answer({gpu("GPU-B", 1)}, {{"GPU-A", false, "Lost: NVML does not reach it"}})}}},
          {"Unhealthy", words("it smells")},
          {"ForeignUse", {{"physical", used}}},
          {"MigMode", {{"physical", answer({mig, gpu("GPU-B", 1)})}}},
          {"CardGone", {{"physical", answer({gpu("GPU-B", 1)})}}},
          {"DriverNotAnswering", {{"physical", failure()}}, minutes(4)}};
}

class IllnessTest : public ClaimsTest, public ::testing::WithParamInterface<std::size_t> {};

TEST_P(IllnessTest, IsReportedOnTheClaimThatHasTheCardUntilItIsWellAgain) {
  const auto illness = illnesses().at(GetParam());
  SCOPED_TRACE(illness.reason);
  ASSERT_EQ(world.claim("one").status.phase, "Bound") << world.message("one");
  EXPECT_EQ(status("one"), "");
  discover(illness.answers);
  world.clock.advance(illness.lasts);
  discover(illness.answers);
  const std::string start = std::string("False Unhealthy card gpu-a on node n1: ") + illness.reason + ": ";
  EXPECT_EQ(status("one").substr(0, start.size()), start) << status("one");
  EXPECT_EQ(world.claim("one").status.phase, "Bound");
  if (illness.lasts == minutes(0)) {
    EXPECT_EQ(status("two"), "") << "another card";
  }
  discover(well());
  EXPECT_EQ(status("one").rfind("False Unhealthy card gpu-a on node n1: Probation: It was taken out of use for ", 0),
            0U)
      << status("one");
  world.clock.advance(minutes(5));
  discover(well());
  EXPECT_EQ(status("one"), "True Healthy ");
  EXPECT_EQ(world.claim("one").status.phase, "Bound");
}

INSTANTIATE_TEST_SUITE_P(Reasons, IllnessTest, ::testing::Range<std::size_t>(0, illnesses().size()));

TEST_F(ClaimsTest, WhoWaitsGetsTheReasonWhyTheCardIsNotOffered) {
  world.removeClaim("one");
  driver->settle();
  discover(ill("Xid79: it has fallen off the bus; reboot"));
  world.addClaim("three", "share", {{"gpu", "1"}});
  driver->settle();
  EXPECT_EQ(world.reason("three"), "NoFit");
  EXPECT_NE(world.message("three").find("gpu-a on node n1 (Xid79: it has fallen off the bus"), std::string::npos)
      << world.message("three");
  discover(well());
  driver->run(std::chrono::seconds(20));  // the condition is not updated again immediately
  EXPECT_NE(world.message("three").find("gpu-a on node n1 (Probation: It was taken out of use for Xid79"),
            std::string::npos)
      << world.message("three");
  world.clock.advance(minutes(5));
  discover(well());
  EXPECT_EQ(world.claim("three").status.phase, "Bound") << world.message("three");
}

}  // namespace
}  // namespace egpu::agent::cards

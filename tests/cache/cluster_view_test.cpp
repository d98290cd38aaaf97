#include "controller/cache/cluster_view.h"

#include <gtest/gtest.h>

#include "controller/scheduler/demand.h"
#include "controller/scheduler/state.h"

namespace egpu::cache {
namespace {

class ClusterViewTest : public ::testing::Test {
 protected:
  void SetUp() override {
    view.onCapacity([this] { ++grown; });
    node("n1");
    card("c0", "n1");
    grown = 0;
  }
  std::string next() { return std::to_string(++version); }
  void node(const std::string& name) {
    core::Node n;
    n.metadata.name = name;
    n.metadata.uid = "node-" + name;
    n.metadata.resourceVersion = next();
    n.ready = true;
    stores.nodes.informed(n);
  }
  Gpu makeCard(const std::string& name, const std::string& on) {
    Gpu gpu;
    gpu.metadata.name = name;
    gpu.metadata.uid = "card-" + name;
    gpu.metadata.resourceVersion = next();
    gpu.spec.card.emplace();
    gpu.spec.card->uuid = name;
    gpu.spec.card->nodeName = on;
    gpu.spec.card->memory = 1000;
    return gpu;
  }
  void card(const std::string& name, const std::string& on,
            std::map<std::string, v1alpha::LedgerEntry, std::less<>> entries = {}) {
    auto gpu = makeCard(name, on);
    gpu.spec.allocations = std::move(entries);
    stores.cards.informed(gpu);
  }
  void device(const std::string& name, const std::string& on, const std::string& phase,
              const std::string& claimUid = "k") {
    Gpu gpu;
    gpu.metadata.name = name;
    gpu.metadata.uid = "uid-" + name;
    gpu.metadata.resourceVersion = next();
    gpu.spec.nodeName = on;
    gpu.spec.cards = {{"c0", "c0", 600, 100, 600, 100}};
    gpu.spec.claimRef = v1alpha::ClaimRef{"ns", "c", claimUid};
    gpu.status.phase = phase;
    stores.devices.informed(gpu);
  }
  static ClusterView::Ask ask(const std::string& uid, int64_t core) {
    ClusterView::Ask a;
    a.claimUid = uid;
    a.claim = "ns/" + uid;
    a.request.perCard = {core, 10};
    return a;
  }
  int version = 0, grown = 0;
  Stores stores;
  ClusterView view{stores};
};

TEST_F(ClusterViewTest, ADecisionCountsUntilItsDeviceIsSeen) {
  ASSERT_TRUE(view.decideAndAssume(ask("k", 600)).fits);
  EXPECT_FALSE(view.decideAndAssume(ask("other", 600)).fits);
  device("d", "n1", "");
  EXPECT_EQ(view.totals().usedCore, 600);  // not twice
  EXPECT_EQ(grown, 0);
  view.forget("k");
  EXPECT_FALSE(view.decideAndAssume(ask("other", 600)).fits);
}

TEST_F(ClusterViewTest, LearnsFromARequestOnceHoweverOftenItIsTriedInVain) {
  const auto learned = [this] { return view.copy().state().outlook.demand().seen(); };
  ASSERT_TRUE(view.decideAndAssume(ask("k", 600)).fits);
  EXPECT_EQ(learned(), 1);
  for (int i = 0; i < 3; ++i) EXPECT_FALSE(view.decideAndAssume(ask("other", 600)).fits);
  EXPECT_EQ(learned(), 2);
  view.forget("k");
  EXPECT_TRUE(view.decideAndAssume(ask("other", 600)).fits);
  EXPECT_EQ(learned(), 2);
  EXPECT_TRUE(view.decideTogether({ask("a", 900), ask("b", 900)}, {}).empty());
  EXPECT_EQ(learned(), 4);
}

TEST_F(ClusterViewTest, ForgettingTellsThoseWhoWait) {
  ASSERT_TRUE(view.decideAndAssume(ask("k", 600)).fits);
  view.forget("k");
  EXPECT_EQ(grown, 1);
  EXPECT_TRUE(view.decideAndAssume(ask("other", 600)).fits);
}

TEST_F(ClusterViewTest, ATakeLastsUntilDeviceAndEntryAreGone) {
  device("d", "n1", "");
  card("c0", "n1", {{"uid-d", {"d", "ns/c", 600, 100}}});
  EXPECT_EQ(view.totals().usedCore, 600);
  stores.devices.observedGone({"", "d"}, "uid-d");
  EXPECT_EQ(view.totals().usedCore, 600);
  EXPECT_EQ(view.audit("c0").entryWithoutDevice.size(), 1u);
  card("c0", "n1");
  EXPECT_EQ(view.totals().usedCore, 0);
  EXPECT_EQ(grown, 1);
}

TEST_F(ClusterViewTest, AReappearedCardIsNotOfferedBeforeItsEntriesAreBack) {
  card("c0", "n1", {{"uid-d", {"d", "ns/c", 600, 100}}});
  device("d", "n1", "Bound");
  EXPECT_EQ(view.quarantineReason("c0"), "");
  stores.cards.observedGone({"", "c0"}, "card-c0");
  auto again = makeCard("c0", "n1");
  again.metadata.uid = "card-c0-again";
  stores.cards.informed(again);
  EXPECT_NE(view.quarantineReason("c0"), "");
  EXPECT_FALSE(view.decideAndAssume(ask("x", 100)).fits);
  EXPECT_EQ(view.audit("c0").deviceWithoutEntry.size(), 1u);
  again.metadata.resourceVersion = next();
  again.spec.allocations["uid-d"] = {"d", "ns/c", 600, 100};
  stores.cards.informed(again);
  EXPECT_TRUE(view.decideAndAssume(ask("x", 100)).fits);
}

TEST_F(ClusterViewTest, AUuidOnAnotherNodeIsQuarantinedUntilItsDevicesAreGone) {
  node("n2");
  device("d", "n1", "");
  card("c0", "n2");
  EXPECT_NE(view.quarantineReason("c0"), "");
  EXPECT_FALSE(view.decideAndAssume(ask("x", 100)).fits);
  stores.devices.observedGone({"", "d"}, "uid-d");
  EXPECT_TRUE(view.decideAndAssume(ask("x", 100)).fits);
}

TEST_F(ClusterViewTest, TogetherMeansOneNodeOrNothing) {
  node("n2");
  card("c1", "n2");
  card("c2", "n2");
  auto a = ask("a", 700), b = ask("b", 700);
  const auto both = view.decideTogether({a, b}, {});
  ASSERT_EQ(both.size(), 2u);
  EXPECT_EQ(both[0].node, "n2");
  EXPECT_EQ(both[1].node, "n2");
  EXPECT_EQ(view.totals().usedCore, 1400);
  EXPECT_TRUE(view.decideTogether({ask("e", 700), ask("f", 700)}, {}).empty());
  EXPECT_EQ(view.totals().usedCore, 1400);
}

TEST_F(ClusterViewTest, TheMapNamesEveryTake) {
  device("d", "n1", "Bound");
  card("c0", "n1", {{"uid-d", {"d", "ns/c", 600, 100}}});
  (void)view.decideAndAssume(ask("x", 100));
  const auto map = view.map();
  ASSERT_EQ(map.nodes.size(), 1u);
  ASSERT_EQ(map.nodes[0].cards.size(), 1u);
  const auto& card = map.nodes[0].cards[0];
  EXPECT_EQ(card.usedCore, 700);
  ASSERT_EQ(card.takes.size(), 2u);
  EXPECT_EQ(card.takes[0].claim, "ns/x");
  EXPECT_EQ(card.takes[1].claim, "ns/c");
  EXPECT_EQ(card.takes[1].phase, "Bound");
}

}  // namespace
}  // namespace egpu::cache

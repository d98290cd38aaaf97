// Explanations for people of why a claim does not fit. property_test.cpp proves that the remedies are true.
#include "controller/scheduler/explain.h"

#include <gtest/gtest.h>

#include <string>

#include "tests/scheduler/topology/nodes.h"
#include "tests/scheduler/world.h"

namespace egpu::scheduler::testing {
namespace {

Request share(int64_t core, int64_t memory) {
  Request r;
  r.perCard = {core, memory};
  return r;
}

const StageReport& stage(const Explanation& e, const std::string& name) {
  for (const StageReport& s : e.stages)
    if (s.stage == name) return s;
  static const StageReport none;
  ADD_FAILURE() << "no stage " << name;
  return none;
}

const std::string kUnschedulable = "unschedulable (not ready, cordoned or being deleted)";

using Reasons = std::vector<std::pair<std::string, int64_t>>;

/// Three nodes of eight cards: two of V100 with every card 60 % used, one of T4.
Cluster busy() {
  Cluster cluster;
  for (int n = 0; n < 3; ++n) {
    const std::string node = "n" + std::to_string(n);
    cluster.upsertNode({node, true});
    for (int c = 0; c < 8; ++c) {
      const std::string card = node + "-" + std::to_string(c);
      cluster.upsertCard(makeCard(card, node, c, 32 * kGi, n == 2 ? "T4" : "V100"));
      if (n < 2) cluster.take(card, "d" + card, {n == 1 && c == 3 ? 600 : 700, kGi});
    }
  }
  return cluster;
}

TEST(Explain, ReportsPerStageHowManyFellOutAndWhatWouldFit) {
  Request r = share(500, 4 * kGi);
  r.models = {"V100"};
  const Explanation e = explain(busy(), r);
  EXPECT_EQ(stage(e, "node"), (StageReport{"node", 3, 3, {}}));
  EXPECT_EQ(stage(e, "model"), (StageReport{"model", 24, 16, {{"of another model", 8}}}));
  EXPECT_EQ(stage(e, "core"), (StageReport{"core", 16, 0, {{"short of free core (need 50%, best has 40%)", 16}}}));
  EXPECT_EQ(e.text(),
            "0/3 nodes fit: 24 cards: 16 short of free core (need 50%, best has 40%), 8 of another model; "
            "gpu-core 40 would fit now (node n1); or free 10% of card n1-3 (node n1)");
}

TEST(Explain, AsksWhetherMemoryWithoutAUnitWasMeantAsMiB) {
  Cluster cluster;
  cluster.upsertNode({"n", true});
  cluster.upsertCard(makeCard("c", "n", 0, 32 * kGi, "V100"));
  Request r = share(100, 3000 * kGi);
  const std::string fits = "gpu-memory 32Gi would fit now (node n)";
  EXPECT_EQ(explain(cluster, r).smallestChange, fits);
  r.memoryAssumedGiB = true;
  EXPECT_EQ(explain(cluster, r).smallestChange, fits + "; gpu-memory without a unit counts GiB: was 3000Mi meant?");
  r.perCard.memory = 33 * 1024 * kGi;
  EXPECT_EQ(explain(cluster, r).smallestChange, fits) << "33 TiB do not fit as MiB either";
}

TEST(Explain, CountsCardsOfAnotherIsolation) {
  Cluster cluster = busy();
  for (int c = 0; c < 8; ++c) cluster.noteMode("n0-" + std::to_string(c), "mps");
  Request r = share(100, kGi);
  EXPECT_EQ(decide(cluster, r).node, "n1") << "without isolation";
  r.isolation = "mps";
  EXPECT_EQ(decide(cluster, r).node, "n0");
  r.isolation = "limiter";
  r.models = {"V100"};
  EXPECT_FALSE(decide(cluster, r).fits);
  const Explanation e = explain(cluster, r);
  EXPECT_EQ(stage(e, "isolation"),
            (StageReport{"isolation", 16, 0, {{"in use with isolation mps", 8}, {"in use with isolation none", 8}}}));
  r.wholeCards = true;
  for (const auto& each : explain(cluster, r).stages) EXPECT_NE(each.stage, "isolation");
}

TEST(Explain, GivesWayAndGoesOnWhereTheClusterHasChanged) {
  Cluster cluster;
  const auto name = [](int n) { return "n" + std::to_string(10'000 + n); };
  const auto add = [&](int n) {
    cluster.upsertNode({name(n), true});
    cluster.upsertCard(makeCard("c" + name(n), name(n), 0, 16 * kGi, "T4"));
    cluster.take("c" + name(n), "d" + name(n), {1000, kGi});
  };
  for (int n = 0; n < 2000; n += 2) add(n);
  const Explanation undisturbed = explain(cluster, share(500, kGi));
  int pauses = 0;
  const Explanation e = explain(cluster, share(500, kGi), {}, 0, [&] {
    if (pauses++ > 0) return;
    for (int n = 0; n < 1000; n += 2) cluster.removeCard("c" + name(n));  // already visited
    for (int n = 0; n < 1000; n += 2) cluster.removeNode(name(n));
    for (int n = 1501; n < 2000; n += 2) add(n);  // not visited yet
  });
  EXPECT_GT(pauses, 1);
  EXPECT_EQ(stage(undisturbed, "node").before, 1000);
  EXPECT_EQ(stage(e, "node").before, 1250);
  EXPECT_EQ(e.remedies.size(), undisturbed.remedies.size());
}

TEST(Explain, WhatFitsNoMoreAfterAPauseIsNoRemedy) {
  Cluster cluster;
  cluster.upsertNode({"n0", true});
  cluster.upsertCard(makeCard("c0", "n0", 0, 16 * kGi, "T4"));
  cluster.take("c0", "d0", {600, kGi});
  const auto kinds = [](const Explanation& e) {
    std::vector<Remedy::Kind> all;
    for (const Remedy& r : e.remedies) all.push_back(r.kind);
    return all;
  };
  using Kind = Remedy::Kind;
  EXPECT_EQ(kinds(explain(cluster, share(500, kGi))), (std::vector{Kind::ask, Kind::release}));
  int left = 0;
  explain(cluster, share(500, kGi), {}, 0, [&] { ++left; });
  // In each pause in turn another claim takes the rest.
  for (int at = 0; at < left; ++at) {
    int pauses = 0;
    const Explanation e = explain(cluster, share(500, kGi), {}, 0, [&] {
      if (pauses++ == at) cluster.take("c0", "d1", {400, kGi});
    });
    for (const Remedy& r : e.remedies) {
      EXPECT_FALSE(r.node.empty()) << "pause " << at;
      EXPECT_EQ(r.kind, Kind::release) << "pause " << at << ": " << r.text;
    }
    cluster.giveBack("c0", "d1");
  }
}

TEST(Explain, MoreCardsAreNoRemedyForWhatThePodItselfExcludes) {
  const Explanation e = explain(busy(), share(500, 4 * kGi), [](std::string_view) { return false; });
  EXPECT_EQ(e.text(), "0/3 nodes fit: 3 not suitable for the pod");
  EXPECT_TRUE(e.remedies.empty());
  // If no node fits at all, adding nodes is a remedy.
  const Explanation none = explain(busy(), share(500, 64 * kGi), [](std::string_view) { return false; });
  EXPECT_EQ(none.remedies.size(), 1u);
}

TEST(Explain, OddBytesAreRoundedSoThatTheTextIsTrue) {
  Cluster cluster;
  cluster.upsertNode({"n0", true});
  cluster.upsertCard(makeCard("c0", "n0", 0, 4 * kGi));
  cluster.take("c0", "a", {100, 3 * kGi + 1});
  const Explanation e = explain(cluster, share(100, kGi + 1));
  EXPECT_EQ(stage(e, "memory").reasons, (Reasons{{"short of free memory (need 1025Mi, best has 1023Mi)", 1}}));
  ASSERT_EQ(e.remedies.size(), 2u);
  EXPECT_EQ(e.remedies[1].shortages[0].amount.memory, 2);
  EXPECT_EQ(e.remedies[1].text, "free 1Mi of card c0 (node n0)");
}

TEST(Explain, NodesThatFellOut) {
  Cluster cluster = busy();
  cluster.upsertNode({"n0", false});
  cluster.upsertNode({"bare", true});
  Request r = share(500, 4 * kGi);
  const Explanation e = explain(cluster, r, [](std::string_view node) { return node != "n2"; });
  EXPECT_EQ(stage(e, "node").reasons,
            (Reasons{{"not suitable for the pod", 1}, {kUnschedulable, 1}, {"without cards", 1}}));
  EXPECT_EQ(stage(e, "node").after, 1);
  EXPECT_TRUE(e.text().starts_with("0/4 nodes fit: 1 not suitable for the pod, 1 " + kUnschedulable +
                                   ", 1 without cards; of 8 cards: 8 short of"))
      << e.text();
}

TEST(Explain, ANodeThatIsGoneIsNotCalledCordoned) {
  Cluster cluster = busy();
  cluster.removeNode("n0");
  const Explanation e = explain(cluster, share(500, 4 * kGi), {}, 1);
  EXPECT_EQ(stage(e, "node").reasons, (Reasons{{"without a Node object", 1}}));
  EXPECT_EQ(stage(e, "node").dropped, (std::vector<Dropped>{{"n0", "", "without a Node object"}}));
}

TEST(Explain, NodesAreRejectedForTheReasonThatTheCallerHas) {
  const NodePredicate suits = [](std::string_view node) { return node == "n1"; };
  const WhyUnsuited why = [](std::string_view node) { return node == "n0" ? "tainted" : std::string(); };
  const Explanation e = explain(busy(), share(500, 4 * kGi), suits, 0, {}, why);
  EXPECT_EQ(stage(e, "node").reasons, (Reasons{{"not suitable for the pod", 1}, {"tainted", 1}}));
}

TEST(Explain, AModelThatNoCardHasNamesThoseThatExist) {
  Cluster cluster = busy();
  cluster.upsertNode({"n2", false});
  Request r = share(100, kGi);
  r.models = {"H100"};
  EXPECT_EQ(stage(explain(cluster, r), "model").reasons, (Reasons{{"of another model (the cluster has T4, V100)", 16}}))
      << "T4 is on a node that is not offered";
  r.models = {"H100", "T4"};
  EXPECT_EQ(stage(explain(cluster, r), "model").reasons, (Reasons{{"of another model", 16}}));
}

// Fixed sets have 1, 2, 4 or 8 cards: a binary search misses the largest.
TEST(Explain, ASmallerSetIsTheLargestThatFits) {
  Cluster cluster;
  cluster.upsertNode({"n", true});
  for (v1alpha::Card card : topology::testing::dgx1Volta()) {
    card.nodeName = "n";
    cluster.upsertCard({"c" + std::to_string(card.index), card, true});
  }
  Request r = whole(9);
  for (const char* policy : {"static", "static dgx1-volta"}) {
    r.cardPolicy = policy;
    EXPECT_EQ(explain(cluster, r).smallestChange, "8 whole cards would fit now (node n)") << policy;
  }
  r.cards = 8;
  cluster.take("c5", "x", {100, kGi});
  EXPECT_EQ(explain(cluster, r).smallestChange,
            "4 whole cards would fit now (node n); or free 1 more card of node n: c5");
}

TEST(Explain, WholeCardsToFreeAreListedOnce) {
  Cluster cluster = busy();
  Request r = whole(4);
  r.models = {"V100"};
  EXPECT_EQ(explain(cluster, r).smallestChange, "free 4 more cards of node n1: n1-3, n1-0, n1-1, n1-2");
  r.wholeCards = false;
  r.perCard = {500, kGi};
  EXPECT_EQ(explain(cluster, r).remedies.back().text,
            "free 10% of card n1-3, 20% of each of cards n1-0, n1-1, n1-2 (node n1)");
}

TEST(Explain, NamesWhoFellOutUpToABound) {
  Cluster cluster = busy();
  cluster.upsertNode({"n0", false});
  Request r = share(500, 4 * kGi);
  r.models = {"V100"};
  const Explanation e = explain(cluster, r, {}, 3);
  EXPECT_EQ(stage(e, "node").dropped, (std::vector<Dropped>{{"n0", "", kUnschedulable}}));
  const std::string wide = "short of free core (need 50%, has 30%)";
  EXPECT_EQ(stage(e, "core").dropped,
            (std::vector<Dropped>{{"n1", "n1-0", wide}, {"n1", "n1-1", wide}, {"n1", "n1-2", wide}}));
  EXPECT_EQ(stage(e, "core").before - stage(e, "core").after, 8);
  EXPECT_EQ(stage(e, "model").dropped.size(), 3u);
  EXPECT_EQ(stage(e, "model").dropped[2], (Dropped{"n2", "n2-2", "of another model"}));
  EXPECT_TRUE(stage(explain(cluster, r), "core").dropped.empty()) << "nobody asked for names";
  Explanation nameless = e;
  for (StageReport& report : nameless.stages) report.dropped.clear();
  EXPECT_EQ(nameless, explain(cluster, r)) << "names change nothing else";

  r.cards = 9;
  r.models = {"T4"};
  EXPECT_EQ(stage(explain(cluster, r, {}, 5), "cards").dropped,
            (std::vector<Dropped>{{"n2", "", "with too few fitting cards (need 9, has 8)"}}));
}

TEST(Explain, CapacityIsReportedFromUse) {
  Cluster cluster = busy();
  const Explanation e = explain(cluster, share(100, 40 * kGi));
  EXPECT_EQ(stage(e, "capacity").reasons, (Reasons{{"too small in memory (need 40Gi, best is 32Gi)", 24}}));
  EXPECT_EQ(stage(e, "memory").before, 0);
  ASSERT_EQ(e.remedies.size(), 1u) << "nothing that could be released would help";
  EXPECT_EQ(e.remedies[0].kind, Remedy::Kind::ask);
  EXPECT_EQ(e.remedies[0].request.perCard, (Amount{100, 32 * kGi}));
}

TEST(Explain, WholeCardsAndTooFewOfThem) {
  Cluster cluster = busy();
  Request r;
  r.cards = 2;
  r.wholeCards = true;
  r.models = {"V100"};
  const Explanation e = explain(cluster, r);
  EXPECT_EQ(stage(e, "empty").reasons, (Reasons{{"in use", 16}}));
  ASSERT_FALSE(e.remedies.empty());
  EXPECT_EQ(e.remedies.back().kind, Remedy::Kind::release);
  EXPECT_EQ(e.remedies.back().node, "n1") << "its fourth card is the least used";
  EXPECT_EQ(e.remedies.back().shortages.at(0), (Remedy::CardCapacity{"n1-3", {600, kGi}, 1}));

  r.models = {"T4"};
  r.cards = 9;
  const Explanation few = explain(cluster, r);
  EXPECT_EQ(stage(few, "cards"),
            (StageReport{"cards", 1, 0, {{"with too few fitting cards (need 9, best has 8)", 1}}}));
  EXPECT_EQ(few.text(),
            "0/3 nodes fit: 24 cards: 16 of another model; nodes: 1 with too few fitting cards (need 9, best has 8); "
            "8 whole cards would fit now (node n2)");
}

TEST(Explain, ATotalThatTheCardsTogetherCannotHold) {
  Cluster cluster;
  cluster.upsertNode({"n0", true});
  for (int64_t i = 0; i < 2; ++i) {
    const std::string card = "c" + std::to_string(i);
    cluster.upsertCard(makeCard(card, "n0", i));
    cluster.take(card, "d" + card, {600 + 100 * i, kGi});
  }
  Request r = share(900, 2 * kGi);
  r.split = Split::evenly;
  const Explanation e = explain(cluster, r, {}, 1);
  const std::string what = "short of free capacity on all its cards together ";
  EXPECT_EQ(stage(e, "cards"),
            (StageReport{
                "cards", 1, 0, {{what + "(need 90%, best has 70%)", 1}}, {{"n0", "", what + "(need 90%, has 70%)"}}}));
  ASSERT_EQ(e.remedies.size(), 2u);
  EXPECT_EQ(e.smallestChange, "gpu-core 70 would fit now (node n0); or free 20% of card c0 (node n0)");
  cluster.take("c0", "dc0", {400, kGi});
  EXPECT_TRUE(decide(cluster, r).fits) << "what was offered does it";
}

TEST(Explain, QuarantineIsNamed) {
  Cluster cluster;
  cluster.upsertNode({"n0", true});
  CardInfo card = makeCard("c0", "n0", 0);
  card.healthy = false;
  cluster.upsertCard(card);
  const Explanation e = explain(cluster, share(100, kGi));
  EXPECT_EQ(e.text(), "0/1 node fits: 1 card: 1 quarantined; add 1 card with at least 1Gi");
}

TEST(Explain, LimitsAreNamed) {
  Cluster cluster;
  cluster.upsertNode({"n0", true});
  cluster.upsertCard(makeCard("c0", "n0", 0));
  cluster.take("c0", "a", {10, 0});
  Request r = share(100, kGi);
  r.maxClaimsPerCard = 1;
  EXPECT_EQ(explain(cluster, r).text(),
            "0/1 node fits: 1 card: 1 at the limit of 1 claim per card; free 1 claim of card c0 (node n0)");
  r.maxClaimsPerCard = 0;
  r.maxClaimsPerNode = 1;
  EXPECT_EQ(explain(cluster, r).text(), "0/1 node fits: 1 at the limit of 1 claim per node; release 1 claim (node n0)");
}

TEST(Explain, AnEmptyCluster) {
  EXPECT_EQ(explain(Cluster(), share(100, 4 * kGi)).text(), "0/0 nodes fit; add 1 card with at least 4Gi");
}

TEST(Explain, WhatFitsNeedsNoRemedy) {
  Request r = share(100, kGi);
  const Explanation e = explain(busy(), r);
  EXPECT_TRUE(e.remedies.empty());
  EXPECT_EQ(e.smallestChange, "");
  EXPECT_EQ(e.text(), "3/3 nodes fit");
}

TEST(Explain, OvercommitIsComparedAsCharged) {
  Cluster cluster;
  cluster.upsertNode({"n0", true});
  cluster.upsertCard(makeCard("c0", "n0", 0));
  cluster.take("c0", "a", {800, 0});
  Request r = share(500, kGi);
  r.coreOvercommit = 2000;
  const Explanation e = explain(cluster, r);
  EXPECT_EQ(stage(e, "core").reasons, (Reasons{{"short of free core (need 25%, best has 20%)", 1}}));
  EXPECT_EQ(e.remedies.at(0).request.perCard.core, 400) << "charged 200";
}

}  // namespace
}  // namespace egpu::scheduler::testing

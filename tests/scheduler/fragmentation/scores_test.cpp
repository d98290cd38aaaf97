// The fragmentation policy in decide() equals a scan without caches, after any history.
#include <gtest/gtest.h>

#include <map>
#include <optional>

#include "controller/scheduler/choice/card_choice.h"
#include "controller/scheduler/fragmentation/node_scoring.h"
#include "controller/scheduler/node_policy/node_policy.h"
#include "controller/scheduler/state/state.h"
#include "tests/scheduler/topology/nodes.h"
#include "tests/scheduler/world.h"

namespace egpu::scheduler::fragmentation {
namespace {

using scheduler::testing::kGi;
using scheduler::testing::makeCard;
using scheduler::testing::pick;
using scheduler::testing::Random;

/// Nodes of several kinds, claims that come and go, and the resulting demand.
class Site {
 public:
  explicit Site(uint64_t seed) : random_(seed) {
    for (int64_t n = 0; n < 90; ++n) addNode("n" + std::to_string(pick(random_, 0, 999)) + "-" + std::to_string(n));
  }

  Request request() {
    Request r;
    r.nodePolicy = "fragmentation";
    const char* const policies[] = {"binpack", "binpack", "spread", "simple", "topology", "static", "low-load-first"};
    r.cardPolicy = policies[pick(random_, 0, 6)];
    switch (pick(random_, 0, 6)) {
      case 0:
        r.cards = int64_t{1} << pick(random_, 0, 3);
        r.wholeCards = true;
        break;
      case 1:
        r.cards = 0;
        break;
      case 2:
        r.perCard = {pick(random_, 3, 15) * 100, 0};
        r.split = Split::evenly;
        break;
      case 3:
        r.perCard = {0, pick(random_, 1, 15) * kGi};
        break;
      default:
        r.perCard = {pick(random_, 1, 9) * 100, pick(random_, 0, 1) * pick(random_, 1, 8) * kGi};
    }
    r.cpuMilli = pick(random_, 0, 4) * 1000;
    r.podMemory = pick(random_, 0, 2) * kGi;
    if (pick(random_, 0, 4) == 0) r.models = {pick(random_, 0, 1) == 0 ? "V100" : "T4"};
    if (pick(random_, 0, 9) == 0) r.maxClaimsPerCard = 2;
    if (pick(random_, 0, 9) == 0) r.maxClaimsPerNode = 5;
    const char* const modes[] = {"", "", "", "mps", "auto", "limiter"};
    r.isolation = modes[pick(random_, 0, 5)];
    return r;
  }

  void take(const Decision& decision, const Request& request) {
    const std::string device = "d" + std::to_string(next_++);
    NodeAmount ofNode{request.cpuMilli, request.podMemory};
    if (decision.placements.empty()) cluster.takeOfNode(decision.node, device, ofNode);
    for (const Placement& p : decision.placements) {
      cluster.take(p, device, ofNode);
      ofNode = {};
      held_.emplace_back(p.card, device);
    }
  }

  void disturb() {
    switch (pick(random_, 0, 9)) {
      case 0: {
        const std::string name = names_[static_cast<std::size_t>(pick(random_, 0, 89))];
        cluster.upsertNode({name, pick(random_, 0, 1) == 0, 64'000, 256 * kGi});
        break;
      }
      case 1: {
        const std::string name = names_[static_cast<std::size_t>(pick(random_, 0, 89))];
        cluster.removeNode(name);
        for (const std::string& card : cluster.cardsOf(name)) cluster.removeCard(card);
        addNode(name);
        break;
      }
      default:
        for (int i = 0; i < 3 && !held_.empty(); ++i) {
          std::swap(held_.back(),
                    held_[static_cast<std::size_t>(pick(random_, 0, static_cast<int64_t>(held_.size()) - 1))]);
          cluster.giveBack(held_.back().first, held_.back().second);
          held_.pop_back();
        }
    }
  }

  Cluster cluster;

 private:
  void addNode(const std::string& name) {
    if (names_.size() < 90) names_.push_back(name);
    cluster.upsertNode({name, true, pick(random_, 0, 3) == 0 ? 0 : 32'000 << pick(random_, 0, 1), 128 * kGi});
    const int64_t cards = int64_t{1} << pick(random_, 0, 3);
    const char* model = pick(random_, 0, 2) == 0 ? "T4" : "V100";
    const bool limited = pick(random_, 0, 1) == 0;
    for (int64_t c = 0; c < cards; ++c) {
      auto card = makeCard(name + "-" + std::to_string(c), name, c, 16 * kGi, model);
      card.card.attributes["limiter"] = limited ? "available" : "missing";
      cluster.upsertCard(card);
    }
  }

  Random random_;
  std::vector<std::string> names_;
  std::vector<std::pair<std::string, std::string>> held_;
  int64_t next_ = 0;
};

/// The policy without caches: scores every node.
NodeId scan(const Cluster& cluster, const Request& request, const Prices& prices, const NodePredicate& suits) {
  const Cluster::State& state = cluster.state();
  const CardPolicy& policy = *findCardPolicy(request.cardPolicy);
  Needs needs(state, request);
  CardChoice cards(state, request, policy, needs);
  FitCounts counts(prices.shapes());
  NodeScorer scorer(state, request, cards, prices, counts);
  NodeId best = kNone;
  Score highest = kUnfit;
  for (const auto& [name, id] : state.nodesByName()) {
    if (!state.nodes[id].offered() || (suits && !suits(name))) continue;
    NodeState node;
    readNode(state, id, node);
    const Score score = scorer.score(id, NodeCopies(node, counts));
    if (score == kUnfit || (best != kNone && score <= highest)) continue;
    best = id;
    highest = score;
  }
  return best;
}

TEST(FragmentationScores, DecideAsAScanOfAllNodesDoes) {
  for (uint64_t seed = 1; seed <= 3; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Site site(seed);
    int placed = 0, repriced = 0;
    const Prices* last = nullptr;
    for (int i = 0; i < 1500; ++i) {
      SCOPED_TRACE("request " + std::to_string(i));
      const Request request = site.request();
      site.cluster.observe(request);
      const Prices* prices = site.cluster.state().outlook.prices();
      ASSERT_NE(prices, nullptr);
      repriced += prices != last ? 1 : 0;
      last = prices;
      const NodePredicate odd = [](std::string_view node) { return node.back() % 2 == 1; };
      const NodePredicate suits = i % 5 == 0 ? odd : NodePredicate();
      const NodeId want = scan(site.cluster, request, *prices, suits);
      const Decision got = decide(site.cluster, request, suits);
      ASSERT_EQ(got.fits, want != kNone);
      if (got.fits) {
        ASSERT_EQ(got.node, site.cluster.state().nodes[want].name);
        site.take(got, request);
        ++placed;
      }
      if (i % 3 == 0) site.disturb();
      // A copy has the same knowledge and decides the same, without the caches.
      if (i % 50 == 0) {
        const Cluster copy = site.cluster;
        ASSERT_EQ(decide(copy, request), decide(site.cluster, request));
      }
    }
    ASSERT_EQ(site.cluster.state().check(), "");
    EXPECT_GT(placed, 500);
    EXPECT_GT(repriced, 5);
  }
}

TEST(FragmentationScores, TheSameHistoryGivesTheSameDecisions) {
  Site a(9), b(9);
  for (int i = 0; i < 600; ++i) {
    const Request request = a.request();
    ASSERT_EQ(request, b.request());
    a.cluster.observe(request);
    b.cluster.observe(request);
    if (i % 7 == 0) (void)decide(b.cluster, request);  // deciding without committing changes nothing
    if (i % 11 == 0) b.cluster = Cluster(b.cluster);
    const Decision decision = decide(a.cluster, request);
    ASSERT_EQ(decision, decide(b.cluster, request));
    if (!decision.fits) continue;
    a.take(decision, request);
    b.take(decision, request);
  }
}

TEST(FragmentationScores, WithoutAnyDemandItIsBinpack) {
  Site site(4);
  for (int i = 0; i < 300; ++i) {
    Request request = site.request();
    const Decision decision = decide(site.cluster, request);
    request.nodePolicy = "binpack";
    ASSERT_EQ(decision, decide(site.cluster, request));
    if (decision.fits) site.take(decision, request);
  }
}

TEST(FragmentationScores, WhoAsksForMemoryAloneGetsItWhereNobodyHasCardsOrCpuLeft) {
  Cluster cluster;
  cluster.upsertNode({"n", true, 1000, 8 * kGi});
  cluster.takeOfNode("n", "x", {2000, kGi});
  Request request;
  request.cards = 0;
  request.podMemory = kGi;
  request.nodePolicy = "fragmentation";
  request.cardPolicy = "binpack";
  cluster.observe(request);
  EXPECT_TRUE(decide(cluster, request).fits);
  request.cpuMilli = 1;
  cluster.observe(request);
  EXPECT_FALSE(decide(cluster, request).fits);
}

}  // namespace
}  // namespace egpu::scheduler::fragmentation

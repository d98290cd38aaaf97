// Compares filtering and scoring of all nodes at once with a decision pinned to each node: random clusters, every
// policy, one claim and several, with quotas and without.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <tuple>
#include <vector>

#include "controller/scheduler/node_policy/node_policy.h"
#include "controller/scheduler/quota/within.h"
#include "controller/scheduler/score_nodes.h"
#include "controller/scheduler/simulate.h"
#include "tests/scheduler/world.h"

namespace egpu::scheduler::testing {
namespace {

const char* const kModels[] = {"V100", "T4", "A100"};

/// Up to 14 nodes of up to four cards: some cordoned, some without cards, some cards unhealthy, many partly used.
class Scene {
 public:
  explicit Scene(uint64_t seed) : random(seed) {
    const auto count = pick(random, 1, 14);
    for (int64_t n = 0; n < count; ++n) {
      const auto node = "n" + std::to_string(100 + n);
      names.push_back(node);
      cluster.upsertNode({node, pick(random, 0, 9) != 0, pick(random, 0, 3) * 4000, 0});
      const auto model = pick(random, 0, 2);
      for (int64_t c = pick(random, 0, 4); c > 0; --c) {
        const bool other = pick(random, 0, 9) == 0;
        auto info = makeCard(node + "-" + std::to_string(c), node, c, (16 + 16 * pick(random, 0, 1)) * kGi,
                             kModels[other ? pick(random, 0, 2) : model]);
        info.card.milliTflops = pick(random, 0, 1) * 100'000;
        info.healthy = pick(random, 0, 12) != 0;
        cluster.upsertCard(info);
        for (int64_t t = pick(random, 0, 3); t > 0; --t)
          cluster.take(info.name, "d" + std::to_string(next++),
                       {pick(random, 1, 40) * 10, pick(random, 1, 5 * 1024) * kMi});
      }
    }
    names.emplace_back("nobody-knows-it");
    for (int i = 0; i < 30; ++i) cluster.observe(request());
  }

  Request request() {
    Request r;
    const auto node = nodePolicyNames();
    const char* const cards[] = {"binpack", "spread", "simple", "topology", "compact-first", "low-load-first"};
    r.nodePolicy = node[static_cast<std::size_t>(pick(random, 0, static_cast<int64_t>(node.size()) - 1))];
    r.cardPolicy = cards[pick(random, 0, 5)];
    if (pick(random, 0, 2) == 0) r.memoryWeight = pick(random, 0, 4) * 250;
    r.perCard = {pick(random, 0, 70) * 10, pick(random, 0, 12) * kGi};
    if (pick(random, 0, 2) == 0) r.cards = pick(random, 1, 3);
    if (pick(random, 0, 7) == 0) r.wholeCards = true;
    if (pick(random, 0, 5) == 0) r.models = {kModels[pick(random, 0, 2)]};
    if (pick(random, 0, 5) == 0) r.cpuMilli = pick(random, 1, 12) * 1000;
    if (pick(random, 0, 5) == 0) r.maxClaimsPerCard = pick(random, 1, 3);
    if (pick(random, 0, 5) == 0) r.maxClaimsPerNode = pick(random, 1, 6);
    if (pick(random, 0, 5) == 0) r.coreOvercommit = 1500;
    if (pick(random, 0, 6) == 0 && !r.wholeCards) {
      r.cards = 1;
      r.split = pick(random, 0, 1) == 0 ? Split::evenly : Split::fill;
      r.perCard.core = pick(random, 1, 25) * 100;
    }
    if (pick(random, 0, 15) == 0 && cluster.cardCount() > 0 && r.split == Split::none) {
      const auto& pinned = names[static_cast<std::size_t>(pick(random, 0, static_cast<int64_t>(names.size()) - 1))];
      r.pinnedCards = cluster.cardsOf(pinned);
      r.cards = std::max<int64_t>(1, static_cast<int64_t>(r.pinnedCards.size()));
    }
    return r;
  }

  std::vector<std::string_view> views() const { return {names.begin(), names.end()}; }

  Random random;
  Cluster cluster;
  std::vector<std::string> names;
  int next = 0;
};

std::vector<Request> pinned(std::vector<Request> requests, const std::string& node) {
  for (auto& request : requests) request.pinnedNode = node;
  return requests;
}

/// The cluster's state as text: trying must not change it.
std::string pictureOf(const Cluster& cluster) {
  std::string text;
  for (const auto& node : cluster.nodes())
    for (const auto& card : cluster.cardsOf(node)) {
      const auto view = cluster.findCard(card);
      text += card + " " + std::to_string(view.used.core) + " " + std::to_string(view.used.memory) + " " +
              std::to_string(view.claims) + "\n";
    }
  return text;
}

TEST(Judge, PassesTheNodesOnWhichThePinnedDecisionSucceeds) {
  int fit = 0, unfit = 0;
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    Scene scene(seed);
    const auto request = scene.request();
    const auto verdicts = scoreNodes(scene.cluster, {request}, scene.views());
    ASSERT_EQ(verdicts.size(), scene.names.size());
    for (std::size_t i = 0; i < verdicts.size(); ++i) {
      const bool fits = decide(scene.cluster, pinned({request}, scene.names[i]).front()).fits;
      EXPECT_EQ(verdicts[i].fits, fits) << "seed " << seed << " node " << scene.names[i];
      ++(fits ? fit : unfit);
    }
  }
  EXPECT_GT(fit, 300);
  EXPECT_GT(unfit, 300);
}

TEST(Judge, SeveralClaimsMustFitTogether) {
  int together = 0, onlyAlone = 0;
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    Scene scene(seed);
    std::vector<Request> requests;
    for (int64_t n = pick(scene.random, 2, 4); n > 0; --n) requests.push_back(scene.request());
    const auto before = pictureOf(scene.cluster);
    const auto verdicts = scoreNodes(scene.cluster, requests, scene.views());
    EXPECT_EQ(pictureOf(scene.cluster), before);
    for (std::size_t i = 0; i < verdicts.size(); ++i) {
      const auto here = pinned(requests, scene.names[i]);
      const bool fits = !decideTogether(scene.cluster, here).decisions.empty();
      EXPECT_EQ(verdicts[i].fits, fits) << "seed " << seed << " node " << scene.names[i];
      together += fits ? 1 : 0;
      onlyAlone += !fits && std::all_of(here.begin(), here.end(),
                                        [&](const auto& each) { return decide(scene.cluster, each).fits; })
                       ? 1
                       : 0;
    }
  }
  EXPECT_GT(together, 50);
  EXPECT_GT(onlyAlone, 20) << "or nothing was shown";
}

TEST(Judge, LikesNodesInTheOrderOfTheDecision) {
  int orders = 0;
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    Scene scene(seed);
    const auto request = scene.request();
    if (!request.pinnedCards.empty()) continue;
    scene.cluster.observe(request);
    const auto verdicts = scoreNodes(scene.cluster, {request}, scene.views());
    std::vector<std::tuple<int64_t, std::string>> mine;
    for (std::size_t i = 0; i < verdicts.size(); ++i)
      if (verdicts[i].fits) mine.emplace_back(-verdicts[i].score, scene.names[i]);
    std::sort(mine.begin(), mine.end());
    const auto theirs = rank(scene.cluster, request, {}, scene.names.size());
    ASSERT_EQ(mine.size(), theirs.size()) << "seed " << seed;
    for (std::size_t i = 0; i < mine.size(); ++i)
      EXPECT_EQ(std::get<1>(mine[i]), theirs[i].decision.node) << "seed " << seed << " " << request.nodePolicy;
    orders += mine.size() > 2 ? 1 : 0;
  }
  EXPECT_GT(orders, 50);
}

TEST(Judge, OfSeveralClaimsTheFirstOnesPolicyDecides) {
  int orders = 0;
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    Scene scene(seed);
    auto requests = std::vector{scene.request(), scene.request()};
    for (auto& request : requests) request.pinnedCards.clear();
    const auto verdicts = scoreNodes(scene.cluster, requests, scene.views());
    std::vector<std::tuple<int64_t, std::string>> fitting;
    for (std::size_t i = 0; i < verdicts.size(); ++i)
      if (verdicts[i].fits) fitting.emplace_back(-verdicts[i].score, scene.names[i]);
    const auto together = decideTogether(scene.cluster, requests);
    ASSERT_EQ(fitting.empty(), together.decisions.empty()) << "seed " << seed;
    if (fitting.empty() || requests.front().nodePolicy == "fragmentation") continue;
    std::sort(fitting.begin(), fitting.end());
    // The first try is the node with the first request's best score; if it holds all requests, it has the best score
    // here.
    EXPECT_EQ(std::get<0>(fitting.front()),
              -verdicts[static_cast<std::size_t>(
                            std::find(scene.names.begin(), scene.names.end(), together.decisions.front().node) -
                            scene.names.begin())]
                   .score)
        << "seed " << seed;
    ++orders;
  }
  EXPECT_GT(orders, 30);
}

TEST(Judge, RespectsQuotasAsTheDecisionDoes) {
  int refused = 0, passed = 0;
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    Scene scene(seed);
    v1alpha::ElasticGPUQuota object;
    object.metadata.name = "team";
    object.metadata.namespace_ = "ns";
    object.spec.hard["gpu-core"] = std::to_string(pick(scene.random, 1, 20) * 10);
    if (pick(scene.random, 0, 1) == 0)
      object.spec.hard["gpu-memory"] = std::to_string(pick(scene.random, 1, 24)) + "Gi";
    if (pick(scene.random, 0, 2) == 0) object.spec.models = {kModels[pick(scene.random, 0, 2)]};
    QuotaBook book;
    book.setQuotas("ns", {readQuota(object)});
    std::vector<Request> requests;
    std::vector<QuotaClaim> claims;
    for (int64_t n = pick(scene.random, 1, 2); n > 0; --n) {
      requests.push_back(scene.request());
      claims.push_back({"ns", "ns/c" + std::to_string(n), "c" + std::to_string(n), "share"});
    }
    const auto verdicts = scoreNodes(scene.cluster, requests, scene.views(), book, claims);
    const auto without = scoreNodes(scene.cluster, requests, scene.views());
    for (std::size_t i = 0; i < verdicts.size(); ++i) {
      const auto here = pinned(requests, scene.names[i]);
      const bool fits = !decideWithin(scene.cluster, book, claims, here).decisions.empty();
      EXPECT_EQ(verdicts[i].fits, fits) << "seed " << seed << " node " << scene.names[i];
      refused += without[i].fits && !fits ? 1 : 0;
      passed += fits ? 1 : 0;
    }
  }
  EXPECT_GT(refused, 50);
  EXPECT_GT(passed, 50);
}

TEST(Judge, NothingAskedFitsEverywhere) {
  Cluster cluster;
  const std::vector<std::string_view> names = {"a", "b"};
  EXPECT_EQ(scoreNodes(cluster, {}, names), (std::vector<NodeVerdict>{{true, 0}, {true, 0}}));
  EXPECT_TRUE(scoreNodes(cluster, {Request{}}, {}).empty());
  auto unknown = Request{};
  unknown.nodePolicy = "no such policy";
  EXPECT_EQ(scoreNodes(cluster, {unknown}, names), (std::vector<NodeVerdict>{{}, {}}));
}

}  // namespace
}  // namespace egpu::scheduler::testing

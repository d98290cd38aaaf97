// Random clusters under random churn: decide() must equal the plain loops of world.h, and must not depend on the
// state's history.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "controller/scheduler/explain.h"
#include "controller/scheduler/state/state.h"
#include "tests/scheduler/world.h"

namespace egpu::scheduler::testing {
namespace {

const char* const kPolicies[] = {"binpack", "spread"};
const char* const kModes[] = {"none", "auto", "limiter", "mps", "hami-core", "driver"};

/// A cluster and its plain model, always changed together.
class Twin {
 public:
  Twin(uint64_t seed, int64_t nodes, int64_t cardsPerNode, bool mixed)
      : random_(seed), nodes_(nodes), cardsPerNode_(cardsPerNode), mixed_(mixed) {
    for (int64_t n = 0; n < nodes; ++n) {
      setNode(nodeName(n), true);
      for (int64_t c = 0; c < cardsPerNode; ++c) setCard(n, c);
    }
  }

  void step() {
    const int64_t what = pick(random_, 0, 99);
    if (what < 45) {
      place(request());
    } else if (what < 75) {
      release();
    } else if (what < 80) {
      takeAnything();
    } else if (what < 82) {
      takeOfNode();
    } else if (what < 86) {
      setNode(nodeName(pick(random_, 0, nodes_ - 1)), pick(random_, 0, 3) != 0);
    } else if (what < 88) {
      const std::string name = nodeName(pick(random_, 0, nodes_ - 1));
      cluster.removeNode(name);
      world.nodes.erase(name);
    } else if (what < 90) {
      const std::string name = cardName(pick(random_, 0, nodes_ - 1), pick(random_, 0, cardsPerNode_ - 1));
      cluster.removeCard(name);
      world.cards.erase(name);
    } else {
      setCard(pick(random_, 0, nodes_ - 1), pick(random_, 0, cardsPerNode_ - 1));
    }
  }

  Request request() {
    Request r;
    r.nodePolicy = kPolicies[pick(random_, 0, 1)];
    r.cardPolicy = kPolicies[pick(random_, 0, 1)];
    r.cards = pick(random_, 0, 3) == 0 ? pick(random_, 1, cardsPerNode_) : 1;
    if (pick(random_, 0, 2) == 0) r.cpuMilli = pick(random_, 1, 6000);
    if (pick(random_, 0, 2) == 0) r.podMemory = pick(random_, 1, 6000) * kMi;
    if (pick(random_, 0, 15) == 0) {  // a pod that uses only resources of the node
      r.cards = 0;
      return r;
    }
    switch (pick(random_, 0, 9)) {
      case 0:
        r.wholeCards = true;
        break;
      case 1:
        r.perCard = {pick(random_, 1, 100) * 10, 0};
        r.memoryFromCore = true;
        break;
      case 2:
        r.perCard = {0, pick(random_, 1, 40 * 1024) * kMi};
        break;
      case 3:
        r.milliTflopsPerCard = pick(random_, 1, 130) * (pick(random_, 0, 1) == 0 ? 1000 : 777);
        r.memoryFromCore = true;
        break;
      case 4:
        r.milliTflopsPerCard = pick(random_, 1, 130) * (pick(random_, 0, 1) == 0 ? 1000 : 777);
        r.perCard.memory = pick(random_, 1, 32) * kGi;
        break;
      default:
        r.perCard = {pick(random_, 1, 100) * 10, pick(random_, 1, 32) * kGi};
    }
    if (pick(random_, 0, 4) == 0) r.models = {"A100"};
    if (pick(random_, 0, 6) == 0) r.models = {"A100", "V100"};
    if (pick(random_, 0, 5) == 0) r.minMemory = pick(random_, 8, 48) * kGi;
    if (pick(random_, 0, 4) == 0) r.maxClaimsPerCard = pick(random_, 1, 4);
    if (pick(random_, 0, 4) == 0) r.maxClaimsPerNode = pick(random_, 1, 8);
    if (pick(random_, 0, 4) == 0) r.coreOvercommit = pick(random_, 1000, 3000);
    if (pick(random_, 0, 4) == 0) r.memoryOvercommit = pick(random_, 1000, 3000);
    if (pick(random_, 0, 3) == 0) r.isolation = kModes[pick(random_, 0, 5)];
    if (pick(random_, 0, 9) == 0) r.pinnedNode = nodeName(pick(random_, 0, nodes_ - 1));
    if (pick(random_, 0, 9) == 0) {
      const int64_t n = pick(random_, 0, nodes_ - 1);
      std::set<std::string> names;
      const int64_t pins = r.split == Split::none ? pick(random_, std::min<int64_t>(1, r.cards), r.cards) : r.cards;
      while (static_cast<int64_t>(names.size()) < pins) names.insert(cardName(n, pick(random_, 0, cardsPerNode_ - 1)));
      r.pinnedCards.assign(names.begin(), names.end());
    }
    return r;
  }

  /// Decides with both, compares, and commits the common decision.
  void place(const Request& r) {
    NodePredicate suits;
    if (pick(random_, 0, 5) == 0) suits = [](std::string_view name) { return name.back() % 2 == 0; };
    const Decision got = decide(cluster, r, suits);
    const Decision want = world.decide(r, suits);
    ASSERT_EQ(got.fits, want.fits);
    ASSERT_EQ(got.node, want.node);
    ASSERT_EQ(got.placements, want.placements);
    placed += got.fits ? 1 : 0;
    if (!got.fits) return;
    const std::string device = "device-" + std::to_string(next_++);
    NodeAmount ofNode{r.cpuMilli, r.podMemory};
    if (r.cards == 0) {
      ASSERT_TRUE(cluster.takeOfNode(got.node, device, ofNode));
      ASSERT_TRUE(world.takeOfNode(got.node, device, ofNode));
      pods_.emplace_back(got.node, device);
      return;
    }
    devices_.push_back(device);
    for (const Placement& p : got.placements) {
      const CardView before = cluster.findCard(p.card);
      ASSERT_LE(before.used.core + p.charged.core, before.capacity.core);
      ASSERT_LE(before.used.memory + p.charged.memory, before.capacity.memory);
      ASSERT_TRUE(before.healthy);
      ASSERT_TRUE(before.claims == 0 || before.isolation == p.isolation);
      cluster.take(p, device, ofNode);
      world.take(p.card, device, p.charged, ofNode, p.isolation);
      ofNode = {};  // once per device
    }
  }

  void compareState() const {
    const Cluster rebuilt = world.build();
    ASSERT_EQ(cluster.state().check(), "");
    ASSERT_EQ(rebuilt.state().check(), "");
    ASSERT_EQ(cluster.nodes(), rebuilt.nodes());
    ASSERT_EQ(cluster.cardCount(), world.cards.size());
    auto used = world.nodesUsed();
    for (const std::string& node : cluster.nodes()) {
      ASSERT_EQ(cluster.cardsOf(node), rebuilt.cardsOf(node));
      ASSERT_EQ(cluster.nodeSchedulable(node), rebuilt.nodeSchedulable(node));
      ASSERT_EQ(cluster.nodeUsed(node), used[node]);
    }
    for (const auto& [name, plain] : world.cards) {
      const CardView view = cluster.findCard(name);
      ASSERT_EQ(view.used, plain.used());
      ASSERT_EQ(view.claims, static_cast<int64_t>(plain.allocations.size()));
      ASSERT_EQ(view.isolation, plain.allocations.empty() ? "" : plain.isolation);
      ASSERT_EQ(view.healthy, plain.info.healthy);
      ASSERT_EQ(cluster.describe(name), plain.info.card);
    }
  }

  Cluster cluster;
  World world;
  int64_t placed = 0;

 private:
  static std::string nodeName(int64_t n) { return "node-" + std::to_string(n); }
  static std::string cardName(int64_t n, int64_t c) { return "card-" + std::to_string(n) + "-" + std::to_string(c); }

  void setNode(const std::string& name, bool schedulable) {
    NodeInfo info{name, schedulable};
    if (pick(random_, 0, 4) != 0) info.cpuMilli = pick(random_, 8, 64) * 1000;
    if (pick(random_, 0, 4) != 0) info.memory = pick(random_, 8, 64) * kGi;
    cluster.upsertNode(info);
    world.upsertNode(info);
  }

  /// Adds a card, or changes its health, size, model or node; a shrunk card may be over-committed.
  void setCard(int64_t n, int64_t c) {
    static const char* const kModels[] = {"V100", "A100", "T4"};
    // Occasionally moves a card to another node, as after a repair.
    const int64_t home = pick(random_, 0, 30) == 0 ? pick(random_, 0, nodes_ - 1) : n;
    const bool odd = mixed_ && pick(random_, 0, 3) == 0;
    const int64_t kind = odd ? pick(random_, 0, 2) : mixed_ ? n % 3 : 0;
    CardInfo info = makeCard(cardName(n, c), nodeName(home), c, (16 + 16 * kind) * kGi, kModels[kind]);
    if (odd && pick(random_, 0, 3) == 0) info.card.memory -= 777;
    if (odd && pick(random_, 0, 5) == 0) info.card.core = 500;
    info.card.milliTflops = kind == 2 ? 0 : 65'500 * (kind + 1);
    if (pick(random_, 0, 2) > 0) info.card.attributes["limiter"] = pick(random_, 0, 3) > 0 ? "available" : "missing";
    if (pick(random_, 0, 2) == 0) info.card.attributes["memoryLimits"] = "available";
    if (pick(random_, 0, 7) == 0) info.card.attributes["computeMode"] = "exclusiveProcess";
    info.healthy = pick(random_, 0, 6) != 0;
    cluster.upsertCard(info);
    world.upsertCard(info);
  }

  void release() {
    if (!pods_.empty() && pick(random_, 0, 9) == 0) {
      const auto [node, uid] = pods_.back();
      pods_.pop_back();
      cluster.giveBackOfNode(node, uid);
      world.giveBackOfNode(node, uid);
    }
    if (devices_.empty()) return;
    const std::size_t at = static_cast<std::size_t>(pick(random_, 0, static_cast<int64_t>(devices_.size()) - 1));
    const std::string device = devices_[at];
    devices_.erase(devices_.begin() + static_cast<std::ptrdiff_t>(at));
    for (auto& [name, plain] : world.cards) {
      if (!plain.allocations.contains(device)) continue;
      cluster.giveBack(name, device);
      world.giveBack(name, device);
    }
  }

  /// Writes ledger contents that no decision of the scheduler produces: any amount, a device on several nodes, a
  /// changing allocation.
  void takeAnything() {
    const std::string name = cardName(pick(random_, 0, nodes_ - 1), pick(random_, 0, cardsPerNode_ - 1));
    const std::string device = "foreign-" + std::to_string(pick(random_, 0, 9));
    const Amount amount{pick(random_, 0, 40) * 10, pick(random_, 0, 12) * kGi};
    const NodeAmount ofNode{pick(random_, 0, 1) * 700, pick(random_, 0, 3) * 100 * kMi};
    ASSERT_EQ(cluster.take(name, device, amount, ofNode, ""), world.take(name, device, amount, ofNode));
    if (std::find(devices_.begin(), devices_.end(), device) == devices_.end()) devices_.push_back(device);
  }

  /// Adds, changes and removes pods without cards, also on nodes that do not exist.
  void takeOfNode() {
    const std::string node = nodeName(pick(random_, 0, nodes_ - 1));
    const std::string uid = "pod-" + std::to_string(pick(random_, 0, 3));
    const NodeAmount amount{pick(random_, 0, 5) * 500, pick(random_, 0, 5) * 300 * kMi};
    ASSERT_EQ(cluster.takeOfNode(node, uid, amount), world.takeOfNode(node, uid, amount));
    pods_.emplace_back(node, uid);
  }

  Random random_;
  int64_t nodes_, cardsPerNode_;
  bool mixed_;
  int64_t next_ = 0;
  std::vector<std::string> devices_;
  std::vector<std::pair<std::string, std::string>> pods_;  ///< node and uid of pods without cards
};

struct ChurnCase {
  int64_t nodes, cards, steps, seeds;
  bool mixed;
};

class Churn : public ::testing::TestWithParam<ChurnCase> {};

TEST_P(Churn, DecidesLikeThePlainLoopsAndLeavesNoTrace) {
  const ChurnCase churn = GetParam();
  int64_t placed = 0;
  for (int64_t seed = 1; seed <= churn.seeds; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Twin twin(static_cast<uint64_t>(seed), churn.nodes, churn.cards, churn.mixed);
    for (int64_t i = 0; i < churn.steps; ++i) {
      ASSERT_NO_FATAL_FAILURE(twin.step()) << "step " << i;
      if (i % 97 == 0) {
        ASSERT_NO_FATAL_FAILURE(twin.compareState()) << "step " << i;
      }
    }
    ASSERT_NO_FATAL_FAILURE(twin.compareState());
    // A cluster built from scratch with equal contents decides the same.
    const Cluster rebuilt = twin.world.build();
    const Cluster copy = twin.cluster;
    for (int i = 0; i < 50; ++i) {
      const Request r = twin.request();
      const Decision decision = decide(twin.cluster, r);
      ASSERT_EQ(decision, decide(rebuilt, r));
      ASSERT_EQ(decision, decide(copy, r));
      ASSERT_EQ(explain(twin.cluster, r), explain(rebuilt, r));
    }
    placed += twin.placed;
  }
  EXPECT_GT(placed, churn.steps * churn.seeds / 20) << "the churn must not consist of refusals alone";
}

INSTANTIATE_TEST_SUITE_P(Shapes, Churn,
                         ::testing::Values(ChurnCase{3, 2, 400, 40, false}, ChurnCase{5, 4, 400, 40, true},
                                           ChurnCase{12, 8, 500, 12, true}, ChurnCase{2, 16, 400, 10, true},
                                           ChurnCase{120, 2, 3000, 3, false}, ChurnCase{300, 1, 3000, 2, true},
                                           ChurnCase{1500, 2, 2500, 1, false}));

// Applies a remedy unchanged: the next decision must succeed; with a little less it must not.

/// Releases at least this much of a card, and keeps the rest of the last claim touched.
void freeShortage(Cluster& cluster, World& world, const Remedy::CardCapacity& shortage) {
  PlainCard& plain = world.cards.at(shortage.card);
  Amount left = shortage.amount;
  int64_t claims = shortage.claims;
  while (!plain.allocations.empty() && (left.core > 0 || left.memory > 0 || claims > 0)) {
    auto [device, amount] = *plain.allocations.begin();
    world.giveBack(shortage.card, device);
    cluster.giveBack(shortage.card, device);
    const Amount back{std::min(left.core, amount.core), std::min(left.memory, amount.memory)};
    left = {left.core - back.core, left.memory - back.memory};
    if (claims > 0) {
      --claims;
      continue;
    }
    const Amount rest{amount.core - back.core, amount.memory - back.memory};
    if (rest == Amount{}) continue;
    const std::string isolation = plain.isolation;
    cluster.take(shortage.card, device, rest, {}, isolation);
    world.take(shortage.card, device, rest, {}, isolation);
    if (left.core > 0 || left.memory > 0) {
      // This claim has released all it can of one resource; continue with another claim.
      for (auto it = plain.allocations.begin(); it != plain.allocations.end() && (left.core > 0 || left.memory > 0);
           ++it) {
        const Amount more{std::min(left.core, it->second.core), std::min(left.memory, it->second.memory)};
        it->second = {it->second.core - more.core, it->second.memory - more.memory};
        left = {left.core - more.core, left.memory - more.memory};
        cluster.take(shortage.card, it->first, it->second, plain.ofNode.at(it->first));
      }
    }
    break;
  }
}

void applyAndCheck(const Twin& twin, const Request& request, const Remedy& remedy, std::map<Remedy::Kind, int>& seen) {
  SCOPED_TRACE(remedy.text);
  ASSERT_FALSE(remedy.text.empty());
  ++seen[remedy.kind];
  Cluster cluster = twin.cluster;
  World world = twin.world;
  switch (remedy.kind) {
    case Remedy::Kind::ask: {
      const Decision decision = decide(cluster, remedy.request);
      ASSERT_TRUE(decision.fits);
      ASSERT_EQ(decision.node, remedy.node);
      // A further step of the single amount that was reduced must not fit.
      Request more = remedy.request;
      if (more.cards != request.cards) {
        ++more.cards;
      } else if (more.milliTflopsPerCard != request.milliTflopsPerCard) {
        // Requests in whole TFLOPS get remedies in whole TFLOPS.
        more.milliTflopsPerCard += request.milliTflopsPerCard % 1000 == 0 ? 1000 : 1;
      } else if (more.perCard.core != request.perCard.core) {
        more.perCard.core = std::min(more.perCard.core + 10, request.perCard.core);
      } else {
        more.perCard.memory = std::min(more.perCard.memory + kMi, request.perCard.memory);
      }
      ASSERT_FALSE(world.decide(more).fits);
      break;
    }
    case Remedy::Kind::release: {
      for (const Remedy::CardCapacity& shortage : remedy.shortages) freeShortage(cluster, world, shortage);
      // Claims of the node, in addition to those that `shortages` released.
      auto onNode = [&] {
        std::set<std::string> devices;
        for (const auto& [name, plain] : world.cards)
          if (plain.info.card.nodeName == remedy.node)
            for (const auto& [device, amount] : plain.allocations) devices.insert(device);
        return devices;
      };
      while (request.maxClaimsPerNode > 0 && static_cast<int64_t>(onNode().size()) >= request.maxClaimsPerNode) {
        const std::string device = *onNode().begin();
        for (auto& [name, plain] : world.cards) {
          if (plain.info.card.nodeName != remedy.node || !plain.allocations.contains(device)) continue;
          cluster.giveBack(name, device);
          world.giveBack(name, device);
        }
      }
      ASSERT_TRUE(world.decide(request).fits);
      ASSERT_TRUE(decide(cluster, request).fits);
      break;
    }
    case Remedy::Kind::add: {
      const std::string node = remedy.node.empty() ? "node-new" : remedy.node;
      cluster.upsertNode({node, true});
      for (int64_t i = 0; i < remedy.cards; ++i) {
        CardInfo info = makeCard("card-new-" + std::to_string(i), node, 100 + i);
        info.card.model = remedy.card.model;
        info.card.core = remedy.card.core;
        info.card.memory = remedy.card.memory;
        info.card.milliTflops = remedy.card.milliTflops;
        info.card.attributes = remedy.card.attributes;
        ASSERT_FALSE(decide(cluster, request).fits) << "one card fewer would have done";
        cluster.upsertCard(info);
      }
      ASSERT_TRUE(decide(cluster, request).fits);
      break;
    }
  }
}

TEST(Remedy, AppliedAsItStandsMakesTheRequestFit) {
  std::map<Remedy::Kind, int> seen;
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Twin twin(1000 + seed, 1 + static_cast<int64_t>(seed % 5), 3, seed % 2 == 0);
    for (int i = 0; i < 150; ++i) {
      ASSERT_NO_FATAL_FAILURE(twin.step());
      const Request request = twin.request();
      const Explanation e = explain(twin.cluster, request);
      const bool fits = twin.world.decide(request).fits;
      if (fits) {
        ASSERT_TRUE(e.remedies.empty());
        continue;
      }
      ASSERT_TRUE(!e.remedies.empty() || request.cards == 0 || !request.pinnedCards.empty() ||
                  !request.pinnedNode.empty());
      for (const Remedy& remedy : e.remedies) ASSERT_NO_FATAL_FAILURE(applyAndCheck(twin, request, remedy, seen));
    }
  }
  EXPECT_GT(seen[Remedy::Kind::ask], 100);
  EXPECT_GT(seen[Remedy::Kind::release], 100);
  EXPECT_GT(seen[Remedy::Kind::add], 20);
}

TEST(Explain, StagesAddUp) {
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    Twin twin(2000 + seed, 4, 4, true);
    for (int i = 0; i < 100; ++i) {
      ASSERT_NO_FATAL_FAILURE(twin.step());
      const Request request = twin.request();
      const Explanation e = explain(twin.cluster, request);
      ASSERT_EQ(e.stages.front().before, static_cast<int64_t>(twin.cluster.nodeCount()));
      for (std::size_t s = 0; s < e.stages.size(); ++s) {
        int64_t out = 0;
        for (const auto& [reason, count] : e.stages[s].reasons) out += count;
        ASSERT_EQ(e.stages[s].after, e.stages[s].before - out) << e.stages[s].stage;
        const bool ofCards =
            s > 1 && !e.stages[s].stage.starts_with("node") && !e.stages[s - 1].stage.starts_with("node");
        if (ofCards && s + 1 < e.stages.size()) {
          ASSERT_EQ(e.stages[s].before, e.stages[s - 1].after) << e.stages[s].stage;
        }
      }
      if (request.pinnedCards.empty()) {
        ASSERT_EQ(e.stages.back().after > 0, twin.world.decide(request).fits);
      }
      ASSERT_EQ(e.text(), explain(twin.cluster, request).text());
    }
  }
}

}  // namespace
}  // namespace egpu::scheduler::testing

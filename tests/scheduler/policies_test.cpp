// Every policy, split and limit together, on random nodes of every kind. decide() equals the plain loops, never
// over-commits, and gives identical answers on a cluster with a different history.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "controller/scheduler/card_policy/card_policy.h"
#include "controller/scheduler/remedies/remedy.h"
#include "controller/scheduler/state/state.h"
#include "tests/scheduler/topology/nodes.h"
#include "tests/scheduler/world.h"

namespace egpu::scheduler::testing {
namespace {

const char* const kNodePolicies[] = {"binpack", "spread", "compact-first", "low-load-first"};
const Split kSplits[] = {Split::none, Split::evenly, Split::fill};

/// A few nodes, some of them DGX machines, with random allocations.
class PolicyNode {
 public:
  explicit PolicyNode(uint64_t seed) : random_(seed) {
    const int64_t nodes = pick(random_, 1, 5);
    for (int64_t n = 0; n < nodes; ++n) addNode("n" + std::to_string(n));
  }

  Request request(std::string_view cardPolicy, Split split) {
    Request r;
    r.nodePolicy = kNodePolicies[pick(random_, 0, 3)];
    r.cardPolicy = std::string(cardPolicy);
    const bool divided = split != Split::none;
    r.split = split;
    if (!divided && pick(random_, 0, 1) == 0) r.cards = pick(random_, 1, 8);
    // A total may exceed one card.
    const int64_t max = divided ? pick(random_, 1, 6) : 1;
    switch (pick(random_, 0, 5)) {
      case 0:
        if (!divided) r.wholeCards = true;
        r.perCard = {pick(random_, 1, 100 * max) * 10, pick(random_, 1, 32 * max) * kGi};
        break;
      case 1:
        r.perCard = {0, pick(random_, 1, 32 * 1024 * max) * kMi};
        break;
      case 2:
        r.milliTflopsPerCard = pick(random_, 1, 125 * max) * (pick(random_, 0, 1) == 0 ? 1000 : 777);
        r.memoryFromCore = pick(random_, 0, 1) == 0;
        if (!r.memoryFromCore) r.perCard.memory = pick(random_, 1, 32 * 1024 * max) * kMi;
        break;
      case 3:
        r.perCard = {pick(random_, 1, 100 * max) * 10, 0};
        r.memoryFromCore = true;
        break;
      default:
        r.perCard = {pick(random_, 1, 100 * max) * 10, pick(random_, 1, 32 * 1024 * max) * kMi};
        if (pick(random_, 0, 3) == 0) r.perCard.memory += pick(random_, 1, 1000);
        if (pick(random_, 0, 5) == 0) r.perCard.core += pick(random_, 1, 9);
    }
    if (pick(random_, 0, 4) == 0) r.coreOvercommit = pick(random_, 1000, 3000);
    if (pick(random_, 0, 4) == 0) r.memoryOvercommit = pick(random_, 1000, 3000);
    if (pick(random_, 0, 5) == 0) r.maxClaimsPerCard = pick(random_, 1, 3);
    if (pick(random_, 0, 5) == 0) r.maxClaimsPerNode = pick(random_, 1, 6);
    if (pick(random_, 0, 5) == 0) r.minMemory = pick(random_, 8, 40) * kGi;
    if (pick(random_, 0, 5) == 0) r.models = {"V100-SXM2-32GB", "T4"};
    if (pick(random_, 0, 9) == 0) r.pinnedNode = "n0";
    if (pick(random_, 0, 9) == 0 && !names_.empty()) {
      r.pinnedCards = {names_[static_cast<std::size_t>(pick(random_, 0, static_cast<int64_t>(names_.size()) - 1))]};
      r.cards = 1;
    }
    return r;
  }

  void place(const Request& r) {
    const Decision got = decide(cluster, r), want = world.decide(r);
    ASSERT_EQ(got.fits, want.fits);
    ASSERT_EQ(got.node, want.node);
    ASSERT_EQ(got.placements, want.placements);
    ASSERT_EQ(got, decide(cluster, r));
    if (pick(random_, 0, 9) == 0) {
      ASSERT_EQ(got, decide(world.build(), r));
    }
    if (!got.fits) return;
    placed += 1;
    several += got.placements.size() > 1 ? 1 : 0;
    const std::string device = "d" + std::to_string(next_++);
    devices_.push_back(device);
    for (const Placement& p : got.placements) {
      const CardView before = cluster.findCard(p.card);
      ASSERT_LE(before.used.core + p.charged.core, before.capacity.core);
      ASSERT_LE(before.used.memory + p.charged.memory, before.capacity.memory);
      cluster.take(p.card, device, p.charged);
      world.take(p.card, device, p.charged);
    }
  }

  void change() {
    if (!devices_.empty() && pick(random_, 0, 1) == 0) {
      const std::string device = devices_.front();
      devices_.erase(devices_.begin());
      for (auto& [name, plain] : world.cards) {
        cluster.giveBack(name, device);
        world.giveBack(name, device);
      }
    } else {
      CardInfo info =
          world.cards.at(names_[static_cast<std::size_t>(pick(random_, 0, static_cast<int64_t>(names_.size()) - 1))])
              .info;
      info.healthy = !info.healthy;
      cluster.upsertCard(info);
      world.upsertCard(info);
    }
  }

  Cluster cluster;
  World world;
  int64_t placed = 0, several = 0;

 private:
  void addNode(const std::string& node) {
    cluster.upsertNode({node, true});
    world.upsertNode({node, true});
    std::vector<v1alpha::Card> cards;
    switch (pick(random_, 0, 3)) {
      case 0:
        cards = topology::testing::dgx1Volta();
        break;
      case 1:
        cards = topology::testing::dgx1Pascal();
        break;
      default:
        cards = topology::testing::plainNode(static_cast<std::size_t>(pick(random_, 1, 7)), "T4");
        if (pick(random_, 0, 2) == 0) break;
        for (std::size_t a = 0; a < cards.size(); ++a)
          for (std::size_t b = a + 1; b < cards.size(); ++b)
            topology::testing::link(cards, a, b, "nvlink", pick(random_, 0, 3));
    }
    for (v1alpha::Card& card : cards) {
      // Links name peers by uuid: uuids are unique in the cluster, so that links stay on the node.
      card.uuid = node + "-" + card.uuid;
      for (v1alpha::CardLink& peer : card.topology.links) peer.peer = node + "-" + peer.peer;
      card.nodeName = node;
      card.memory = pick(random_, 1, 3) * 16 * kGi - (pick(random_, 0, 5) == 0 ? 777 : 0);
      card.milliTflops = pick(random_, 0, 4) * 31'250;
      if (pick(random_, 0, 9) == 0) card.core = 500;
      const CardInfo info{"card-" + card.uuid, card, pick(random_, 0, 9) != 0};
      cluster.upsertCard(info);
      world.upsertCard(info);
      names_.push_back(info.name);
      if (pick(random_, 0, 2) != 0) continue;
      const Amount used{pick(random_, 0, card.core / 10) * 10 + (pick(random_, 0, 3) == 0 ? 3 : 0),
                        pick(random_, 0, 15 * 1024) * kMi};
      cluster.take(info.name, "old", used);
      world.take(info.name, "old", used);
    }
  }

  Random random_;
  std::vector<std::string> names_, devices_;
  int64_t next_ = 0;
};

class Policies : public ::testing::TestWithParam<std::tuple<std::string_view, Split>> {};

TEST_P(Policies, DecideLikeThePlainLoopsAndNeverOverCommit) {
  const auto& [policy, split] = GetParam();
  int64_t placed = 0, several = 0;
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    PolicyNode site(seed);
    for (int i = 0; i < 12; ++i) {
      SCOPED_TRACE("request " + std::to_string(i));
      ASSERT_NO_FATAL_FAILURE(site.place(site.request(policy, split)));
      if (i % 3 == 2) site.change();
    }
    ASSERT_EQ(site.cluster.state().check(), "");
    placed += site.placed;
    several += site.several;
  }
  EXPECT_GT(placed, 100);
  EXPECT_GT(several, 20);
}

INSTANTIATE_TEST_SUITE_P(All, Policies,
                         ::testing::Combine(::testing::Values("binpack", "compact-first", "low-load-first", "simple",
                                                              "spread", "static", "topology"),
                                            ::testing::ValuesIn(kSplits)));

/// Frees the capacity that a remedy names, from any claims.
void freeShortages(Cluster& cluster, World& world, const Request& request, const Remedy& remedy) {
  auto giveBack = [&](const std::string& card, const std::string& device) {
    cluster.giveBack(card, device);
    world.giveBack(card, device);
  };
  for (const Remedy::CardCapacity& shortage : remedy.shortages) {
    PlainCard& plain = world.cards.at(shortage.card);
    Amount left = shortage.amount;
    for (int64_t n = 0; n < shortage.claims; ++n) {
      const auto [device, amount] = *plain.allocations.begin();
      left = {std::max<int64_t>(0, left.core - amount.core), std::max<int64_t>(0, left.memory - amount.memory)};
      giveBack(shortage.card, device);
    }
    for (const auto& [device, amount] : std::map(plain.allocations)) {
      const Amount less{std::min(left.core, amount.core), std::min(left.memory, amount.memory)};
      left = {left.core - less.core, left.memory - less.memory};
      cluster.take(shortage.card, device, {amount.core - less.core, amount.memory - less.memory});
      world.take(shortage.card, device, {amount.core - less.core, amount.memory - less.memory});
    }
  }
  std::set<std::string> devices;
  for (const auto& [name, plain] : world.cards)
    if (plain.info.card.nodeName == remedy.node)
      for (const auto& [device, amount] : plain.allocations) devices.insert(device);
  while (request.maxClaimsPerNode > 0 && static_cast<int64_t>(devices.size()) >= request.maxClaimsPerNode) {
    for (auto& [name, plain] : world.cards)
      if (plain.info.card.nodeName == remedy.node) giveBack(name, *devices.begin());
    devices.erase(devices.begin());
  }
}

TEST_P(Policies, EachRemedyMakesWhatDoesNotFitFit) {
  const auto& [policy, split] = GetParam();
  std::map<Remedy::Kind, int> seen;
  for (uint64_t seed = 100; seed <= 160; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    PolicyNode site(seed);
    for (int i = 0; i < 8; ++i) {
      const Request request = site.request(policy, split);
      const bool fits = site.world.decide(request).fits;
      const std::vector<Remedy> remedies = findRemedies(site.cluster, request, {});
      ASSERT_TRUE(!fits || remedies.empty());
      for (const Remedy& remedy : remedies) {
        SCOPED_TRACE(remedy.text);
        ++seen[remedy.kind];
        Cluster cluster = site.cluster;
        World world = site.world;
        if (remedy.kind == Remedy::Kind::ask) {
          ASSERT_TRUE(decide(cluster, remedy.request).fits);
          continue;
        }
        if (remedy.kind == Remedy::Kind::release) {
          freeShortages(cluster, world, request, remedy);
          ASSERT_TRUE(world.decide(request).fits);
        } else {
          const std::string node = remedy.node.empty() ? "n-new" : remedy.node;
          if (remedy.node.empty()) cluster.upsertNode({node, true});
          for (int64_t n = 0; n < remedy.cards; ++n) {
            ASSERT_FALSE(decide(cluster, request).fits) << "one card fewer would have done";
            CardInfo info{"card-new-" + std::to_string(n), remedy.card, true};
            info.card.uuid = "GPU-new-" + std::to_string(n);
            info.card.nodeName = node;
            info.card.index = 100 + n;
            cluster.upsertCard(info);
          }
        }
        ASSERT_TRUE(decide(cluster, request).fits);
      }
      site.place(request);
    }
  }
  EXPECT_GT(seen[Remedy::Kind::ask], 20);
  EXPECT_GT(seen[Remedy::Kind::release], 20);
}

TEST(Policies, NoneIsForgottenHere) {
  EXPECT_EQ(cardPolicyNames(), (std::vector<std::string_view>{"binpack", "compact-first", "low-load-first", "simple",
                                                              "spread", "static", "topology"}));
}

}  // namespace
}  // namespace egpu::scheduler::testing

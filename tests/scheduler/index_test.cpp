// State that events maintain equals a state built from scratch, after a million events.
#include "controller/scheduler/state/index.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "controller/scheduler/decide.h"
#include "controller/scheduler/state/state.h"
#include "tests/scheduler/world.h"

namespace egpu::scheduler::testing {
namespace {

constexpr int64_t kOperations = 1'000'000;
constexpr int64_t kNodes = 250, kCardsPerNode = 4;
constexpr int64_t kSeason = 50'000;     ///< operations between a growing, a steady and a shrinking cluster
constexpr int64_t kInvariants = 5'000;  ///< operations between checks of the invariants
constexpr int64_t kRebuild = 25'000;    ///< operations between comparisons with a rebuild; each season has some

/// Contents of an index, with names instead of ids, because ids depend on history.
using Entry = std::tuple<std::string, int64_t, std::array<uint8_t, Summary::kCount>>;  ///< node, fill, bounds
using Contents = std::map<std::vector<CardType>, std::vector<Entry>>;                  ///< by mix, in its order

Contents contentsOf(const Cluster& cluster) {
  const Cluster::State& state = cluster.state();
  Contents contents;
  for (const NodeIndex::CardMix& mix : state.index.mixes()) {
    if (mix.root == kNone) continue;
    std::vector<CardType> types;
    for (TypeId type : mix.types) types.push_back(state.types[type]);
    std::sort(types.begin(), types.end());
    std::vector<Entry>& entries = contents[types];
    for (NodeId id : state.index.inOrder(mix))
      entries.emplace_back(state.nodes[id].name, state.index.fillOf(id), state.index.summaryOf(id).at);
  }
  return contents;
}

/// A cluster and plain maps of its expected contents, changed at random together.
class Churn {
 public:
  explicit Churn(uint64_t seed) : random_(seed) {
    for (int64_t n = 0; n < kNodes; ++n) nodeNames_.push_back("node-" + std::to_string(n));
    for (int64_t n = 0; n < kNodes * kCardsPerNode; ++n) cardNames_.push_back("card-" + std::to_string(n));
    for (int64_t n = 0; n < 300; ++n) devices_.push_back("device-" + std::to_string(n));
  }

  void step(int64_t operation) {
    ++count_;
    // Adds and removes nodes at equal rates, or mostly one of both.
    const int64_t season = operation / kSeason % 3;
    const int64_t arrivals = std::array<int64_t, 3>{12, 4, 1}[static_cast<std::size_t>(season)];
    const int64_t departures = std::array<int64_t, 3>{1, 4, 12}[static_cast<std::size_t>(season)];
    const int64_t what = pick(random_, 0, 99);
    if (what < 45) {
      take();
    } else if (what < 75) {
      giveBack();
    } else if (what < 75 + arrivals) {
      pick(random_, 0, 3) == 0 ? setNode() : setCard();
    } else if (what < 75 + arrivals + departures) {
      pick(random_, 0, 2) == 0 ? removeNode() : removeCard();
    } else if (what < 93) {
      place();
    } else {
      takeOfNode();
    }
  }

  void checkInvariants() const { ASSERT_EQ(cluster_.state().check(), "") << "after " << count_; }

  void compareWithRebuild() {
    const Cluster rebuilt = world_.build();
    ASSERT_EQ(rebuilt.state().check(), "");
    ASSERT_EQ(cluster_.nodes(), rebuilt.nodes());
    ASSERT_EQ(cluster_.cardCount(), world_.cards.size());
    const Contents contents = contentsOf(cluster_);
    ASSERT_TRUE(contents == contentsOf(rebuilt)) << "the index differs after " << count_;
    for (const auto& [types, entries] : contents) largest_ = std::max(largest_, entries.size());
    for (const auto& [name, used] : world_.nodesUsed()) {
      if (name.empty()) continue;
      ASSERT_EQ(cluster_.nodeUsed(name), used) << name << " after " << count_;
    }
    for (const auto& [name, plain] : world_.cards) {
      std::map<std::string, Amount> takes;
      const Cluster::State& state = cluster_.state();
      state.eachTake(state.findCard(name), [&](std::string_view uid, const Amount& charged, const NodeAmount&) {
        takes.emplace(uid, charged);
      });
      ASSERT_EQ(takes, plain.allocations) << name << " after " << count_;
      ASSERT_EQ(cluster_.describe(name), plain.info.card);
      ASSERT_EQ(cluster_.findCard(name).healthy, plain.info.healthy);
    }
    for (int i = 0; i < 40; ++i) {
      const Request request = this->request();
      ASSERT_EQ(decide(cluster_, request), decide(rebuilt, request)) << "after " << count_;
    }
  }

  /// Largest number of nodes seen in one mix.
  std::size_t largest() const { return largest_; }
  int64_t placed() const { return placed_; }

 private:
  const std::string& any(const std::vector<std::string>& names) {
    return names[static_cast<std::size_t>(pick(random_, 0, static_cast<int64_t>(names.size()) - 1))];
  }

  void take() {
    const std::string& card = any(cardNames_);
    const std::string& device = any(devices_);
    const Amount charged{pick(random_, 0, 30) * 10, pick(random_, 0, 40) * 256 * kMi};
    const NodeAmount ofNode{pick(random_, 0, 2) * 500, pick(random_, 0, 2) * 300 * kMi};
    const bool known = world_.take(card, device, charged, ofNode);
    ASSERT_EQ(cluster_.take(card, device, charged, ofNode), known);
    if (known) taken_.emplace_back(card, device);
  }

  void giveBack() {
    if (taken_.empty()) return;
    const auto at = static_cast<std::size_t>(pick(random_, 0, static_cast<int64_t>(taken_.size()) - 1));
    std::swap(taken_[at], taken_.back());
    const auto [card, device] = std::move(taken_.back());  // the card may be gone or recreated
    taken_.pop_back();
    cluster_.giveBack(card, device);
    world_.giveBack(card, device);
  }

  void place() {
    const Request request = this->request();
    const Decision decision = decide(cluster_, request);
    if (!decision.fits) return;
    ++placed_;
    const std::string& device = any(devices_);
    for (const Placement& p : decision.placements) {
      // This may replace an allocation, because a device has one allocation per card.
      ASSERT_TRUE(cluster_.take(p.ref(), device, p.charged));
      world_.take(p.card, device, p.charged);
      taken_.emplace_back(p.card, device);
    }
  }

  Request request() {
    Request request;
    request.nodePolicy = std::array{"binpack", "spread", "compact-first", "low-load-first"}[pick(random_, 0, 3) % 4u];
    request.cardPolicy = pick(random_, 0, 1) == 0 ? "binpack" : "spread";
    request.cards = pick(random_, 0, 4) == 0 ? pick(random_, 2, kCardsPerNode) : 1;
    request.wholeCards = pick(random_, 0, 9) == 0;
    if (!request.wholeCards) request.perCard = {pick(random_, 1, 100) * 10, pick(random_, 1, 64) * 512 * kMi};
    return request;
  }

  void setNode() {
    NodeInfo info{any(nodeNames_), pick(random_, 0, 5) != 0};
    if (pick(random_, 0, 1) == 0) info.cpuMilli = pick(random_, 8, 64) * 1000;
    if (pick(random_, 0, 1) == 0) info.memory = pick(random_, 8, 64) * kGi;
    cluster_.upsertNode(info);
    world_.upsertNode(info);
  }

  void removeNode() {
    const std::string& name = any(nodeNames_);
    cluster_.removeNode(name);
    world_.nodes.erase(name);
  }

  /// Adds a card, or changes its health, size, model or node.
  void setCard() {
    const int64_t at = pick(random_, 0, kNodes * kCardsPerNode - 1);
    const int64_t home = pick(random_, 0, 9) == 0 ? pick(random_, 0, kNodes - 1) : at / kCardsPerNode;
    const bool large = home % 5 == 0;
    CardInfo info = makeCard(cardNames_[static_cast<std::size_t>(at)], nodeNames_[static_cast<std::size_t>(home)],
                             at % kCardsPerNode, (large ? 80 : 32) * kGi, large ? "A100" : "V100");
    if (pick(random_, 0, 19) == 0) info.card.memory = 16 * kGi;
    if (pick(random_, 0, 39) == 0) info.card.nodeName.clear();
    info.card.milliTflops = 125'000;
    info.healthy = pick(random_, 0, 9) != 0;
    cluster_.upsertCard(info);
    world_.upsertCard(info);
  }

  void removeCard() {
    const std::string& name = any(cardNames_);
    cluster_.removeCard(name);
    world_.cards.erase(name);
  }

  /// Adds, changes and removes pods without cards.
  void takeOfNode() {
    const std::string& node = any(nodeNames_);
    const std::string pod = "pod-" + std::to_string(pick(random_, 0, 3));
    if (pick(random_, 0, 1) == 0) {
      cluster_.giveBackOfNode(node, pod);
      world_.giveBackOfNode(node, pod);
      return;
    }
    const NodeAmount amount{pick(random_, 0, 5) * 500, pick(random_, 0, 5) * 300 * kMi};
    ASSERT_EQ(cluster_.takeOfNode(node, pod, amount), world_.takeOfNode(node, pod, amount));
  }

  Random random_;
  Cluster cluster_;
  World world_;
  std::vector<std::string> nodeNames_, cardNames_, devices_;
  std::vector<std::pair<std::string, std::string>> taken_;  ///< card and device; some are gone
  int64_t count_ = 0;
  int64_t placed_ = 0;
  std::size_t largest_ = 0;
};

TEST(Index, EqualsARebuildAfterAMillionOperations) {
  Churn churn(42);
  for (int64_t i = 0; i < kOperations; ++i) {
    ASSERT_NO_FATAL_FAILURE(churn.step(i));
    if ((i + 1) % kInvariants == 0) {
      ASSERT_NO_FATAL_FAILURE(churn.checkInvariants());
    }
    if ((i + 1) % kRebuild == 0) {
      ASSERT_NO_FATAL_FAILURE(churn.compareWithRebuild());
    }
  }
  EXPECT_GT(churn.largest(), 64u) << "trees of one or two blocks would show little";
  EXPECT_GT(churn.placed(), kOperations / 200) << "decisions must be among the operations";
}

TEST(Index, NamesThatCrowdBetweenTwoOthersStayInOrder) {
  // Each name falls between the last two: the gap is halved every time and must be renumbered repeatedly. All nodes are
  // equally full, so that only their names order them.
  Cluster cluster;
  std::vector<std::string> names;
  const auto add = [&](const std::string& name) {
    cluster.upsertNode({name, true});
    cluster.upsertCard(makeCard("card-" + name, name, 0));
    names.push_back(name);
  };
  add("m");
  add("n");
  for (int n = 0; n < 400; ++n) {
    add("m" + std::to_string(100'000 + (n % 2 == 0 ? n : 1000 - n)));
    ASSERT_EQ(cluster.state().check(), "") << "after " << names.back();
  }
  std::sort(names.begin(), names.end());
  std::vector<std::string> inOrder;
  for (const auto& [types, entries] : contentsOf(cluster))
    for (const Entry& entry : entries) inOrder.push_back(std::get<0>(entry));
  EXPECT_EQ(inOrder, names);
}

}  // namespace
}  // namespace egpu::scheduler::testing

// Freed capacity and quota are given in queue order: priority, then age. A plain model computes the expected result: it
// sorts the pending claims and serves them in turn.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "tests/reconcile/properties/trial.h"

namespace egpu::reconcile {
namespace {

using support::World;
using Names = std::set<std::string>;

struct PendingClaim {
  std::string name;  ///< "namespace/name"
  std::string uid;
  int64_t priority = 0;
  std::string created, ageUid;  ///< the pod's, if it chooses the node
  core::StringMap requests;
  auto position() const { return std::tuple(-priority, created, ageUid, name); }
};

/// Free capacity by node and card, in milli-cards; excludes nodes that take no claims.
using Free = std::map<std::string, std::map<std::string, int64_t>>;

class QueueOrderTrial : public Trial {
 public:
  QueueOrderTrial(uint64_t seed, Runs runs) : Trial(seed, runs) {
    world.addClass("share");
    world.addClass("late", "Delete", "WaitForFirstConsumer");
    for (const auto& [name, value] : priorities_)
      if (!name.empty()) addPriorityClass(name, value);
  }

  /// Creates claims of whole cards until no card is free. Some hold several, at most `multiple`.
  void fill(int cards, int multiple = 1) {
    while (cards > 0) {
      const int n = std::min(cards, between(1, multiple));
      const auto made = claim({oneOf(namespaces_), "share", {}, {{"gpu", std::to_string(n)}}, {}, {}});
      holders.emplace_back(core::keyOf(made.metadata), n);
      cards -= n;
    }
    ASSERT_TRUE(comesTrue([&] { return served() == static_cast<int>(holders.size()); }));
  }
  /// Creates a claim at a random place of the queue. withPod: with the mode WaitForFirstConsumer and a pod.
  void addPending(const core::StringMap& requests, const std::string& namespace_, bool withPod) {
    const auto& [priorityClass, priority] = oneOf(priorities_);
    if (once(2)) world.nextSecond();
    const auto made = claim({namespace_, withPod ? "late" : "share", priorityClass, requests, {}, {}});
    pending.push_back({core::keyOf(made.metadata).str(), made.metadata.uid, priority, made.metadata.creationTimestamp,
                       made.metadata.uid, requests});
    if (!withPod) return;
    if (once(2)) world.nextSecond();
    const auto user = pod(namespace_, {made.metadata.name});
    pending.back().created = user.metadata.creationTimestamp;
    pending.back().ageUid = user.metadata.uid;
  }
  /// True once the controller knows that none of the pending claims fits.
  bool allWait() {
    return comesTrue([&] { return reconciler().waitingForCapacity() == pending.size() && servedOfPending().empty(); });
  }
  int served() const {
    int count = 0;
    stores().claims.forEach([&](const auto& each) { count += isServed(*each); });
    return count;
  }
  Names servedOfPending() const {
    Names names;
    for (const auto& each : pending)
      if (!stores().devicesOfClaim(each.uid).empty()) names.insert(each.name);
    return names;
  }
  std::vector<PendingClaim> inOrder(const std::string& namespace_ = {}) const {
    std::vector<PendingClaim> sorted;
    for (const auto& each : pending)
      if (namespace_.empty() || core::ObjectKey::of(each.name).namespace_ == namespace_) sorted.push_back(each);
    std::sort(sorted.begin(), sorted.end(), [](const auto& a, const auto& b) { return a.position() < b.position(); });
    return sorted;
  }
  /// The plain model for claims with equal requests: the first k of the queue.
  Names first(int k, const std::string& namespace_ = {}) const {
    Names names;
    for (const auto& each : inOrder(namespace_)) {
      if (static_cast<int>(names.size()) == k) break;
      names.insert(each.name);
    }
    return names;
  }
  /// The plain model for claims with different requests: in queue order, each claim that fits beside the earlier ones
  /// is served. Served claims count on the cards that they got. Returns the first claim for which this is violated.
  std::string outOfOrder(Free free) const {
    for (const auto& each : inOrder()) {
      const auto devices = stores().devicesOfClaim(each.uid);
      if (devices.empty() && fits(free, each.requests)) return each.name + " would have fit and was not served";
      for (const auto& device : devices)
        for (const auto& share : device->spec.cards) {
          auto& left = free[device->spec.nodeName][share.name];
          left -= share.chargedCore;
          if (left < 0) return each.name + " has what was not free for it";
        }
    }
    return {};
  }
  static bool fits(const Free& free, const core::StringMap& requests) {
    const auto cards = requests.find("gpu");
    return std::any_of(free.begin(), free.end(), [&](const auto& node) {
      const auto suit = std::count_if(node.second.begin(), node.second.end(), [&](const auto& card) {
        return card.second >= (cards == requests.end() ? std::stoi(requests.at("gpu-core")) * 10 : 1000);
      });
      return suit >= (cards == requests.end() ? 1 : std::stoi(cards->second));
    });
  }
  Free freeCards(const std::vector<std::string>& nodes) const {
    Free free;
    stores().cards.forEach([&](const auto& card) {
      if (std::find(nodes.begin(), nodes.end(), card->spec.card->nodeName) == nodes.end()) return;
      auto& left = free[card->spec.card->nodeName][card->metadata.name];
      left = 1000;
      for (const auto& [uid, entry] : card->spec.allocations) left -= entry.core;
    });
    return free;
  }
  /// Moves the claims from `pending` to `holders`.
  void served(const Names& names) {
    for (const auto& name : names) holders.emplace_back(core::ObjectKey::of(name), 1);
    std::erase_if(pending, [&](const auto& each) { return names.contains(each.name); });
  }
  std::string text() const {
    std::string lines;
    for (const auto& each : inOrder())
      lines += each.name + " " + std::to_string(each.priority) + " " + each.created + " " + each.ageUid + "\n";
    return lines;
  }

  std::vector<std::pair<core::ObjectKey, int>> holders;  ///< with the number of their cards
  std::vector<PendingClaim> pending;
  const std::vector<std::string> namespaces_{"a", "b", "c"};

 private:
  const std::vector<std::pair<std::string, int64_t>> priorities_{{"", 0}, {"low", 10}, {"middle", 100}, {"high", 1000}};
};

class QueueOrderTest : public ::testing::TestWithParam<Trial::Runs> {
 protected:
  static bool stepped() { return GetParam() == Trial::Runs::stepped; }
  static constexpr int kSeeds = 2;
};

TEST_P(QueueOrderTest, FreedCardsGoToTheFirstOfThoseThatAskForTheSame) {
  for (const auto seed : seeds(kSeeds)) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    QueueOrderTrial trial(seed, GetParam());
    int cards = 0;
    for (int node = 0; node < trial.between(1, 3); ++node) {
      const int here = trial.between(2, 8);
      trial.addNode("n" + std::to_string(node), here);
      cards += here;
    }
    trial.start();
    trial.fill(cards);
    const bool withPods = stepped() && trial.once(2);
    for (int n = trial.between(5, 70); n > 0; --n)
      trial.addPending({{"gpu", "1"}}, trial.oneOf(trial.namespaces_), withPods && trial.once(3));
    for (int round = 0; round < 4; ++round) {
      ASSERT_TRUE(trial.allWait());
      int freed = trial.between(1, 6);
      // With threads, one event frees all of it while the controller is idle: a claim that is decided while more is
      // freed may take it.
      const int way = stepped() ? trial.below(3) : trial.between(1, 2);
      if (!stepped() && way != 1) freed = 1;
      switch (way) {
        case 0:
          trial.addNode("m" + std::to_string(round), freed);
          break;
        case 1:
          (void)trial.addCordonedNode("m" + std::to_string(round), freed);
          trial.cordon("m" + std::to_string(round), false);
          break;
        default:
          freed = std::min(freed, static_cast<int>(trial.holders.size()));
          // Claims created just before the release count, too. With threads the order of the two events is not known.
          if (stepped())
            for (int n = trial.below(3); n > 0; --n)
              trial.addPending({{"gpu", "1"}}, trial.oneOf(trial.namespaces_), false);
          for (int i = 0; i < freed; ++i) {
            const auto at = trial.holders.begin() + trial.below(static_cast<int>(trial.holders.size()));
            trial.removeClaim(at->first);
            trial.holders.erase(at);
          }
      }
      const auto expected = trial.first(freed);
      ASSERT_TRUE(trial.comesTrue([&] { return trial.servedOfPending().size() >= expected.size(); }));
      ASSERT_EQ(trial.servedOfPending(), expected) << "round " << round << ", way " << way << "\n" << trial.text();
      trial.served(expected);
      if (trial.pending.empty()) break;
    }
    EXPECT_EQ(trial.world.violation(), "");
  }
}

TEST_P(QueueOrderTest, FreedQuotaGoesToTheFirstOfItsNamespace) {
  for (const auto seed : seeds(kSeeds)) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    QueueOrderTrial trial(seed, GetParam());
    int has = trial.between(0, 4);
    trial.addNode("n", 64);
    trial.setQuota("a", {{"gpu", std::to_string(has)}});
    trial.start();
    std::vector<core::ObjectKey> holders;
    for (int i = 0; i < has; ++i)
      holders.push_back(core::keyOf(trial.claim({"a", "share", {}, {{"gpu", "1"}}, {}, {}}).metadata));
    ASSERT_TRUE(trial.comesTrue([&] { return trial.served() == has; }));
    const auto waits = [&] {
      int reported = 0;
      trial.stores().claims.forEach([&](const auto& each) {
        const auto* bound = findCondition(each->status.conditions, kBound);
        reported += bound != nullptr && bound->reason == "QuotaExceeded";
      });
      return reported == static_cast<int>(trial.pending.size());
    };
    const bool withPods = stepped() && trial.once(2);
    for (int n = trial.between(5, 40); n > 0; --n) trial.addPending({{"gpu", "1"}}, "a", withPods && trial.once(3));
    for (int round = 0; round < 3; ++round) {
      ASSERT_TRUE(trial.comesTrue(waits));
      int freed = trial.between(1, 5);
      if (holders.empty() || trial.once(2)) {
        trial.setQuota("a", {{"gpu", std::to_string(has += freed)}});
      } else {
        freed = stepped() ? std::min(freed, static_cast<int>(holders.size())) : 1;
        for (int i = 0; i < freed; ++i) {
          trial.removeClaim(holders.back());
          holders.pop_back();
        }
      }
      const auto expected = trial.first(freed, "a");
      ASSERT_TRUE(trial.comesTrue([&] { return trial.servedOfPending().size() >= expected.size(); }));
      ASSERT_EQ(trial.servedOfPending(), expected) << "round " << round << "\n" << trial.text();
      for (const auto& name : expected) holders.push_back(core::ObjectKey::of(name));
      trial.served(expected);
      if (trial.pending.empty()) break;
    }
    EXPECT_EQ(trial.world.violation(), "");
  }
}

TEST_P(QueueOrderTest, FreedCapacityGoesToEachThatFitsBesideThoseBeforeIt) {
  const std::vector<core::StringMap> shapes{{{"gpu", "1"}},      {{"gpu", "2"}},       {{"gpu", "3"}},
                                            {{"gpu", "4"}},      {{"gpu-core", "10"}}, {{"gpu-core", "40"}},
                                            {{"gpu-core", "70"}}};
  for (const auto seed : seeds(kSeeds)) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    QueueOrderTrial trial(seed, GetParam());
    trial.addNode("full", 4);
    trial.start();
    trial.fill(4, 4);
    const bool withPods = stepped() && trial.once(2);
    for (int n = trial.between(5, 60); n > 0; --n)
      trial.addPending(trial.oneOf(shapes), trial.oneOf(trial.namespaces_), withPods && trial.once(3));
    for (int round = 0; round < 3; ++round) {
      ASSERT_TRUE(trial.allWait()) << trial.text();
      // One event frees all of it, so that the result does not depend on capacity that was free only briefly.
      Free free;
      if (stepped() && round == 0) {
        free = trial.freeCards({"full"});
        const auto [holder, cards] = trial.oneOf(trial.holders);
        const auto device = trial.stores().claims.get(holder)->status.elasticGPUName;
        for (const auto& share : trial.world.gpu(device).spec.cards) free["full"][share.name] = 1000;
        trial.removeClaim(holder);
        std::erase_if(trial.holders, [&](const auto& each) { return each.first == holder; });
      } else {
        const auto node = "m" + std::to_string(round);
        for (const auto& card : trial.addCordonedNode(node, trial.between(1, 4))) free[node][card] = 1000;
        ASSERT_TRUE(trial.allWait());
        for (const auto& [other, cards] : trial.freeCards({"full", "m0", "m1", "m2"}))
          if (other != node) free[other] = cards;
        trial.cordon(node, false);
      }
      ASSERT_TRUE(trial.comesTrue([&] { return trial.outOfOrder(free).empty(); }))
          << "round " << round << ": " << trial.outOfOrder(free) << "\n"
          << trial.text();
      trial.served(trial.servedOfPending());
      if (trial.pending.empty()) break;
    }
    EXPECT_EQ(trial.world.violation(), "");
  }
}

INSTANTIATE_TEST_SUITE_P(, QueueOrderTest, ::testing::Values(Trial::Runs::stepped, Trial::Runs::threaded),
                         [](const auto& instance) {
                           return instance.param == Trial::Runs::stepped ? "Stepped" : "Threaded";
                         });

}  // namespace
}  // namespace egpu::reconcile

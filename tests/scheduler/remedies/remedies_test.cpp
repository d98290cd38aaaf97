// Explanations are true: each remedy, applied unchanged, makes the request fit, and nothing smaller of its kind does. A
// plain loop confirms the counts of cards and nodes of each reason. Random clusters, all policies and limits.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "controller/scheduler/explain.h"
#include "tests/scheduler/plain_choice.h"
#include "tests/scheduler/topology/nodes.h"
#include "tests/scheduler/world.h"

namespace egpu::scheduler::testing {
namespace {

const char* const kModels[] = {"V100", "A100", "T4"};

struct RemedyCase {
  World world;
  Request request;
  NodePredicate suits;
  Cluster cluster;

  bool fits(const Request& asked) const { return decide(cluster, asked, suits).fits; }
  bool fitsIn(const World& changed) const {
    const bool fits = decide(changed.build(), request, suits).fits;
    if (request.quota.empty()) {  // the loops do not know quotas
      EXPECT_EQ(changed.decide(request, suits).fits, fits);
    }
    return fits;
  }
};

class Cases {
 public:
  explicit Cases(uint64_t seed) : random_(seed) {}

  RemedyCase next() {
    RemedyCase made;
    const int64_t nodes = pick(random_, 1, 4);
    for (int64_t n = 0; n < nodes; ++n) addNode(made.world, "n" + std::to_string(n));
    if (chance(6)) made.world.upsertNode({"bare", true});
    made.request = request(made.world);
    if (chance(5)) made.suits = [](std::string_view node) { return node != "n0"; };
    made.cluster = made.world.build();
    return made;
  }

  RemainingQuota quota() {
    RemainingQuota remaining;
    if (chance(2)) remaining.models = {kModels[pick(random_, 0, 2)]};
    const auto key = chance(2) ? QuotaKey::gpu : QuotaKey::memory;
    remaining.left[static_cast<std::size_t>(key)] =
        key == QuotaKey::gpu ? pick(random_, 0, 4) : pick(random_, 0, 40) * kGi;
    return remaining;
  }

 private:
  bool chance(int64_t oneIn) { return pick(random_, 1, oneIn) == 1; }

  void addNode(World& world, const std::string& node) {
    if (!chance(12)) {
      NodeInfo info{node, !chance(8)};
      if (chance(2)) info.cpuMilli = pick(random_, 2, 16) * 1000;
      if (chance(2)) info.memory = pick(random_, 2, 16) * kGi;
      world.upsertNode(info);
    }
    std::vector<CardInfo> cards;
    if (chance(3)) {
      for (v1alpha::Card card : topology::testing::dgx1Volta()) {
        card.nodeName = node;
        cards.push_back({node + "-" + std::to_string(card.index), card, true});
      }
    } else {
      const int64_t count = pick(random_, 1, 4);
      const bool mixed = chance(3);
      int64_t kind = pick(random_, 0, 2);
      for (int64_t c = 0; c < count; ++c) {
        if (mixed) kind = pick(random_, 0, 2);
        CardInfo info = makeCard(node + "-" + std::to_string(c), node, c, (16 + 16 * kind) * kGi, kModels[kind]);
        info.card.milliTflops = kind == 2 ? 0 : 65'500 * (kind + 1);
        if (chance(6)) info.card.memory -= 777;
        cards.push_back(info);
      }
    }
    const int64_t busy = pick(random_, 0, 4);
    for (CardInfo& card : cards) {
      card.healthy = !chance(10);
      world.upsertCard(card);
      const int64_t takes = busy == 0 ? 0 : pick(random_, 0, busy);
      Amount left{card.card.core, card.card.memory};
      for (int64_t t = 0; t < takes; ++t) {
        Amount amount{std::min(left.core, pick(random_, 0, 50) * 10),
                      std::min(left.memory, pick(random_, 0, 12) * kGi)};
        if (chance(4)) amount = left;
        left = {left.core - amount.core, left.memory - amount.memory};
        const bool wide = chance(3);  // a device of several cards
        world.take(card.name, wide ? "wide-" + std::to_string(t) : card.name + "-" + std::to_string(t), amount,
                   {pick(random_, 0, 2) * 500, 0});
      }
    }
  }

  Request request(const World& world) {
    Request r;
    static const char* const kPolicies[] = {"binpack", "spread", "topology", "static", "static dgx1-volta", "simple"};
    r.cardPolicy = kPolicies[pick(random_, 0, 5)];
    r.nodePolicy = chance(2) ? "binpack" : "low-load-first";
    if (chance(2)) r.cards = pick(random_, 1, 9);
    amounts(r);
    if (chance(4)) r.models = {chance(3) ? "H100" : kModels[pick(random_, 0, 2)]};
    if (chance(6)) r.minMemory = pick(random_, 8, 48) * kGi;
    if (chance(4)) r.maxClaimsPerCard = pick(random_, 1, 3);
    if (chance(4)) r.maxClaimsPerNode = pick(random_, 1, 5);
    if (chance(4)) r.coreOvercommit = pick(random_, 1000, 3000);
    if (chance(4)) r.memoryOvercommit = pick(random_, 1000, 3000);
    if (chance(6)) r.cpuMilli = pick(random_, 1, 6000);
    if (chance(6)) r.podMemory = pick(random_, 1, 6) * kGi;
    if (chance(8)) r.pinnedNode = "n0";
    if (chance(8)) pin(r, world);
    return r;
  }

  void amounts(Request& r) {
    const int64_t kind = pick(random_, 0, 9);
    const bool divided = kind > 1 && chance(3);
    if (divided) {
      r.split = chance(2) ? Split::evenly : Split::fill;
      r.cards = 1;
    }
    const int64_t max = divided ? 4 : 1;
    r.memoryFromCore = chance(3);
    const Amount some{pick(random_, 1, 100 * max) * 10, pick(random_, 1, 20 * max) * kGi};
    if (kind <= 1) {
      r.wholeCards = true;
      r.memoryFromCore = false;
    } else if (kind == 2) {
      r.perCard.memory = some.memory;
      r.memoryFromCore = false;
    } else if (kind <= 4) {
      r.milliTflopsPerCard = pick(random_, 1, 130 * max) * 1000;
      if (!r.memoryFromCore) r.perCard.memory = some.memory;
    } else {
      r.perCard = some;
      if (r.memoryFromCore) r.perCard.memory = 0;
      if (!r.memoryFromCore && chance(4)) r.perCard.memory = 0;
    }
  }

  void pin(Request& r, const World& world) {
    std::vector<std::string> names;
    for (const auto& [name, plain] : world.cards)
      if (plain.info.card.nodeName == "n0") names.push_back(name);
    const auto wanted = static_cast<std::size_t>(r.cards);
    if (names.size() < wanted) return;
    names.resize(wanted);
    r.pinnedCards = names;
  }

  Random random_;
};

// --- remedies ---

int64_t tflopsStep(const Request& r) { return r.milliTflopsPerCard % 1000 == 0 ? 1000 : 1; }

/// Tries requests with less of one amount, from the largest down to (not including) `floor`.
template <class Set>
bool anyFits(const RemedyCase& at, const Request& base, int64_t from, int64_t floor, int64_t step, Set set) {
  for (int64_t value = from; value > floor; value -= step) {
    Request r = base;
    set(r, value);
    if (at.fits(r)) return true;
  }
  return false;
}

void setCards(Request& r, int64_t v) { r.cards = v; }
void setCore(Request& r, int64_t v) { r.perCard.core = v; }
void setTflops(Request& r, int64_t v) { r.milliTflopsPerCard = v; }
void setMemory(Request& r, int64_t v) { r.perCard.memory = v; }

/// Samples the many possible MiB: those next to the found value, and some others.
bool anyMoreMemoryFits(const RemedyCase& at, const Request& found, int64_t original) {
  const int64_t have = found.perCard.memory;
  const int64_t last = std::min(original - 1, have + 40 * kMi);
  if (anyFits(at, found, have + (last - have) / kMi * kMi, have, kMi, setMemory)) return true;
  return anyFits(at, found, original - kMi, have, std::max(kMi, (original - have) / 16 / kMi * kMi), setMemory);
}

void checkAsk(const RemedyCase& at, const Remedy& remedy) {
  const Request& asked = at.request;
  const Request& found = remedy.request;
  ASSERT_EQ(decide(at.cluster, found, at.suits).node, remedy.node);
  ASSERT_FALSE(remedy.node.empty());
  if (found.cards != asked.cards) {
    ASSERT_FALSE(anyFits(at, found, asked.cards - 1, found.cards, 1, setCards));
    return;
  }
  const bool lessMemory = found.perCard.memory != asked.perCard.memory;
  // If both amounts were reduced, each is raised again as far as it fits.
  if (found.milliTflopsPerCard != asked.milliTflopsPerCard) {
    const int64_t step = tflopsStep(asked);
    const int64_t max = lessMemory ? asked.milliTflopsPerCard : asked.milliTflopsPerCard - step;
    ASSERT_FALSE(anyFits(at, found, max, found.milliTflopsPerCard, step, setTflops));
  } else if (found.perCard.core != asked.perCard.core) {
    const int64_t max = (lessMemory ? asked.perCard.core : asked.perCard.core - 1) / 10 * 10;
    ASSERT_FALSE(anyFits(at, found, max, found.perCard.core, 10, setCore));
  } else {
    ASSERT_TRUE(lessMemory);
  }
  if (lessMemory) {
    ASSERT_FALSE(anyMoreMemoryFits(at, found, asked.perCard.memory));
  }
}

/// Checks that without such a remedy less of no single amount would fit.
void checkNoAsk(const RemedyCase& at) {
  const Request& r = at.request;
  if (r.pinnedCards.empty()) {
    ASSERT_FALSE(anyFits(at, r, std::min<int64_t>(r.cards - 1, 16), 0, 1, setCards));
  }
  if (r.wholeCards) return;
  if (r.milliTflopsPerCard > 0) {
    const int64_t step = tflopsStep(r);
    ASSERT_FALSE(anyFits(at, r, r.milliTflopsPerCard - step, 0, step, setTflops));
  } else {
    ASSERT_FALSE(anyFits(at, r, r.perCard.core - 10, 0, 10, setCore));
  }
  if (!r.memoryFromCore && r.perCard.memory > kMi) {
    ASSERT_FALSE(anyFits(at, r, kMi, 0, kMi, setMemory));
  }
}

/// Frees exactly this much of a card, and this many of its claims: one claim keeps the rest, the others keep nothing.
void freeShortage(World& world, const Remedy::CardCapacity& shortage) {
  PlainCard& card = world.cards.at(shortage.card);
  Amount left = card.used();
  left = {std::max<int64_t>(0, left.core - shortage.amount.core),
          std::max<int64_t>(0, left.memory - shortage.amount.memory)};
  for (int64_t i = 0; i < shortage.claims && !card.allocations.empty(); ++i) {
    const std::string device = card.allocations.begin()->first;
    world.giveBack(shortage.card, device);
  }
  for (auto& [device, amount] : card.allocations) {
    amount = left;
    left = {};
  }
}

std::set<std::string> devicesOn(const World& world, const std::string& node) {
  std::set<std::string> devices;
  for (const auto& [name, plain] : world.cards)
    if (plain.info.card.nodeName == node)
      for (const auto& [device, amount] : plain.allocations) devices.insert(device);
  return devices;
}

/// Releases claims of a node until `left` remain.
void releaseDownTo(World& world, const std::string& node, int64_t left) {
  for (auto devices = devicesOn(world, node); static_cast<int64_t>(devices.size()) > left;
       devices = devicesOn(world, node))
    for (auto& [name, plain] : world.cards)
      if (plain.info.card.nodeName == node) world.giveBack(name, *devices.begin());
}

World released(const RemedyCase& at, const Remedy& remedy) {
  World world = at.world;
  const auto before = static_cast<int64_t>(devicesOn(world, remedy.node).size());
  for (const Remedy::CardCapacity& shortage : remedy.shortages) freeShortage(world, shortage);
  if (remedy.nodeClaims > 0) releaseDownTo(world, remedy.node, before - remedy.nodeClaims);
  return world;
}

void checkRelease(const RemedyCase& at, const Remedy& remedy) {
  ASSERT_TRUE(at.fitsIn(released(at, remedy)));
  if (remedy.nodeClaims > 0) {
    World world = at.world;
    const auto before = static_cast<int64_t>(devicesOn(world, remedy.node).size());
    releaseDownTo(world, remedy.node, before - remedy.nodeClaims + 1);
    ASSERT_FALSE(at.fitsIn(world)) << "one claim of the node fewer";
    return;  // releasing them frees more of the cards than requested
  }
  for (std::size_t i = 0; i < remedy.shortages.size(); ++i) {
    const Remedy::CardCapacity& shortage = remedy.shortages[i];
    const auto less = [&](Remedy::CardCapacity smaller) {
      Remedy one = remedy;
      one.shortages[i] = std::move(smaller);
      return at.fitsIn(released(at, one));
    };
    if (shortage.claims > 0) {
      ASSERT_FALSE(less({shortage.card, shortage.amount, shortage.claims - 1}))
          << "one claim fewer of " << shortage.card;
    }
    if (at.request.wholeCards) continue;
    const bool all = shortage.claims == static_cast<int64_t>(at.world.cards.at(shortage.card).allocations.size());
    if (shortage.amount.core > 0 && !all) {
      ASSERT_FALSE(less({shortage.card, {shortage.amount.core - 1, shortage.amount.memory}, shortage.claims}))
          << shortage.card;
    }
    if (shortage.amount.memory > 0 && !all) {
      ASSERT_FALSE(less({shortage.card, {shortage.amount.core, shortage.amount.memory - 1}, shortage.claims}))
          << shortage.card;
    }
  }
}

void checkAdd(const RemedyCase& at, const Remedy& remedy) {
  const std::string node = remedy.node.empty() ? "new" : remedy.node;
  const auto with = [&](int64_t cards, const v1alpha::Card& like) {
    World world = at.world;
    if (remedy.node.empty()) world.upsertNode({node, true});
    for (int64_t i = 0; i < cards; ++i) {
      CardInfo info =
          makeCard("new-" + std::to_string(i), node, 100 + i, std::max<int64_t>(1, like.memory), like.model);
      info.card.core = like.core;
      info.card.milliTflops = like.milliTflops;
      world.upsertCard(info);
    }
    return at.fitsIn(world);
  };
  ASSERT_TRUE(with(remedy.cards, remedy.card));
  ASSERT_FALSE(with(remedy.cards - 1, remedy.card)) << "one card fewer";
  v1alpha::Card smaller = remedy.card;
  if (smaller.memory > 1) {
    --smaller.memory;
    ASSERT_FALSE(with(remedy.cards, smaller)) << "less memory";
  }
  smaller = remedy.card;
  if (smaller.milliTflops > 1000) {
    smaller.milliTflops -= 1000;
    ASSERT_FALSE(with(remedy.cards, smaller)) << "fewer TFLOPS";
  }
}

/// Returns true if possibly nothing helps: the request is for certain cards or nodes, or for sets that only some
/// machines have.
bool mayLackRemedies(const RemedyCase& at) {
  const Request& r = at.request;
  return !r.pinnedCards.empty() || !r.pinnedNode.empty() || r.cardPolicy.starts_with("static") || at.suits != nullptr ||
         !r.quota.empty();
}

TEST(Remedies, EachMakesTheRequestFitAndNothingSmallerDoes) {
  std::map<Remedy::Kind, int> seen;
  for (uint64_t seed = 1; seed <= 1500; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Cases cases(seed);
    RemedyCase at = cases.next();
    if (seed % 5 == 0) at.request.quota.push_back(cases.quota());
    const Explanation e = explain(at.cluster, at.request, at.suits);
    SCOPED_TRACE(e.text());
    if (at.fitsIn(at.world)) {
      ASSERT_TRUE(e.remedies.empty());
      continue;
    }
    ASSERT_TRUE(!e.remedies.empty() || mayLackRemedies(at));
    if (e.remedies.empty() || e.remedies.front().kind != Remedy::Kind::ask) {
      ASSERT_NO_FATAL_FAILURE(checkNoAsk(at));
    }
    for (const Remedy& remedy : e.remedies) {
      ++seen[remedy.kind];
      ASSERT_FALSE(remedy.text.empty());
      const auto check = remedy.kind == Remedy::Kind::ask       ? checkAsk
                         : remedy.kind == Remedy::Kind::release ? checkRelease
                                                                : checkAdd;
      ASSERT_NO_FATAL_FAILURE(check(at, remedy)) << remedy.text;
    }
  }
  EXPECT_GT(seen[Remedy::Kind::ask], 200);
  EXPECT_GT(seen[Remedy::Kind::release], 120);
  EXPECT_GT(seen[Remedy::Kind::add], 100);
}

// --- counts ---

using Place = std::pair<std::string, std::string>;  ///< node and card; no card: the node

/// The stage at which each node and card is rejected, by plain loops. For a divided total it does not distinguish the
/// resources that a card lacks.
class Falling {
 public:
  explicit Falling(const RemedyCase& at) : at_(at), r_(at.request) {}

  std::map<Place, std::string> run() {
    std::map<std::string, std::vector<std::string>> nodes;
    for (const auto& [name, plain] : at_.world.nodes) nodes[name];
    for (const auto& [name, plain] : at_.world.cards) nodes[plain.info.card.nodeName].push_back(name);
    const auto used = at_.world.nodesUsed();
    for (const auto& [node, cards] : nodes) {
      if (const std::string stage = ofNode(node, cards, used.at(node)); !stage.empty()) {
        out_[{node, ""}] = stage;
        continue;
      }
      bool any = false;
      for (const std::string& card : cards) {
        const std::string stage = ofCard(card);
        if (stage.empty()) any = true;
        if (!stage.empty()) out_[{node, card}] = stage;
      }
      Request here = r_;
      here.pinnedNode = node;
      if (any && !at_.world.decide(here, at_.suits).fits) out_[{node, ""}] = "cards";
    }
    return std::move(out_);
  }

 private:
  std::string ofNode(const std::string& node, const std::vector<std::string>& cards, const NodeAmount& used) const {
    if (!r_.pinnedNode.empty() && node != r_.pinnedNode) return "node";
    if (cards.empty()) return "node";
    const auto object = at_.world.nodes.find(node);
    if (object == at_.world.nodes.end() || !object->second.info.schedulable) return "node";
    if (r_.maxClaimsPerNode > 0 && static_cast<int64_t>(devicesOn(at_.world, node).size()) >= r_.maxClaimsPerNode)
      return "node";
    if (at_.suits && !at_.suits(node)) return "node";
    const NodeInfo& info = object->second.info;
    if (r_.cpuMilli > 0 && info.cpuMilli > 0 && used.cpuMilli + r_.cpuMilli > info.cpuMilli) return "node cpu";
    if (r_.podMemory > 0 && info.memory > 0 && used.memory + r_.podMemory > info.memory) return "node memory";
    return "";
  }

  std::string ofCard(const std::string& name) const {
    const PlainCard& plain = at_.world.cards.at(name);
    const v1alpha::Card& card = plain.info.card;
    if (!r_.pinnedCards.empty() && std::count(r_.pinnedCards.begin(), r_.pinnedCards.end(), name) == 0) return "pinned";
    if (!plain.info.healthy) return "health";
    if (!r_.models.empty() && std::count(r_.models.begin(), r_.models.end(), card.model) == 0) return "model";
    if (card.memory < r_.minMemory) return "minMemory";
    if (!holds(card, {}, true)) return "capacity";
    if (r_.maxClaimsPerCard > 0 && static_cast<int64_t>(plain.allocations.size()) >= r_.maxClaimsPerCard)
      return "claims";
    if (r_.wholeCards) return plain.allocations.empty() ? "" : "empty";
    if (holds(card, plain.used(), true)) return "";
    return r_.split != Split::none || holds(card, plain.used(), false) ? "memory" : "core";
  }

  /// Returns true if one such card, alone and on a node of its own, would suffice; memory: or its compute alone.
  bool holds(const v1alpha::Card& card, const Amount& used, bool memory) const {
    Request one;
    one.cards = 1;
    one.wholeCards = r_.wholeCards;
    one.perCard = r_.perCard;
    one.memoryFromCore = r_.memoryFromCore;
    one.milliTflopsPerCard = r_.milliTflopsPerCard;
    one.coreOvercommit = r_.coreOvercommit;
    one.memoryOvercommit = r_.memoryOvercommit;
    const bool divided = r_.split != Split::none && !r_.wholeCards;
    if (divided) return plainCapacity(r_, card, used) > 0;
    if (!memory) {
      one.memoryFromCore = false;
      one.perCard.memory = 0;
    }
    World world;
    world.upsertNode({"n", true});
    CardInfo info{"c", card, true};
    info.card.nodeName = "n";
    world.upsertCard(info);
    if (used != Amount{}) world.take("c", "d", memory ? used : Amount{used.core, 0});
    return world.decide(one).fits;
  }

  const RemedyCase& at_;
  const Request& r_;
  std::map<Place, std::string> out_;
};

std::string what(const std::string& reason) { return reason.substr(0, reason.find(" (")); }

TEST(Explanations, EveryReasonCountsTheCardsAndNodesThatHaveIt) {
  std::map<std::string, int> seen;
  for (uint64_t seed = 1; seed <= 1500; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const RemedyCase at = Cases(seed).next();
    const Explanation e = explain(at.cluster, at.request, at.suits, 10'000);
    SCOPED_TRACE(e.text());
    const bool divided = at.request.split != Split::none && !at.request.wholeCards;
    std::map<Place, std::string> found;
    for (const StageReport& stage : e.stages) {
      std::map<std::string, int64_t> byReason, named;
      std::set<std::string> texts;
      for (const auto& [reason, count] : stage.reasons) byReason[what(reason)] += count;
      for (const Dropped& dropped : stage.dropped) {
        ++named[what(dropped.reason)];
        texts.insert(dropped.reason);
        ++seen[stage.stage];
        const bool shortOf = divided && stage.stage == "core";
        ASSERT_TRUE(found.emplace(Place{dropped.node, dropped.card}, shortOf ? "memory" : stage.stage).second);
      }
      ASSERT_EQ(byReason, named) << stage.stage;
      // "best has" must be the value of one of them.
      for (const auto& [reason, count] : stage.reasons) {
        std::string own = reason;
        if (const auto best = own.find("best "); best != std::string::npos) own.erase(best, 5);
        ASSERT_TRUE(texts.contains(own)) << own;
      }
    }
    ASSERT_EQ(found, Falling(at).run());
    ASSERT_EQ(e.stages.back().after > 0, at.world.decide(at.request, at.suits).fits);
  }
  for (const char* stage : {"node", "node cpu", "node memory", "pinned", "health", "model", "minMemory", "capacity",
                            "claims", "empty", "core", "memory", "cards"})
    EXPECT_GT(seen[stage], 20) << stage;
}

}  // namespace
}  // namespace egpu::scheduler::testing

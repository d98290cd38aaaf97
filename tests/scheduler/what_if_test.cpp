// A what-if answer equals the result of really doing it: each kind of step is carried out by hand on a separate
// cluster.
#include "controller/scheduler/what_if.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "controller/scheduler/quota/on_a_copy.h"
#include "tests/scheduler/crowd.h"

namespace egpu::scheduler::testing {
namespace {

/// Tries every pending claim once, in the order of names.
void settle(Situation& s) {
  std::sort(s.claims.begin(), s.claims.end(), [](const auto& a, const auto& b) { return a.name < b.name; });
  for (ClaimRecord& claim : s.claims) {
    if (!claim.device.empty()) continue;
    const Decision decision = decide(s.cluster, *claim.request, claim.suits);
    if (!decision.fits) continue;
    claim.device = "claim/" + claim.name;
    hold(s.cluster, claim.device, decision, {claim.request->cpuMilli, claim.request->podMemory});
  }
}

std::vector<std::pair<std::string, std::string>> devicesOf(const Situation& s) {
  std::vector<std::pair<std::string, std::string>> devices;
  for (const ClaimRecord& claim : s.claims) devices.emplace_back(claim.name, claim.device);
  return devices;
}

/// Asks, and compares the resulting situation with the one made by hand.
WhatIf ask(const Situation& start, const Step& step, const Situation& byHand) {
  const std::string before = dump(start.cluster);
  auto answer = whatIf(start, {step});
  EXPECT_EQ(dump(start.cluster), before) << "asking must change nothing";
  EXPECT_TRUE(answer.ok()) << answer.status().str();
  EXPECT_EQ(dump(answer->after.cluster), dump(byHand.cluster));
  EXPECT_EQ(devicesOf(answer->after), devicesOf(byHand));
  return std::move(*answer);
}

TEST(WhatIf, DrainEqualsMovingByHand) {
  int64_t moved = 0, stranded = 0;
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    CrowdShape shape;
    shape.claims = 16 + static_cast<int64_t>(seed % 20);
    shape.modes = seed % 2 == 0;
    const Crowd crowd(seed, shape);
    const std::string node = "node-" + std::to_string(seed % 5);

    Situation real = crowd.situation;
    settle(real);
    struct Leaving {
      Amount total;
      std::string name;
      ClaimRecord* claim;
    };
    std::vector<Leaving> leaving;
    for (const auto& [device, holdings] : holdingsOn(real.cluster, node)) {
      for (ClaimRecord& claim : real.claims) {
        if (claim.device != device) continue;
        Leaving one{{}, claim.name, &claim};
        NodeAmount pod;
        for (const Holding& each : holdings) {
          one.total.core += each.charged.core;
          one.total.memory += each.charged.memory;
          pod.cpuMilli += each.ofNode.cpuMilli;
          pod.memory += each.ofNode.memory;
        }
        EXPECT_EQ(pod, (NodeAmount{claim.request->cpuMilli, claim.request->podMemory}));
        leaving.push_back(one);
      }
    }
    real.cluster.upsertNode({node, false});
    for (const Leaving& one : leaving)
      release(real.cluster, one.claim->device, holdingsOn(real.cluster, node).at(one.claim->device));
    std::sort(leaving.begin(), leaving.end(), [](const Leaving& a, const Leaving& b) {
      if (a.total.core != b.total.core) return a.total.core > b.total.core;
      if (a.total.memory != b.total.memory) return a.total.memory > b.total.memory;
      return a.name < b.name;
    });
    std::map<std::string, Decision> went;
    for (const Leaving& one : leaving) {
      const Decision to = decide(real.cluster, *one.claim->request);
      went[one.name] = to;
      if (to.fits)
        hold(real.cluster, one.claim->device, to, {one.claim->request->cpuMilli, one.claim->request->podMemory});
      else
        one.claim->device.clear();
    }
    settle(real);

    const WhatIf answer = ask(crowd.situation, DrainNode{node}, real);
    const StepReport& report = answer.steps.at(0);
    ASSERT_EQ(report.moved.size(), leaving.size()) << "seed " << seed;
    for (std::size_t i = 0; i < leaving.size(); ++i) {
      const Placed& placed = report.moved[i];
      ASSERT_EQ(placed.claim, leaving[i].name);
      ASSERT_EQ(placed.from, node);
      ASSERT_EQ(placed.to, went[placed.claim]);
      ASSERT_EQ(placed.why.empty(), placed.to.fits) << "what fits nowhere says why";
      moved += placed.to.fits;
      stranded += !placed.to.fits;
    }
    ASSERT_EQ(report.waiting,
              std::count_if(real.claims.begin(), real.claims.end(), [](const auto& c) { return c.device.empty(); }));
  }
  EXPECT_GT(moved, 40);
  EXPECT_GT(stranded, 20);
}

TEST(WhatIf, ReleaseLetsInWhoWaits) {
  int64_t bound = 0;
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    CrowdShape shape;
    shape.nodes = 3;
    shape.claims = 30;
    shape.modes = seed % 2 == 0;
    const Crowd crowd(seed, shape);
    Situation real = crowd.situation;
    settle(real);
    const auto held =
        std::find_if(real.claims.begin(), real.claims.end(), [](const auto& c) { return !c.device.empty(); });
    ASSERT_NE(held, real.claims.end());
    const std::string name = held->name;
    const std::vector<Holding> holdings = holdingsOf(real.cluster).at(held->device);
    const std::string node(real.cluster.findCard(holdings.front().card).node);
    release(real.cluster, held->device, holdings);
    real.claims.erase(held);
    const auto before = devicesOf(real);
    settle(real);
    const auto after = devicesOf(real);

    const WhatIf answer = ask(crowd.situation, ReleaseClaim{name}, real);
    ASSERT_EQ(answer.steps.at(0).released->from, node);
    std::vector<std::string> found, expected;
    for (const Placed& placed : answer.steps[0].bound) found.push_back(placed.claim);
    for (std::size_t i = 0; i < after.size(); ++i)
      if (before[i].second.empty() && !after[i].second.empty()) expected.push_back(after[i].first);
    ASSERT_EQ(found, expected) << "seed " << seed;
    bound += static_cast<int64_t>(found.size());
  }
  EXPECT_GT(bound, 20);
}

/// Returns the number of claims of one namespace that have a card, and their milli-cards, counted over every card.
std::pair<int64_t, int64_t> countedByHand(const Situation& s) {
  std::set<std::string> devices;
  int64_t core = 0;
  for (const auto& [device, holdings] : holdingsOf(s.cluster))
    for (const Holding& each : holdings) {
      devices.insert(device);
      core += each.charged.core;
    }
  return {static_cast<int64_t>(devices.size()), core};
}

TEST(WhatIf, WhoWaitsIsHeldToTheQuotasOfItsNamespaceAfterEveryStep) {
  int64_t refused = 0, let = 0;
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    CrowdShape shape;
    shape.nodes = 4;
    shape.claims = 30;
    Crowd crowd(seed, shape);
    auto& start = crowd.situation;
    const std::string space = "team";
    for (auto& claim : start.claims) claim.name = space + claim.name.substr(claim.name.find('/'));
    const auto [claims, core] = countedByHand(start);
    Quota quota;
    quota.name = "team";
    quota.hard[static_cast<std::size_t>(QuotaKey::claims)] = claims + static_cast<int64_t>(seed % 4);
    quota.hard[static_cast<std::size_t>(QuotaKey::core)] = core + static_cast<int64_t>(seed % 7) * 300;
    std::map<std::string, std::string> owners;
    for (const auto& claim : start.claims)
      if (!claim.device.empty()) owners[claim.device] = claim.name;
    const Situation free = start;
    start.quotas.setQuotas(space, {quota});
    for (const auto& [device, holdings] : holdingsOf(start.cluster))
      count(start.quotas, start.cluster, device, quotaClaim(owners.at(device), ""), holdings);

    const std::vector<Step> steps = {ReleaseClaim{owners.begin()->second}, DrainNode{"node-1"},
                                     AddNodes{"more", 2, "node-2", {}, {}}};
    for (std::size_t some = 0; some <= steps.size(); ++some) {
      const std::vector<Step> first(steps.begin(), steps.begin() + static_cast<std::ptrdiff_t>(some));
      const auto within = whatIf(start, first);
      const auto without = whatIf(free, first);
      ASSERT_TRUE(within.ok() && without.ok());
      const auto [nowClaims, nowCore] = countedByHand(within->after);
      ASSERT_LE(nowClaims, *quota.hard[static_cast<std::size_t>(QuotaKey::claims)]) << "seed " << seed;
      ASSERT_LE(nowCore, *quota.hard[static_cast<std::size_t>(QuotaKey::core)]) << "seed " << seed;
      ASSERT_EQ((*within->after.quotas.used(space, "team"))[static_cast<std::size_t>(QuotaKey::core)], nowCore);
      refused += countedByHand(without->after).first > nowClaims ? 1 : 0;
      let += nowClaims >= claims ? 1 : 0;
    }
  }
  EXPECT_GT(refused, 20) << "the quotas keep somebody from something";
  EXPECT_GT(let, 20) << "and not everybody";
}

TEST(WhatIf, AddedNodesAreLikeTheOneTheyFollow) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    CrowdShape shape;
    shape.claims = 40;
    const Crowd crowd(seed, shape);
    auto answer = whatIf(crowd.situation, {AddNodes{"extra", 2, "node-1", {}, {}}});
    ASSERT_TRUE(answer.ok());
    const Cluster& after = answer->after.cluster;
    ASSERT_EQ(answer->steps[0].nodes, (std::vector<std::string>{"extra-0", "extra-1"}));
    const auto model = after.cardsOf("node-1"), added = after.cardsOf("extra-1");
    ASSERT_EQ(added.size(), model.size());
    for (std::size_t i = 0; i < added.size(); ++i) {
      v1alpha::Card a = after.describe(added[i]).value();
      const v1alpha::Card m = after.describe(model[i]).value();
      ASSERT_NE(a.uuid, m.uuid);
      ASSERT_EQ(a.nodeName, "extra-1");
      a.uuid = m.uuid;
      a.nodeName = m.nodeName;
      ASSERT_EQ(a, m);
      ASSERT_TRUE(after.findCard(added[i]).healthy);
    }
    // Claims that still wait do not fit even with the new nodes.
    for (const ClaimRecord& claim : answer->after.claims)
      ASSERT_FALSE(claim.device.empty() && decide(after, *claim.request).fits) << claim.name;
  }
}

TEST(WhatIf, LinksOfAddedCardsStayWithinTheNode) {
  Situation s;
  s.cluster.upsertNode({"a", true});
  for (int64_t i = 0; i < 2; ++i) {
    CardInfo card = makeCard("c" + std::to_string(i), "a", i);
    card.card.topology.links = {{"GPU-c" + std::to_string(1 - i), "nvlink", 2}};
    s.cluster.upsertCard(card);
  }
  auto answer = whatIf(s, {AddNodes{"b", 1, "a", {}, {}}});
  ASSERT_TRUE(answer.ok());
  const auto names = answer->after.cluster.cardsOf("b");
  const v1alpha::Card first = answer->after.cluster.describe(names.at(0)).value();
  const v1alpha::Card second = answer->after.cluster.describe(names.at(1)).value();
  EXPECT_EQ(first.topology.links.at(0).peer, second.uuid);
  EXPECT_EQ(second.topology.links.at(0).peer, first.uuid);
}

TEST(WhatIf, CreateEqualsDecideAndTake) {
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    Crowd crowd(seed, {});
    Situation real = crowd.situation;
    settle(real);
    ClaimRecord claim;
    claim.name = "team-1/zz-new";
    claim.request = crowd.request();
    const Decision decision = decide(real.cluster, *claim.request);
    const Step step = CreateClaim{claim};
    if (decision.fits) {
      claim.device = "claim/" + claim.name;
      hold(real.cluster, claim.device, decision, {claim.request->cpuMilli, claim.request->podMemory});
    }
    real.claims.push_back(claim);
    settle(real);
    const WhatIf answer = ask(crowd.situation, step, real);
    ASSERT_EQ(answer.steps.at(0).created->to, decision);
  }
}

/// One node of two 32 GiB cards: "ns/a" has half of card 0, "ns/b" 30 % of it, "ns/c" waits for a whole card, "ns/d"
/// holds all of card 1.
Situation pair() {
  Situation s;
  s.cluster.upsertNode({"n", true, 16000, 64 * kGi});
  for (int64_t i = 0; i < 2; ++i) s.cluster.upsertCard(makeCard("c" + std::to_string(i), "n", i));
  auto claim = [&](const std::string& name, Request request) {
    ClaimRecord record{"ns/" + name, {}, request, {}, {}};
    const Decision decision = decide(s.cluster, request);
    if (decision.fits) {
      record.device = "uid-" + name;
      hold(s.cluster, record.device, decision, {request.cpuMilli, request.podMemory});
    }
    s.claims.push_back(record);
  };
  Request share;
  share.perCard = {500, 8 * kGi};
  share.cpuMilli = 2000;
  claim("a", share);
  share.perCard = {300, 8 * kGi};
  claim("b", share);
  Request whole;
  whole.wholeCards = true;
  claim("d", whole);
  claim("c", whole);
  return s;
}

TEST(WhatIf, ResizeChecksEachCardForItself) {
  const Situation s = pair();
  Request bigger = *s.claims[0].request;
  bigger.perCard = {700, 24 * kGi};
  auto answer = whatIf(s, {ResizeClaim{"ns/a", bigger}});
  ASSERT_TRUE(answer.ok());
  Resizing r = *answer->steps[0].resized;
  EXPECT_TRUE(r.inPlace) << "available 200 + old 500 - new 700 is 0";
  ASSERT_EQ(r.cards.size(), 1u);
  EXPECT_EQ(r.cards[0].available, (Amount{200, 16 * kGi}));
  EXPECT_EQ(r.cards[0].old, (Amount{500, 8 * kGi}));
  EXPECT_EQ(r.cards[0].wanted, (Amount{700, 24 * kGi}));
  EXPECT_EQ(r.cards[0].left(), (Amount{0, 0}));
  EXPECT_EQ(answer->after.cluster.findCard("c0").used, (Amount{1000, 32 * kGi}));
  EXPECT_EQ(answer->after.cluster.nodeUsed("n").cpuMilli, 4000) << "its pod stays what it is";

  bigger.perCard.core = 710;
  answer = whatIf(s, {ResizeClaim{"ns/a", bigger}});
  ASSERT_TRUE(answer.ok());
  r = *answer->steps[0].resized;
  EXPECT_FALSE(r.inPlace);
  EXPECT_EQ(r.cards[0].left(), (Amount{-10, 0}));
  EXPECT_FALSE(r.elsewhere.fits);
  EXPECT_EQ(r.smallestChange, "gpu-core 70 would fit now (node n); or free 1% of card c0 (node n)");
  EXPECT_EQ(dump(answer->after.cluster), dump(s.cluster)) << "what can't be resized stays as it is";
}

TEST(WhatIf, AResizeIsHeldToQuotasWhereItGrows) {
  Situation s = pair();
  Quota quota;
  quota.name = "team";
  quota.hard[static_cast<std::size_t>(QuotaKey::core)] = 600;
  s.quotas.setQuotas("ns", {quota});
  for (const auto& [device, holdings] : holdingsOf(s.cluster))
    for (const auto& claim : s.claims)
      if (claim.device == device) count(s.quotas, s.cluster, device, quotaClaim(claim.name, ""), holdings);
  Request other = *s.claims[0].request;
  other.perCard.core = 700;
  auto answer = whatIf(s, {ResizeClaim{"ns/a", other}});
  ASSERT_TRUE(answer.ok());
  EXPECT_FALSE(answer->steps[0].resized->inPlace);
  ASSERT_TRUE(answer->steps[0].resized->excess.has_value());
  EXPECT_EQ(answer->steps[0].resized->excess->quota, "team");
  EXPECT_EQ(dump(answer->after.cluster), dump(s.cluster));
  other.perCard.core = 400;  // the quota is already exceeded
  answer = whatIf(s, {ResizeClaim{"ns/a", other}});
  ASSERT_TRUE(answer.ok());
  EXPECT_TRUE(answer->steps[0].resized->inPlace);
}

TEST(WhatIf, AResizeOfWhoIsNotPlacedAnewPlacesNobody) {
  Situation s = pair();
  Request small;
  small.perCard = {100, kGi};
  ResizeClaim step{"ns/c", small};
  step.undecided = "it is decided with its gang";
  s.claims[3].request.reset();
  auto answer = whatIf(s, {step});
  ASSERT_TRUE(answer.ok());
  EXPECT_TRUE(answer->steps[0].bound.empty());
  EXPECT_EQ(answer->steps[0].waiting, 0) << "it waits for other things than room";
  EXPECT_EQ(answer->steps[0].resized->why, "it is decided with its gang");
  EXPECT_EQ(dump(answer->after.cluster), dump(s.cluster));
  step.undecided.clear();  // it was not placed for its request
  answer = whatIf(s, {step});
  ASSERT_TRUE(answer.ok());
  EXPECT_EQ(answer->steps[0].bound.size(), 1u);

  s.cluster.upsertNode({"m", true});
  s.cluster.upsertCard(makeCard("c9", "m", 0));
  answer = whatIf(s, {ResizeClaim{"ns/a", small, {}, false, "it is being deleted"}, DrainNode{"n"}});
  ASSERT_TRUE(answer.ok());
  EXPECT_TRUE(answer->steps[0].resized->inPlace);
  const auto& moved = answer->steps[1].moved;
  const auto a = std::find_if(moved.begin(), moved.end(), [](const Placed& each) { return each.claim == "ns/a"; });
  ASSERT_NE(a, moved.end());
  EXPECT_FALSE(a->to.fits);
  EXPECT_EQ(a->why, "it is being deleted");
}

TEST(WhatIf, WhatShrinksFitsWhateverItsCardHasBecome) {
  Situation s = pair();
  CardInfo card = makeCard("c0", "n", 0);
  card.card.memory = 4 * kGi;  // less than is allocated
  card.card.model = "another";
  s.cluster.upsertCard(card);
  Request smaller = *s.claims[0].request;
  smaller.models = {"T4"};
  smaller.perCard = {400, 6 * kGi};
  auto answer = whatIf(s, {ResizeClaim{"ns/a", smaller}});
  ASSERT_TRUE(answer.ok());
  EXPECT_TRUE(answer->steps[0].resized->inPlace) << answer->steps[0].resized->why;
  smaller.perCard = {600, 6 * kGi};
  answer = whatIf(s, {ResizeClaim{"ns/a", smaller}});
  ASSERT_TRUE(answer.ok());
  EXPECT_TRUE(answer->steps[0].resized->inPlace) << "of what grows there is room";
  smaller.perCard = {400, 9 * kGi};
  answer = whatIf(s, {ResizeClaim{"ns/a", smaller}});
  ASSERT_TRUE(answer.ok());
  EXPECT_FALSE(answer->steps[0].resized->inPlace) << "of what grows there is none";
}

TEST(WhatIf, WhatPodsThatRunBeganWithIsNotFreeAfterAShrink) {
  Situation s = pair();
  Request less = *s.claims[0].request;
  less.perCard = {100, kGi};
  for (const bool runs : {false, true}) {
    auto answer = whatIf(s, {ResizeClaim{"ns/a", less, {}, runs}});
    ASSERT_TRUE(answer.ok());
    EXPECT_TRUE(answer->steps[0].resized->inPlace);
    const auto before = s.cluster.findCard("c0").used;
    const auto after = answer->after.cluster.findCard("c0").used;
    EXPECT_EQ(after == before, runs);
  }
}

TEST(WhatIf, AResizeNeverChangesTheNumberOfCards) {
  const Situation s = pair();
  Request more = *s.claims[0].request;
  more.cards = 2;
  const auto answer = whatIf(s, {ResizeClaim{"ns/a", more}});
  ASSERT_TRUE(answer.ok());
  EXPECT_FALSE(answer->steps[0].resized->inPlace);
  EXPECT_EQ(answer->steps[0].resized->why,
            "it has 1 card and would have 2: the number of cards can't change, create another claim");
}

TEST(WhatIf, ResizeOnACordonedNodeAndAQuarantinedCard) {
  Situation s = pair();
  s.cluster.upsertNode({"n", false});
  CardInfo card = makeCard("c0", "n", 0);
  card.healthy = false;
  s.cluster.upsertCard(card);
  Request bigger = *s.claims[0].request;
  bigger.perCard.core = 700;
  auto answer = whatIf(s, {ResizeClaim{"ns/a", bigger}});
  ASSERT_TRUE(answer.ok());
  EXPECT_TRUE(answer->steps[0].resized->inPlace) << "who is there may grow into what is free";
}

TEST(WhatIf, ResizeThatNeedsOtherCardsReportsWhereItWouldGo) {
  Situation s = pair();
  s.cluster.upsertNode({"m", true});
  s.cluster.upsertCard(makeCard("c9", "m", 0));
  Request whole;
  whole.wholeCards = true;
  auto answer = whatIf(s, {ResizeClaim{"ns/b", whole}});
  ASSERT_TRUE(answer.ok());
  // ns/c took the new card before the step.
  ASSERT_EQ(answer->before.size(), 1u);
  EXPECT_EQ(answer->before[0].claim, "ns/c");
  EXPECT_FALSE(answer->steps[0].resized->inPlace);
  EXPECT_FALSE(answer->steps[0].resized->elsewhere.fits);

  answer = whatIf(s, {ReleaseClaim{"ns/c"}, ResizeClaim{"ns/b", whole}});
  ASSERT_TRUE(answer.ok());
  EXPECT_EQ(answer->steps[1].resized->elsewhere.node, "m");
}

TEST(WhatIf, EveryResizeInPlaceObeysTheRule) {
  int64_t in = 0, out = 0;
  for (uint64_t seed = 1; seed <= 80; ++seed) {
    CrowdShape shape;
    shape.limits = false;
    shape.modes = seed % 2 == 0;
    Crowd crowd(seed, shape);
    settle(crowd.situation);
    for (const ClaimRecord& claim : crowd.situation.claims) {
      if (claim.device.empty() || claim.request->wholeCards) continue;
      Request wanted = *claim.request;
      wanted.memoryFromCore = false;
      wanted.milliTflopsPerCard = 0;
      wanted.perCard = {pick(crowd.random, 1, 100) * 10, pick(crowd.random, 1, 32) * kGi};
      auto answer = whatIf(crowd.situation, {ResizeClaim{claim.name, wanted}});
      ASSERT_TRUE(answer.ok());
      const Resizing& r = *answer->steps[0].resized;
      bool allowed = true;
      for (const Resizing::OfCard& row : r.cards) {
        const CardView card = crowd.situation.cluster.findCard(row.card);
        ASSERT_EQ(row.available,
                  (Amount{card.capacity.core - card.used.core, card.capacity.memory - card.used.memory}));
        const bool holds = wanted.split != Split::none ||
                           (wanted.perCard.core <= card.capacity.core && wanted.perCard.memory <= card.capacity.memory);
        ASSERT_TRUE(row.wanted.has_value() || !r.inPlace);
        allowed = allowed && holds && row.wanted && row.left().core >= 0 && row.left().memory >= 0;
      }
      if (wanted.split == Split::none) {
        ASSERT_EQ(r.inPlace, allowed) << "seed " << seed << ' ' << claim.name;
      } else {
        ASSERT_TRUE(!r.inPlace || allowed) << "seed " << seed << ' ' << claim.name;
      }
      in += r.inPlace;
      out += !r.inPlace;
    }
  }
  EXPECT_GT(in, 30);
  EXPECT_GT(out, 30);
}

TEST(WhatIf, StepsBuildOnEachOther) {
  auto answer = whatIf(pair(), {ReleaseClaim{"ns/d"}, DrainNode{"n"}, AddNodes{"m", 1, "n", {}, {}}});
  ASSERT_TRUE(answer.ok());
  ASSERT_EQ(answer->steps.size(), 3u);
  ASSERT_EQ(answer->steps[0].bound.size(), 1u);
  EXPECT_EQ(answer->steps[0].bound[0].claim, "ns/c");
  EXPECT_EQ(answer->steps[0].waiting, 0);
  ASSERT_EQ(answer->steps[1].moved.size(), 3u);
  EXPECT_EQ(answer->steps[1].moved[0].claim, "ns/c") << "the largest first";
  EXPECT_EQ(answer->steps[1].waiting, 3);
  EXPECT_TRUE(answer->steps[1].bound.empty());
  EXPECT_EQ(answer->steps[2].bound.size(), 3u);
  EXPECT_EQ(answer->steps[2].waiting, 0);
  EXPECT_EQ(answer->after.cluster.nodeUsed("m").cpuMilli, 4000) << "the pods' CPU came along";
}

TEST(WhatIf, WhoCannotMoveReportsWhy) {
  Situation s = pair();
  s.claims[0].request.reset();
  s.claims[0].why = "its class is gone";
  s.claims.erase(s.claims.begin() + 1);  // uid-b is unknown
  auto answer = whatIf(s, {DrainNode{"n"}});
  ASSERT_TRUE(answer.ok());
  const auto& moved = answer->steps[0].moved;
  ASSERT_EQ(moved.size(), 3u);
  EXPECT_EQ(moved[0], (Placed{"ns/a", "n", {}, "its class is gone"}));
  EXPECT_EQ(moved[1], (Placed{"device uid-b", "n", {}, "its claim is not known"}));
  EXPECT_FALSE(answer->after.cluster.nodeSchedulable("n"));
  EXPECT_EQ(answer->after.cluster.findCard("c0").claims, 2) << "they stay";
}

TEST(WhatIf, WrongStepsAreNamed) {
  const Situation s = pair();
  auto message = [&](const Step& step) {
    const auto answer = whatIf(s, {ReleaseClaim{"ns/a"}, step});
    return answer.ok() ? "fine" : answer.status().str();
  };
  EXPECT_EQ(message(DrainNode{"x"}), "not found: steps[1].drain: there is no node \"x\"");
  EXPECT_EQ(message(ReleaseClaim{"ns/a"}), "not found: steps[1].release: there is no claim \"ns/a\"");
  EXPECT_EQ(message(ResizeClaim{"ns/x", {}}), "not found: steps[1].resize: there is no claim \"ns/x\"");
  EXPECT_EQ(message(AddNodes{"m", 1, "x", {}, {}}), "not found: steps[1].add.like: there is no node \"x\"");
  EXPECT_EQ(message(AddNodes{"n", 1, "n", {}, {}}), "invalid: steps[1].add.name: there is a node \"n\" already");
  EXPECT_EQ(message(AddNodes{"", 1, "n", {}, {}}), "invalid: steps[1].add.name: is missing");
  EXPECT_EQ(message(AddNodes{"m", 0, "n", {}, {}}), "invalid: steps[1].add.count: 0 is not between 1 and 100000");
  EXPECT_EQ(message(AddNodes{"m", 1, "", {}, {}}), "invalid: steps[1].add.cards: is missing");
  EXPECT_EQ(message(CreateClaim{{"ns/b", {}, Request{}, {}, {}}}),
            "invalid: steps[1].create: there is a claim \"ns/b\" already");
}

}  // namespace
}  // namespace egpu::scheduler::testing

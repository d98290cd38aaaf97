// The shares of a card have one isolation mode, in every question that places, releases or moves claims on trial.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "api/v1alpha/keys.h"
#include "controller/scheduler/choice/colocate.h"
#include "controller/scheduler/choice/nominated_capacity.h"
#include "controller/scheduler/choice/preempt_together.h"
#include "controller/scheduler/forecast.h"
#include "controller/scheduler/moves.h"
#include "controller/scheduler/quota/on_a_copy.h"
#include "controller/scheduler/simulate.h"
#include "controller/scheduler/state/state.h"
#include "controller/scheduler/what_if.h"
#include "tests/scheduler/crowd.h"

namespace egpu::scheduler::testing {
namespace {

Request share(int64_t core, const std::string& isolation = {}, int64_t cards = 1) {
  Request request;
  request.cards = cards;
  request.perCard = {core, kGi};
  request.isolation = isolation;
  return request;
}

void addNode(Cluster& cluster, const std::string& name, int cards, const std::string& limiter = {}) {
  cluster.upsertNode({name, true});
  for (int c = 0; c < cards; ++c) {
    CardInfo card = makeCard(name + "c" + std::to_string(c), name, c);
    if (!limiter.empty()) card.card.attributes[v1alpha::keys::kLimiterAttribute] = limiter;
    cluster.upsertCard(card);
  }
}

Cluster oneNode(int cards) {
  Cluster cluster;
  addNode(cluster, "n", cards);
  return cluster;
}

/// Allocates a share with a mode.
void take(Cluster& cluster, const std::string& card, const std::string& device, int64_t core,
          const std::string& isolation = {}) {
  cluster.take(card, device, {core, kGi}, {}, isolation);
}

ClaimRecord claim(const std::string& name, const Request& request, const std::string& device = {}) {
  return {"team/" + name, device, request, {}, {}};
}

std::vector<std::string> boundBy(const StepReport& report) {
  std::vector<std::string> names;
  for (const Placed& each : report.bound) names.push_back(each.claim);
  return names;
}

std::vector<std::string> victimsOf(const std::vector<Victim>& victims) {
  std::vector<std::string> names;
  for (const Victim& each : victims) names.push_back(each.device);
  return names;
}

using Names = std::vector<std::string>;

TEST(Modes, WhatIf_FirstShareKeepsOtherModesOffTheCardUntilTheLastLeaves) {
  const auto answer =
      whatIf({oneNode(1), {}},
             {CreateClaim{claim("a", share(300, "mps"))}, CreateClaim{claim("b", share(300, "mps"))},
              CreateClaim{claim("c", share(300, "limiter"))}, ReleaseClaim{"team/a"}, ReleaseClaim{"team/b"}});
  ASSERT_TRUE(answer.ok()) << answer.status().str();
  const auto& steps = answer->steps;
  EXPECT_TRUE(steps[0].created->to.fits);
  EXPECT_TRUE(steps[1].created->to.fits);
  EXPECT_FALSE(steps[2].created->to.fits);
  EXPECT_EQ(boundBy(steps[3]), Names{}) << "b is still there";
  EXPECT_EQ(boundBy(steps[4]), Names{"team/c"});
  EXPECT_EQ(answer->after.cluster.findCard("nc0").isolation, "limiter");
}

TEST(Modes, WhatIf_ResizedClaimKeepsItsMode) {
  Situation start{oneNode(1), {claim("a", share(300, "mps"), "a")}};
  take(start.cluster, "nc0", "a", 300, "mps");
  ResizeClaim resize{"team/a", share(500, "mps")};
  const auto answer =
      whatIf(start, {resize, CreateClaim{claim("b", share(100))}, CreateClaim{claim("c", share(100, "mps"))}});
  ASSERT_TRUE(answer.ok()) << answer.status().str();
  EXPECT_TRUE(answer->steps[0].resized->inPlace);
  EXPECT_FALSE(answer->steps[1].created->to.fits);
  EXPECT_TRUE(answer->steps[2].created->to.fits);
}

TEST(Modes, WhatIf_AddedNodeHasTheLimiterIfTheNodeThatItIsLikeHasIt) {
  for (const bool has : {true, false}) {
    Situation start;
    addNode(start.cluster, "n", 1, has ? "available" : "the driver is too old");
    take(start.cluster, "nc0", "a", 1000);
    AddNodes more{"m", 1, "n", {}, {}};
    const auto answer = whatIf(
        start, {more, CreateClaim{claim("b", share(100, "auto"))}, CreateClaim{claim("c", share(100, "limiter"))}});
    ASSERT_TRUE(answer.ok()) << answer.status().str();
    EXPECT_EQ(answer->steps[2].created->to.fits, has);
    EXPECT_EQ(answer->after.cluster.findCard("new-m-0").isolation, has ? "limiter" : "");
  }
}

TEST(Modes, Forecast_CountsFurtherSharesOfACardThatTheFirstOpens) {
  EXPECT_EQ(forecast(oneNode(2), share(250, "mps", 2)).count, 4);
  std::optional<QuotaExcess> excess;
  const auto within = forecastWithin(oneNode(2), {}, quotaClaim("team/x", "c"), share(250, "mps"), excess, {}, 100, {});
  EXPECT_EQ(within.count, 8);
  Cluster cluster = oneNode(2);
  take(cluster, "nc0", "a", 100);
  EXPECT_EQ(forecast(cluster, share(250, "mps")).count, 4) << "the first card has another mode";
  EXPECT_EQ(forecast(cluster, share(250, "mps", 2)).count, 0);
}

TEST(Modes, Together_ClaimsOfOnePodShareACardOnlyInOneMode) {
  Cluster cluster = oneNode(1);
  EXPECT_EQ(decideTogether(cluster, {share(300, "mps"), share(300, "mps")}, {}, {}).decisions.size(), 2U);
  EXPECT_TRUE(decideTogether(cluster, {share(300, "mps"), share(300, "limiter")}, {}, {}).decisions.empty());
  EXPECT_TRUE(decideTogether(cluster, {share(300), share(300, "limiter")}, {}, {}).decisions.empty());
  EXPECT_TRUE(decide(cluster, share(300)).fits) << "a trial leaves no mode";
  cluster = oneNode(2);
  const auto apart = decideTogether(cluster, {share(300, "mps"), share(300, "limiter")}, {}, {}).decisions;
  ASSERT_EQ(apart.size(), 2U);
  EXPECT_NE(apart[0].placements[0].card, apart[1].placements[0].card);
}

TEST(Modes, Gang_MembersShareACardOnlyInOneMode) {
  Cluster cluster = oneNode(1);
  EXPECT_FALSE(decideGang(cluster, {{share(300, "mps")}, {share(300, "mps")}}).lacking);
  const auto unlike = decideGang(cluster, {{share(300, "mps")}, {share(300, "limiter")}});
  ASSERT_TRUE(unlike.lacking);
  EXPECT_EQ(unlike.lacking->fit, 1U);
  EXPECT_TRUE(decide(cluster, share(300)).fits) << "a trial leaves no mode";
  const std::vector<TopologyGroup> groups{{"rack", {"n"}}};
  EXPECT_FALSE(decideGang(cluster, {{share(300, "mps")}, {share(300, "mps")}, {share(300, "mps")}}, &groups).lacking);
  EXPECT_TRUE(decideGang(cluster, {{share(300, "mps")}, {share(300)}}, &groups).lacking);
}

TEST(Modes, Preempt_AllSharesOfAnotherModeLeaveTheCard) {
  Cluster cluster = oneNode(2);
  take(cluster, "nc0", "a", 300);
  take(cluster, "nc0", "b", 300);
  take(cluster, "nc1", "c", 900, "mps");
  EXPECT_EQ(victimsOf(preempt(cluster, share(200, "limiter")).victims), Names{"c"}) << "one instead of two";
  const IsEvictable notC = [](std::string_view device) { return device != "c"; };
  const auto both = preempt(cluster, share(200, "limiter"), {}, notC);
  EXPECT_EQ(victimsOf(both.victims), (Names{"a", "b"}));
  EXPECT_EQ(both.decision.placements[0].isolation, "limiter");
  const IsEvictable onlyA = [](std::string_view device) { return device == "a"; };
  EXPECT_FALSE(preempt(cluster, share(200, "limiter"), {}, onlyA).possible) << "b would keep its mode on the card";
  EXPECT_EQ(victimsOf(preempt(cluster, share(200, "mps"), {}, notC).victims), (Names{"a", "b"}));
}

TEST(Modes, Preempt_NobodyLeavesANodeThatLacksTheLimiter) {
  Cluster cluster;
  addNode(cluster, "n", 1, "the driver is too old");
  take(cluster, "nc0", "a", 900);
  EXPECT_FALSE(preempt(cluster, share(200, "limiter")).possible);
  EXPECT_TRUE(preempt(cluster, share(200, "auto")).possible);
}

TEST(Modes, Preempt_MembersOfAGangGetVictimsForTheirModes) {
  Cluster cluster = oneNode(2);
  take(cluster, "nc0", "a", 300);
  take(cluster, "nc0", "b", 300);
  take(cluster, "nc1", "c", 900, "mps");
  const auto same = preemptTogether(cluster, {{share(400, "limiter")}, {share(400, "limiter")}}, nullptr, {}, {});
  EXPECT_EQ(victimsOf(same.victims), Names{"c"}) << "both on its card";
  const auto unlike = preemptTogether(cluster, {{share(400, "limiter")}, {share(400, "hami-core")}}, nullptr, {}, {});
  EXPECT_EQ(victimsOf(unlike.victims), (Names{"a", "b", "c"}));
  const auto fits = preemptTogether(cluster, {{share(100, "mps")}, {share(400)}}, nullptr, {}, {});
  EXPECT_TRUE(fits.victims.empty()) << "each beside its own mode";
}

TEST(Modes, NominatedCapacity_VictimIsSparedOnlyBesideItsOwnMode) {
  Cluster cluster = oneNode(1);
  take(cluster, "nc0", "a", 300);
  take(cluster, "nc0", "b", 300);
  NominatedCapacity unlike;
  unlike.add(cluster, "n", share(200, "mps"), {});
  ASSERT_TRUE(unlike.release({"a", "b"}));
  EXPECT_FALSE(unlike.spare("a"));
  EXPECT_FALSE(unlike.spare("b"));
  NominatedCapacity alike;
  alike.add(cluster, "n", share(600), {});
  ASSERT_TRUE(alike.release({"a", "b"}));
  EXPECT_TRUE(alike.spare("a"));
  EXPECT_FALSE(alike.spare("b"));
}

TEST(Modes, Moves_TargetHasTheSameModeOrNone) {
  Cluster cluster = oneNode(2);
  take(cluster, "nc0", "a", 200);
  take(cluster, "nc1", "b", 200);
  const Movers movers{{"a", {share(200), {}}}, {"b", {share(200), {}}}};
  const auto plan = movesToLetIn(cluster, share(500, "limiter"), {}, movers);
  ASSERT_EQ(plan.moves.size(), 1U);
  EXPECT_EQ(movesToFreeCards(cluster, movers, 9).freedCards, 1);
  Cluster mixed = oneNode(2);
  take(mixed, "nc0", "a", 200);
  take(mixed, "nc1", "b", 200, "mps");
  const Movers unlike{{"a", {share(200), {}}}, {"b", {share(200, "mps"), {}}}};
  EXPECT_FALSE(movesToLetIn(mixed, share(500, "limiter"), {}, unlike).possible);
  EXPECT_EQ(movesToFreeCards(mixed, unlike, 9).freedCards, 0);
}

TEST(Modes, Moves_TwoModesNeedTwoEmptyCards) {
  for (const int cards : {1, 2}) {
    Cluster cluster = oneNode(2);
    addNode(cluster, "o", cards);
    take(cluster, "nc0", "a", 200, "mps");
    take(cluster, "nc1", "b", 200, "limiter");
    const Movers movers{{"a", {share(200, "mps"), {}}}, {"b", {share(200, "limiter"), {}}}};
    Request both = whole(2);
    both.pinnedNode = "n";
    const auto plan = movesToLetIn(cluster, both, {}, movers);
    EXPECT_EQ(plan.possible, cards == 2);
    const auto gang = movesToLetAllIn(cluster, {{both}}, nullptr, {}, movers);
    EXPECT_EQ(gang.possible, cards == 2);
    if (cards == 2) {
      ASSERT_EQ(plan.moves.size(), 2U);
      EXPECT_NE(plan.moves[0].to.placements[0].card, plan.moves[1].to.placements[0].card);
    }
  }
}

TEST(Modes, Remedy_FreesAllOfACardInAnotherMode) {
  Cluster cluster = oneNode(1);
  take(cluster, "nc0", "a", 300);
  take(cluster, "nc0", "b", 300);
  auto e = explain(cluster, share(200, "limiter"));
  ASSERT_EQ(e.remedies.size(), 1U);
  EXPECT_EQ(e.remedies[0].shortages, (std::vector<Remedy::CardCapacity>{{"nc0", {600, 2 * kGi}, 2, "none"}}));
  EXPECT_EQ(e.text(),
            "0/1 node fits: 1 card: 1 in use with isolation none; "
            "free all of card nc0, in use with isolation none (node n)");
  addNode(cluster, "m", 1);
  take(cluster, "mc0", "c", 950, "limiter");
  e = explain(cluster, share(200, "limiter"));
  ASSERT_FALSE(e.remedies.empty());
  EXPECT_EQ(e.remedies.back().text, "free 15% of card mc0 (node m)") << "cheaper than two claims";
  Request total = share(1200, "limiter");
  total.split = Split::evenly;
  Cluster two = oneNode(2);
  take(two, "nc0", "a", 300);
  take(two, "nc1", "b", 300, "limiter");
  e = explain(two, total);
  EXPECT_EQ(e.remedies.back().text, "free all of card nc0, in use with isolation none (node n)") << e.text();
}

TEST(Modes, Remedy_NamesNoNodeWithoutTheLimiter) {
  Cluster cluster;
  addNode(cluster, "n", 1, "the driver is too old");
  take(cluster, "nc0", "a", 900);
  const auto e = explain(cluster, share(200, "limiter"));
  ASSERT_EQ(e.remedies.size(), 1U) << e.text();
  EXPECT_EQ(e.remedies[0].kind, Remedy::Kind::add);
  EXPECT_NE(e.text().find("1 on nodes without the limiter"), std::string::npos) << e.text();
}

/// Adds a card with attributes; empty = it has no such attribute.
void addCard(Cluster& cluster, int number, const std::string& memoryLimits, const std::string& limiter) {
  CardInfo card = makeCard("nc" + std::to_string(number), "n", number);
  if (!memoryLimits.empty()) card.card.attributes[v1alpha::keys::kMemoryLimitsAttribute] = memoryLimits;
  if (!limiter.empty()) card.card.attributes[v1alpha::keys::kLimiterAttribute] = limiter;
  cluster.upsertNode({"n", true});
  cluster.upsertCard(card);
}

/// A node with cards in this compute mode; empty = the default.
void addCardsInMode(Cluster& cluster, int count, const std::string& mode) {
  cluster.upsertNode({"n", true});
  for (int i = 0; i < count; ++i) {
    CardInfo card = makeCard("nc" + std::to_string(i), "n", i);
    if (!mode.empty()) card.card.attributes[v1alpha::keys::kComputeModeAttribute] = mode;
    cluster.upsertCard(card);
  }
}

TEST(Modes, ACardForOneProcessGetsNoShareExceptWithMps) {
  Cluster cluster;
  addCardsInMode(cluster, 2, "exclusiveProcess");
  for (const char* mode : {"", "none", "auto", "limiter", "hami-core"}) {
    EXPECT_FALSE(decide(cluster, share(100, mode)).fits) << mode;
    const auto text = explain(cluster, share(100, mode)).text();
    EXPECT_NE(text.find("2 in compute mode EXCLUSIVE_PROCESS, which admits one process (nvidia-smi -i GPU-nc0 -c "
                        "DEFAULT on node n; nvidia-smi -i GPU-nc1 -c DEFAULT on node n)"),
              std::string::npos)
        << text;
    EXPECT_FALSE(preempt(cluster, share(100, mode)).possible) << mode;
  }
  EXPECT_TRUE(decide(cluster, share(100, "mps")).fits);
  Request whole = share(1000, "");
  whole.wholeCards = true;
  EXPECT_TRUE(decide(cluster, whole).fits);
  addCardsInMode(cluster, 1, "");
  const auto decision = decide(cluster, share(100, "none"));
  ASSERT_TRUE(decision.fits);
  EXPECT_EQ(decision.placements[0].card, "nc0") << "its mode is the default again";
  EXPECT_EQ(cluster.state().check(), "");
}

TEST(Modes, OfManyCardsForOneProcessTheFirstAreNamed) {
  Cluster cluster;
  addCardsInMode(cluster, 5, "exclusiveProcess");
  const auto text = explain(cluster, share(100, "none")).text();
  EXPECT_NE(text.find("5 in compute mode EXCLUSIVE_PROCESS"), std::string::npos) << text;
  EXPECT_NE(text.find("GPU-nc2 -c DEFAULT on node n; and others)"), std::string::npos) << text;
}

TEST(Modes, ACardInAnyOtherComputeModeIsShared) {
  Cluster cluster;
  addCardsInMode(cluster, 1, "default");
  EXPECT_TRUE(decide(cluster, share(100, "none")).fits);
}

TEST(Modes, DriverGoesOnlyToCardsThatOfferIt) {
  Cluster cluster;
  addCard(cluster, 0, "", "available");
  addCard(cluster, 1, "the driver is too old", "available");
  EXPECT_FALSE(decide(cluster, share(100, "driver")).fits);
  EXPECT_NE(explain(cluster, share(100, "driver")).text().find("2 without the driver's memory limits"),
            std::string::npos)
      << explain(cluster, share(100, "driver")).text();
  EXPECT_NE(explain(cluster, share(100, "driver"))
                .text()
                .find("add 1 card with at least 1Gi, with the driver's memory "
                      "limits"),
            std::string::npos)
      << explain(cluster, share(100, "driver")).text();
  EXPECT_FALSE(preempt(cluster, share(100, "driver")).possible);
  addCard(cluster, 2, "available", "");
  const auto decision = decide(cluster, share(100, "driver"));
  ASSERT_TRUE(decision.fits);
  EXPECT_EQ(decision.placements[0].card, "nc2");
  EXPECT_EQ(decision.placements[0].isolation, "driver");
  addCard(cluster, 2, "the card is in MIG mode", "");
  EXPECT_FALSE(decide(cluster, share(100, "driver")).fits) << "a new driver may lose the limits";
}

TEST(Modes, AutoIsTheStrongestModeThatACardOffers) {
  const auto modeOn = [](const std::string& memoryLimits, const std::string& limiter, const std::string& held) {
    Cluster cluster;
    addCard(cluster, 0, memoryLimits, limiter);
    if (!held.empty()) take(cluster, "nc0", "a", 100, held == "none" ? "" : held);
    const auto decision = decide(cluster, share(100, "auto"));
    return decision.fits ? decision.placements[0].isolation : std::string("does not fit");
  };
  EXPECT_EQ(modeOn("available", "available", ""), "driver");
  EXPECT_EQ(modeOn("available", "not installed", ""), "driver");
  EXPECT_EQ(modeOn("too old", "available", ""), "limiter");
  EXPECT_EQ(modeOn("too old", "not installed", ""), "");
  EXPECT_EQ(modeOn("available", "available", "driver"), "driver");
  EXPECT_EQ(modeOn("available", "available", "limiter"), "limiter") << "a new driver does not close the card";
  EXPECT_EQ(modeOn("too old", "available", "driver"), "does not fit");
  EXPECT_EQ(modeOn("available", "available", "none"), "does not fit");
}

TEST(Modes, DecisiveAttributesDescribeTheOfferedModes) {
  v1alpha::Card card = makeCard("nc0", "n", 0).card;
  card.attributes["other"] = "value";
  card.attributes[v1alpha::keys::kMemoryLimitsAttribute] = "the driver is too old";
  EXPECT_TRUE(withDecisiveAttributes(card).attributes.empty());
  card.attributes[v1alpha::keys::kMemoryLimitsAttribute] = "available";
  EXPECT_EQ(withDecisiveAttributes(card).attributes.size(), 1U);
  Cluster cluster;
  addCard(cluster, 0, "available", "available");
  const auto described = *cluster.describe("nc0");
  EXPECT_EQ(described.attributes.size(), 2U);
  EXPECT_EQ(withDecisiveAttributes(described), described);
}

TEST(Modes, ManyNamesNeverShareACard) {
  constexpr int kNames = 40;  // more than a state numbers
  Cluster cluster = oneNode(kNames);
  for (int i = 0; i < kNames; ++i) {
    const Decision decision = decide(cluster, share(100, "mode-" + std::to_string(i)));
    ASSERT_TRUE(decision.fits);
    EXPECT_EQ(cluster.findCard(decision.placements[0].card).claims, 0);
    hold(cluster, "d" + std::to_string(i), decision);
  }
  for (int i = 0; i < kNames; ++i) {
    const Decision decision = decide(cluster, share(100, "mode-" + std::to_string(i)));
    EXPECT_TRUE(!decision.fits || decision.placements[0].card == "nc" + std::to_string(i)) << i;
  }
  EXPECT_TRUE(decide(cluster, share(100, "mode-0")).fits);
  EXPECT_FALSE(decide(cluster, share(100)).fits);
}

/// A crowd with isolation modes, and random changes of it by plans of all kinds.
class Mixture {
 public:
  explicit Mixture(uint64_t seed) : crowd_(seed, shape()), cluster_(crowd_.situation.cluster) {
    for (const ClaimRecord& each : crowd_.situation.claims)
      if (!each.device.empty()) requests_[each.device] = *each.request;
  }

  void step() {
    switch (pick(crowd_.random, 0, 7)) {
      case 0:
        return place(crowd_.request());
      case 1:
        return release();
      case 2:
        return preemptFor(crowd_.request());
      case 3:
        return gang();
      case 4:
        return letIn(crowd_.request());
      case 5:
        return makeMoves(movesToFreeCards(cluster_, movers(), 4, 200));
      case 6:
        return ask();
      default:
        return applyRemedy(crowd_.request());
    }
  }

  /// Compares the modes with those that the requests of the holders have on each card.
  void check() const { check(cluster_, requests_); }

  int64_t changes = 0, shared = 0;

 private:
  using Requests = std::map<std::string, Request, std::less<>>;

  static CrowdShape shape() {
    CrowdShape shape;
    shape.nodes = 3;
    shape.cardsPerNode = 3;
    shape.modes = true;
    return shape;
  }

  static void check(const Cluster& cluster, const Requests& requests) {
    for (const std::string& node : cluster.nodes())
      for (const std::string& name : cluster.cardsOf(node)) {
        const auto attributes = cluster.describe(name)->attributes;
        const auto limiter = attributes.find(v1alpha::keys::kLimiterAttribute);
        const bool limited = limiter != attributes.end() && limiter->second == "available";
        const bool driver = attributes.count(v1alpha::keys::kMemoryLimitsAttribute) > 0;
        const std::string held(cluster.findCard(name).isolation);
        std::set<std::string> modes;
        for (const HolderAllocation& taken : cluster.allocationsOn(name)) {
          const Request& request = requests.at(taken.uid);
          const auto& mode = request.isolation;
          if (request.wholeCards || mode.empty() || mode == "none")
            modes.insert("");
          else if (mode != "auto")
            modes.insert(mode);
          else if (limited && held == "limiter")
            modes.insert("limiter");
          else
            modes.insert(driver ? "driver" : limited ? "limiter" : "");
        }
        ASSERT_FALSE(modes.contains("driver") && !driver) << name;
        ASSERT_LE(modes.size(), 1U) << name;
        ASSERT_EQ(cluster.findCard(name).isolation, modes.empty() ? "" : *modes.begin()) << name;
        ASSERT_FALSE(modes.contains("limiter") && limiter != attributes.end() && !limited) << name;
      }
    ASSERT_EQ(cluster.state().check(), "");
  }

  void add(const Request& request, const Decision& decision) {
    if (!decision.fits) return;
    const std::string device = "more-" + std::to_string(++next_);
    for (const Placement& each : decision.placements) shared += cluster_.findCard(each.card).claims > 0 ? 1 : 0;
    hold(cluster_, device, decision, {request.cpuMilli, request.podMemory});
    requests_[device] = request;
    ++changes;
  }
  void remove(const Victim& victim) {
    scheduler::release(cluster_, victim.device, victim.holdings);
    requests_.erase(victim.device);
  }

  void place(const Request& request) { add(request, decide(cluster_, request)); }

  void release() {
    const Holdings all = holdingsOf(cluster_);
    if (all.empty()) return;
    const auto at = std::next(all.begin(), pick(crowd_.random, 0, static_cast<int64_t>(all.size()) - 1));
    remove({at->first, at->second});
  }

  void preemptFor(const Request& request) {
    const auto plan = preempt(cluster_, request, {}, {}, 2000);
    if (!plan.possible) return;
    for (const Victim& each : plan.victims) remove(each);
    add(request, plan.decision);
  }

  void gang() {
    const std::vector<GangMember> members{{crowd_.request()}, {crowd_.request()}, {crowd_.request()}};
    const auto plan = preemptTogether(cluster_, members, nullptr, {}, {}, {}, 2000);
    if (plan.after.lacking) return;
    const auto now = decideGang(cluster_, members);
    ASSERT_EQ(!now.lacking, plan.victims.empty());
    for (const Victim& each : plan.victims) remove(each);
    for (std::size_t i = 0; i < members.size(); ++i) add(members[i].request, plan.after.decisions[i]);
  }

  Movers movers() const {
    Movers all;
    for (const auto& [device, request] : requests_) all[device] = {request, {}};
    return all;
  }

  void letIn(const Request& request) {
    const auto plan = movesToLetIn(cluster_, request, {}, movers(), 2000);
    if (!plan.possible) return;
    makeMoves(plan);
    Request here = request;
    here.pinnedNode = plan.decision.node;
    const auto decision = decide(cluster_, here);
    // Claims that move within the node can reach the request's own limits.
    ASSERT_TRUE(decision.fits || request.maxClaimsPerNode > 0 || request.maxClaimsPerCard > 0)
        << explain(cluster_, here).text();
    add(request, decision);
  }

  void makeMoves(const MovePlan& plan) {
    for (const Move& move : plan.moves) {
      scheduler::release(cluster_, move.device, move.from);
      for (const Placement& each : move.to.placements) {
        const CardView card = cluster_.findCard(each.card);
        ASSERT_TRUE(card.claims == 0 || card.isolation == each.isolation) << "at its turn";
      }
      hold(cluster_, move.device, move.to, nodeAmountOf(move.from));
      ++changes;
    }
  }

  /// Asks several questions, which must leave the cluster as it is.
  void ask() {
    const std::string before = dump(cluster_);
    Situation start{cluster_, {}};
    for (const auto& [device, request] : requests_) start.claims.push_back(claim(device, request, device));
    start.claims.push_back(claim("waiting", crowd_.request()));
    std::vector<Step> steps{CreateClaim{claim("one", crowd_.request())}, DrainNode{"node-1"},
                            CreateClaim{claim("two", crowd_.request())}, ReleaseClaim{"team/one"}};
    if (!requests_.empty()) steps.emplace_back(ReleaseClaim{"team/" + requests_.begin()->first});
    const auto answer = whatIf(start, steps);
    ASSERT_TRUE(answer.ok()) << answer.status().str();
    Requests then;
    for (const ClaimRecord& each : answer->after.claims)
      if (!each.device.empty()) then[each.device] = *each.request;
    check(answer->after.cluster, then);
    (void)simulate(cluster_, crowd_.request(), {}, {});
    (void)forecast(cluster_, crowd_.request(), {}, 50);
    ASSERT_EQ(dump(cluster_), before);
  }

  /// Empties the cards that a remedy names because of their mode: afterwards the mode is no obstacle.
  void applyRemedy(const Request& request) {
    for (const Remedy& remedy : explain(cluster_, request).remedies)
      for (const auto& shortage : remedy.shortages) {
        if (shortage.isolation.empty()) continue;
        ASSERT_EQ(shortage.claims, cluster_.findCard(shortage.card).claims);
        const std::string_view mode = cluster_.findCard(shortage.card).isolation;
        ASSERT_EQ(shortage.isolation, mode.empty() ? "none" : mode);
        Cluster copy = cluster_;
        for (const HolderAllocation& taken : copy.allocationsOn(shortage.card)) copy.giveBack(shortage.card, taken.uid);
        for (const StageReport& stage : explain(copy, request, {}, 99).stages)
          for (const Dropped& each : stage.dropped)
            ASSERT_FALSE(stage.stage == "isolation" && each.card == shortage.card);
      }
  }

  Crowd crowd_;
  Cluster& cluster_;
  Requests requests_;
  int next_ = 0;
};

TEST(Modes, NoCardEverHasTwo) {
  int64_t changes = 0, shared = 0;
  for (uint64_t seed = 1; seed <= 30; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Mixture mixture(seed);
    for (int i = 0; i < 40; ++i) {
      ASSERT_NO_FATAL_FAILURE(mixture.step()) << "step " << i;
      ASSERT_NO_FATAL_FAILURE(mixture.check()) << "step " << i;
    }
    changes += mixture.changes;
    shared += mixture.shared;
  }
  EXPECT_GT(changes, 300);
  EXPECT_GT(shared, 50) << "shares beside others";
}

}  // namespace
}  // namespace egpu::scheduler::testing

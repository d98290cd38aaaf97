#include "controller/journal/replay.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "tests/journal/watched_cluster.h"

namespace egpu::journal {
namespace {

using std::chrono::seconds;
using SchedulingRequest = allocator::Allocator::SchedulingRequest;

scheduler::Policies policies(const std::string& name) {
  scheduler::Policies out;
  EXPECT_TRUE(scheduler::findPolicies(name, out)) << name;
  return out;
}

/// Decides, and binds what fits.
bool place(WatchedCluster& cluster, const std::string& uid, int64_t core, const std::string& policy) {
  const auto ask = cluster.ask(uid, core, policy);
  cluster.claim(uid);
  const auto decision = cluster.view.decideAndAssume(ask);
  if (decision.fits) cluster.bind(ask, decision);
  return decision.fits;
}

TEST(Replay, ReportsWhatAnotherPolicyWouldHaveDone) {
  WatchedCluster cluster;
  addTwoNodes(cluster);
  EXPECT_TRUE(place(cluster, "a", 500, "spread"));
  EXPECT_TRUE(place(cluster, "b", 500, "spread"));
  cluster.clock.advance(seconds(10));
  EXPECT_FALSE(place(cluster, "c", 1000, "spread"));
  cluster.clock.advance(seconds(10));
  EXPECT_TRUE(place(cluster, "d", 500, "spread"));

  const auto as = cluster.replayed();
  EXPECT_EQ(as.claims, 4);
  EXPECT_EQ(as.placed, 3);
  EXPECT_EQ(as.waiting, 1);
  EXPECT_EQ(as.longestWaiting, 10'000);
  EXPECT_EQ(as.different, 0);
  ASSERT_TRUE(as.firstFailure);
  EXPECT_EQ(as.firstFailure->claim, "ns/c");
  EXPECT_EQ(as.firstFailure->nth, 3);
  EXPECT_DOUBLE_EQ(as.firstFailure->core, 0.5);
  EXPECT_DOUBLE_EQ(as.core.mean, 0.5);
  EXPECT_DOUBLE_EQ(as.core.last, 0.75);

  const auto packed = cluster.replayed(policies("binpack"));
  EXPECT_EQ(packed.placed, 3) << "a, b on one card, c on the other, d nowhere";
  EXPECT_EQ(packed.waiting, 1);
  ASSERT_TRUE(packed.firstFailure);
  EXPECT_EQ(packed.firstFailure->claim, "ns/d");
  EXPECT_DOUBLE_EQ(packed.firstFailure->core, 1);
  EXPECT_DOUBLE_EQ(packed.core.mean, 0.75);
  EXPECT_DOUBLE_EQ(packed.core.last, 1);
  EXPECT_NE(packed.firstDifferent.find("ns/b was placed on n2"), std::string::npos) << packed.firstDifferent;
}

TEST(Replay, WhatAQuotaStoppedWaitsUnderAnotherPolicyToo) {
  WatchedCluster cluster;
  addTwoNodes(cluster);
  cache::Quota quota;
  quota.metadata.name = quota.metadata.uid = "team";
  quota.metadata.namespace_ = "strict";
  const auto allow = [&](const char* claims) {
    quota.metadata.resourceVersion = cluster.next();
    quota.spec.hard = {{"claims", claims}};
    cluster.stores.quotas.informed(quota);
  };
  allow("0");
  EXPECT_TRUE(place(cluster, "a", 500, "spread"));
  EXPECT_TRUE(place(cluster, "b", 300, "spread"));
  auto strict = cluster.ask("c", 100, "spread");
  strict.claim = "strict/c";
  cluster.claim("c");
  EXPECT_FALSE(cluster.view.decideAndAssume(strict).fits);
  cluster.clock.advance(seconds(10));
  cluster.release("a");  // waiting claims are tried again
  cluster.clock.advance(seconds(10));
  const auto packed = cluster.replayed(policies("binpack"));
  EXPECT_EQ(packed.different, 1) << "b goes to a's card";
  EXPECT_EQ(packed.given, 1);
  EXPECT_EQ(packed.placed, 2);
  EXPECT_EQ(packed.waiting, 1) << "cards are free, and it may not have them";
  allow("1");
  EXPECT_TRUE(cluster.view.decideAndAssume(strict).fits);
  cluster.clock.advance(seconds(10));
  const auto again = cluster.replayed(policies("binpack"));
  EXPECT_EQ(again.placed, 3) << "there it was decided again";
  EXPECT_EQ(again.given, 1) << "that it waits is taken as recorded, and where it is placed is not";
  EXPECT_EQ(cluster.replayed().given, 2);
}

TEST(Replay, WhatWaitsIsTriedAgainWhenSomethingIsGivenBack) {
  WatchedCluster cluster;
  addTwoNodes(cluster);
  EXPECT_TRUE(place(cluster, "a", 500, "binpack"));
  EXPECT_TRUE(place(cluster, "b", 500, "binpack"));
  EXPECT_TRUE(place(cluster, "c", 1000, "binpack"));
  cluster.clock.advance(seconds(30));
  cluster.release("a");
  cluster.clock.advance(seconds(5));
  cluster.release("b");
  cluster.clock.advance(seconds(60));
  cluster.release("c");

  const auto as = cluster.replayed();
  EXPECT_EQ(as.longestWait, 0);
  EXPECT_FALSE(as.firstFailure);
  EXPECT_DOUBLE_EQ(as.core.last, 0);

  const auto spread = cluster.replayed(policies("spread"));
  EXPECT_EQ(spread.placed, 3);
  EXPECT_EQ(spread.waited, 1);
  EXPECT_EQ(spread.longestWait, 30'000) << "c goes where a was";
  EXPECT_EQ(spread.waiting, 0);
  EXPECT_DOUBLE_EQ(spread.core.last, 0) << "deleted, it holds nothing";
}

TEST(Replay, AClaimThatIsDeletedNoLongerWaits) {
  WatchedCluster cluster;
  addTwoNodes(cluster);
  EXPECT_TRUE(place(cluster, "a", 500, "binpack"));
  EXPECT_TRUE(place(cluster, "b", 500, "binpack"));
  EXPECT_TRUE(place(cluster, "c", 1000, "binpack"));
  EXPECT_FALSE(place(cluster, "d", 100, "binpack"));
  cluster.clock.advance(seconds(30));
  for (const std::string uid : {"c", "d", "a", "b"}) cluster.release(uid);
  cluster.clock.advance(seconds(30));
  EXPECT_TRUE(place(cluster, "e", 1000, "binpack"));
  const auto as = cluster.replayed();
  EXPECT_EQ(as.left, 1);
  EXPECT_EQ(as.waiting, 0);
  const auto spread = cluster.replayed(policies("spread"));
  EXPECT_EQ(spread.left, 1) << "c; d found room";
  EXPECT_EQ(spread.placed, 4);
  EXPECT_EQ(spread.waiting, 0);
  EXPECT_DOUBLE_EQ(spread.core.last, 0.5) << "of e alone";
}

TEST(Replay, NodesThatWereRefusedStayRefusedAndOthersAreGuessed) {
  WatchedCluster cluster;
  for (const std::string name : {"n1", "n2", "n3"}) {
    cluster.node(name);
    cluster.card("card-" + name, name);
  }
  EXPECT_TRUE(place(cluster, "a", 500, "binpack"));
  const auto ask = cluster.ask("b", 400);
  EXPECT_EQ(cluster.view.decideAndAssume(ask, [](auto node) { return node != "n1"; }).node, "n2");
  const auto spread = cluster.replayed(policies("spread"));
  EXPECT_EQ(spread.different, 0) << "n1 was refused, and n2 is as empty as n3";
  EXPECT_EQ(spread.guessed, 0);
  EXPECT_EQ(cluster.view.decideAndAssume(cluster.ask("c", 400), [](auto node) { return node != "n1"; }).node, "n2");
  EXPECT_EQ(cluster.replayed(policies("spread")).guessed, 1) << "nobody had asked about n3";
}

/// Decides a share with the isolation mode, and binds it if it fits.
std::string placeWith(WatchedCluster& cluster, const std::string& uid, const std::string& isolation) {
  auto ask = cluster.ask(uid, 200);
  ask.request.isolation = isolation;
  cluster.claim(uid);
  const auto decision = cluster.view.decideAndAssume(ask);
  if (decision.fits) cluster.bind(ask, decision);
  return decision.node;
}

TEST(Replay, IsolationModesOfCardsCount) {
  WatchedCluster cluster;
  for (const std::string name : {"n1", "n2", "n3"}) {
    cluster.node(name);
    cluster.card("card-" + name, name, 0, "A", name == "n1" ? "the driver is too old" : "available");
  }
  EXPECT_EQ(placeWith(cluster, "before", "mps"), "n1");
  EXPECT_EQ(placeWith(cluster, "a", "limiter"), "n2") << "n1 has no limiter";
  EXPECT_EQ(placeWith(cluster, "b", "mps"), "n1");
  EXPECT_EQ(placeWith(cluster, "c", ""), "n3") << "the other cards have other modes";
  EXPECT_EQ(placeWith(cluster, "d", "auto"), "n2");
  cluster.release("c");
  EXPECT_EQ(placeWith(cluster, "e", "hami-core"), "n3");
  EXPECT_EQ(placeWith(cluster, "f", ""), "");
  const auto outcome = cluster.replayed();
  EXPECT_EQ(outcome.decisions, 7);
  EXPECT_EQ(outcome.different, 0) << outcome.firstDifferent;
  cluster.journal.reset();
  cluster.open();  // a file that begins with the cluster as it is
  EXPECT_EQ(placeWith(cluster, "g", "hami-core"), "n3");
  EXPECT_EQ(placeWith(cluster, "h", "auto"), "n2");
  std::filesystem::remove(cluster.files().front());
  const auto rest = cluster.replayed();
  EXPECT_EQ(rest.decisions, 2);
  EXPECT_EQ(rest.different, 0) << rest.firstDifferent;
  EXPECT_EQ(cluster.replayed(policies("spread")).placed, 2);
}

/// A journal of a version that did not record modes.
TEST(Replay, ReadsAJournalWithoutModes) {
  Replay replay({});
  for (const std::string line :
       {R"({"time":1,"journal":{"version":1,"program":"old"}})", R"({"time":1,"node":{"name":"n","schedulable":true}})",
        R"({"time":1,"card":{"name":"c","healthy":true,"card":{"uuid":"u","nodeName":"n","memory":1000}}})",
        R"({"time":1,"take":{"card":"c","by":"x","charged":{"core":100,"memory":10}}})",
        R"({"time":1,"complete":true})",
        R"({"time":2,"decision":{"asks":[{"claim":"ns/a","uid":"a","node":"n","cards":[{"card":"c",)"
        R"("charged":{"core":200,"memory":10}}],"request":{"cards":1,"perCard":{"core":200,"memory":10},)"
        R"("coreOvercommit":1000,"memoryOvercommit":1000,"nodePolicy":"binpack","cardPolicy":"binpack"}}]}})"}) {
    const auto record = codec::decodeJournalRecord(line);
    ASSERT_TRUE(record) << record.status().str() << line;
    replay.add(*record, false);
  }
  EXPECT_EQ(replay.summary().decisions, 1);
  EXPECT_EQ(replay.summary().different, 0) << replay.summary().firstDifferent;
}

/// Performs every kind of event in random order.
class JournalChurn {
 public:
  JournalChurn(WatchedCluster& cluster, uint64_t seed) : cluster_(cluster), random_(seed) {
    for (int n = 0; n < 14; ++n) addNode(n);
  }
  int pick(int n) { return std::uniform_int_distribution<int>(0, n - 1)(random_); }

  void step() {
    cluster_.clock.advance(std::chrono::milliseconds(pick(300)));
    switch (pick(14)) {
      case 0:
        return void(cluster_.node(nodeName(pick(14)), pick(4) > 0));
      case 1:
        return moveNode();
      case 2:
        return void(cluster_.ill(cardName(pick(14), pick(4)), pick(4) == 0));
      case 3:
        return giveUp();
      case 4:
      case 5:
      case 6:
        return release();
      case 7:
        return again();
      case 8:
        return together();
      default:
        return decide(fresh());
    }
  }

 private:
  static std::string nodeName(int n) { return "node-" + std::to_string(n); }
  static std::string cardName(int n, int c) { return "card-" + std::to_string(n) + "-" + std::to_string(c); }
  void addNode(int n) {
    cluster_.node(nodeName(n));
    static const std::vector<std::string> kLimiter = {"", "available", "available", "the driver is too old"};
    const auto& limiter = kLimiter[static_cast<std::size_t>(pick(4))];
    for (int c = 0; c < 1 + n % 4 * 2; ++c)
      cluster_.card(cardName(n, c), nodeName(n), c, n % 3 == 0 ? "B" : "A", limiter);
  }
  void moveNode() {
    const int n = pick(14);
    if (pick(3) > 0) return addNode(n);
    cluster_.nodeGone(nodeName(n));
    for (int c = 0; c < 7; ++c) cluster_.cardGone(cardName(n, c));
  }

  SchedulingRequest fresh() {
    static const std::vector<std::string> kPolicies = {"binpack", "spread", "compact-first", "low-load-first",
                                                       "fragmentation"};
    static const std::vector<std::string> kCards = {"binpack", "spread", "simple", "topology"};
    auto ask = cluster_.ask("claim-" + std::to_string(++claims_), 100 * (1 + pick(10)),
                            kPolicies[static_cast<std::size_t>(std::min(pick(8), 4))]);
    ask.request.cardPolicy = kCards[static_cast<std::size_t>(pick(4))];
    ask.request.cards = std::max(1, pick(6) - 2);
    ask.request.wholeCards = pick(4) == 0;
    if (pick(3) == 0) ask.request.models = {pick(2) == 0 ? "A" : "B"};
    if (pick(5) == 0) ask.request.coreOvercommit = 1500;
    static const std::vector<std::string> kModes = {"", "", "", "auto", "limiter", "mps", "hami-core"};
    ask.request.isolation = kModes[static_cast<std::size_t>(pick(7))];
    if (pick(8) == 0) {
      ask.request.split = scheduler::Split::evenly;
      ask.request.cards = 1;
      ask.request.wholeCards = false;
      ask.request.perCard.core = 1200;
    }
    cluster_.claim(ask.claimUid);
    return ask;
  }
  /// Returns a predicate like those from taints and pods.
  scheduler::NodePredicate suits(SchedulingRequest& ask) {
    const int kind = pick(3);
    if (kind == 0) return {};
    const int salt = pick(4);
    if (kind == 1) ask.nodes = "tolerates " + std::to_string(salt);
    return [salt](std::string_view node) { return node.back() % 4 != salt; };
  }
  void decide(SchedulingRequest ask) {
    const auto decision = cluster_.view.decideAndAssume(ask, suits(ask));
    if (decision.fits)
      placed(ask, decision);
    else
      waiting_.push_back(ask);
  }
  void placed(const SchedulingRequest& ask, const scheduler::Decision& decision) {
    if (pick(10) == 0) return assumed_.push_back(ask);
    cluster_.bind(ask, decision);
    bound_.push_back(ask.claimUid);
  }
  template <class T>
  bool draw(std::vector<T>& from, T& out) {
    if (from.empty()) return false;
    const auto at = static_cast<std::size_t>(pick(static_cast<int>(from.size())));
    out = from[at];
    from.erase(from.begin() + static_cast<std::ptrdiff_t>(at));
    return true;
  }
  void giveUp() {
    SchedulingRequest ask;
    if (!draw(assumed_, ask)) return;
    cluster_.view.forget(ask.claimUid);
    if (pick(2) == 0) return decide(ask);
    cluster_.release(ask.claimUid);
  }
  void again() {
    SchedulingRequest ask;
    if (draw(waiting_, ask)) decide(ask);
  }
  void release() {
    std::string uid;
    SchedulingRequest ask;
    if (draw(bound_, uid)) cluster_.release(uid);
    if (waiting_.size() > 8 && draw(waiting_, ask)) cluster_.release(ask.claimUid);
  }
  void together() {
    auto first = fresh(), second = fresh();
    const auto decisions = cluster_.view.decideTogether({first, second}, suits(first)).decisions;
    if (decisions.empty()) return waiting_.push_back(first);
    placed(first, decisions[0]);
    placed(second, decisions[1]);
  }

  WatchedCluster& cluster_;
  std::mt19937_64 random_;
  int claims_ = 0;
  std::vector<SchedulingRequest> waiting_, assumed_;
  std::vector<std::string> bound_;
};

/// The journal contains everything that decisions depend on.
TEST(Replay, UnderTheSamePoliciesEveryDecisionComesOutTheSame) {
  for (uint64_t seed = 1; seed <= 6; ++seed) {
    SCOPED_TRACE(seed);
    WatchedCluster cluster;
    JournalChurn churn(cluster, seed);
    for (int i = 0; i < 1'500; ++i) churn.step();
    const auto outcome = cluster.replayed();
    EXPECT_GT(outcome.decisions, 700);
    EXPECT_GT(outcome.placed, 100);
    EXPECT_EQ(outcome.given, 0);
    EXPECT_EQ(outcome.stretches, 1);
    EXPECT_EQ(outcome.different, 0) << outcome.firstDifferent;
    EXPECT_TRUE(cluster.leftOut.empty());
  }
}

/// Each file begins with the state that earlier files recorded, including learned demand and thus the prices of
/// fragmentation.
TEST(Replay, BeginsAtWhicheverFileIsLeft) {
  WatchedCluster cluster(2 << 20);
  JournalChurn churn(cluster, 11);
  for (int i = 0; i < 6'000; ++i) {
    churn.step();
    if (i % 100 == 0) cluster.journal->flush();  // writes regardless of the speed
  }
  const auto whole = cluster.replayed();
  EXPECT_EQ(whole.different, 0) << whole.firstDifferent;
  auto files = cluster.files();
  ASSERT_GE(files.size(), 5u);
  EXPECT_EQ(whole.stretches, 1);
  std::filesystem::remove(files[0]);
  std::filesystem::remove(files[1]);
  const auto rest = cluster.replayed();
  EXPECT_EQ(rest.different, 0) << rest.firstDifferent;
  EXPECT_EQ(rest.stretches, 1);
  EXPECT_LT(rest.decisions, whole.decisions);
  std::filesystem::remove(files[3]);
  EXPECT_EQ(cluster.replayed().stretches, 2);
  EXPECT_EQ(cluster.replayed().different, 0);
}

/// Whatever another policy decides, no capacity is allocated twice and no claim is forgotten.
TEST(Replay, UnderAnotherPolicyNoCardIsOverCommitted) {
  for (const std::string name : {"binpack", "spread", "fragmentation", "low-load-first", "binpack/simple"}) {
    SCOPED_TRACE(name);
    WatchedCluster cluster;
    JournalChurn churn(cluster, 5);
    for (int i = 0; i < 1'500; ++i) churn.step();
    const auto as = cluster.replayed(), other = cluster.replayed(policies(name));
    EXPECT_EQ(other.claims, as.claims);
    EXPECT_GT(other.placed, 100);
    EXPECT_EQ(other.placed + other.waiting + other.left, other.claims);
    EXPECT_EQ(as.placed + as.waiting + as.left, as.claims);
    EXPECT_LE(other.core.max, 1);
    EXPECT_LE(other.memory.max, 1);
  }
}

/// Two threads decide and forget, with so many nodes that decisions for pods' claims overlap.
TEST(Replay, ThreadsThatDecideAtOnceAreReplayedInTheirOrder) {
  WatchedCluster cluster;
  for (int n = 0; n < 200; ++n) {
    const auto name = "node-" + std::to_string(n);
    cluster.node(name);
    cluster.card("card-" + name, name);
    cluster.card("card2-" + name, name, 1);
  }
  const auto work = [&cluster](const std::string& who) {
    for (int i = 0; i < 60; ++i) {
      auto a = cluster.ask(who + "a" + std::to_string(i), 700), b = cluster.ask(who + "b" + std::to_string(i), 800);
      a.request.nodePolicy = i % 2 == 0 ? "binpack" : "fragmentation";
      (void)cluster.view.decideTogether({a, b}, [](auto node) { return node.back() > '4'; });
      (void)cluster.view.decideAndAssume(cluster.ask(who + "c" + std::to_string(i), 600));
      if (i % 3 == 0) cluster.view.forget(a.claimUid);
    }
  };
  {
    const std::jthread one([&] { work("x"); }), two([&] { work("y"); });
  }
  const auto outcome = cluster.replayed();
  EXPECT_EQ(outcome.decisions, 240);
  EXPECT_EQ(outcome.different, 0) << outcome.firstDifferent;
}

}  // namespace
}  // namespace egpu::journal

#include "controller/billing/card_time_account.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>

namespace egpu::billing {
namespace {

using codec::JournalRecord;

constexpr int64_t kBegin = 1'700'000'000'000;

/// A journal that the test writes record by record.
class WrittenJournal {
 public:
  explicit WrittenJournal(BillWindow window = {}) : account_(window) {}

  /// Lets time pass.
  WrittenJournal& after(int64_t milliseconds) {
    now_ += milliseconds;
    return *this;
  }
  WrittenJournal& add(JournalRecord record) {
    record.time = now_;
    account_.add(record, joined_);
    return *this;
  }
  /// Begins a file. joined: it continues the one before.
  WrittenJournal& file(bool joined = false) {
    joined_ = joined;
    JournalRecord record;
    record.journal = codec::JournalBegin{1, "test", joined};
    return add(record);
  }
  WrittenJournal& complete() {
    JournalRecord record;
    record.complete = true;
    return add(record);
  }
  WrittenJournal& alive() {
    JournalRecord record;
    record.alive = true;
    return add(record);
  }
  WrittenJournal& node(const std::string& name, bool schedulable = true) {
    JournalRecord record;
    record.node = codec::JournalNode{name, schedulable, 0, 0};
    return add(record);
  }
  WrittenJournal& card(const std::string& name, bool healthy = true, int64_t memory = 1000) {
    JournalRecord record;
    auto& card = record.card.emplace();
    card.name = name;
    card.healthy = healthy;
    card.card.uuid = "uuid-" + name;
    card.card.nodeName = "n";
    card.card.model = "A";
    card.card.memory = memory;
    return add(record);
  }
  WrittenJournal& cardGone(const std::string& name) {
    JournalRecord record;
    record.cardGone = name;
    return add(record);
  }
  WrittenJournal& take(const std::string& card, const std::string& by, int64_t core, int64_t memory = 0) {
    JournalRecord record;
    record.take = codec::JournalTake{card, by, {core, memory}};
    return add(record);
  }
  WrittenJournal& giveBack(const std::string& card, const std::string& by) {
    JournalRecord record;
    record.giveBack = codec::JournalTake{card, by, {}};
    return add(record);
  }
  WrittenJournal& holder(const std::string& by, const std::string& claim, std::optional<int64_t> usedCore = {}) {
    JournalRecord record;
    record.holder = codec::JournalHolder{by, claim, claim.empty() ? "" : "uid-of-" + claim, "share", usedCore};
    return add(record);
  }
  WrittenJournal& pod(const std::string& name, std::vector<std::string> claims) {
    JournalRecord record;
    record.pod = codec::JournalPod{name, std::move(claims)};
    return add(record);
  }
  /// One node with one card, at the begin.
  WrittenJournal& oneCard() { return file().node("n").card("c").complete(); }

  CardTimeTotal finish() { return account_.finish(); }
  /// Milliseconds by "kind" or "kind namespace/claim[ pod]".
  std::map<std::string, int64_t> bill() {
    const auto total = finish();
    std::map<std::string, int64_t> out;
    int64_t sum = 0;
    for (const auto& row : billRows(total.times, *BillFields::of({"claim", "pod"}), {})) {
      auto name = std::string(nameOf(row.key.kind));
      if (!row.key.claim.empty()) name += " " + row.key.space + "/" + row.key.claim;
      if (!row.key.pod.empty()) name += " " + row.key.pod;
      out[name] = row.cardMilliseconds;
      sum += row.cardMilliseconds;
    }
    EXPECT_EQ(sum, total.cardMilliseconds);
    return out;
  }

 private:
  CardTimeAccount account_;
  int64_t now_ = kBegin;
  bool joined_ = false;
};

using Times = std::map<std::string, int64_t>;

TEST(CardTimeAccount, FourClaimsOfAQuarterCostOneCard) {
  WrittenJournal journal;
  journal.oneCard();
  for (const std::string name : {"1", "2", "3", "4"}) {
    journal.holder(name, "ns/" + name).take("c", name, 250, 250);
    journal.pod("ns/pod-" + name, {name});
  }
  const auto total = journal.after(3'600'000).alive().finish();
  EXPECT_EQ(total.cardMilliseconds, 3'600'000);
  EXPECT_EQ(total.from, kBegin);
  EXPECT_EQ(total.to, kBegin + 3'600'000);
  CardPrices prices;
  ASSERT_TRUE(prices.add("2"));
  const auto rows = billRows(total.times, *BillFields::of({"pod", "class"}), prices);
  ASSERT_EQ(rows.size(), 4u);
  for (const auto& row : rows) {
    EXPECT_EQ(row.cardMilliseconds, 900'000);
    EXPECT_DOUBLE_EQ(row.cost, 0.5);
    EXPECT_EQ(row.key.className, "share");
    EXPECT_EQ(row.key.space, "ns");
    EXPECT_TRUE(row.key.pod.starts_with("pod-"));
  }
}

TEST(CardTimeAccount, TheLargerShareOfComputeAndMemoryCounts) {
  WrittenJournal journal;
  journal.oneCard().holder("1", "ns/a").take("c", "1", 100, 1000);
  EXPECT_EQ(journal.after(1000).alive().bill(), (Times{{"claim ns/a", 1000}}));
}

TEST(CardTimeAccount, SharesThatExceedTheCardTogetherAreScaled) {
  WrittenJournal journal;
  journal.oneCard().holder("1", "ns/a").holder("2", "ns/b").take("c", "1", 900, 100).take("c", "2", 100, 300);
  EXPECT_EQ(journal.after(1200).alive().bill(), (Times{{"claim ns/a", 900}, {"claim ns/b", 300}}));
}

TEST(CardTimeAccount, WhatNoClaimHasIsIdleOrUnhealthy) {
  WrittenJournal journal;
  journal.oneCard().holder("1", "ns/a").take("c", "1", 400);
  journal.after(1000).card("c", false).after(1000).card("c").after(1000).node("n", false).after(500);
  journal.giveBack("c", "1").after(500).alive();
  EXPECT_EQ(journal.bill(), (Times{{"claim ns/a", 1400}, {"idle", 1200}, {"unhealthy", 600 + 300 + 500}}));
}

TEST(CardTimeAccount, CardsCountForTheTimeThatTheyExist) {
  WrittenJournal journal;
  journal.oneCard().after(100).card("d").holder("1", "ns/a").take("d", "1", 1000).after(200).cardGone("d");
  journal.after(300).card("d").after(400).alive();
  EXPECT_EQ(journal.bill(), (Times{{"claim ns/a", 200}, {"idle", 1000 + 400}}));
}

TEST(CardTimeAccount, AResizeCountsFromItsTime) {
  WrittenJournal journal;
  journal.oneCard().holder("1", "ns/a").take("c", "1", 500).after(1000).take("c", "1", 250).after(1000).alive();
  EXPECT_EQ(journal.bill(), (Times{{"claim ns/a", 750}, {"idle", 1250}}));
}

TEST(CardTimeAccount, PodsOfAClaimShareItsTime) {
  WrittenJournal journal;
  journal.oneCard().holder("1", "ns/a").take("c", "1", 1000).after(100);
  journal.pod("ns/p", {"a", "other"}).after(100).pod("ns/q", {"a"}).pod("else/p", {"a"}).after(101);
  journal.pod("ns/p", {}).after(100).alive();
  EXPECT_EQ(journal.bill(), (Times{{"claim ns/a", 100}, {"claim ns/a p", 151}, {"claim ns/a q", 150}}));
}

TEST(CardTimeAccount, TheUsageOfAClaimIsDividedOverItsCardsAndPods) {
  WrittenJournal journal;
  journal.file().node("n").card("c").card("d").complete();
  journal.holder("1", "ns/a").take("c", "1", 1000).take("d", "1", 1000).after(1000);
  journal.holder("1", "ns/a", 1500).pod("ns/p", {"a"}).pod("ns/q", {"a"}).after(1000).alive();
  const auto total = journal.finish();
  const auto rows = billRows(total.times, *BillFields::of({"claim", "pod"}), {});
  ASSERT_EQ(rows.size(), 3u);
  EXPECT_FALSE(rows[0].usedMilliseconds) << "not known before the first usage";
  EXPECT_EQ(rows[1].usedMilliseconds, 750);
  EXPECT_EQ(rows[2].usedMilliseconds, 750);
  EXPECT_EQ(rows[1].cardMilliseconds, 1000);
}

TEST(CardTimeAccount, ADeviceWithoutAClaimAndOneWithoutANameAreRowsOfTheirOwn) {
  WrittenJournal journal;
  journal.oneCard().holder("1", "ns/a").take("c", "1", 500).take("c", "x", 250).after(1000).holder("1", "");
  EXPECT_EQ(journal.after(1000).alive().bill(),
            (Times{{"claim ns/a", 500}, {"retained", 500}, {"unnamed", 500}, {"idle", 500}}));
}

TEST(CardTimeAccount, OnlyTheWindowCounts) {
  WrittenJournal journal({kBegin + 500, kBegin + 2500});
  journal.oneCard().holder("1", "ns/a").after(1000).take("c", "1", 1000).after(1000).giveBack("c", "1").after(5000);
  const auto times = journal.alive().bill();
  EXPECT_EQ(times, (Times{{"claim ns/a", 1000}, {"idle", 1000}}));
  WrittenJournal early({0, kBegin - 1}), late({kBegin + 100'000, kBegin + 200'000});
  for (auto* each : {&early, &late}) {
    const auto total = each->oneCard().after(1000).alive().finish();
    EXPECT_EQ(total.cardMilliseconds, 0);
    EXPECT_TRUE(total.times.empty());
    EXPECT_LE(total.from, total.to);
  }
}

TEST(CardTimeAccount, AcrossAGapAHolderKeepsItsPartAndTheRestIsUnknown) {
  WrittenJournal journal;
  journal.file().node("n").card("c").card("gone").complete();
  journal.holder("1", "ns/a").holder("2", "ns/b").holder("claim/3", "ns/d").pod("ns/p", {"a"}).pod("ns/q", {"b"});
  journal.take("c", "1", 500).take("c", "2", 100).take("c", "claim/3", 200).after(1000).alive();
  // ns/a was resized, ns/b is gone, ns/d has its device, ns/e is new.
  journal.after(1000).file().holder("1", "ns/a").holder("3", "ns/d").holder("4", "ns/e").node("n").card("c");
  journal.card("new").pod("ns/p", {"a"}).take("c", "1", 300).take("c", "3", 200).take("c", "4", 100).complete();
  const auto times = journal.after(1000).alive().bill();
  EXPECT_EQ(times, (Times{{"claim ns/a p", 500 + 300 + 300},
                          {"claim ns/b q", 100},
                          {"claim ns/d", 200 + 200 + 200},
                          {"claim ns/e", 100},
                          {"unknown", 500},
                          {"idle", 200 + 1000 + 400 + 1000}}));
}

TEST(CardTimeAccount, AnotherCardOfTheSameNameIsNotTheSameCard) {
  WrittenJournal journal;
  journal.oneCard().after(100).alive().after(100).file().node("n");
  JournalRecord record;
  record.card = codec::JournalCard{"c", true, {}};
  record.card->card.uuid = "another";
  record.card->card.nodeName = "n";
  journal.add(record).complete();
  EXPECT_EQ(journal.after(100).alive().bill(), (Times{{"idle", 200}}));
}

TEST(CardTimeAccount, AFileThatContinuesHasNoGap) {
  WrittenJournal journal;
  journal.oneCard().holder("1", "ns/a").take("c", "1", 1000).after(1000);
  journal.file(true).node("n").card("c").take("c", "1", 1000).complete();
  auto times = journal.after(1000).giveBack("c", "1").after(1000).alive().bill();
  EXPECT_EQ(times, (Times{{"claim ns/a", 2000}, {"idle", 1000}}));
}

TEST(CardTimeAccount, AClockThatIsSetBackCountsNoTimeTwice) {
  WrittenJournal journal;
  journal.oneCard().after(1000).alive().after(-600).card("d").after(600).alive().after(100).alive();
  EXPECT_EQ(journal.bill(), (Times{{"idle", 1000 + 200}}));
}

TEST(CardTimeAccount, JournalsWithoutHoldersAreNamedByDecisions) {
  WrittenJournal journal;
  journal.oneCard();
  JournalRecord decision;
  decision.decision.emplace().asks.push_back({"ns/a", "u", {}, "n", {{"c", {500, 0}}}});
  journal.add(decision).take("c", "claim/u", 500).after(1000);
  JournalRecord device;
  device.device = codec::JournalDevice{"dev", "u"};
  journal.add(device).take("c", "dev", 500).giveBack("c", "claim/u").after(1000).alive();
  EXPECT_EQ(journal.bill(), (Times{{"claim ns/a", 1000}, {"idle", 1000}}));
}

}  // namespace
}  // namespace egpu::billing

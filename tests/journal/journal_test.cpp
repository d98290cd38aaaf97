#include "controller/journal/journal.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "tests/journal/watched_cluster.h"

namespace egpu::journal {
namespace {

using codec::JournalRecord;
using std::chrono::seconds;

std::vector<JournalRecord> recordsIn(WatchedCluster& cluster) {
  cluster.journal->flush();
  std::vector<JournalRecord> records;
  Reading reading;
  reading.each = [&](const JournalRecord& record, bool) { records.push_back(record); };
  reading.leftOut = [&](const std::string& what) { cluster.leftOut.push_back(what); };
  EXPECT_TRUE(read(cluster.folder(), reading).ok());
  return records;
}

std::vector<codec::JournalDecision> decisionsIn(WatchedCluster& cluster) {
  std::vector<codec::JournalDecision> decisions;
  for (const auto& record : recordsIn(cluster))
    if (record.decision) decisions.push_back(*record.decision);
  return decisions;
}

TEST(Journal, HasEveryDecisionAndWhatItWasMadeFrom) {
  WatchedCluster cluster;
  addTwoNodes(cluster);
  const auto a = cluster.ask("a", 600);
  ASSERT_TRUE(cluster.view.decideAndAssume(a, [](auto node) { return node == "n2"; }).fits);
  cluster.clock.advance(seconds(5));
  EXPECT_TRUE(cluster.view.decideTogether({cluster.ask("b", 700), cluster.ask("c", 700)}, {}).decisions.empty());

  const auto records = recordsIn(cluster);
  ASSERT_TRUE(records.front().journal);
  EXPECT_EQ(records.front().journal->program, "test");
  EXPECT_FALSE(records.front().journal->continues);
  EXPECT_EQ(records.front().time, 1'700'000'000'000);
  std::vector<std::string> nodes, cards;
  for (const auto& record : records) {
    if (record.node) nodes.push_back(record.node->name);
    if (record.card) cards.push_back(record.card->card.uuid);
  }
  EXPECT_EQ(nodes, (std::vector<std::string>{"n1", "n2"}));
  EXPECT_EQ(cards, (std::vector<std::string>{"uuid-card-n1", "uuid-card-n2"}));

  const auto decisions = decisionsIn(cluster);
  ASSERT_EQ(decisions.size(), 2u);
  ASSERT_EQ(decisions[0].asks.size(), 1u);
  EXPECT_EQ(decisions[0].asks[0].claim, "ns/a");
  EXPECT_EQ(decisions[0].asks[0].request, a.request);
  EXPECT_EQ(decisions[0].asks[0].node, "n2");
  EXPECT_EQ(decisions[0].asks[0].cards.at(0).card, "card-n2");
  EXPECT_EQ(decisions[0].asks[0].cards.at(0).charged, (scheduler::Amount{600, 10}));
  EXPECT_EQ(decisions[0].refused, std::vector<std::string>{"n1"});
  EXPECT_EQ(decisions[0].suited, std::vector<std::string>{"n2"});
  ASSERT_EQ(decisions[1].asks.size(), 2u);
  EXPECT_EQ(decisions[1].asks[1].node, "");
  EXPECT_EQ(records.back().time - records.front().time, 5'000);
}

TEST(Journal, NothingIsWrittenBeforeTheFirstDecisionAndNothingForWhatDoesNotChange) {
  WatchedCluster cluster;
  addTwoNodes(cluster);
  cluster.journal->flush();
  EXPECT_TRUE(cluster.files().empty());
  (void)cluster.view.decideAndAssume(cluster.ask("a", 100));
  const auto before = recordsIn(cluster).size();
  cluster.node("n1");
  cluster.card("card-n1", "n1");
  EXPECT_EQ(recordsIn(cluster).size(), before);
  cluster.node("n1", false);
  EXPECT_EQ(recordsIn(cluster).size(), before + 1);
}

TEST(Journal, ARecordIsReadAsItWasWritten) {
  JournalRecord record;
  record.time = 17;
  scheduler::Request r;
  r.cards = 0;
  r.wholeCards = r.memoryFromCore = true;
  r.perCard = {5, 6};
  r.milliTflopsPerCard = 7;
  r.coreOvercommit = 1500;
  r.memoryOvercommit = 2000;
  r.models = {"A", "B"};
  r.minMemory = 8;
  r.maxClaimsPerCard = 9;
  r.maxClaimsPerNode = 10;
  r.cpuMilli = 11;
  r.podMemory = 12;
  r.nodePolicy = "spread";
  r.cardPolicy = "static dgx2";
  r.memoryWeight = 250;
  r.split = scheduler::Split::fill;
  r.pinnedNode = "n";
  r.pinnedCards = {"c\n\"d"};
  record.asked = r;
  record.demand.emplace().classes.push_back({r, "0x1.8p+3"});
  const auto line = codec::encode(record);
  EXPECT_EQ(line.find('\n'), std::string::npos);
  const auto again = codec::decodeJournalRecord(line);
  ASSERT_TRUE(again.ok()) << again.status().str();
  EXPECT_EQ(*again->asked, r);
  EXPECT_EQ(again->demand->classes.at(0).request, r);
  EXPECT_EQ(codec::encode(*again), line);
  record.asked->memoryWeight = 0;
  EXPECT_EQ(codec::decodeJournalRecord(codec::encode(record))->asked->memoryWeight, 0);
  record.asked->split = scheduler::Split::evenly;
  EXPECT_EQ(codec::decodeJournalRecord(codec::encode(record))->asked->split, scheduler::Split::evenly);
}

TEST(Journal, ATornLastRecordIsLeftOutAndTheNextProcessGoesOnInAFileOfItsOwn) {
  WatchedCluster cluster;
  addTwoNodes(cluster);
  for (int i = 0; i < 3; ++i) (void)cluster.view.decideAndAssume(cluster.ask("a" + std::to_string(i), 300));
  cluster.journal->flush();
  const auto torn = cluster.files().back();
  std::filesystem::resize_file(torn, std::filesystem::file_size(torn) - 7);
  cluster.journal.reset();
  cluster.open();
  (void)cluster.view.decideAndAssume(cluster.ask("b", 300));
  const auto outcome = cluster.replayed();
  EXPECT_EQ(cluster.files().size(), 2u);
  ASSERT_EQ(cluster.leftOut.size(), 1u);
  EXPECT_EQ(cluster.leftOut[0], "journal-00000001.jsonl: left out its last record, which is incomplete");
  EXPECT_EQ(outcome.stretches, 2);
  EXPECT_EQ(outcome.different, 0);
  EXPECT_EQ(outcome.decisions, 4);
}

TEST(Journal, WhatCantBeReadIsLeftOutWithWords) {
  WatchedCluster cluster;
  addTwoNodes(cluster);
  (void)cluster.view.decideAndAssume(cluster.ask("a", 300));
  cluster.journal.reset();
  const auto path = cluster.files().back();
  const auto at = [&](const std::string& name) { return cluster.folder() + "/" + name; };
  std::filesystem::copy_file(path, at("journal-00000002.jsonl"));
  std::ofstream(at("journal-00000002.jsonl"), std::ios::app) << "{\"time\":\"x\"}\n{\"time\":1}\n";
  std::ofstream(at("journal-00000003.jsonl")) << "{\"time\":1,\"journal\":{\"version\":1}}\n";
  std::ofstream(at("journal-00000004.jsonl")) << "{\"time\":1,\"journal\":{\"version\":2}}\n";
  std::ofstream(at("journal-00000005.jsonl")) << "";
  std::ofstream(at("journal-x.jsonl")) << "not ours";
  cluster.open();
  const auto outcome = cluster.replayed();
  EXPECT_EQ(outcome.decisions, 2);
  ASSERT_EQ(cluster.leftOut.size(), 4u);
  EXPECT_NE(cluster.leftOut[0].find("journal-00000002.jsonl: left out line"), std::string::npos) << cluster.leftOut[0];
  EXPECT_NE(cluster.leftOut[0].find("time"), std::string::npos) << cluster.leftOut[0];
  EXPECT_NE(cluster.leftOut[1].find("ends before the whole cluster"), std::string::npos) << cluster.leftOut[1];
  EXPECT_NE(cluster.leftOut[2].find("version 1"), std::string::npos) << cluster.leftOut[2];
  EXPECT_FALSE(read(cluster.folder() + "-none", {[](auto&, bool) {}, [](auto&) {}}).ok());
}

TEST(Journal, OnlyOneProcessWritesAFolder) {
  WatchedCluster cluster;
  const auto second = Journal::open(cluster.folder(), 1 << 20, "test", cluster.clock, cluster.metrics);
  ASSERT_FALSE(second.ok());
  EXPECT_NE(second.status().message().find("another process"), std::string::npos) << second.status().message();
  const auto small = Journal::open(cluster.folder() + "2", 1000, "test", cluster.clock, cluster.metrics);
  ASSERT_FALSE(small.ok());
  EXPECT_EQ(small.status().code(), base::Code::invalid);
}

int64_t bytesIn(const WatchedCluster& cluster) {
  int64_t bytes = 0;
  for (const auto& path : cluster.files()) bytes += static_cast<int64_t>(std::filesystem::file_size(path));
  return bytes;
}

TEST(Journal, ItsFilesNeverHaveMoreThanTheyMayAndTheOldestGo) {
  WatchedCluster cluster(Files::kMin);
  addTwoNodes(cluster);
  std::vector<std::string> first;
  for (int i = 0; i < 4'000; ++i) {
    const auto uid = "a" + std::to_string(i);
    (void)cluster.view.decideAndAssume(cluster.ask(uid, 100 + i % 500));
    cluster.view.forget(uid);
    if (i % 100 != 0) continue;
    cluster.journal->flush();
    EXPECT_LE(bytesIn(cluster), Files::kMin);
    if (first.empty()) first = cluster.files();
  }
  cluster.journal->flush();
  EXPECT_GT(bytesIn(cluster), Files::kMin / 2);
  EXPECT_GT(cluster.files().size(), 4u);
  EXPECT_FALSE(std::filesystem::exists(first.front())) << "the oldest should have gone";
  const auto outcome = cluster.replayed();
  EXPECT_EQ(outcome.stretches, 1) << "nothing is missing between the files that are left";
  EXPECT_GT(outcome.decisions, 500);
  EXPECT_EQ(outcome.different, 0) << outcome.firstDifferent;
  EXPECT_EQ(cluster.metrics.count("elasticgpu_journal_lost_total"), 0);
}

TEST(Journal, AClusterThatIsTooLargeForItsBytesIsNotTriedAgain) {
  WatchedCluster cluster(Files::kMin);
  cluster.node("n");
  for (int i = 0; i < 2'000; ++i) cluster.card("card-" + std::to_string(i), "n", i);
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(cluster.view.decideAndAssume(cluster.ask("a" + std::to_string(i), 100)).fits);
    cluster.clock.advance(seconds(60));
    cluster.journal->flush();
    cluster.journal->flush();
  }
  EXPECT_LE(bytesIn(cluster), Files::kMin);
  EXPECT_EQ(cluster.files().size(), 1u);
  EXPECT_FALSE(cluster.journal->wantsAll());
  EXPECT_GT(cluster.metrics.count("elasticgpu_journal_lost_total"), 0);
}

/// Keeps files from growing, as on a full disk.
class FullDisk {
 public:
  explicit FullDisk(rlim_t bytes) {
    ::getrlimit(RLIMIT_FSIZE, &before_);
    handler_ = ::signal(SIGXFSZ, SIG_IGN);
    const rlimit full{bytes, before_.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &full);
  }
  ~FullDisk() {
    ::setrlimit(RLIMIT_FSIZE, &before_);
    ::signal(SIGXFSZ, handler_);
  }

 private:
  rlimit before_{};
  void (*handler_)(int) = nullptr;
};

TEST(Journal, AFullDiskFailsNoDecisionAndIsWrittenAgainOnceThereIsSpace) {
  WatchedCluster cluster;
  addTwoNodes(cluster);
  ASSERT_TRUE(cluster.view.decideAndAssume(cluster.ask("a", 100)).fits);
  cluster.journal->flush();
  {
    const FullDisk full(std::filesystem::file_size(cluster.files().back()) + 10);
    for (const std::string uid : {"b", "c", "d"}) {
      EXPECT_TRUE(cluster.view.decideAndAssume(cluster.ask(uid, 100)).fits);
      cluster.journal->flush();
    }
    EXPECT_GT(cluster.metrics.count("elasticgpu_journal_lost_total"), 0);
    EXPECT_FALSE(cluster.journal->wantsAll()) << "it waits a while before it tries again";
  }
  cluster.clock.advance(seconds(31));
  cluster.journal->flush();
  EXPECT_TRUE(cluster.journal->wantsAll());
  EXPECT_TRUE(cluster.view.decideAndAssume(cluster.ask("e", 100)).fits);
  const auto outcome = cluster.replayed();
  EXPECT_EQ(outcome.stretches, 2);
  EXPECT_EQ(outcome.different, 0) << outcome.firstDifferent;
  const auto decisions = decisionsIn(cluster);
  ASSERT_FALSE(decisions.empty());
  EXPECT_EQ(decisions.back().asks.at(0).claim, "ns/e");
}

/// Even if little fits into memory, the journal's callers are not blocked, and the recorded part can be replayed.
TEST(Journal, WhatFindsNoSpaceInMemoryIsCounted) {
  WatchedCluster cluster;
  addTwoNodes(cluster);
  (void)cluster.view.decideAndAssume(cluster.ask("a", 100));
  constexpr int kChanges = 200'000;
  for (int i = 0; i < kChanges; ++i) cluster.journal->changed(allocator::ClaimGone{"x"});
  cluster.journal->flush();
  cluster.journal->flush();
  (void)cluster.view.decideAndAssume(cluster.ask("b", 100));
  cluster.journal->flush();
  int written = 0;
  for (const auto& record : recordsIn(cluster)) written += record.claimGone == "x" ? 1 : 0;
  EXPECT_EQ(written + cluster.metrics.count("elasticgpu_journal_lost_total"), kChanges);
  EXPECT_EQ(cluster.replayed().different, 0);
  EXPECT_EQ(decisionsIn(cluster).back().asks.at(0).claim, "ns/b");
}

}  // namespace
}  // namespace egpu::journal

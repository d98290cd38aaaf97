// Bills of journals as the controller writes them, also after kills.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <map>
#include <random>
#include <set>
#include <string>

#include "controller/billing/card_time_account.h"
#include "tests/journal/watched_cluster.h"

namespace egpu::billing {
namespace {

using codec::JournalRecord;
using journal::WatchedCluster;
using std::chrono::milliseconds;

template <class F>
void eachRecord(WatchedCluster& cluster, const F& f) {
  cluster.journal->flush();
  const journal::Reading reading{f, [](const std::string&) {}};
  ASSERT_TRUE(journal::read(cluster.folder(), reading).ok());
}

CardTimeTotal totalOf(WatchedCluster& cluster) {
  CardTimeAccount account({});
  eachRecord(cluster, [&account](const JournalRecord& record, bool joined) { account.add(record, joined); });
  return account.finish();
}

/// Recomputes a bill in the plainest way: all cards at each record, with fractions.
class PlainBill {
 public:
  void add(const JournalRecord& record, bool joined) {
    if (record.journal && !joined) {
      gapFrom_ = now_;
      before_ = std::exchange(cards_, {});
      isPicture_ = true;
    } else if (record.journal) {
      skipping_ = true;
    }
    if (skipping_) {
      skipping_ = !record.complete;
      return;
    }
    if (!isPicture_) advance(record.time);
    now_ = std::max(now_, record.time);
    if (record.card) {
      auto& card = cards_[record.card->name];
      card.healthy = record.card->healthy;
      card.memory = record.card->card.memory;
      card.node = record.card->card.nodeName;
    }
    if (!record.cardGone.empty()) cards_.erase(record.cardGone);
    if (record.take && cards_.contains(record.take->card))
      cards_[record.take->card].takes[record.take->by] = record.take->charged;
    if (record.giveBack && cards_.contains(record.giveBack->card))
      cards_[record.giveBack->card].takes.erase(record.giveBack->by);
    if (record.holder) claims_[record.holder->by] = record.holder->claim;
    if (record.decision)
      for (const auto& ask : record.decision->asks) claims_["claim/" + ask.uid] = ask.claim;
    if (record.complete) {
      for (const auto& [name, card] : cards_)
        if (before_.contains(name)) total += now_ - gapFrom_;
      isPicture_ = false;
    }
  }

  int64_t total = 0;
  std::map<std::string, double> outsideGaps;  ///< milliseconds by claim

 private:
  struct PlainCard {
    bool healthy = false;
    int64_t memory = 0;
    std::string node;
    std::map<std::string, scheduler::Amount> takes;
  };
  void advance(int64_t time) {
    if (time <= now_) return;
    for (const auto& [name, card] : cards_) {
      total += time - now_;
      double sum = 0;
      std::map<std::string, double> shares;
      for (const auto& [by, charged] : card.takes) {
        const double share = std::max(static_cast<double>(charged.core) / 1000,
                                      static_cast<double>(charged.memory) / static_cast<double>(card.memory));
        shares[by] = share;
        sum += share;
      }
      for (const auto& [by, share] : shares)
        outsideGaps[claims_[by]] += share / std::max(1.0, sum) * static_cast<double>(time - now_);
    }
  }

  std::map<std::string, PlainCard> cards_, before_;
  std::map<std::string, std::string> claims_;
  int64_t now_ = 0, gapFrom_ = 0;
  bool skipping_ = false, isPicture_ = false;
};

/// Random claims, faults and times.
class RandomCluster {
 public:
  explicit RandomCluster(unsigned seed) : random_(seed) {
    for (const std::string node : {"n1", "n2"}) cluster.node(node);
    for (int i = 0; i < 4; ++i) addCard();
  }
  void step() {
    cluster.clock.advance(milliseconds(pick(5000)));
    switch (pick(8)) {
      case 0:
        cluster.node(pick(2) == 0 ? "n1" : "n2", pick(4) > 0);
        break;
      case 1:
        cluster.ill(anyCard(), pick(4) == 0);
        break;
      case 2:
        changeCards();
        break;
      case 3:
      case 4:
        if (!bound_.empty()) {
          const auto at = bound_.begin() + pick(static_cast<int>(bound_.size()));
          cluster.release(*at);
          bound_.erase(at);
        }
        break;
      default:
        bind();
    }
  }
  /// Ends the writer as a kill does: the file ends at any byte.
  void kill() {
    cluster.journal->flush();
    const auto files = cluster.files();
    if (!files.empty()) {
      const auto size = static_cast<int>(std::filesystem::file_size(files.back()));
      std::filesystem::resize_file(files.back(), static_cast<std::uintmax_t>(size - pick(std::min(size, 3000))));
    }
    cluster.journal.reset();
    cluster.clock.advance(milliseconds(pick(20'000)));
    cluster.open();
  }
  WatchedCluster cluster;

 private:
  void addCard() {
    const int i = ++lastCard_;
    cards_.push_back("card-" + std::to_string(i));
    cluster.card(cards_.back(), i % 2 == 0 ? "n1" : "n2", i);
  }
  const std::string& anyCard() { return cards_[static_cast<std::size_t>(pick(static_cast<int>(cards_.size())))]; }
  void changeCards() {
    if (cards_.size() < 5) return addCard();
    const auto gone = anyCard();
    cluster.cardGone(gone);
    std::erase(cards_, gone);
  }
  int pick(int count) { return static_cast<int>(random_() % static_cast<unsigned>(count)); }
  void bind() {
    auto ask = WatchedCluster::ask("u" + std::to_string(++last_), 50 + pick(500));
    ask.request.perCard.memory = 1 + pick(600);
    cluster.claim(ask.claimUid);
    const auto decision = cluster.view.decideAndAssume(ask);
    if (!decision.fits) return;
    cluster.clock.advance(milliseconds(pick(50)));
    cluster.bind(ask, decision);
    bound_.push_back(ask.claimUid);
  }

  std::mt19937 random_;
  std::vector<std::string> bound_, cards_;
  int last_ = 0, lastCard_ = 0;
};

/// Compares the bill with the plain one. Returns the number of gaps.
int64_t compareWithPlain(WatchedCluster& cluster) {
  const auto total = totalOf(cluster);
  PlainBill plain;
  eachRecord(cluster, [&plain](const JournalRecord& record, bool joined) { plain.add(record, joined); });
  EXPECT_EQ(total.cardMilliseconds, plain.total);
  CardParts parts = 0;
  std::map<std::string, double> byClaim;
  for (const auto& [key, time] : total.times) {
    parts += time.granted;
    EXPECT_NE(key.kind, CardTimeKind::unnamed);
    if (key.kind == CardTimeKind::claim)
      byClaim[key.space + "/" + key.claim] += static_cast<double>(time.granted) / kParts;
  }
  EXPECT_TRUE(parts == CardParts{total.cardMilliseconds} * kParts) << "not even a part of a millisecond is missing";
  for (const auto& fields : {BillFields{}, *BillFields::of({"claim"}), *BillFields::of(BillFields::names())}) {
    int64_t sum = 0;
    for (const auto& row : billRows(total.times, fields, {})) sum += row.cardMilliseconds;
    EXPECT_EQ(sum, total.cardMilliseconds);
  }
  for (const auto& [claim, time] : plain.outsideGaps) {
    if (total.gaps == 0)
      EXPECT_NEAR(byClaim[claim], time, 1e-3) << claim;
    else
      EXPECT_GE(byClaim[claim], time - 1e-3) << claim << ": a gap adds time, or none";
  }
  EXPECT_GT(plain.outsideGaps.size(), 20u);
  return total.gaps;
}

TEST(JournalBill, TheSumIsExactAndEachClaimPaysItsShare) {
  for (unsigned seed = 1; seed <= 3; ++seed) {
    RandomCluster random(seed);
    for (int i = 0; i < 400; ++i) random.step();
    EXPECT_EQ(compareWithPlain(random.cluster), 0) << "seed " << seed;
  }
}

TEST(JournalBill, TheSumIsExactAfterKillsAtAnyByte) {
  for (unsigned seed = 11; seed <= 16; ++seed) {
    RandomCluster random(seed);
    for (int i = 0; i < 400; ++i) {
      random.step();
      if (i % 40 == 39) random.kill();
    }
    for (int i = 0; i < 20; ++i) random.step();
    EXPECT_GT(compareWithPlain(random.cluster), 3) << "seed " << seed;
  }
}

TEST(JournalBill, AClaimThatOutlivesTheControllerIsNamedAndChargedThroughout) {
  WatchedCluster cluster;
  addTwoNodes(cluster);
  const auto ask = WatchedCluster::ask("a", 1000);
  cluster.claim("a");
  cluster.bind(ask, cluster.view.decideAndAssume(ask));
  cluster.clock.advance(milliseconds(1000));
  cluster.node("n2", false);
  cluster.journal.reset();
  cluster.clock.advance(milliseconds(1000));
  cluster.open();
  (void)cluster.view.decideAndAssume(WatchedCluster::ask("large", 5000));
  cluster.clock.advance(milliseconds(1000));
  cluster.node("n2", true);
  const auto total = totalOf(cluster);
  EXPECT_EQ(total.gaps, 1);
  EXPECT_EQ(total.cardMilliseconds, 6000);
  std::map<std::string, int64_t> times;
  for (const auto& row : billRows(total.times, *BillFields::of({"claim"}), {}))
    times[std::string(nameOf(row.key.kind)) + row.key.claim] = row.cardMilliseconds;
  EXPECT_EQ(times,
            (std::map<std::string, int64_t>{{"claima", 3000}, {"idle", 1000}, {"unhealthy", 1000}, {"unknown", 1000}}));
}

TEST(JournalBill, PodsThatRunAreRecorded) {
  WatchedCluster cluster;
  addTwoNodes(cluster);
  const auto ask = WatchedCluster::ask("a", 1000);
  cluster.claim("a");
  const auto decision = cluster.view.decideAndAssume(ask);
  cluster.bind(ask, decision);
  core::Pod pod;
  pod.metadata.name = "p";
  pod.metadata.namespace_ = "ns";
  pod.metadata.uid = "pod-p";
  pod.resourceClaims.push_back({"g", "a", {}});
  const auto change = [&](const std::string& node, const std::string& phase) {
    pod.metadata.resourceVersion = cluster.next();
    pod.nodeName = node;
    pod.phase = phase;
    cluster.stores.pods.informed(pod);
    cluster.clock.advance(milliseconds(1000));
  };
  change("", "Pending");
  change(decision.node, "Pending");
  change(decision.node, "Running");
  change(decision.node, "Succeeded");
  cluster.node("n1", false);
  std::map<std::string, int64_t> times;
  for (const auto& row : billRows(totalOf(cluster).times, *BillFields::of({"pod"}), {}))
    if (row.key.kind == CardTimeKind::claim) times[row.key.pod] = row.cardMilliseconds;
  EXPECT_EQ(times, (std::map<std::string, int64_t>{{"", 2000}, {"p", 2000}}));
}

TEST(JournalBill, TheUsageInTheStatusOfAClaimIsRecorded) {
  WatchedCluster cluster;
  addTwoNodes(cluster);
  const auto ask = WatchedCluster::ask("a", 1000);
  cluster.claim("a");
  cluster.bind(ask, cluster.view.decideAndAssume(ask));
  const auto report = [&cluster](const std::string& core) {
    cache::Claim claim = *cluster.stores.claims.get({"ns", "a"});
    claim.metadata.resourceVersion = cluster.next();
    claim.status.usage = v1alpha::ClaimUsage{core, "1Gi", core + ", 1Gi", "2026-01-01T00:00:00Z"};
    cluster.stores.claims.informed(claim);
    cluster.clock.advance(milliseconds(1000));
  };
  const auto used = [&cluster]() -> std::optional<int64_t> {
    for (const auto& row : billRows(totalOf(cluster).times, *BillFields::of({"claim"}), {}))
      if (row.key.kind == CardTimeKind::claim) return row.usedMilliseconds;
    return {};
  };
  cluster.clock.advance(milliseconds(1000));
  report("35%");
  report("");
  EXPECT_EQ(used(), 350);
  report("80%");
  cluster.node("n1", false);
  cluster.node("n2", false);
  EXPECT_EQ(used(), 350 + 800);
}

TEST(JournalBill, AReleasedDeviceCostsItsFormerClaimNothing) {
  WatchedCluster cluster;
  addTwoNodes(cluster);
  const auto ask = WatchedCluster::ask("a", 1000);
  cluster.claim("a");
  cluster.bind(ask, cluster.view.decideAndAssume(ask));
  cluster.clock.advance(milliseconds(1000));
  cluster.stores.claims.observedGone({"ns", "a"}, "a");
  auto device = *cluster.stores.devices.get({"", "d-a"});
  device.metadata.resourceVersion = cluster.next();
  device.status.phase = "Released";
  cluster.stores.devices.informed(device);
  cluster.clock.advance(milliseconds(3000));
  cluster.node("n1", false);
  std::map<std::string, int64_t> times;
  for (const auto& row : billRows(totalOf(cluster).times, *BillFields::of({"claim"}), {}))
    times[std::string(nameOf(row.key.kind))] += row.cardMilliseconds;
  EXPECT_EQ(times, (std::map<std::string, int64_t>{{"claim", 1000}, {"retained", 3000}, {"idle", 4000}}));
}

TEST(JournalBill, ARecordPerMinuteTellsThatNothingIsMissing) {
  WatchedCluster cluster;
  addTwoNodes(cluster);
  (void)cluster.view.decideAndAssume(WatchedCluster::ask("a", 100));
  cluster.journal->flush();
  cluster.clock.advance(milliseconds(59'000));
  cluster.journal->flush();
  EXPECT_EQ(totalOf(cluster).cardMilliseconds, 0);
  cluster.clock.advance(milliseconds(1000));
  cluster.journal->flush();
  cluster.journal->flush();
  EXPECT_EQ(totalOf(cluster).cardMilliseconds, 2 * 60'000);
  EXPECT_EQ(cluster.replayed().different, 0);
}

TEST(JournalBill, ReplicasHaveAFolderEach) {
  WatchedCluster first, second;
  for (auto* each : {&first, &second}) addTwoNodes(*each);
  const auto record = [](WatchedCluster& cluster) {
    (void)cluster.view.decideAndAssume(WatchedCluster::ask("a", 500));
    cluster.clock.advance(milliseconds(1000));
    cluster.node("n2", false);
    cluster.journal->flush();
  };
  record(first);
  second.clock.advance(milliseconds(1500));
  record(second);
  for (const auto& folders : {std::vector{first.folder(), second.folder()}, {second.folder(), first.folder()}}) {
    CardTimeAccount account({});
    const journal::Reading reading{[&](const JournalRecord& each, bool joined) { account.add(each, joined); },
                                   [](const std::string&) {}};
    ASSERT_TRUE(journal::read(folders, reading).ok());
    const auto total = account.finish();
    EXPECT_EQ(total.cardMilliseconds, 2 * 2500);
    EXPECT_EQ(total.gaps, 1);
  }
}

}  // namespace
}  // namespace egpu::billing

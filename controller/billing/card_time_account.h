// Divides the time of all cards among the claims that have them, record by record of a decision journal.
//
// A claim is charged the larger one of its shares of a card's compute and memory, because a claim that takes all memory
// leaves nothing for others. If these shares of all claims on a card exceed 1 together, each is divided by their sum.
// The rest of the card is idle, or unhealthy if the card is not offered.
//
// If records are missing, the cards that are known before and after the gap count for its time. A claim is charged for
// the part that it has on both sides; the rest is unknown. No other claim can have had this part, since no two devices
// have one uid.
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "controller/billing/bill.h"
#include "controller/codec/journal_record.h"

namespace egpu::billing {

/// Milliseconds since 1970; `to` is excluded.
struct BillWindow {
  int64_t from = std::numeric_limits<int64_t>::min();
  int64_t to = std::numeric_limits<int64_t>::max();
};

/// Not thread-safe.
class CardTimeAccount {
 public:
  explicit CardTimeAccount(BillWindow window) : window_(window) {}

  /// Processes the next record. Parameters as in journal::Reading::each. A time before that of an earlier record counts
  /// as that time, so that no time counts twice.
  void add(const codec::JournalRecord& record, bool joined);
  /// Returns the sums up to the last record. No further records may be added.
  CardTimeTotal finish();

 private:
  using Amounts = std::map<std::string, scheduler::Amount>;  ///< charged, by holder
  using Names = std::set<std::string>;
  using NameIndex = std::unordered_map<std::string, Names>;

  struct TimedCard {
    std::string uuid, node, model;
    scheduler::Amount capacity;
    bool healthy = false;
    int64_t since = 0;  ///< its earlier time is accounted
    Amounts takes;
  };
  /// State of the cluster, known without a gap.
  struct Known {
    std::map<std::string, TimedCard> cards;
    std::unordered_map<std::string, bool> schedulable;                   ///< by node
    NameIndex cardsOn;                                                   ///< by node
    NameIndex cardsOf;                                                   ///< by holder
    NameIndex holdersOf;                                                 ///< holders of cards, by claim
    NameIndex podsOf;                                                    ///< by claim
    std::unordered_map<std::string, std::vector<std::string>> claimsOf;  ///< by pod
  };

  void begin(const codec::JournalRecord& record, bool joined);
  void complete();
  void apply(const codec::JournalRecord& record);
  void applyNode(const std::string& name, bool schedulable);
  void applyCard(const codec::JournalCard& card);
  void removeCard(const std::string& name);
  void take(const codec::JournalTake& take);
  void giveBack(const codec::JournalTake& take);
  void unlink(const std::string& holder, const std::string& card);
  void name(const codec::JournalHolder& holder);
  void use(const codec::JournalPod& pod);
  /// Names holders by the records of journals that have no `holder`.
  void nameFrom(const codec::JournalRecord& record);

  void account(TimedCard& card);
  void accountAll();
  void accountCardsOf(const std::string& holder);
  void accountCardsOfClaim(const std::string& claim);
  void accountGap();
  /// Amounts that holders have of the card on both sides of the gap.
  Amounts lasting(const Amounts& before, const Amounts& after) const;
  bool isSameClaim(const std::string& holder, const std::string& other) const;
  /// Divides the card's time. rest: kind of the part that no holder has.
  void charge(const TimedCard& card, int64_t from, int64_t to, const Amounts& takes, CardTimeKind rest);
  void chargeHolder(const std::string& holder, CardTimeKey key, const CardTime& time);
  Names podsOf(const std::string& claim) const;

  const BillWindow window_;
  CardTimeTotal total_;
  Known known_;
  Known before_;          ///< state before the gap, until the snapshot after it is complete
  int64_t gapBegin_ = 0;  ///< time of the last record before the gap
  bool inGap_ = false;
  bool started_ = false;   ///< a snapshot is complete
  bool skipping_ = false;  ///< inside a snapshot that is known already
  int64_t now_ = 0;
  std::unordered_map<std::string, codec::JournalHolder> holders_;  ///< also former ones
  std::unordered_map<std::string, std::string> claimNames_;        ///< by uid, from decisions
};

}  // namespace egpu::billing

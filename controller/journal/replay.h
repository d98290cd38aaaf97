// Repeats the decisions of a journal, with the recorded policies or with others.
//
// Until a decision differs, the cluster state of the replay is the recorded one, change by change. So with the recorded
// policies every decision has the recorded result. After the first difference, claims that are decided keep the
// allocations of the replay until they are deleted. Pending claims are tried again, the longest pending first, whenever
// capacity is freed. Earlier allocations, nodes and cards follow the record.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "controller/codec/journal_record.h"
#include "controller/scheduler/choice/colocate.h"
#include "controller/scheduler/choice/preset.h"
#include "controller/scheduler/cluster.h"

namespace egpu::journal {

/// Result of a replay. Times are in milliseconds. Shares are 0 … 1 of the milli-cards or bytes of all cards.
struct ReplaySummary {
  struct Share {
    double mean = 0;  ///< mean over time
    double max = 0, last = 0;
  };
  struct FailedPlacement {
    int64_t at = 0;  ///< since 1970
    std::string claim;
    double core = 0;  ///< allocated share of the core at that time
    int64_t nth = 0;  ///< number of claims up to and including this one
  };

  int64_t from = 0, to = 0;  ///< since 1970
  int64_t stretches = 0;     ///< number of parts of the journal in which no record is missing
  int64_t decisions = 0;
  int64_t given = 0;  ///< decisions that are taken as recorded instead of repeated; README.md lists the reasons
  int64_t different = 0;
  std::string firstDifferent;                                         ///< message for people
  int64_t claims = 0, placed = 0, waited = 0, waiting = 0, left = 0;  ///< left: deleted while pending
  int64_t meanWait = 0, p99Wait = 0, longestWait = 0;                 ///< waiting times of placed claims
  int64_t longestWaiting = 0;                                         ///< longest waiting time of a claim still pending
  int64_t guessed = 0;  ///< claims placed on a node whose suitability the record does not contain
  Share core, memory;
  std::optional<FailedPlacement> firstFailure;
};

/// Repeats decisions record by record. Not thread-safe.
class Replay {
 public:
  /// Decides with these policies; nullopt = with the recorded ones.
  explicit Replay(std::optional<scheduler::Policies> policies) : policies_(std::move(policies)) {}

  /// Processes the next record. Parameters as in Reading::each.
  void add(const codec::JournalRecord& record, bool joined);
  ReplaySummary summary() const;

 private:
  struct Claim {
    std::string name;
    int64_t arrived = 0;
    std::optional<int64_t> placed;
    int64_t waits = 0;               ///< key of its group in pendingGroups_; 0: not pending
    bool own = false;                ///< the replay decides about it, so recorded allocations of it are ignored
    bool gone = false;               ///< deleted
    std::set<std::string> recorded;  ///< if own: its devices' allocations in the record, "<device uid> <card>"
    std::vector<std::string> cards;  ///< cards that the replay allocated to it
  };
  /// Claims that are decided together, and the recorded decision with the suitability of nodes.
  struct DecidedGroup {
    std::vector<std::string> uids;
    std::vector<scheduler::Request> requests;
    std::shared_ptr<const codec::JournalDecision> recorded;
  };

  void picture(const codec::JournalRecord& record, bool joined);
  void change(const codec::JournalRecord& record);
  void take(const codec::JournalTake& take);
  void giveBack(const codec::JournalTake& take);
  void gone(const std::string& uid);
  void decided(const codec::JournalDecision& decision);
  DecidedGroup groupOf(const codec::JournalDecision& decision);
  scheduler::Together decide(const DecidedGroup& group);
  void diverge();
  /// Applies the replay's own decision to the group's claims. Returns false if the group fits nowhere.
  bool settle(const DecidedGroup& group, const scheduler::Together& together);
  void retry();
  void wait(const DecidedGroup& group);
  void noLongerWaits(Claim& claim);
  void placed(Claim& claim);
  void fits(const DecidedGroup& group);
  void fitsNowhere(const DecidedGroup& group);
  void end(const std::string& uid, Claim& claim);
  Claim* ownerOf(const std::string& by);
  scheduler::Request under(scheduler::Request request) const;
  double share(int64_t used, int64_t capacity) const;
  void advance(int64_t time);
  /// Calls f(), which changes the card, and updates capacity_ and used_.
  template <class F>
  void onCard(const std::string& card, F f);

  std::optional<scheduler::Policies> policies_;
  ReplaySummary out_;
  scheduler::Cluster cluster_;
  bool skipping_ = false;  ///< inside a snapshot that is already known
  bool diverged_ = false;
  bool freed_ = false;
  int64_t now_ = 0;
  int64_t lastWaiting_ = 0;
  std::unordered_map<std::string, Claim> claims_;         ///< by uid
  std::unordered_map<std::string, std::string> devices_;  ///< uid of the claim, by uid of the device
  std::map<int64_t, DecidedGroup> pendingGroups_;         ///< pending groups, the longest pending first
  std::vector<int64_t> waits_;
  scheduler::Amount capacity_, used_;
  double coreTime_ = 0, memoryTime_ = 0;
};

}  // namespace egpu::journal

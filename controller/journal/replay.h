// What was decided, decided again from a journal: as it was, or under another policy.
//
// Until a decision differs, the picture is the recorded one, change by change; so under the recorded policies every
// decision comes out as it did. From the first one that differs on, the claims that are decided keep what the replay
// gave them instead, until they are deleted; those that wait are tried again, the longest waiting first, whenever
// something becomes free. What was taken before, and nodes and cards, go on as recorded.
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
#include "controller/scheduler/choice/preset.h"
#include "controller/scheduler/choice/together.h"
#include "controller/scheduler/cluster.h"

namespace egpu::journal {

/// Times in milliseconds, shares 0 … 1 of all cards' milli-cards or bytes.
struct ReplaySummary {
  struct Share {
    double mean = 0;  ///< over time
    double most = 0, last = 0;
  };
  struct Failure {
    int64_t at = 0;  ///< since 1970
    std::string claim;
    double core = 0;  ///< allocated then
    int64_t nth = 0;  ///< so many claims had asked
  };

  int64_t from = 0, to = 0;  ///< since 1970
  int64_t stretches = 0;     ///< of the journal in which nothing is missing
  int64_t decisions = 0;
  int64_t given = 0;  ///< of them not worked out again, but taken as recorded (README.md says why)
  int64_t different = 0;
  std::string firstDifferent;                                         ///< for people
  int64_t claims = 0, placed = 0, waited = 0, waiting = 0, left = 0;  ///< left: deleted while they waited
  int64_t meanWait = 0, p99Wait = 0, longestWait = 0;                 ///< of those placed
  int64_t longestWaiting = 0;                                         ///< of those that wait still, so far
  int64_t guessed = 0;  ///< placed on a node of which nobody had asked whether it suits
  Share core, memory;
  std::optional<Failure> firstFailure;
};

/// Not thread-safe.
class Replay {
 public:
  /// Nothing: as recorded.
  explicit Replay(std::optional<scheduler::Policies> policies) : policies_(std::move(policies)) {}

  /// As Reading::each.
  void tell(const codec::JournalRecord& record, bool joined);
  ReplaySummary summary() const;

 private:
  struct Claim {
    std::string name;
    int64_t arrived = 0;
    std::optional<int64_t> placed;
    int64_t waits = 0;               ///< its group's place in waiting_; 0: it does not wait
    bool own = false;                ///< it has what the replay gave it, whatever is recorded
    bool gone = false;               ///< deleted
    std::set<std::string> recorded;  ///< what its devices have in the record, while it is own
    std::vector<std::string> cards;  ///< that the replay gave it
  };
  /// What is decided together, and which nodes suit.
  struct Group {
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
  Group groupOf(const codec::JournalDecision& decision);
  scheduler::Together decide(const Group& group);
  void diverge();
  /// What the replay decides itself. False: it fits nowhere.
  bool settle(const Group& group, const scheduler::Together& together);
  void retry();
  void wait(const Group& group);
  void noLongerWaits(Claim& claim);
  void placed(Claim& claim);
  void fits(const Group& group);
  void fitsNowhere(const Group& group);
  void end(const std::string& uid, Claim& claim);
  Claim* ownerOf(const std::string& by);
  scheduler::Request under(scheduler::Request request) const;
  double share(int64_t used, int64_t capacity) const;
  void advance(int64_t time);
  /// Does something with a card, and keeps the sums right.
  template <class F>
  void onCard(const std::string& card, F f);

  std::optional<scheduler::Policies> policies_;
  ReplaySummary out_;
  scheduler::Cluster cluster_;
  bool skipping_ = false;  ///< a picture that is known already
  bool diverged_ = false;
  bool freed_ = false;
  int64_t now_ = 0;
  int64_t lastWaiting_ = 0;
  std::unordered_map<std::string, Claim> claims_;         ///< by uid
  std::unordered_map<std::string, std::string> devices_;  ///< whose they are, by uids
  std::map<int64_t, Group> waiting_;                      ///< the longest waiting first
  std::vector<int64_t> waits_;
  scheduler::Amount capacity_, used_;
  double coreTime_ = 0, memoryTime_ = 0;
};

}  // namespace egpu::journal

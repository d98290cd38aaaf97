// Who waits for room, and what a decision has learnt: claims and pods that found no fit, nodes that a scheduler refused
// for a claim, claims that a provisioner refused. Lost with the process, which only costs one more try each.
#pragma once

#include <chrono>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "controller/base/clock.h"

namespace egpu::reconcile {

/// Thread-safe.
class Waiting {
 public:
  explicit Waiting(base::Clock& clock) : clock_(clock) {}

  /// This queue key found no room.
  void forRoom(const std::string& queueKey);
  void satisfied(const std::string& queueKey);
  /// All that wait, to be tried again (they stay until satisfied).
  std::vector<std::string> all() const;
  std::size_t size() const;

  /// Nodes that are not tried for a claim for a while.
  void rejectNode(const std::string& claimUid, const std::string& node, std::chrono::milliseconds howLong);
  bool rejected(const std::string& claimUid, std::string_view node) const;
  bool anyRejected(const std::string& claimUid) const;
  void forgetClaim(const std::string& claimUid);

  /// The explanation of a claim's NoFit may be written again only that long after the last one: true = now (and noted).
  bool mayExplain(const std::string& claimUid, std::chrono::milliseconds every);

  /// The provisioner refused what this claim asks for: not tried again until released (its plugin changed) or the time
  /// is over.
  void refused(const std::string& claimUid, const std::string& provisioner, const std::string& message,
               std::chrono::milliseconds howLong);
  /// The message, or empty if it may be tried.
  std::string refusal(const std::string& claimUid) const;
  void pluginChanged(const std::string& provisioner);

 private:
  struct Refusal {
    std::string provisioner, message;
    base::Clock::Steady until;
  };
  base::Clock& clock_;
  mutable std::mutex mutex_;  // guards all below
  std::set<std::string> room_;
  std::map<std::string, std::map<std::string, base::Clock::Steady, std::less<>>> rejectedUntil_;
  std::map<std::string, base::Clock::Steady> explained_;
  std::map<std::string, Refusal> refused_;
};

}  // namespace egpu::reconcile

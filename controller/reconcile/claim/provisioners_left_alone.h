// Provisioners that are left alone for a claim, because they, or the API server, refused what it asks for.
#pragma once

#include <chrono>
#include <cstddef>
#include <map>
#include <mutex>
#include <string>

#include "controller/base/clock.h"

namespace egpu::reconcile {

/// Thread-safe.
class ProvisionersLeftAlone {
 public:
  explicit ProvisionersLeftAlone(base::Clock& clock) : clock_(clock) {}

  /// What this claim asks for was refused: not tried again until the plugin changes or the time is over. How long that
  /// is stands with the callers, in claim.cpp.
  void refused(const std::string& claimUid, const std::string& provisioner, const std::string& message,
               std::chrono::milliseconds howLong);
  /// The message, or empty if it may be tried.
  std::string refusal(const std::string& claimUid) const;
  /// Until it may be tried again without its plugin's changing; zero if now.
  std::chrono::milliseconds untilRefusalEnds(const std::string& claimUid) const;
  /// The API server said 422 to what was decided: a ledger without the room, a policy. Returns how often since the
  /// claim was last forgotten.
  int serverRefused(const std::string& claimUid);
  void pluginChanged(const std::string& provisioner);

  void forgetClaim(const std::string& claimUid);
  std::size_t claims() const;

 private:
  struct Refusal {
    std::string provisioner, message;
    base::Clock::Steady until;
  };
  base::Clock& clock_;
  mutable std::mutex mutex_;  // guards all below, each by claim
  std::map<std::string, Refusal> refused_;
  std::map<std::string, int> serverRefused_;
};

}  // namespace egpu::reconcile

// Backoff of a claim after its provisioner or the API server refused its request.
#pragma once

#include <chrono>
#include <cstddef>
#include <map>
#include <string>

#include "controller/base/clock.h"
#include "controller/base/mutex.h"

namespace egpu::reconcile {

/// Thread-safe.
class ProvisionBackoff {
 public:
  explicit ProvisionBackoff(base::Clock& clock) : clock_(clock) {}

  /// Records a refusal: the request is not tried again until the plugin changes or the time ends. The callers
  /// set the time: Timeouts::provisionRefusalBackoff, or longer after each refusal. device: name of the device that the
  /// plugin refused; empty if the API server refused.
  void refused(const std::string& claimUid, const std::string& provisioner, const std::string& message,
               std::chrono::milliseconds howLong, const std::string& device = {});
  /// Message of the refusal; empty if the request may be tried.
  std::string refusal(const std::string& claimUid) const;
  /// True if the refusal is about another device, which says nothing about this one.
  bool isRefusalOfOther(const std::string& claimUid, const std::string& device) const;
  /// Time until the request may be tried again without a change of the plugin; zero if it may be tried now.
  std::chrono::milliseconds untilRefusalEnds(const std::string& claimUid) const;
  /// Counts an answer 422 of the API server to a decision: a ledger without capacity, or a policy. Returns the number
  /// since the claim was last forgotten.
  int serverRefused(const std::string& claimUid);
  void pluginChanged(const std::string& provisioner);

  void forgetClaim(const std::string& claimUid);
  std::size_t claims() const;

 private:
  struct ProvisionRefusal {
    std::string provisioner, message, device;
    base::Clock::Steady until;
  };
  base::Clock& clock_;
  mutable base::Mutex mutex_;
  std::map<std::string, ProvisionRefusal> refused_ EGPU_GUARDED_BY(mutex_);
  std::map<std::string, int> serverRefused_ EGPU_GUARDED_BY(mutex_);
};

}  // namespace egpu::reconcile

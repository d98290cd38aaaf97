// A claim's conditions and phase as values: computed here, compared with what is there, written only if something
// differs.
#pragma once

#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "controller/base/clock.h"
#include "controller/cache/stores.h"
#include "controller/kube/events.h"
#include "controller/reconcile/state_machine.h"
#include "controller/reconcile/writer.h"

namespace egpu::reconcile {

inline constexpr std::string_view kAccepted = "Accepted";
inline constexpr std::string_view kBound = "Bound";
inline constexpr std::string_view kCarried = "Carried";
inline constexpr std::string_view kHealthy = "Healthy";
inline constexpr std::string_view kReady = "Ready";
inline constexpr std::string_view kHeld = "Held";  ///< of a device: kept for pods that run, though its claim is gone

/// The longest text of a condition or status message: the CRDs take 32,768 characters, people fewer.
inline constexpr std::size_t kLongestMessage = 4096;
/// Sets or adds a condition, its message shortened if it is longer; lastTransitionTime changes only with the status.
/// True if anything changed.
bool setCondition(std::vector<core::Condition>& conditions, core::Condition value, const std::string& now);
const core::Condition* findCondition(const std::vector<core::Condition>& conditions, std::string_view type);

/// Writes statuses of claims. Thread-safe.
class ClaimStatus {
 public:
  ClaimStatus(Writer& writer, const cache::Stores& stores, kube::EventSink& events, base::Clock& clock)
      : writer_(writer), stores_(stores), events_(events), clock_(clock) {}

  /// Not accepted, or not bound and why: phase Pending, no device. type: kAccepted (Bound is then False too) or kBound.
  base::Status pending(const cache::Claim& claim, std::string_view type, std::string_view reason,
                       const std::string& message, std::stop_token stop);
  /// W6: Bound to this device, with what it was granted, and whether its cards work.
  base::Status bound(const cache::Claim& claim, const cache::Gpu& device, std::stop_token stop);
  /// Its device or the hardware is gone.
  base::Status lost(const cache::Claim& claim, const std::string& message, std::stop_token stop);
  /// Its node is given up. An event: what the claim waits for follows.
  void moves(const cache::Claim& claim, const std::string& message);
  /// It is being deleted and waits for whom it is used by: what Bound says stays, with this reason. Written when the
  /// message changes.
  base::Status inUse(const cache::Claim& claim, const std::string& message, std::stop_token stop);
  /// Something keeps its pods from it; reason empty = nothing does. Written only if there is or was something to say.
  base::Status carried(const cache::Claim& claim, std::string_view reason, const std::string& message,
                       std::stop_token stop);

 private:
  base::Status write(const cache::Claim& claim, const v1alpha::ElasticGPUClaimStatus& after, std::stop_token stop);
  void tell(const cache::Claim& claim, std::string_view type, std::string_view reason, const std::string& message);

  Writer& writer_;
  const cache::Stores& stores_;
  kube::EventSink& events_;
  base::Clock& clock_;
};

}  // namespace egpu::reconcile

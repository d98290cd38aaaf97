// Conditions and phase of a claim as values: they are computed here, compared with the stored status, and written only
// if they differ.
#pragma once

#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "controller/base/clock.h"
#include "controller/cache/stores.h"
#include "controller/kube/event_sink.h"
#include "controller/reconcile/result.h"
#include "controller/reconcile/writer.h"

namespace egpu::reconcile {

inline constexpr std::string_view kAccepted = "Accepted";
inline constexpr std::string_view kBound = "Bound";
inline constexpr std::string_view kResourceClaimReady = "ResourceClaimReady";
inline constexpr std::string_view kHealthy = "Healthy";
inline constexpr std::string_view kPreempted = "Preempted";  ///< it was a victim, or moved, and has had no device since
inline constexpr std::string_view kResized = "Resized";      ///< True: the requests in the spec are in force
inline constexpr std::string_view kIsolationBypassed = "IsolationBypassed";  ///< a program evades its limiter
/// Running containers have lost the GPU, or are about to.
inline constexpr std::string_view kAccessLost = "AccessLost";
inline constexpr std::string_view kReady = "Ready";  ///< on a class: its plugin and its parameters are usable
inline constexpr std::string_view kModelsExist = "ModelsExist";  ///< on a class or quota that names models of cards
inline constexpr std::string_view kHeld = "Held";  ///< on a device: kept for running pods although its claim is gone

/// Reason, not a type: on a card or template that is being deleted.
inline constexpr std::string_view kDeleting = "Deleting";

/// Maximum length of a condition or status message. The CRDs allow 32,768 characters; people read fewer.
inline constexpr std::size_t kMaxMessageLength = 4096;
/// Sets or adds a condition, with its message shortened if necessary; lastTransitionTime changes only with the status.
/// True if anything changed.
bool setCondition(std::vector<core::Condition>& conditions, core::Condition value, const std::string& now);
const core::Condition* findCondition(const std::vector<core::Condition>& conditions, std::string_view type);
/// Sets kModelsExist on an object that names `models` in `field`, or removes it if none are named. If no card of one of
/// them exists, lists the models that exist. True if anything changed.
bool setModelsExist(std::vector<core::Condition>& conditions, const cache::CardModels& cards,
                    const std::vector<std::string>& models, std::string_view field, int64_t generation,
                    const std::string& now);

/// Condition update: the claim has no device, and why.
inline ConditionUpdate notBound(const cache::Claim& claim, std::string_view reason, std::string message) {
  return ConditionUpdate::of(claim.metadata, ConditionUpdate::As::notBound, reason, std::move(message));
}

/// True if the claim may change its requests after binding: its class permits it, and the device was made for the
/// claim.
bool mayResize(const cache::Claim& claim, const cache::Gpu& device);

/// Writes statuses of claims. Thread-safe.
class ClaimStatus {
 public:
  ClaimStatus(Writer& writer, const cache::Stores& stores, kube::EventSink& events, base::Clock& clock)
      : writer_(writer), stores_(stores), events_(events), clock_(clock) {}

  /// Writes the condition updates that change something, one write per claim, with an event for news. Skips claims that
  /// are gone. Code::conflict: a claim has changed since its update was computed; all other updates are written.
  base::Status report(const std::vector<ConditionUpdate>& all, std::stop_token stop);
  /// W6: Bound to this device, with the granted amounts and the health of its cards. Writes the health on the device,
  /// too, and first.
  base::Status writeBound(const cache::Claim& claim, const cache::Gpu& device, std::stop_token stop);
  /// Updates the health only. True if something was written.
  base::Result<bool> updateHealth(const cache::Claim& claim, const cache::Gpu& device, std::stop_token stop);
  /// Emits a Warning event on the claim.
  void warn(const cache::Claim& claim, std::string_view reason, const std::string& message) {
    sendEvent(claim, "Warning", reason, message);
  }
  /// Emits a Warning event on the pod.
  void warn(const core::Pod& pod, std::string_view reason, const std::string& message) {
    events_.event(kube::referenceTo(pod), "Warning", reason, message);
  }

 private:
  using Status = v1alpha::ElasticGPUClaimStatus;
  base::Status reportOne(std::span<const ConditionUpdate> all, std::stop_token stop);  ///< updates of one claim
  void put(const cache::Claim& claim, const ConditionUpdate& update, Status& after);
  void putPending(const cache::Claim& claim, const ConditionUpdate& update, Status& after);
  void putResourceClaimReady(const cache::Claim& claim, const ConditionUpdate& update, Status& after);
  void setLost(const cache::Claim& claim, const ConditionUpdate& update, Status& after);
  void putPreempted(const cache::Claim& claim, const ConditionUpdate& update, Status& after);
  void putNotResized(const cache::Claim& claim, const ConditionUpdate& update, Status& after);
  /// Reports health only if a card of the device fails, or failed before.
  base::Status putHealth(const cache::Claim& claim, const cache::Gpu& device, Status& after, std::stop_token stop);
  /// Reports a bypass only if there is one, or was one.
  void putBypass(const cache::Claim& claim, const cache::Gpu& device, Status& after);
  /// Reports a loss of access only if there is one, or was one.
  void putAccessLoss(const cache::Claim& claim, const cache::Gpu& device, Status& after);
  void putInForce(const cache::Claim& claim, const cache::Gpu& device, Status& after);
  void putInUse(const cache::Claim& claim, const ConditionUpdate& update, Status& after);
  base::Status write(const cache::Claim& claim, const Status& after, std::stop_token stop);
  void sendEvent(const cache::Claim& claim, std::string_view type, std::string_view reason, const std::string& message);

  Writer& writer_;
  const cache::Stores& stores_;
  kube::EventSink& events_;
  base::Clock& clock_;
};

}  // namespace egpu::reconcile

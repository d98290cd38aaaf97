// A claim's conditions and phase as values: computed here, compared with what is there, written only if something
// differs.
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
#include "controller/reconcile/outcome.h"
#include "controller/reconcile/writer.h"

namespace egpu::reconcile {

inline constexpr std::string_view kAccepted = "Accepted";
inline constexpr std::string_view kBound = "Bound";
inline constexpr std::string_view kCarried = "Carried";
inline constexpr std::string_view kHealthy = "Healthy";
inline constexpr std::string_view kPreempted = "Preempted";  ///< it had to make room, and has no device since
inline constexpr std::string_view kResized = "Resized";      ///< what it asks for since it was bound is what it has
inline constexpr std::string_view kReady = "Ready";
inline constexpr std::string_view kModelsExist = "ModelsExist";  ///< of a class or quota that names models of cards
inline constexpr std::string_view kHeld = "Held";  ///< of a device: kept for pods that run, though its claim is gone

inline constexpr std::string_view kDeleting = "Deleting";  ///< reason on a card and on a template that go

/// The longest text of a condition or status message: the CRDs take 32,768 characters, people fewer.
inline constexpr std::size_t kLongestMessage = 4096;
/// Sets or adds a condition, its message shortened if it is longer; lastTransitionTime changes only with the status.
/// True if anything changed.
bool setCondition(std::vector<core::Condition>& conditions, core::Condition value, const std::string& now);
const core::Condition* findCondition(const std::vector<core::Condition>& conditions, std::string_view type);
/// Sets kModelsExist of an object that names `models` in `field`, or removes it where none are named. Without a card of one of
/// them, it lists the models that exist. True if anything changed.
bool setModelsExist(std::vector<core::Condition>& conditions, const cache::CardModels& cards,
                    const std::vector<std::string>& models, std::string_view field, int64_t generation,
                    const std::string& now);

/// The claim has no device, and why.
inline Said notBound(const cache::Claim& claim, std::string_view reason, std::string message) {
  return Said::of(claim.metadata, Said::As::notBound, reason, std::move(message));
}

/// Whether the claim may ask for other amounts now that the device is its own: their class says so, and the device was made for it.
bool mayResize(const cache::Claim& claim, const cache::Gpu& device);

/// Writes statuses of claims. Thread-safe.
class ClaimStatus {
 public:
  ClaimStatus(Writer& writer, const cache::Stores& stores, kube::EventSink& events, base::Clock& clock)
      : writer_(writer), stores_(stores), events_(events), clock_(clock) {}

  /// Writes what the claims don't say already, one write each, with events where it is news. A claim that is gone needs
  /// no word. Code::conflict: a claim is no longer what it was when this was found out; the others were told.
  base::Status say(const std::vector<Said>& all, std::stop_token stop);
  /// W6: Bound to this device, with what it was granted, and whether its cards work; that is written on the device, too,
  /// and first.
  base::Status bound(const cache::Claim& claim, const cache::Gpu& device, std::stop_token stop);
  /// Of that the latter alone. True: something was written.
  base::Result<bool> health(const cache::Claim& claim, const cache::Gpu& device, std::stop_token stop);
  void warn(const cache::Claim& claim, std::string_view reason, const std::string& message) {
    tell(claim, "Warning", reason, message);
  }
  /// On a pod that has to go.
  void event(const core::Pod& pod, std::string_view reason, const std::string& message) {
    events_.event(kube::referenceTo(pod), "Warning", reason, message);
  }

 private:
  using Status = v1alpha::ElasticGPUClaimStatus;
  base::Status sayOnOne(std::span<const Said> all, std::stop_token stop);  ///< all of the same claim
  void put(const cache::Claim& claim, const Said& said, Status& after);
  void putPending(const cache::Claim& claim, const Said& said, Status& after);
  void putCarried(const cache::Claim& claim, const Said& said, Status& after);
  void putLost(const cache::Claim& claim, const Said& said, Status& after);
  void putPreempted(const cache::Claim& claim, const Said& said, Status& after);
  void putNotResized(const cache::Claim& claim, const Said& said, Status& after);
  /// Of cards that never failed neither device nor claim needs a word.
  base::Status putHealth(const cache::Claim& claim, const cache::Gpu& device, Status& after, std::stop_token stop);
  void putInForce(const cache::Claim& claim, const cache::Gpu& device, Status& after);
  void putInUse(const cache::Claim& claim, const Said& said, Status& after);
  base::Status write(const cache::Claim& claim, const Status& after, std::stop_token stop);
  void tell(const cache::Claim& claim, std::string_view type, std::string_view reason, const std::string& message);

  Writer& writer_;
  const cache::Stores& stores_;
  kube::EventSink& events_;
  base::Clock& clock_;
};

}  // namespace egpu::reconcile

// Result of a step of the state machine, as a value: when to requeue, and condition updates. The reconciler writes the
// condition updates, in one place.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "api/core/meta.h"
#include "api/v1alpha/types.h"
#include "controller/base/status.h"

namespace egpu::reconcile {

/// One condition or event update of one claim.
struct Said {
  enum class As {
    notAccepted,  ///< Accepted and Bound are False; phase Pending, no device
    notBound,     ///< Bound is False; phase Pending, no device
    notCarried,   ///< Carried is False: an obstacle keeps its pods from the claim
    carried,      ///< the obstacle is gone
    lost,         ///< phase Lost: its device or the hardware is gone
    inUse,        ///< it is being deleted and waits for its pods; Bound stays as it is
    moves,        ///< its node was released: an event only; the next step reports the state that follows
    preempted,    ///< its device was released for a preemptor or a move: phase Pending, no device, and the reason
    notResized,   ///< the requests changed after binding are not in force: Resized is False, all else stays
    uses,         ///< usage of its cards, or that it is unknown: informative only
  };
  As as = As::notBound;
  core::ObjectKey claim;
  std::string uid, resourceVersion;  ///< the claim when it was evaluated; a claim that has changed is evaluated again
  std::string reason, message;
  core::Rare<v1alpha::ClaimUsage> usage{};      ///< for `uses`
  core::Rare<v1alpha::Nomination> nominated{};  ///< for `notBound`: the nomination for the claim

  static Said of(const core::ObjectMeta& claim, As as, std::string_view reason, std::string message) {
    return {as, core::keyOf(claim), claim.uid, claim.resourceVersion, std::string(reason), std::move(message), {}, {}};
  }
};

struct Outcome {
  enum class Kind {
    done,   ///< nothing to do until an event
    after,  ///< requeue the key after `delay`
    retry,  ///< a temporary failure: requeue with backoff
  };
  Kind kind = Kind::done;
  std::chrono::milliseconds delay{0};
  base::Status why;  ///< reason of `retry`
  std::vector<Said> said;

  static Outcome done() { return {}; }
  static Outcome after(std::chrono::milliseconds delay) { return {Kind::after, delay, {}, {}}; }
  static Outcome retry(base::Status why) { return {Kind::retry, {}, std::move(why), {}}; }
  /// Requeue immediately: the object changed, or a newer version was read.
  static Outcome again() { return after(std::chrono::milliseconds(0)); }

  /// Result after a write that ends a step. A vanished object needs nothing more: its deletion is an event of its own.
  static Outcome ofWrite(base::Status status) {
    if (status.ok() || status.code() == base::Code::notFound) return done();
    return retry(std::move(status));
  }
  /// Result after a write that leads to the next state. 409: the object was read again; evaluate it again.
  static Outcome nextState(base::Status status) {
    if (status.ok() || status.code() == base::Code::conflict) return again();
    return ofWrite(std::move(status));
  }
  /// Result after a write that ends a step which also handles the loss of the object. 409 and 404: it was read again.
  static Outcome afterWrite(base::Status status) {
    const bool changed = status.code() == base::Code::conflict || status.code() == base::Code::notFound;
    return changed ? again() : ofWrite(std::move(status));
  }

  Outcome says(Said what) && {
    said.push_back(std::move(what));
    return std::move(*this);
  }
  Outcome says(std::vector<Said> what) && {
    said.insert(said.end(), what.begin(), what.end());
    return std::move(*this);
  }
  /// Merges the results of two sub-reconciles of one object: an error wins, otherwise the earlier requeue. Condition
  /// updates of both are kept.
  Outcome beside(Outcome other) && {
    const bool others = isRetry() ? false : other.isRetry() || isDone() || (!other.isDone() && other.delay < delay);
    Outcome both = others ? std::move(other).says(std::move(said)) : std::move(*this).says(std::move(other.said));
    return both;
  }
  bool isDone() const { return kind == Kind::done; }
  bool isAgain() const { return kind == Kind::after && delay.count() == 0; }
  bool isRetry() const { return kind == Kind::retry; }
};

}  // namespace egpu::reconcile

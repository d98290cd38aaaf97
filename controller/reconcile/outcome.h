// What a step of the state machine came to, as a value: when to look again, and what is said on claims. The reconciler
// says it, in one place.
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

/// What is said on one claim.
struct Said {
  enum class As {
    notAccepted,  ///< Accepted and Bound are False; phase Pending, no device
    notBound,     ///< Bound is False; phase Pending, no device
    notCarried,   ///< something keeps its pods from it: Carried is False
    carried,      ///< nothing does any more
    lost,         ///< its device or the hardware is gone: phase Lost
    inUse,        ///< it is being deleted and waits for who uses it; what Bound says stays
    moves,        ///< its node is given up: an event alone, what it waits for follows
    preempted,    ///< it made room for another claim: phase Pending, no device, and who it was
    notResized,   ///< what it asks for since it was bound is not in force: Resized is False, all else stays
    uses,         ///< what it uses, or that nothing is known of it: of no consequence
  };
  As as = As::notBound;
  core::ObjectKey claim;
  std::string uid, resourceVersion;  ///< of the claim as it was looked at: one that changed is looked at again
  std::string reason, message;
  core::Rare<v1alpha::ClaimUsage> usage{};      ///< of uses
  core::Rare<v1alpha::Nomination> nominated{};  ///< of notBound: the room that is made for it

  static Said of(const core::ObjectMeta& claim, As as, std::string_view reason, std::string message) {
    return {as, core::keyOf(claim), claim.uid, claim.resourceVersion, std::string(reason), std::move(message), {}, {}};
  }
};

struct Outcome {
  enum class Kind {
    done,   ///< nothing more until something changes
    after,  ///< the same key again after `delay`
    retry,  ///< failed in a way that passes: again with back-off
  };
  Kind kind = Kind::done;
  std::chrono::milliseconds delay{0};
  base::Status why;  ///< of retry
  std::vector<Said> said;

  static Outcome done() { return {}; }
  static Outcome after(std::chrono::milliseconds delay) { return {Kind::after, delay, {}, {}}; }
  static Outcome retry(base::Status why) { return {Kind::retry, {}, std::move(why), {}}; }
  /// The world is another one now, or is known better: look at it at once.
  static Outcome again() { return after(std::chrono::milliseconds(0)); }

  /// After a write that ends a step. A vanished object needs nothing more: its deletion is an event of its own.
  static Outcome ofWrite(base::Status status) {
    if (status.ok() || status.code() == base::Code::notFound) return done();
    return retry(std::move(status));
  }
  /// After a write that leads to the next state. 409: the object was read anew, look at it again.
  static Outcome nextState(base::Status status) {
    if (status.ok() || status.code() == base::Code::conflict) return again();
    return ofWrite(std::move(status));
  }
  /// After a write that ends a step of an object whose loss is looked at by the same step: 409 and 404 were read anew.
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
  /// Of one object, two concerns that went on side by side: what failed first, else what comes first.
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

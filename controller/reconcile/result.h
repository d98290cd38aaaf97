// Result of a step of the state machine, as a value: when to requeue, and condition updates. The reconciler writes the
// condition updates, in one place.
#pragma once

#include <chrono>
#include <utility>
#include <vector>

#include "controller/base/status.h"
#include "controller/reconcile/condition_update.h"

namespace egpu::reconcile {

struct Outcome {
  enum class Kind {
    done,   ///< nothing to do until an event
    after,  ///< requeue the key after `delay`
    retry,  ///< a temporary failure: requeue with backoff
  };
  Kind kind = Kind::done;
  std::chrono::milliseconds delay{0};
  base::Status why;  ///< reason of `retry`
  std::vector<ConditionUpdate> updates;

  static Outcome done() { return {}; }
  static Outcome after(std::chrono::milliseconds delay) { return {Kind::after, delay, {}, {}}; }
  static Outcome retry(base::Status why) { return {Kind::retry, {}, std::move(why), {}}; }
  /// Requeue immediately: the object changed, or a newer version was read.
  static Outcome requeueNow() { return after(std::chrono::milliseconds(0)); }

  /// Result after a write that ends a step. A vanished object needs nothing more: its deletion has an event of its own.
  static Outcome ofWrite(base::Status status) {
    if (status.ok() || status.code() == base::Code::notFound) return done();
    return retry(std::move(status));
  }
  /// Result after a write that leads to the next state. 409: the object was read again; evaluate it again.
  static Outcome nextState(base::Status status) {
    if (status.ok() || status.code() == base::Code::conflict) return requeueNow();
    return ofWrite(std::move(status));
  }
  /// Result after a write that ends a step which also handles the loss of the object. 409 and 404: it was read again.
  static Outcome afterWrite(base::Status status) {
    const bool changed = status.code() == base::Code::conflict || status.code() == base::Code::notFound;
    return changed ? requeueNow() : ofWrite(std::move(status));
  }

  Outcome reports(ConditionUpdate what) && {
    updates.push_back(std::move(what));
    return std::move(*this);
  }
  Outcome reports(std::vector<ConditionUpdate> what) && {
    updates.insert(updates.end(), what.begin(), what.end());
    return std::move(*this);
  }
  /// Merges the results of two sub-reconciles of one object: an error wins, otherwise the earlier requeue. Condition
  /// updates of both are kept.
  Outcome mergeWith(Outcome other) && {
    const bool others = isRetry() ? false : other.isRetry() || isDone() || (!other.isDone() && other.delay < delay);
    Outcome both =
        others ? std::move(other).reports(std::move(updates)) : std::move(*this).reports(std::move(other.updates));
    return both;
  }
  bool isDone() const { return kind == Kind::done; }
  bool isRequeueNow() const { return kind == Kind::after && delay.count() == 0; }
  bool isRetry() const { return kind == Kind::retry; }
};

}  // namespace egpu::reconcile

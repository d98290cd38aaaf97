// One update of a claim's conditions or events, as a value.
#pragma once

#include <string>
#include <string_view>
#include <utility>

#include "api/core/heap_optional.h"
#include "api/core/meta.h"
#include "api/v1alpha/types.h"

namespace egpu::reconcile {

/// One condition or event update of one claim.
struct ConditionUpdate {
  enum class As {
    notAccepted,            ///< Accepted and Bound are False; phase Pending, no device
    notBound,               ///< Bound is False; phase Pending, no device
    resourceClaimNotReady,  ///< ResourceClaimReady is False: an obstacle keeps its pods from the claim
    resourceClaimReady,     ///< the obstacle is gone
    lost,                   ///< phase Lost: its device or the hardware is gone
    inUse,                  ///< it is being deleted and waits for its pods; Bound stays as it is
    moves,                  ///< its node was released: an event only; the next step reports the state that follows
    preempted,   ///< its device was released for a preemptor or a move: phase Pending, no device, and the reason
    notResized,  ///< the requests changed after binding are not in force: Resized is False, all else stays
    uses,        ///< usage of its cards, or that it is unknown: informative only
  };
  As as = As::notBound;
  core::ObjectKey claim;
  std::string uid, resourceVersion;  ///< the claim when it was evaluated; a claim that has changed is evaluated again
  std::string reason, message;
  core::HeapOptional<v1alpha::ClaimUsage> usage{};      ///< for `uses`
  core::HeapOptional<v1alpha::Nomination> nominated{};  ///< for `notBound`: the nomination for the claim

  static ConditionUpdate of(const core::ObjectMeta& claim, As as, std::string_view reason, std::string message) {
    return {as, core::keyOf(claim), claim.uid, claim.resourceVersion, std::string(reason), std::move(message), {}, {}};
  }
};

}  // namespace egpu::reconcile

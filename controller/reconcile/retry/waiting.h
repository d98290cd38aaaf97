// Conditions for which claims wait without an event: capacity, quotas, and backoffs of nodes and provisioners. Lost
// when the process ends, which costs one more attempt each.
#pragma once

#include <cstddef>
#include <string>

#include "controller/base/clock.h"
#include "controller/reconcile/gang/gang_deadlines.h"
#include "controller/reconcile/gang/gang_rosters.h"
#include "controller/reconcile/placement/explainer.h"
#include "controller/reconcile/pod/chosen_nodes.h"
#include "controller/reconcile/pod/consumer_rounds.h"
#include "controller/reconcile/resize/resize_backoff.h"
#include "controller/reconcile/retry/node_backoff.h"
#include "controller/reconcile/retry/provision_backoff.h"
#include "controller/reconcile/retry/quota_refusals.h"
#include "controller/reconcile/retry/released_claims.h"
#include "controller/reconcile/retry/unschedulable_queue.h"

namespace egpu::reconcile {

/// Thread-safe.
struct Waiting {
  Waiting(base::Clock& clock, const Timeouts& timeouts)
      : unschedulable(clock, timeouts),
        nodes(clock, timeouts),
        provisioners(clock),
        gangs(clock),
        resizes(clock, timeouts),
        consumers(clock, timeouts, chosen),
        explainer(clock, timeouts) {}

  UnschedulableQueue unschedulable;
  QuotaRefusals refusals;
  NodeBackoff nodes;
  ProvisionBackoff provisioners;
  GangDeadlines gangs;
  GangRosters rosters;
  ResizeBackoff resizes;
  ChosenNodes chosen;
  ConsumerRounds consumers;
  ReleasedClaims released;
  Explainer explainer;

  /// Removes the key from the queue for capacity until its next step.
  void remove(const std::string& queueKey) { unschedulable.remove(queueKey); }
  void forgetClaim(const std::string& claimUid) {
    forgetChoice(claimUid);
    gangs.forgetClaim(claimUid);
    resizes.forgetClaim(claimUid);
    released.forgetClaim(claimUid);
  }
  /// Drops the state of choosing: the claim has its device.
  void forgetChoice(const std::string& claimUid) {
    unschedulable.forgetClaim(claimUid);
    refusals.forgetClaim(claimUid);
    nodes.forgetClaim(claimUid);
    provisioners.forgetClaim(claimUid);
    consumers.forgetClaim(claimUid);
    explainer.forgetClaim(claimUid);
  }
  /// Number of claims and gangs with state here; for tests.
  std::size_t claims() const {
    return unschedulable.claims() + refusals.claims() + nodes.claims() + provisioners.claims() + gangs.claims() +
           rosters.size() + resizes.claims() + released.claims() + consumers.claims() + explainer.claims();
  }
};

}  // namespace egpu::reconcile

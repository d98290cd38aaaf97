// (C14) A member that has its cards while another member has none: it waits before it is provisioned (after W2), and
// releases its cards after a while. A Bound member (after W6) releases its device in the order of a preemption
// (priority/victim.h): mark, ResourceClaim deleted, claim Pending, device Failed, device deleted.
#pragma once

#include <chrono>
#include <optional>
#include <stop_token>
#include <string>

#include "controller/reconcile/claim/context.h"
#include "controller/reconcile/claim/parts.h"

namespace egpu::reconcile {

/// Thread-safe, but one thread per claim at a time. The references must outlive it.
class IncompleteGang {
 public:
  IncompleteGang(const ClaimContext& context, ClaimParts& parts)
      : context_(context), gangs_(parts.gangs), rollback_(parts.rollback) {}

  /// After W2: nothing is provisioned before all members have their entries. Nullopt: they have, or there is no gang.
  std::optional<Outcome> awaitMembers(const cache::Claim& claim, const cache::Gpu& device, std::stop_token stop);
  /// Releases the device of a Bound member if another member has lacked its cards for a while and no pod of the gang
  /// was ungated. Nullopt: the member keeps it; *again: if not 0, the time until this must be evaluated again.
  std::optional<Outcome> reconcileBound(const ClaimPtr& claim, const GpuPtr& device, std::chrono::milliseconds* again,
                                        std::stop_token stop);
  /// Releases the member's cards if its provisioner has failed for too long. Nullopt: it is tried again.
  std::optional<Outcome> rollBackAfterFailures(const cache::Claim& claim, const cache::Gpu& device,
                                               const std::string& text, std::stop_token stop);

 private:
  /// Releases the device of a Bound member that is marked for it.
  Outcome releaseMarked(const cache::Claim& claim, const cache::Gpu& device, std::stop_token stop);
  /// Other member that keeps the gang incomplete, for people; empty if there is none.
  std::string memberWithoutCards(const cache::Claim& claim, const cache::Gpu& device) const;

  const ClaimContext& context_;
  const GangMembership& gangs_;
  IntentRollback& rollback_;
};

}  // namespace egpu::reconcile

#include "controller/reconcile/claim/quorum_reads.h"

#include <utility>

#include "controller/reconcile/claim/claim_state.h"
#include "controller/reconcile/resourceclaim/adopter.h"

namespace egpu::reconcile {

base::Result<PodObstacle> obstacleNow(const ClaimContext& context, const cache::Claim& claim, std::stop_token stop) {
  const auto key = core::keyOf(claim.metadata);
  const auto resourceClaim = madeFor(claim).empty() ? nullptr : context.stores.resourceClaims.get(key);
  if (const auto* owner = resourceClaim ? stampedFor(*resourceClaim) : nullptr) {
    const auto pod = context.stores.pods.get({key.namespace_, owner->name});
    if (!pod || pod->metadata.uid != owner->uid) {  // pods and ResourceClaims come by different watches
      const auto now = context.writer.read<core::Pod>({key.namespace_, owner->name}, owner->uid, std::move(stop));
      if (!now.ok() && now.status().code() != base::Code::notFound) return now.status();
    }
  }
  return obstacleOf(context.stores, claim, hasWaitForFirstConsumer(context.stores, claim));
}

base::Result<bool> classExistsNow(const ClaimContext& context, const cache::Claim& claim, std::stop_token stop) {
  const auto& name = claim.spec.effectiveClass();
  if (!name.empty()) {
    const auto now = context.writer.read<cache::Class>({"", name}, {}, stop);
    if (!now.ok() && now.status().code() != base::Code::notFound) return now.status();
  } else {
    const auto all = context.writer.client().listAll<cache::Class>({}, stop);
    if (!all.ok()) return all.status();
    for (const auto& cls : *all) context.stores.observed(cls);
  }
  return classOf(context.stores, claim, nullptr) != nullptr;
}

base::Status readPodsOf(const ClaimContext& context, const cache::Claim& claim, std::stop_token stop) {
  for (const auto& pod : context.stores.podsOfClaim(core::keyOf(claim.metadata))) {
    const auto now = context.writer.read<core::Pod>(core::keyOf(pod->metadata), pod->metadata.uid, stop);
    if (!now.ok() && now.status().code() != base::Code::notFound) return now.status();
  }
  return {};
}

}  // namespace egpu::reconcile

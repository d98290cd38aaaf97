// Bodies of the patches this project writes. Small and exact: what is not named is not touched.
// Each takes the preconditions it needs; resourceVersion empty = none.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "api/core/objects.h"
#include "api/v1alpha/types.h"

namespace egpu::codec::patch {

// Merge patches (application/merge-patch+json) unless the name says otherwise.

/// {"spec":{"allocations":{uid:{…}}}} : W2, without a resourceVersion so that nobody conflicts. metadata.uid of the
/// card guards against a recreated card.
std::string ledgerEntry(std::string_view cardUid, std::string_view deviceUid, const v1alpha::LedgerEntry& entry);
/// The same with null: gives the entry back.
std::string ledgerRelease(std::string_view deviceUid);
/// metadata.finalizers replaced, with resourceVersion and uid.
std::string finalizers(std::string_view uid, std::string_view resourceVersion, const std::vector<std::string>& all);
/// Claim, W5: finalizers and spec.elasticGPUName in one, with uid and resourceVersion. elasticGPUName nullopt = left
/// alone.
std::string claimBind(std::string_view uid, std::string_view resourceVersion,
                      const std::vector<std::string>& finalizers, const std::optional<std::string>& elasticGPUName);
/// Whole status of a claim / device / class / quota, with uid and (if not empty) resourceVersion. For /status.
/// Fields of `before` that `after` lacks become null, so that the outcome equals `after`.
std::string claimStatus(std::string_view uid, std::string_view resourceVersion,
                        const v1alpha::ElasticGPUClaimStatus& before, const v1alpha::ElasticGPUClaimStatus& after);
std::string gpuStatus(std::string_view uid, std::string_view resourceVersion, const v1alpha::ElasticGPUStatus& before,
                      const v1alpha::ElasticGPUStatus& after);
std::string classStatus(std::string_view uid, std::string_view resourceVersion,
                        const std::vector<core::Condition>& conditions);
std::string quotaStatus(std::string_view uid, std::string_view resourceVersion,
                        const v1alpha::ElasticGPUQuotaStatus& before, const v1alpha::ElasticGPUQuotaStatus& after);
/// Device: spec.target set or changed, with uid and resourceVersion.
std::string deviceTarget(std::string_view uid, std::string_view resourceVersion,
                         const core::Rare<v1alpha::DeviceSize>& before, const v1alpha::DeviceSize& after);
/// Device: spec.claimRef set or (nullopt) cleared, with uid and resourceVersion.
std::string claimRef(std::string_view uid, std::string_view resourceVersion,
                     const std::optional<v1alpha::ClaimRef>& ref);
/// Card: labels and spec.card as published by its node's agent.
std::string cardSpec(const v1alpha::ElasticGPU& card);
/// Card, a JSON patch: tests uid, then makes labels, capacity and each field of spec.card that of `after`. Labels and
/// fields that `after` does not know stay, as another version wrote them; so does the ledger. A patch of the test alone
/// if they are so already.
std::string publishedCard(const v1alpha::ElasticGPU& before, const v1alpha::ElasticGPU& after);
/// ResourceClaim /status: allocation set or (nullopt) cleared, with uid and resourceVersion.
std::string allocation(std::string_view uid, std::string_view resourceVersion,
                       const std::optional<core::ResourceClaimAllocation>& allocation);
/// ResourceClaim: finalizers and owner references replaced, with uid and resourceVersion.
std::string marks(std::string_view uid, std::string_view resourceVersion, const std::vector<std::string>& finalizers,
                  const std::vector<core::OwnerReference>& owners);
/// metadata.annotations merged, with uid. A nullopt value removes the key.
std::string annotations(std::string_view uid,
                        const std::vector<std::pair<std::string, std::optional<std::string>>>& values);
/// A JSON patch: removes an annotation that still has this value.
std::string withoutAnnotation(std::string_view uid, std::string_view key, std::string_view value);
/// W9, a JSON patch (application/json-patch+json): tests uid, adds `node` to every term of the required node affinity
/// (creating it where absent) and removes our scheduling gate, all or nothing.
std::string pinAndLift(const core::Pod& pod, std::string_view node, std::string_view gate);
/// JSON patch: tests uid and removes the gate only.
std::string liftGate(const core::Pod& pod, std::string_view gate);
/// Lease: its whole record, with the uid and resourceVersion that it carries. An empty holder is written as such.
std::string lease(const core::Lease& lease);
/// Eviction (policy/v1) of exactly this pod; dry: only whether its budgets would let it go.
std::string eviction(const core::Pod& pod, bool dry);
/// DeleteOptions with preconditions; empty = none.
std::string deleteOptions(std::string_view uid, std::string_view resourceVersion);

}  // namespace egpu::codec::patch

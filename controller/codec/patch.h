// Bodies of the patches that this project writes. A patch changes only the fields that it names. Each function takes
// the preconditions that it needs; an empty resourceVersion = no such precondition.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "api/core/objects.h"
#include "api/v1alpha/types.h"

namespace egpu::codec::patch {

// Merge patches (application/merge-patch+json) unless the name says otherwise.

/// Card, W2: sets the device's ledger entry, {"spec":{"allocations":{uid:{…}}}}. Has no resourceVersion, so that writes
/// of several entries do not conflict. The card's uid as a precondition protects a recreated card. `mode`: isolation
/// mode of the share, which becomes spec.mode of the card; empty = unchanged.
std::string ledgerEntry(std::string_view cardUid, std::string_view deviceUid, const v1alpha::LedgerEntry& entry,
                        std::string_view mode = {});
/// Card: removes the device's ledger entry by setting it to null. last: also clears spec.mode, which the API server
/// refuses while other entries exist.
std::string ledgerRelease(std::string_view deviceUid, bool last = false);
/// Replaces metadata.finalizers, with uid and resourceVersion.
std::string finalizers(std::string_view uid, std::string_view resourceVersion, const std::vector<std::string>& all);
/// Claim, W5: sets finalizers and spec.elasticGPUName in one write, with uid and resourceVersion. elasticGPUName
/// nullopt = unchanged.
std::string claimBind(std::string_view uid, std::string_view resourceVersion,
                      const std::vector<std::string>& finalizers, const std::optional<std::string>& elasticGPUName);
/// The following functions return a patch for /status of a claim, a device or card, a class and a quota, with uid and
/// resourceVersion. Fields of `before` that `after` lacks become null, so that the result equals `after`.
std::string claimStatus(std::string_view uid, std::string_view resourceVersion,
                        const v1alpha::ElasticGPUClaimStatus& before, const v1alpha::ElasticGPUClaimStatus& after);
std::string gpuStatus(std::string_view uid, std::string_view resourceVersion, const v1alpha::ElasticGPUStatus& before,
                      const v1alpha::ElasticGPUStatus& after);
std::string classStatus(std::string_view uid, std::string_view resourceVersion,
                        const std::vector<core::Condition>& conditions);
std::string quotaStatus(std::string_view uid, std::string_view resourceVersion,
                        const v1alpha::ElasticGPUQuotaStatus& before, const v1alpha::ElasticGPUQuotaStatus& after);
/// Device: sets spec.target, with uid and resourceVersion.
std::string deviceTarget(std::string_view uid, std::string_view resourceVersion,
                         const core::HeapOptional<v1alpha::DeviceSize>& before, const v1alpha::DeviceSize& after);
/// Device: sets deviceName and paths of spec.qGPU, or the endpoint of spec.remote, as far as `after` has them, with uid
/// and resourceVersion.
std::string deviceSource(std::string_view uid, std::string_view resourceVersion, const v1alpha::Source& after);
/// Device: sets spec.claimRef, or clears it (nullopt), with uid and resourceVersion.
std::string claimRef(std::string_view uid, std::string_view resourceVersion,
                     const std::optional<v1alpha::ClaimRef>& ref);
/// Card: sets labels, capacity, source and spec.card, which the agent of its node publishes. The uid is a precondition
/// if it is not empty.
std::string cardSpec(const v1alpha::ElasticGPU& card);
/// Card, a JSON patch: tests the uid, then sets labels, spec.capacity and each field of spec.card to that of `after`.
/// Other labels, fields that this version does not know, and the ledger stay unchanged. If nothing differs, the patch
/// contains only the test.
std::string publishedCard(const v1alpha::ElasticGPU& before, const v1alpha::ElasticGPU& after);
/// ResourceClaim /status: sets the allocation, or clears it (nullopt), with uid and resourceVersion.
std::string allocation(std::string_view uid, std::string_view resourceVersion,
                       const std::optional<core::ResourceClaimAllocation>& allocation);
/// ResourceClaim: replaces finalizers and owner references, with uid and resourceVersion.
std::string marks(std::string_view uid, std::string_view resourceVersion, const std::vector<std::string>& finalizers,
                  const std::vector<core::OwnerReference>& owners);
/// Merges values into metadata.annotations, with uid. A nullopt value removes the key.
std::string annotations(std::string_view uid,
                        const std::vector<std::pair<std::string, std::optional<std::string>>>& values);
/// A JSON patch: tests the uid and removes the annotation if it still has this value.
std::string withoutAnnotation(std::string_view uid, std::string_view key, std::string_view value);
/// Pod, W9, a JSON patch (application/json-patch+json): tests the uid, adds `node` to every non-empty term of the
/// required node affinity (creates the affinity if it is absent) and removes the scheduling gate `gate`. Applies
/// completely or not at all.
std::string pinAndLift(const core::Pod& pod, std::string_view node, std::string_view gate);
/// Pod, a JSON patch: tests the uid and removes the gate only.
std::string liftGate(const core::Pod& pod, std::string_view gate);
/// Lease: sets all fields of the spec, even an empty holder, with the uid and resourceVersion of `lease`.
std::string lease(const core::Lease& lease);
/// Eviction (policy/v1) with the pod's uid as a precondition. dry: only checks whether disruption budgets allow it.
std::string eviction(const core::Pod& pod, bool dry);
/// DeleteOptions with preconditions; empty = no precondition.
std::string deleteOptions(std::string_view uid, std::string_view resourceVersion);

}  // namespace egpu::codec::patch

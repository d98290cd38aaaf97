// Resolves the claims of a pod, for all callers. A pod refers to claims in three places: `spec.resourceClaims` names a
// claim or a template, `status.resourceClaimStatuses` names the claim that Kubernetes created from a template, and the
// annotations of keys.h request claims before admission adds entries for them. The codec stores the first two in one
// list, `Pod::resourceClaims`, with separate entries for a template and the claim created from it.
// tests/tree/pod_claims_test.py ensures that no other code reads that list. All functions are pure.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "api/core/objects.h"

namespace egpu::v1alpha {

enum class PodClaimState {
  named,    ///< the spec names the claim
  stamped,  ///< the spec names a template, the status names the claim created from it
  pending,  ///< the spec names a template, and no claim has been created from it yet
};

struct PodClaim {
  std::string name;  ///< name of the entry, by which containers refer to it; unique in the pod
  PodClaimState state = PodClaimState::named;
  std::string claim;         ///< name of the ResourceClaim and of the ElasticGPUClaim; empty if and only if pending
  std::string templateName;  ///< empty if and only if named
};

/// Returns the entries of `spec.resourceClaims` in their order. Entries for which the status reports that no claim is
/// needed are omitted, because no claim is ever created for them.
std::vector<PodClaim> podClaims(const core::Pod& pod);

/// True if `spec.resourceClaims` has entries, in any state.
bool hasPodClaims(const core::Pod& pod);

/// Returns the first pending entry, or nullopt.
std::optional<PodClaim> pendingClaim(const core::Pod& pod);

/// Returns the names of the claims of all entries except pending ones, in their order, each once. Includes claims of
/// other drivers.
std::vector<std::string> claimNames(const core::Pod& pod);

/// True if an entry names the claim or has it created from its template.
bool usesClaim(const core::Pod& pod, std::string_view claim);

/// Returns the claims named by annotations (kClaimAnnotationPrefix), whether or not they have an entry.
std::set<std::string> annotatedClaims(const core::Pod& pod);

/// Returns annotatedClaims() without an entry. The kubelet prepares nothing for them.
std::set<std::string> onlyAnnotatedClaims(const core::Pod& pod);

/// Maps entry names to templates, for annotations that name templates (kTemplateAnnotationPrefix) or amounts
/// (kAmountAnnotationPrefix). Admission adds the same entries.
std::map<std::string, std::string> annotatedTemplates(const core::Pod& pod);

/// Returns podClaims() and the entries that admission adds: for each annotation without an entry of its name, a named
/// entry or, for annotatedTemplates(), a pending one. A pod that has passed admission has both already.
std::vector<PodClaim> podClaimsOnceAdmitted(const core::Pod& pod);

}  // namespace egpu::v1alpha

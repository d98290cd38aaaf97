// The claims of a pod, resolved once for every caller. A pod carries them in three places: `spec.resourceClaims` names a
// claim or a template, `status.resourceClaimStatuses` names what Kubernetes stamped from a template, and the annotations
// of keys.h ask for both before admission has turned them into entries. The codec keeps the first two in one list,
// `Pod::resourceClaims`, in which a template's entry and its stamped claim stand side by side; tests/tree/pod_claims_test.py
// keeps everything else from reading that list. All functions are pure.
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
  stamped,  ///< the spec names a template, the status the claim that Kubernetes stamped from it
  pending,  ///< the spec names a template from which no claim is stamped yet
};

struct PodClaim {
  std::string name;  ///< the entry's, by which containers refer to it; unique in the pod
  PodClaimState state = PodClaimState::named;
  std::string claim;         ///< name of the ResourceClaim, and of the ElasticGPUClaim; empty exactly while pending
  std::string templateName;  ///< empty exactly if named
};

/// The entries of `spec.resourceClaims`, in their order. An entry whose status says that Kubernetes needs no claim for it
/// is left out: nothing is ever stamped for it.
std::vector<PodClaim> podClaims(const core::Pod& pod);

/// Whether `spec.resourceClaims` has entries, whatever their states.
bool hasPodClaims(const core::Pod& pod);

/// The first entry that is pending.
std::optional<PodClaim> pendingClaim(const core::Pod& pod);

/// The claims that the entries name or that are stamped for them, in the entries' order; each once. Pending entries have
/// none. Claims of other drivers are among them.
std::vector<std::string> claimNames(const core::Pod& pod);

/// Whether an entry is named after the claim, or stamped as it.
bool usesClaim(const core::Pod& pod, std::string_view claim);

/// The claims that annotations name (kClaimAnnotationPrefix), whether or not an entry does.
std::set<std::string> annotatedClaims(const core::Pod& pod);

/// annotatedClaims() that no entry uses: the kubelet prepares nothing for them.
std::set<std::string> onlyAnnotatedClaims(const core::Pod& pod);

/// Entry's name → template, of annotations that name templates (kTemplateAnnotationPrefix) or amounts
/// (kAmountAnnotationPrefix), as admission makes entries of them.
std::map<std::string, std::string> annotatedTemplates(const core::Pod& pod);

/// podClaims(), and the entries that admission adds: for each annotation without an entry of its name a named one or, of
/// annotatedTemplates(), a pending one. A pod that has passed admission has both already.
std::vector<PodClaim> podClaimsOnceAdmitted(const core::Pod& pod);

}  // namespace egpu::v1alpha

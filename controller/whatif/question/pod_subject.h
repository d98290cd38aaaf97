// The Pod of a question: its claims, and the nodes that suit it.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "api/core/objects.h"
#include "controller/base/status.h"
#include "controller/cache/stores.h"
#include "controller/scheduler/decide.h"
#include "controller/whatif/question/subject.h"

namespace egpu::whatif {

struct PodSubject {
  core::Pod pod;                ///< without a node, as it would be scheduled
  std::vector<Subject> claims;  ///< sorted by name, without duplicates
  std::string note;             ///< limits of the answer, for people; may be empty
  /// "namespace/name"
  std::string name() const { return core::keyOf(pod.metadata).str(); }
};

/// Returns the claims that a pod names, by annotation or resourceClaims. space: namespace of a pod that names none.
std::vector<core::ObjectKey> claimsOfPod(const core::Pod& pod, const std::string& space);

/// Looks up the pod's claims in `beside`, the claims of the same question, and in the stores; a stored claim takes
/// precedence. Adds the claims that would be created for the pod, see template_claims.h. If the pod names no claim,
/// `amounts`, if given, becomes its only claim. Errors: Code::invalid, Code::notFound.
base::Result<PodSubject> podSubject(const cache::Stores& stores, const core::Pod& pod,
                                    const std::vector<v1alpha::ElasticGPUClaim>& beside,
                                    const std::optional<v1alpha::ElasticGPUClaim>& amounts, const std::string& space);

/// Returns why the node does not suit the pod, or an empty text: the checks of node_fit.h without volumes, and the CPU
/// and memory that other pods leave. A hypothetical node suits every pod.
std::string unsuitable(const cache::Stores& stores, const core::Pod& pod, std::string_view node);

}  // namespace egpu::whatif

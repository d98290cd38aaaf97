// A Pod that a question is about: its claims, and which nodes suit it.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "api/core/objects.h"
#include "controller/base/status.h"
#include "controller/cache/stores.h"
#include "controller/scheduler/decide.h"
#include "controller/server/what_if_subject.h"

namespace egpu::server {

struct PodSubject {
  core::Pod pod;                      ///< as it would be scheduled: without a node
  std::vector<WhatIfSubject> claims;  ///< in the order of their names; none twice
  std::string note;                   ///< what the answer leaves out of account; may be empty
  /// "namespace/name"
  std::string name() const { return core::keyOf(pod.metadata).str(); }
};

/// The claims that a pod names, by annotation or resourceClaims; space: its namespace if it names none.
std::vector<core::ObjectKey> claimsOfPod(const core::Pod& pod, const std::string& space);

/// Its claims are looked for in `beside`, which came with it, then among those that are there; those that would be
/// stamped for it are as stamped_claims.h says. A pod that names none is
/// given `amounts`, if there are any, as one claim. Code::invalid, Code::notFound.
base::Result<PodSubject> podSubject(const cache::Stores& stores, const core::Pod& pod,
                                    const std::vector<v1alpha::ElasticGPUClaim>& beside,
                                    const std::optional<v1alpha::ElasticGPUClaim>& amounts, const std::string& space);

/// Empty, or why the node does not suit the pod: what node_fit.h asks, but for volumes, and what others leave of its
/// CPU and memory. A node that is only imagined suits every pod.
std::string unsuitable(const cache::Stores& stores, const core::Pod& pod, std::string_view node);

}  // namespace egpu::server

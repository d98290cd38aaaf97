// Computes the claims that Kubernetes or the controller would create for the Pod of a question: from the templates that
// it names, by annotation or resourceClaimTemplateName, and from the amounts that it requests.
#pragma once

#include <string>
#include <vector>

#include "api/core/objects.h"
#include "api/v1alpha/types.h"
#include "controller/base/status.h"
#include "controller/cache/stores.h"

namespace egpu::whatif {

/// Returns the claim that would be made for a ResourceClaim that requests one (reconcile::asks()). `source` names the
/// ResourceClaim in the error. Code::invalid: no claim can serve it.
base::Result<v1alpha::ElasticGPUClaim> claimMadeFor(const core::ResourceClaim& resourceClaim,
                                                    const std::string& source);

/// Returns the claims as they would be created now, named "<pod>-<name>" (Kubernetes appends five characters), in the
/// order of the names in the pod. Claims that the pod's status lists as already created are left out. A template that
/// requests no GPU of ours is left out, and `note` reports it. Errors: Code::notFound, or Code::invalid with the wrong
/// annotation.
base::Result<std::vector<v1alpha::ElasticGPUClaim>> claimsStampedFor(const cache::Stores& stores, const core::Pod& pod,
                                                                     const std::string& space, std::string& note);

}  // namespace egpu::whatif

// The claims that Kubernetes would stamp for a Pod that is asked about: of the templates that it names, by annotation or
// resourceClaimTemplateName, and of amounts that it asks for.
#pragma once

#include <string>
#include <vector>

#include "api/core/objects.h"
#include "api/v1alpha/types.h"
#include "controller/base/status.h"
#include "controller/cache/stores.h"

namespace egpu::server {

/// The claim that is made for a ResourceClaim that asks for one (reconcile::asks()). `source` names the ResourceClaim in
/// the error. Code::invalid: no claim can serve it.
base::Result<v1alpha::ElasticGPUClaim> claimMadeFor(const core::ResourceClaim& carrier, const std::string& source);

/// As they would be made now, called "<pod>-<name>" (Kubernetes appends five characters), in the order of the names in the
/// pod; what its status says is stamped already is not among them. A template that asks for no GPU of ours is left out,
/// and note says so. Code::notFound, or Code::invalid by the annotation that is wrong.
base::Result<std::vector<v1alpha::ElasticGPUClaim>> claimsStampedFor(const cache::Stores& stores, const core::Pod& pod,
                                                                     const std::string& space, std::string& note);

}  // namespace egpu::server

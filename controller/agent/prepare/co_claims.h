// Claims that share a container. A runtime applies the CDI devices of a container's claims in order, so the variables
// of the last claim take effect: they must describe all claims of the container.
#pragma once

#include <cstddef>
#include <stop_token>
#include <string>
#include <vector>

#include "api/core/objects.h"
#include "controller/agent/cdi/folder.h"
#include "controller/agent/prepare/authorize.h"
#include "controller/base/status.h"
#include "controller/kube/client.h"

namespace egpu::agent {

/// ResourceClaims of one container.
struct Use {
  std::string container;            ///< "container main of pod p"
  std::vector<std::string> claims;  ///< names without duplicates, in the order in which the kubelet adds their devices
  bool operator==(const Use&) const = default;
};

/// Returns the containers that use the claim, init containers first. Their claims are in the order of the pod's
/// spec.resourceClaims. Pure.
std::vector<Use> usesOf(const std::vector<core::Pod>& pods, const std::string& claim);

/// Returns the largest number of containers of one pod that use the claim at the same time: init containers that end
/// before the next one starts do not count. At least 1. Pure.
std::size_t containersAtOnce(const std::vector<core::Pod>& pods, const std::string& claim);

/// Returns the claims that precede `claim` in the containers in which `claim` is the last of this driver's claims, as
/// the API describes them; empty if there are none. `pods`: pods of this node that name the claim. Claims of other
/// drivers do not count. Returns Code::invalid if the variables of one claim can't describe all containers: containers
/// in which `claim` is last have different claims, or the last claim of another container was prepared for different
/// claims. Otherwise returns an error of authorizePrepare().
base::Result<std::vector<AuthorizedDevice>> coClaimsOf(kube::Client& client, CardReads& cards, cdi::Folder& folder,
                                                       const ClaimRef& claim, std::vector<core::Pod> pods,
                                                       const std::string& node, std::stop_token stop);

}  // namespace egpu::agent

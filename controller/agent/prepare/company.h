// Which claims a container has together. A runtime applies the CDI devices of a container's claims one after the other, so
// the variables of the last one stand: they speak for all.
#pragma once

#include <stop_token>
#include <string>
#include <vector>

#include "api/core/objects.h"
#include "controller/agent/cdi/folder.h"
#include "controller/agent/prepare/entitled.h"
#include "controller/base/status.h"
#include "controller/kube/client.h"

namespace egpu::agent {

/// One container's ResourceClaims.
struct Use {
  std::string container;            ///< "container main of pod p"
  std::vector<std::string> claims;  ///< their names, each once, in the order in which the kubelet gives their devices
  bool operator==(const Use&) const = default;
};

/// The containers that have the claim, init containers first. The order is that of the pod's spec.resourceClaims. Pure.
std::vector<Use> usesOf(const std::vector<core::Pod>& pods, const std::string& claim);

/// The claims that stand before this one in the containers in which it is the last of ours, with what the API says of
/// them; empty if it is alone there. pods: those of this node that name the claim; claims of other drivers don't count. Code::invalid where one text can't speak for all: it is the last one in containers that have
/// different claims, or in one of them a claim is the last that was prepared for others. Else an error of entitled().
base::Result<std::vector<Entitled>> companyOf(kube::Client& client, CardReads& cards, cdi::Folder& folder,
                                              const ClaimRef& claim, std::vector<core::Pod> pods,
                                              const std::string& node, std::stop_token stop);

}  // namespace egpu::agent

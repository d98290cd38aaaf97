// Authorizes a prepare: verifies a ResourceClaim and its device by quorum reads of the API.
#pragma once

#include <stop_token>
#include <string>
#include <vector>

#include "api/core/objects.h"
#include "api/v1alpha/types.h"
#include "controller/agent/claim_ref.h"
#include "controller/agent/prepare/shared_reads.h"
#include "controller/base/status.h"
#include "controller/kube/client.h"

namespace egpu::agent {

/// Returns Code::invalid unless namespace and name are valid names and the uid is a valid uid: they become paths and
/// keys.
base::Status checkNames(const ClaimRef& claim);

using CardReads = SharedReads<v1alpha::ElasticGPU>;  ///< by name of the card

struct AuthorizedDevice {
  v1alpha::ElasticGPU device;
  std::vector<v1alpha::Card> cards;  ///< same order as device.spec.cards
};

/// Limits the memory of whole cards to the cards' actual memory: if a device of source physicalGPU has all compute of a
/// card, its granted and charged memory do not exceed that of `cards`. The controller charges the ledger entries again.
void limitToCardMemory(AuthorizedDevice& authorized);

/// Returns the device that the claim's pods may use on `node`. All of this must hold:
/// - the ResourceClaim has this uid, is reserved for a pod, and is allocated by this driver on this node or, for a
///   remote device, on any node;
/// - its owner is the ElasticGPUClaim of its name, which the device's claimRef names by uid; or, if the ResourceClaim
///   has no such owner, it is itself the owner of that claim;
/// - the device is Bound, and on this node; or it is remote, without a node and cards;
/// - each of its cards is on this node and not CardGone, and the card's ledger has an entry for the device's uid with
///   the charged amounts.
/// Otherwise returns Code::invalid with the failed condition, or Code::unavailable if it may hold later: not allocated,
/// not reserved, not Bound. Errors of the API are passed on. `pods` receives up to 16 pods for which the claim is
/// reserved. `cards`: reads of cards that concurrent callers share.
base::Result<AuthorizedDevice> authorizePrepare(kube::Client& client, CardReads& cards, const ClaimRef& claim,
                                                const std::string& node, std::vector<core::ObjectReference>& pods,
                                                std::stop_token stop);

}  // namespace egpu::agent

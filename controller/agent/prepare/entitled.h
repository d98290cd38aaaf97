// Who may be given a device on this node: what the API says of a ResourceClaim, read by quorum.
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

/// Code::invalid unless all three may be names and a uid of the API: they become paths and keys.
base::Status checkNames(const ClaimRef& claim);

using CardReads = SharedReads<v1alpha::ElasticGPU>;  ///< by name

struct Entitled {
  v1alpha::ElasticGPU device;
  std::vector<v1alpha::Card> cards;  ///< in the order of device.spec.cards
};

/// Whole cards are given with the memory that they have: of a device of source physicalGPU that holds all compute of a card, no
/// more memory is granted and charged than `cards` have. The controller charges the entries again.
void followCards(Entitled& entitled);

/// The device that the claim's pods may have on `node`, or in words what does not hold (Code::invalid):
/// - the ResourceClaim has this uid, is reserved for a pod, and is allocated by our driver on this node;
/// - its owner is the ElasticGPUClaim of its name that the device's claimRef names by uid; or, if it has none, that claim's
///   owner is the ResourceClaim;
/// - the device is Bound, and on this node;
/// - each of its cards is on this node and not CardGone, and its ledger has an entry under the device's uid with the amounts charged.
/// An error of the API is passed on. pods: for whom it is reserved, as far as is known.
/// cards: which those who ask at the same time share.
base::Result<Entitled> entitled(kube::Client& client, CardReads& cards, const ClaimRef& claim, const std::string& node,
                                std::vector<core::ObjectReference>& pods, std::stop_token stop);

}  // namespace egpu::agent

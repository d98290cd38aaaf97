#include "controller/agent/prepare/authorize.h"

#include <algorithm>
#include <utility>

#include "api/v1alpha/keys.h"
#include "api/v1alpha/remote.h"
#include "api/v1alpha/size.h"
#include "api/v1alpha/validation.h"
#include "controller/agent/cdi/folder.h"
#include "controller/agent/health/health.h"

namespace egpu::agent {

namespace {

using base::Code;
using base::Result;
using base::Status;
namespace keys = v1alpha::keys;

constexpr std::size_t kMaxPods = 16;    ///< maximum pods that get the event of a refusal
constexpr std::size_t kMaxCards = 128;  ///< maximum cards of a device, as in the API

Status refused(std::string why) { return {Code::invalid, std::move(why)}; }

/// Puts the object in front of the message, as in "ElasticGPU egpu-…: ". A missing object is a refusal.
Status about(const std::string& what, const Status& status) {
  if (status.code() == Code::notFound) return refused(what + " does not exist");
  return Status(status.code(), what + ": " + status.message());
}

Status checkClaim(const core::ResourceClaim& rc, const ClaimRef& claim, const std::string& node) {
  const std::string what = "ResourceClaim " + claim.str();
  if (rc.metadata.uid != claim.uid)
    return refused(what + " was recreated: its uid is " + rc.metadata.uid + ", not " + claim.uid);
  if (!rc.allocation) return {Code::unavailable, what + " is not allocated"};
  const auto& allocation = *rc.allocation;
  if (allocation.driver != keys::kDriver)
    return refused(what + " is allocated by the driver " + allocation.driver + ", not " + std::string(keys::kDriver));
  if (!allocation.nodeName.empty() && allocation.nodeName != node)
    return refused(what + " is allocated on node " + allocation.nodeName + ", this is " + node);
  const bool reserved = std::any_of(rc.reservedFor.begin(), rc.reservedFor.end(),
                                    [](const auto& consumer) { return consumer.resource == "pods"; });
  return reserved ? Status::okay() : Status(Code::unavailable, what + " is not reserved for a pod");
}

/// Returns the object's owner of that kind, or null.
const core::OwnerReference* ownerOf(const core::ObjectMeta& object, const core::Kind& kind) {
  for (const auto& owner : object.ownerReferences)
    if (owner.kind == kind.kind && owner.apiVersion.rfind(std::string(kind.group) + "/", 0) == 0) return &owner;
  return nullptr;
}

/// Checks a ResourceClaim without an ElasticGPUClaim as owner, usually from a template: the ElasticGPUClaim of its name
/// must have been created for it. The device's claimRef, which tenants can't write, identifies that claim.
Status checkMadeFor(kube::Client& client, const core::ResourceClaim& rc, const v1alpha::ElasticGPU& device,
                    std::stop_token stop) {
  const std::string what = "ResourceClaim " + core::keyOf(rc.metadata).str();
  const auto& ref = device.spec.claimRef;
  if (!ref || ref->uid.empty() || core::ObjectKey{ref->namespace_, ref->name} != core::keyOf(rc.metadata))
    return refused(what + " is not owned by an ElasticGPUClaim, and ElasticGPU " + device.metadata.name +
                   " is not the device of one with its name" +
                   (ref ? ", but of " + ref->namespace_ + "/" + ref->name : ""));
  const auto claim = client.get<v1alpha::ElasticGPUClaim>(core::keyOf(rc.metadata), stop);
  if (!claim) return about("ElasticGPUClaim " + core::keyOf(rc.metadata).str(), claim.status());
  const auto* owner = ownerOf(claim->metadata, core::kindOf<core::ResourceClaim>);
  if (claim->metadata.uid != ref->uid || owner == nullptr || owner->uid != rc.metadata.uid)
    return refused(what + " is not owned by an ElasticGPUClaim, and the one that owns device " + device.metadata.name +
                   " was not created for it");
  return Status::okay();
}

/// Checks that the device belongs to the claim that owns the ResourceClaim. Tenants can write owner references, but not
/// a device's claimRef.
Status checkOwner(kube::Client& client, const core::ResourceClaim& rc, const v1alpha::ElasticGPU& device,
                  std::stop_token stop) {
  const std::string what = "ResourceClaim " + core::keyOf(rc.metadata).str();
  const auto* owner = ownerOf(rc.metadata, core::kindOf<v1alpha::ElasticGPUClaim>);
  if (owner == nullptr) return checkMadeFor(client, rc, device, std::move(stop));
  const auto& ref = device.spec.claimRef;
  if (!ref || ref->uid.empty() || ref->uid != owner->uid || ref->namespace_ != rc.metadata.namespace_ ||
      ref->name != owner->name)
    return refused("ElasticGPU " + device.metadata.name + " is not the device of ElasticGPUClaim " +
                   rc.metadata.namespace_ + "/" + owner->name + ", which owns " + what +
                   (ref ? ", but of " + ref->namespace_ + "/" + ref->name : ""));
  if (rc.metadata.name != owner->name)
    return refused(what + " does not have the name of the ElasticGPUClaim " + owner->name + " that owns it");
  return Status::okay();
}

/// Checks that the device, of an allocation on this node or on any node (allocatedOn empty), may be used here.
Status checkPlace(const v1alpha::ElasticGPU& device, const std::string& allocatedOn, const std::string& node) {
  const std::string what = "ElasticGPU " + device.metadata.name;
  if (v1alpha::isRemote(device) && !device.spec.cards.empty())
    return refused(what + " is remote, and names cards of this cluster");
  if (v1alpha::isOnAnyNode(device)) return Status::okay();
  if (device.spec.nodeName != node) return refused(what + " is on node " + device.spec.nodeName + ", this is " + node);
  if (allocatedOn.empty()) return refused("its ResourceClaim is allocated on any node, and " + what + " is not remote");
  if (v1alpha::isRemote(device)) return Status::okay();
  if (device.spec.cards.empty() || device.spec.cards.size() > kMaxCards)
    return refused(what + " names " + std::to_string(device.spec.cards.size()) + " cards");
  return Status::okay();
}

Status checkDevice(const v1alpha::ElasticGPU& device, const std::string& allocatedOn, const std::string& node) {
  const std::string what = "ElasticGPU " + device.metadata.name;
  if (!device.isDevice()) return refused(what + " is a card, not a claim's device");
  if (!cdi::isUid(device.metadata.uid)) return refused(what + " has the uid \"" + device.metadata.uid + "\"");
  if (device.status.phase != keys::phase::kBound)
    return {Code::unavailable,
            what + " is not Bound, but " + (device.status.phase.empty() ? "not yet provisioned" : device.status.phase)};
  return checkPlace(device, allocatedOn, node);
}

std::string amounts(int64_t core, int64_t memory) {
  return "core " + std::to_string(core) + ", memory " + std::to_string(memory);
}

Status checkCard(const v1alpha::ElasticGPU& card, const v1alpha::DeviceCard& share, const v1alpha::ElasticGPU& device,
                 const std::string& node) {
  const std::string what = "card " + card.metadata.name;
  if (!card.isCard()) return refused("ElasticGPU " + card.metadata.name + " is no card");
  if (card.spec.card->uuid != share.uuid)
    return refused(what + " has the uuid " + card.spec.card->uuid + ", the device names " + share.uuid);
  if (card.spec.card->nodeName != node)
    return refused(what + " is on node " + card.spec.card->nodeName + ", this is " + node);
  if (const auto* healthy = health::healthyOf(card.status.conditions);
      healthy != nullptr && healthy->status == "False" && healthy->reason == health::kCardGone)
    return refused(what + " (" + share.uuid + ") is no longer present on node " + node + ": " + healthy->message);
  const auto entry = card.spec.allocations.find(device.metadata.uid);
  if (entry == card.spec.allocations.end() || entry->second.device != device.metadata.name)
    return refused(what + " has no entry for ElasticGPU " + device.metadata.name + " in its ledger");
  if (entry->second.slots != share.slots)
    return refused("the ledger of " + what + " has other MIG slots for " + device.metadata.name + " than the device");
  // During a resize the ledger entry may exceed the device's amounts.
  const bool resized = entry->second.resize > 0;
  const bool enough = resized ? entry->second.core >= share.chargedCore && entry->second.memory >= share.chargedMemory
                              : entry->second.core == share.chargedCore && entry->second.memory == share.chargedMemory;
  if (!enough || share.chargedCore < 0 || share.chargedMemory < 0)
    return refused("the ledger of " + what + " has " + amounts(entry->second.core, entry->second.memory) + " for " +
                   device.metadata.name + ", which is charged " + amounts(share.chargedCore, share.chargedMemory));
  return Status::okay();
}

}  // namespace

Status checkNames(const ClaimRef& claim) {
  if (!v1alpha::isDnsLabel(claim.namespace_)) return refused("the ResourceClaim's namespace is not valid");
  if (!v1alpha::isDnsSubdomain(claim.name)) return refused("the ResourceClaim's name is not valid");
  if (!cdi::isUid(claim.uid)) return refused("the uid of ResourceClaim " + claim.str() + " is not valid");
  return Status::okay();
}

void limitToCardMemory(AuthorizedDevice& authorized) {
  auto& device = authorized.device;
  if (!device.spec.source || device.spec.source->kind != v1alpha::SourceKind::physicalGPU) return;
  auto shares = v1alpha::cardsInForce(device);
  for (std::size_t i = 0; i < shares.size(); ++i) {
    if (shares[i].core < authorized.cards[i].core || shares[i].chargedCore < authorized.cards[i].core) continue;
    shares[i].memory = std::min(shares[i].memory, authorized.cards[i].memory);
    shares[i].chargedMemory = std::min(shares[i].chargedMemory, authorized.cards[i].memory);
  }
  if (device.status.inForce)
    device.status.inForce->cards = std::move(shares);
  else
    device.spec.cards = std::move(shares);
}

Result<AuthorizedDevice> authorizePrepare(kube::Client& client, CardReads& cards, const ClaimRef& claim,
                                          const std::string& node, std::vector<core::ObjectReference>& pods,
                                          std::stop_token stop) {
  const auto rc = client.get<core::ResourceClaim>({claim.namespace_, claim.name}, stop);
  if (!rc) return about("ResourceClaim " + claim.str(), rc.status());
  if (rc->metadata.uid == claim.uid)
    for (const auto& consumer : rc->reservedFor)
      if (consumer.resource == "pods" && pods.size() < kMaxPods)
        pods.push_back({"v1", "Pod", claim.namespace_, consumer.name, consumer.uid, ""});
  if (auto s = checkClaim(*rc, claim, node); !s.ok()) return s;

  auto device = client.get<v1alpha::ElasticGPU>({"", rc->allocation->device}, stop);
  if (!device) return about("ElasticGPU " + rc->allocation->device, device.status());
  if (auto s = checkOwner(client, *rc, *device, stop); !s.ok()) return s;
  if (auto s = checkDevice(*device, rc->allocation->nodeName, node); !s.ok()) return s;

  AuthorizedDevice out;
  for (const auto& share : v1alpha::cardsInForce(*device)) {
    const auto read = [&](std::stop_token its) {
      return client.get<v1alpha::ElasticGPU>({"", share.name}, std::move(its));
    };
    const auto card = cards.get(share.name, read, stop);
    if (!card) return about("card " + share.name, card.status());
    if (auto s = checkCard(**card, share, *device, node); !s.ok()) return s;
    out.cards.push_back(*(*card)->spec.card);
  }
  out.device = std::move(*device);
  return out;
}

}  // namespace egpu::agent

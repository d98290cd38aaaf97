#include "controller/reconcile/resourceclaim/bridge.h"

#include <algorithm>

#include "api/v1alpha/keys.h"
#include "api/v1alpha/remote.h"
#include "controller/base/backoff.h"
#include "controller/reconcile/claim/binder.h"
#include "controller/reconcile/resourceclaim/adopter.h"

namespace egpu::reconcile {

namespace keys = v1alpha::keys;

namespace {
constexpr int kRewritesAtOnce = 10;
/// Device that our allocation names; empty without an allocation.
std::string_view allocatedDevice(const core::ResourceClaim& resourceClaim) {
  return resourceClaim.allocation && resourceClaim.allocation->driver == keys::kDriver
             ? std::string_view(resourceClaim.allocation->device)
             : std::string_view();
}

core::OwnerReference ownerReference(const cache::Claim& claim) {
  core::OwnerReference owner;
  owner.apiVersion = core::kindOf<cache::Claim>.apiVersion();
  owner.kind = std::string(core::kindOf<cache::Claim>.kind);
  owner.name = claim.metadata.name;
  owner.uid = claim.metadata.uid;
  owner.controller = true;
  owner.blockOwnerDeletion = true;
  return owner;
}

bool isClaim(const core::OwnerReference& owner) {
  return owner.kind == core::kindOf<cache::Claim>.kind && owner.apiVersion.rfind("elasticgpu.io/", 0) == 0;
}

}  // namespace

bool ResourceClaimBridge::ours(const core::ResourceClaim& resourceClaim) {
  return !asks(resourceClaim) && resourceClaim.deviceClassName == keys::kDeviceClass &&
         resourceClaim.requestName == keys::kResourceClaimRequest &&
         (resourceClaim.metadata.hasFinalizer(keys::kResourceClaimFinalizer) || !ownerUid(resourceClaim).empty() ||
          !allocatedDevice(resourceClaim).empty());
}

bool ResourceClaimBridge::of(const core::ResourceClaim& resourceClaim, std::string_view claimUid,
                             std::string_view device) {
  const auto allocated = allocatedDevice(resourceClaim);
  if (asks(resourceClaim)) return !allocated.empty() && allocated == device;
  if (!ours(resourceClaim)) return false;
  const auto owner = ownerUid(resourceClaim);
  if (owner.empty() && allocated.empty()) return true;
  return (!claimUid.empty() && owner == claimUid) || (!allocated.empty() && allocated == device);
}

bool ResourceClaimBridge::of(const core::ResourceClaim& resourceClaim, const cache::Claim& claim) {
  if (asks(resourceClaim)) return madeFor(claim) == resourceClaim.metadata.uid;
  return of(resourceClaim, claim.metadata.uid, deviceNameFor(claim)) ||
         of(resourceClaim, claim.metadata.uid, claim.spec.elasticGPUName) ||
         of(resourceClaim, claim.metadata.uid, claim.status.elasticGPUName);
}

bool ResourceClaimBridge::ownedBy(const core::ResourceClaim& resourceClaim, std::string_view claimUid) {
  return !claimUid.empty() && ownerUid(resourceClaim) == claimUid &&
         resourceClaim.metadata.hasFinalizer(keys::kResourceClaimFinalizer);
}

bool ResourceClaimBridge::marked(const core::ResourceClaim& resourceClaim, const cache::Claim& claim) {
  if (asks(resourceClaim))
    return of(resourceClaim, claim) && resourceClaim.metadata.hasFinalizer(keys::kResourceClaimFinalizer);
  return ownedBy(resourceClaim, claim.metadata.uid);
}

bool ResourceClaimBridge::markedAsCanBe(const core::ResourceClaim& resourceClaim, const cache::Claim& claim) const {
  if (marked(resourceClaim, claim)) return true;
  const base::MutexLock lock(mutex_);
  const auto it = unchangeable_.find(core::keyOf(resourceClaim.metadata).str());
  return it != unchangeable_.end() && it->second == resourceClaim.metadata.uid && of(resourceClaim, claim);
}

bool ResourceClaimBridge::unchangeable(const core::ResourceClaim& resourceClaim, const base::Status& answer) {
  // Rejected although the patch does not change the spec.
  if (answer.code() != base::Code::invalid || !asks(resourceClaim) ||
      answer.message().find("spec: Invalid value") == std::string::npos ||
      answer.message().find("field is immutable") == std::string::npos)
    return false;
  const base::MutexLock lock(mutex_);
  unchangeable_[core::keyOf(resourceClaim.metadata).str()] = resourceClaim.metadata.uid;
  return true;
}

bool ResourceClaimBridge::isOthers(const core::ResourceClaim& resourceClaim) {
  return ownerUid(resourceClaim).empty() && !asks(resourceClaim) && resourceClaim.deviceClassName != keys::kDeviceClass;
}

std::string ResourceClaimBridge::ownerUid(const core::ResourceClaim& resourceClaim) {
  for (const auto& owner : resourceClaim.metadata.ownerReferences)
    if (isClaim(owner)) return owner.uid;
  return {};
}

core::ResourceClaimAllocation ResourceClaimBridge::allocationFor(const core::ResourceClaim& resourceClaim,
                                                                 const cache::Gpu& device) const {
  core::ResourceClaimAllocation allocation;
  allocation.request = resourceClaim.requestName;
  allocation.driver = std::string(keys::kDriver);
  allocation.pool = v1alpha::isRemote(device) ? std::string(v1alpha::kRemotePool) : device.spec.nodeName;
  allocation.device = device.metadata.name;
  allocation.nodeName = device.spec.nodeName;
  allocation.allocationTimestamp = base::rfc3339(clock_.wall());
  return allocation;
}

base::Result<core::ResourceClaim> ResourceClaimBridge::create(const cache::Claim& claim, std::stop_token stop) {
  core::ResourceClaim resourceClaim;
  resourceClaim.metadata.name = claim.metadata.name;
  resourceClaim.metadata.namespace_ = claim.metadata.namespace_;
  resourceClaim.metadata.finalizers = {std::string(keys::kResourceClaimFinalizer)};
  resourceClaim.metadata.ownerReferences = {ownerReference(claim)};
  resourceClaim.deviceClassName = std::string(keys::kDeviceClass);
  resourceClaim.requestName = std::string(keys::kResourceClaimRequest);
  auto written = writer_.create(resourceClaim, stop);
  if (written.ok()) return written;
  const auto code = written.status().code();
  if (code != base::Code::alreadyExists && code != base::Code::unknownOutcome && code != base::Code::deadline)
    return written;
  auto there = writer_.read<core::ResourceClaim>(core::keyOf(claim.metadata), {}, stop);
  // The ResourceClaim was not created, or is gone again. Neither causes an event, so the failed write is returned for
  // a retry.
  if (there.status().code() == base::Code::notFound) return written;
  return there;
}

base::Result<core::ResourceClaim> ResourceClaimBridge::mark(const core::ResourceClaim& resourceClaim,
                                                            const cache::Claim& claim, std::stop_token stop) {
  const auto& meta = resourceClaim.metadata;
  auto finalizers = meta.finalizers;
  if (!meta.hasFinalizer(keys::kResourceClaimFinalizer)) finalizers.emplace_back(keys::kResourceClaimFinalizer);
  if (asks(resourceClaim))
    return writer_.patch(resourceClaim, codec::patch::finalizers(meta.uid, meta.resourceVersion, finalizers), {}, stop);
  auto owners = meta.ownerReferences;
  owners.erase(std::remove_if(owners.begin(), owners.end(), isClaim), owners.end());
  owners.push_back(ownerReference(claim));
  return writer_.patch(resourceClaim, codec::patch::marks(meta.uid, meta.resourceVersion, finalizers, owners), {},
                       stop);
}

ResourceClaimBridge::EnsureResult ResourceClaimBridge::ensure(const cache::Claim& claim, const cache::Gpu& device,
                                                              bool rewrite, std::stop_token stop) {
  const auto key = core::keyOf(claim.metadata);
  auto resourceClaim = stores_.resourceClaims.get(key);
  if (!resourceClaim) {
    if (!madeFor(claim).empty()) return {State::leaving};  // the ResourceClaim is gone, and the claim will be deleted
    const auto pods = stores_.podsOfClaim(key);
    if (std::none_of(pods.begin(), pods.end(), [](const auto& pod) { return alive(*pod); })) return {State::unwanted};
    auto made = create(claim, stop);  // W7
    if (!made.ok()) return {State::failed, {}, made.status()};
    resourceClaim = std::make_shared<const core::ResourceClaim>(*made);
  }
  if (!of(*resourceClaim, claim) && !of(*resourceClaim, claim.metadata.uid, device.metadata.name)) {
    if (ours(*resourceClaim)) return {State::leaving};  // it belongs to an earlier claim of this name: (S4)
    return {State::taken, {}, {}, "ResourceClaim \"" + key.name + "\" exists and isn't owned by this claim"};
  }
  if (resourceClaim->metadata.deleting()) return {State::leaving};
  if (!markedAsCanBe(*resourceClaim, claim)) {
    auto marked = mark(*resourceClaim, claim, stop);
    if (!marked.ok() && !unchangeable(*resourceClaim, marked.status())) return {State::failed, {}, marked.status()};
    if (marked.ok()) resourceClaim = std::make_shared<const core::ResourceClaim>(*marked);
  }
  if (!resourceClaim->allocation) return allocate(*resourceClaim, device, rewrite, stop);
  auto answer = allocated(*resourceClaim, device);
  const auto pods = stores_.podsOfClaim(key);
  if (answer.state != State::taken || !resourceClaim->reservedFor.empty() ||
      std::any_of(pods.begin(), pods.end(), [](const auto& pod) { return alive(*pod); }))
    return answer;
  // No pod has reserved it or is about to: the foreign allocation is removed.
  const auto withdrawn = withdraw(*resourceClaim, stop);
  if (!withdrawn.ok()) return {State::failed, {}, withdrawn};
  return {State::waiting, timeouts_.withdrawnAllocationDelay};
}

ResourceClaimBridge::EnsureResult ResourceClaimBridge::allocated(const core::ResourceClaim& resourceClaim,
                                                                 const cache::Gpu& device) const {
  const auto wanted = allocationFor(resourceClaim, device);
  const auto& there = *resourceClaim.allocation;
  if (there.driver != wanted.driver || there.device != wanted.device || there.nodeName != wanted.nodeName)
    // We move an allocation only after the scheduler cleared it, so another writer wrote this one.
    return {State::taken,
            {},
            {},
            "the ResourceClaim's allocation is for device " + there.device + " on node " + there.nodeName + ", not " +
                wanted.device + " on " + wanted.nodeName};
  return {resourceClaim.reservedFor.empty() ? State::allocated : State::reserved};
}

std::optional<ResourceClaimBridge::EnsureResult> ResourceClaimBridge::notNow(const core::ResourceClaim& resourceClaim,
                                                                             const std::string& node, bool rewrite) {
  const auto key = core::keyOf(resourceClaim.metadata);
  std::set<std::string> pods;
  bool capacityIsFreed = false;
  for (const auto& pod : stores_.podsOfClaim(key)) {
    if (!alive(*pod)) continue;
    pods.insert(pod->metadata.uid + "@" + pod->nodeName);
    capacityIsFreed = capacityIsFreed || (!node.empty() && pod->nodeName.empty() && pod->nominatedNodeName == node);
  }
  const base::MutexLock lock(mutex_);
  const auto passedSince = [this](base::Clock::Steady then) {
    return std::chrono::duration_cast<std::chrono::milliseconds>(clock_.now() - then);
  };
  if (const auto taken = withdrawn_.find(key.str()); taken != withdrawn_.end()) {
    const auto passed = passedSince(taken->second);
    if (passed < timeouts_.withdrawnAllocationDelay)
      return EnsureResult{State::waiting, timeouts_.withdrawnAllocationDelay - passed};
    withdrawn_.erase(taken);
  }
  auto& memory = written_[key.str()];
  if (memory.uid != resourceClaim.metadata.uid) memory = {resourceClaim.metadata.uid, key, 0, 0, {}, {}};
  if (memory.writes > 0) {
    if (!rewrite) return EnsureResult{State::cleared};
    // Restarts the backoff for other pods than those that the last writes did not help.
    if (pods != memory.pods) memory = {memory.uid, key, 1, 0, {}, pods};
    const auto wait =
        base::exponentialBackoff(timeouts_.firstAllocationBackoff, memory.writes, timeouts_.maxAllocationBackoff);
    const auto passed = passedSince(memory.last);
    // Victims were evicted for one of the pods. If the scheduler finds no allocation when it returns, it releases their
    // capacity, and evicts other victims the next time.
    if (capacityIsFreed && memory.writesWithoutWait < kRewritesAtOnce)
      ++memory.writesWithoutWait;
    else if (passed < wait)
      return EnsureResult{State::waiting, wait - passed};
  }
  ++memory.writes;
  memory.last = clock_.now();
  memory.pods = std::move(pods);
  return std::nullopt;
}

ResourceClaimBridge::EnsureResult ResourceClaimBridge::allocate(const core::ResourceClaim& resourceClaim,
                                                                const cache::Gpu& device, bool rewrite,
                                                                std::stop_token stop) {
  const auto wanted = allocationFor(resourceClaim, device);
  if (const auto answer = notNow(resourceClaim, wanted.nodeName, rewrite)) return *answer;
  const auto body =
      codec::patch::allocation(resourceClaim.metadata.uid, resourceClaim.metadata.resourceVersion, wanted);  // W8
  const auto written = writer_.patch(resourceClaim, body, "status", stop);
  if (written.ok()) return {State::allocated};
  const base::MutexLock lock(mutex_);
  const auto it = written_.find(core::keyOf(resourceClaim.metadata).str());
  if (it != written_.end() && it->second.writes > 0) --it->second.writes;
  return {State::failed, {}, written.status()};
}

std::vector<core::ObjectKey> ResourceClaimBridge::resetAllBackoff() {
  std::vector<core::ObjectKey> claims;
  const base::MutexLock lock(mutex_);
  for (auto& [text, memory] : written_) {
    if (memory.writes < 2) continue;
    memory = {memory.uid, memory.claim, 1, 0, {}, memory.pods};
    claims.push_back(memory.claim);
  }
  return claims;
}

base::Status ResourceClaimBridge::withdraw(const core::ResourceClaim& resourceClaim, std::stop_token stop) {
  if (resourceClaim.allocation) {
    if (!resourceClaim.reservedFor.empty()) return {base::Code::conflict, "reserved"};
    const auto body =
        codec::patch::allocation(resourceClaim.metadata.uid, resourceClaim.metadata.resourceVersion, std::nullopt);
    auto status = writer_.patch(resourceClaim, body, "status", stop).status();
    if (!status.ok()) return status;
  }
  // The claim moves: its next allocation is a first one. Without an allocation, nothing was cleared.
  const base::MutexLock lock(mutex_);
  if (resourceClaim.allocation) withdrawn_[core::keyOf(resourceClaim.metadata).str()] = clock_.now();
  written_.erase(core::keyOf(resourceClaim.metadata).str());
  return {};
}

void ResourceClaimBridge::forget(const core::ObjectKey& claim) {
  const base::MutexLock lock(mutex_);
  written_.erase(claim.str());
  withdrawn_.erase(claim.str());
  unchangeable_.erase(claim.str());
}

void ResourceClaimBridge::forgetGone(const core::ObjectKey& claim) {
  const base::MutexLock lock(mutex_);
  if (stores_.resourceClaims.get(claim)) return;  // it was created again
  written_.erase(claim.str());
  withdrawn_.erase(claim.str());
  unchangeable_.erase(claim.str());
}

std::size_t ResourceClaimBridge::remembered() const {
  const base::MutexLock lock(mutex_);
  return written_.size() + withdrawn_.size() + unchangeable_.size();
}

ResourceClaimBridge::Released ResourceClaimBridge::release(const core::ObjectKey& claim, const std::string& claimUid,
                                                           std::string_view device, std::stop_token stop) {
  auto read = writer_.read<core::ResourceClaim>(claim, {}, stop);
  if (!read.ok()) {
    if (read.status().code() == base::Code::notFound) {
      if (auto cached = stores_.resourceClaims.get(claim))
        stores_.resourceClaims.observedGone(claim, cached->metadata.uid);
      forget(claim);
      return {};
    }
    return {Release::failed, read.status(), {}};
  }
  if (!of(*read, claimUid, device)) return {};  // a ResourceClaim of another claim is no reason to wait
  if (asks(*read) && !read->metadata.deleting()) return takeBack(*read, stop);
  return releaseConsumers(std::move(*read), stop);
}

namespace {
/// Result for a ResourceClaim that is reserved, with the pods that reserve it.
ResourceClaimBridge::Released inUse(const core::ResourceClaim& resourceClaim) {
  ResourceClaimBridge::Released held{ResourceClaimBridge::Release::inUse, {}, {}};
  for (const auto& consumer : resourceClaim.reservedFor)
    if (consumer.resource == "pods") held.pods.push_back(consumer.uid);
  return held;
}
}  // namespace

ResourceClaimBridge::Released ResourceClaimBridge::takeBack(const core::ResourceClaim& resourceClaim,
                                                            std::stop_token stop) {
  if (!resourceClaim.reservedFor.empty()) return inUse(resourceClaim);
  const auto status = withdraw(resourceClaim, stop);
  if (!status.ok() && status.code() != base::Code::notFound) return {Release::failed, status, {}};
  return {};
}

ResourceClaimBridge::Released ResourceClaimBridge::releaseConsumers(core::ResourceClaim resourceClaim,
                                                                    std::stop_token stop) {
  const auto key = core::keyOf(resourceClaim.metadata);
  if (!resourceClaim.metadata.deleting()) {
    if (!resourceClaim.reservedFor.empty() && !resourceClaim.metadata.hasFinalizer(keys::kResourceClaimFinalizer)) {
      // Without a finalizer, the deletion would remove it while its pods use it.
      auto all = resourceClaim.metadata.finalizers;
      all.emplace_back(keys::kResourceClaimFinalizer);
      const auto body =
          codec::patch::finalizers(resourceClaim.metadata.uid, resourceClaim.metadata.resourceVersion, all);
      auto reserved = writer_.patch(resourceClaim, body, {}, stop);
      if (!reserved.ok()) return {Release::failed, reserved.status(), {}};
      resourceClaim = *reserved;
    }
    // Only a read after the deletion is final: until then pods may still reserve it.
    base::Result<core::ResourceClaim> again = base::Status(base::Code::unavailable, "not read");
    auto status = writer_.remove(resourceClaim, stop, &again);
    if (!status.ok()) return {Release::failed, status, {}};
    if (!again.ok() && again.status().code() != base::Code::notFound) return {Release::failed, again.status(), {}};
    if (!again.ok() || again->metadata.uid != resourceClaim.metadata.uid) {
      forget(key);
      return {};
    }
    resourceClaim = *again;
  }
  if (!resourceClaim.reservedFor.empty()) return inUse(resourceClaim);
  if (resourceClaim.metadata.hasFinalizer(keys::kResourceClaimFinalizer)) {
    auto rest = resourceClaim.metadata.finalizers;
    rest.erase(std::remove(rest.begin(), rest.end(), keys::kResourceClaimFinalizer), rest.end());
    const auto body =
        codec::patch::finalizers(resourceClaim.metadata.uid, resourceClaim.metadata.resourceVersion, rest);
    auto written = writer_.patch(resourceClaim, body, {}, stop);
    if (!written.ok() && written.status().code() != base::Code::notFound)
      return {Release::failed, written.status(), {}};
  }
  forget(key);
  return {};
}

Outcome ResourceClaimBridge::step(const core::ObjectKey& key, std::stop_token stop) {
  auto resourceClaim = stores_.resourceClaims.get(key);
  if (!resourceClaim) forgetGone(key);
  if (!resourceClaim || !ours(*resourceClaim)) return Outcome::done();
  auto claim = stores_.claims.get(key);
  if (claim && of(*resourceClaim, *claim)) {
    if (!resourceClaim->metadata.deleting() || claim->metadata.deleting())
      return Outcome::done();  // the claim's step handles it
    // It was deleted by hand under a live claim: remove it; the claim's step creates another one.
  } else {
    // The cache has no such claim. The cache may be late: read it.
    auto now = writer_.read<cache::Claim>(key, {}, stop);
    if (now.ok() && of(*resourceClaim, *now)) return Outcome::done();
    if (!now.ok() && now.status().code() != base::Code::notFound) return Outcome::retry(now.status());
  }
  auto read = writer_.read<core::ResourceClaim>(key, resourceClaim->metadata.uid, stop);
  if (!read.ok()) return read.status().code() == base::Code::notFound ? Outcome::done() : Outcome::retry(read.status());
  // A newer version has an event of its own, which requeues the key.
  if (read->metadata.resourceVersion != resourceClaim->metadata.resourceVersion) return Outcome::requeueNow();
  const auto released = releaseConsumers(std::move(*read), stop);  // (S4)
  return released.state == Release::failed ? Outcome::retry(released.error) : Outcome::done();
}

}  // namespace egpu::reconcile

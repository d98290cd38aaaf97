#include "controller/reconcile/resourceclaim/adopter.h"

#include <algorithm>
#include <utility>

#include "api/v1alpha/keys.h"
#include "api/v1alpha/validation.h"
#include "controller/base/log.h"
#include "controller/codec/claim_spec.h"
#include "controller/reconcile/pod/schedulability.h"

namespace egpu::reconcile {

namespace keys = v1alpha::keys;

namespace {

/// Path of a field of the single request.
std::string field(std::string_view name) { return "spec.devices.requests[0].exactly." + std::string(name); }

bool isOurs(const core::DeviceConfig& config) { return config.driver == keys::kDriver; }

/// True for labels and annotations of Kubernetes: these describe the ResourceClaim only.
bool isKubernetes(std::string_view key) {
  const auto domain = key.substr(0, key.find('/'));
  return domain != key && (domain.ends_with("kubernetes.io") || domain.ends_with("k8s.io"));
}

core::StringMap withoutKubernetes(core::StringMap all) {
  erase_if(all, [](const auto& entry) { return isKubernetes(entry.first); });
  return all;
}

/// Part of the request that is not supported here, for people; empty if there is none.
std::string notServed(const core::ResourceClaim& resourceClaim) {
  const auto& request = resourceClaim.request;
  if (request.others > 0 || !request.alternatives.empty() || resourceClaim.deviceClassName != keys::kDeviceClass)
    return "spec.devices.requests: must be one request, exactly of device class " + std::string(keys::kDeviceClass) +
           "; use another ResourceClaim for other devices";
  if (!request.selectors.empty() && request.selectors != "[]")
    return field("selectors") + ": must be empty: there are no devices to select from; a class chooses among cards";
  if (request.adminAccess) return field("adminAccess") + ": must be false";
  if (request.allocationMode == "All") return field("allocationMode") + ": must be ExactCount";
  if (request.count > 1) return field("count") + ": must be 1; request several cards as elasticgpu.io/gpu";
  return {};
}

/// Converts capacity.requests to a claim's requests: names there are C identifiers, and a number without suffix is
/// bytes.
core::StringMap amountsOf(const core::StringMap& capacity) {
  core::StringMap requests;
  for (const auto& [name, amount] : capacity) {
    const auto slash = name.find('/');
    auto what = slash == std::string::npos ? name : name.substr(slash + 1);
    std::replace(what.begin(), what.end(), '_', '-');
    const auto prefix = slash == std::string::npos ? std::string(keys::kGroup) : name.substr(0, slash);
    const bool bare = amount.find_first_not_of("0123456789") == std::string::npos;
    requests[prefix + "/" + what] = what == keys::kGpuMemory && bare ? amount + "e0" : amount;
  }
  return requests;
}

/// Spec of the claim from config, with the amounts of the request's capacity; or an error message.
std::variant<v1alpha::ElasticGPUClaimSpec, std::string> specOf(const core::ResourceClaim& resourceClaim) {
  v1alpha::ElasticGPUClaimSpec spec;
  bool found = false;
  for (std::size_t i = 0; i < resourceClaim.config.size(); ++i) {
    const auto& config = resourceClaim.config[i];
    if (!isOurs(config)) continue;
    const auto at = "spec.devices.config[" + std::to_string(i) + "].opaque";
    if (std::exchange(found, true)) return at + ".driver: " + std::string(keys::kDriver) + " is listed twice";
    auto read = codec::decodeClaimSpec(config.parameters);
    if (!read.ok()) return at + ".parameters: " + read.status().message();
    spec = *read;
  }
  if (resourceClaim.request.capacity.empty()) return spec;
  if (!spec.requests.empty())
    return field("capacity.requests") + ": the parameters for " + std::string(keys::kDriver) +
           " already have amounts; specify them once";
  spec.requests = amountsOf(resourceClaim.request.capacity);
  return spec;
}

}  // namespace

bool asks(const core::ResourceClaim& resourceClaim) {
  return std::any_of(resourceClaim.config.begin(), resourceClaim.config.end(), isOurs) ||
         (resourceClaim.deviceClassName == keys::kDeviceClass && !resourceClaim.request.capacity.empty());
}

std::string_view madeFor(const cache::Claim& claim) {
  constexpr auto& kind = core::kindOf<core::ResourceClaim>;
  for (const auto& owner : claim.metadata.ownerReferences)
    if (owner.kind == kind.kind && owner.apiVersion.rfind(std::string(kind.group) + "/", 0) == 0) return owner.uid;
  return {};
}

std::variant<cache::Claim, std::string> claimFor(const core::ResourceClaim& resourceClaim) {
  if (auto why = notServed(resourceClaim); !why.empty()) return why;
  auto spec = specOf(resourceClaim);
  if (auto* why = std::get_if<std::string>(&spec)) return std::move(*why);
  cache::Claim claim;
  claim.metadata.name = resourceClaim.metadata.name;
  claim.metadata.namespace_ = resourceClaim.metadata.namespace_;
  claim.metadata.labels = withoutKubernetes(resourceClaim.metadata.labels);
  claim.metadata.annotations = withoutKubernetes(resourceClaim.metadata.annotations);
  constexpr auto& kind = core::kindOf<core::ResourceClaim>;
  // Not blocking: that would require rights on the finalizers of all ResourceClaims.
  claim.metadata.ownerReferences.push_back({kind.apiVersion(), std::string(kind.kind), resourceClaim.metadata.name,
                                            resourceClaim.metadata.uid, true, false});
  claim.spec = std::get<v1alpha::ElasticGPUClaimSpec>(std::move(spec));
  if (const auto errors = v1alpha::validate(claim); !errors.empty())
    return "as an ElasticGPUClaim: " + errors.front().field + ": " + errors.front().message;
  return claim;
}

Outcome ResourceClaimAdopter::step(const core::ObjectKey& key, std::stop_token stop) {
  const auto resourceClaim = stores_.resourceClaims.get(key);
  const auto claim = stores_.claims.get(key);
  if (!resourceClaim) {
    const base::MutexLock lock(mutex_);
    reported_.erase(key);
  }
  if (claim && !claim->metadata.deleting() && !madeFor(*claim).empty() &&
      (!resourceClaim || madeFor(*claim) != resourceClaim->metadata.uid))
    if (const auto outcome = ownerGone(*claim, stop)) return *outcome;
  if (!resourceClaim || !asks(*resourceClaim)) return resourceClaim_.step(key, stop);
  if (resourceClaim->metadata.deleting()) return leaving(*resourceClaim, claim, stop);
  if (!claim) return make(*resourceClaim, stop);
  if (madeFor(*claim) != resourceClaim->metadata.uid)
    report(*resourceClaim,
           "an ElasticGPUClaim of that name exists and was not made for it: give one of them another name");
  return Outcome::done();  // the claim's own steps continue; its deletion requeues this key
}

std::optional<Outcome> ResourceClaimAdopter::ownerGone(const cache::Claim& claim, std::stop_token stop) {
  // The cache has no such ResourceClaim. It may be late: read it.
  const auto now = writer_.read<core::ResourceClaim>(core::keyOf(claim.metadata), {}, stop);
  if (now.ok() && now->metadata.uid == madeFor(claim)) return Outcome::requeueNow();
  if (!now.ok() && now.status().code() != base::Code::notFound) return Outcome::retry(now.status());
  return remove(claim, stop);
}

Outcome ResourceClaimAdopter::remove(const cache::Claim& claim, std::stop_token stop) {
  const auto status = writer_.remove(claim, stop);  // the end of the claim requeues this key
  return status.code() == base::Code::conflict ? Outcome::requeueNow() : Outcome::ofWrite(status);
}

Outcome ResourceClaimAdopter::leaving(const core::ResourceClaim& resourceClaim, const ClaimPtr& claim,
                                      std::stop_token stop) {
  const bool its = claim && madeFor(*claim) == resourceClaim.metadata.uid;
  if (its) return claim->metadata.deleting() ? Outcome::done() : remove(*claim, stop);
  if (!resourceClaim.metadata.hasFinalizer(keys::kResourceClaimFinalizer)) return Outcome::done();
  const auto key = core::keyOf(resourceClaim.metadata);
  const auto now = writer_.read<cache::Claim>(key, {}, stop);
  if (now.ok() && madeFor(*now) == resourceClaim.metadata.uid) return Outcome::requeueNow();
  if (!now.ok() && now.status().code() != base::Code::notFound) return Outcome::retry(now.status());
  const auto released = resourceClaim_.releaseConsumers(resourceClaim, stop);
  return released.state == ResourceClaimBridge::Release::failed ? Outcome::nextState(released.error) : Outcome::done();
}

std::optional<Outcome> ResourceClaimAdopter::allocatedBefore(const core::ResourceClaim& resourceClaim,
                                                             std::stop_token stop) {
  if (!resourceClaim.allocation) return std::nullopt;
  if (resourceClaim.allocation->driver == keys::kDriver) {
    const auto device = writer_.read<cache::Gpu>({"", resourceClaim.allocation->device}, {}, stop);
    if (!device.ok() && device.status().code() != base::Code::notFound) return Outcome::retry(device.status());
    const auto& ref = device.ok() ? device->spec.claimRef : std::nullopt;
    // The device's step removes the allocation, and that requeues this key. Another claim's device would never remove
    // it: it was written by hand.
    if (ref && core::ObjectKey{ref->namespace_, ref->name} == core::keyOf(resourceClaim.metadata))
      return Outcome::done();
  }
  if (!resourceClaim.reservedFor.empty()) return Outcome::done();
  return Outcome::nextState(resourceClaim_.withdraw(resourceClaim, stop));
}

base::Status ResourceClaimAdopter::joinGang(const core::ResourceClaim& resourceClaim, cache::Claim& claim,
                                            std::stop_token stop) {
  const auto ofGang = [](const auto& annotation) { return annotation.first.starts_with(keys::kGangAnnotation); };
  auto& annotations = claim.metadata.annotations;
  const auto* owner = stampedFor(resourceClaim);
  const bool itself = std::any_of(annotations.begin(), annotations.end(), ofGang);
  if (owner == nullptr || (itself && !stores_.podGroupsServed)) return {};
  const core::ObjectKey key{resourceClaim.metadata.namespace_, owner->name};
  auto pod = stores_.pods.get(key);
  if (!pod || pod->metadata.uid != owner->uid) {  // pods and ResourceClaims come by different watches
    const auto now = writer_.read<core::Pod>(key, owner->uid, std::move(stop));
    if (!now.ok()) return now.status().code() == base::Code::notFound ? base::Status() : now.status();
    if (now->metadata.uid != owner->uid) return {};
    pod = std::make_shared<const core::Pod>(*now);
  }
  for (const auto& annotation : pod->metadata.annotations)
    if (!itself && ofGang(annotation)) annotations.insert(annotation);
  if (pod->podGroupName.empty() || !stores_.podGroupsServed) return {};
  const std::string named(keys::kGangPodGroupAnnotation);
  if (std::none_of(annotations.begin(), annotations.end(), ofGang))
    annotations[named] = pod->podGroupName;
  else if (annotations.count(named) == 0 || annotations[named] != pod->podGroupName)
    events_.event(kube::referenceTo(*pod), "Warning", "AnnotationCounts",
                  "claim " + claim.metadata.name + " is of the gang of its annotations " +
                      std::string(keys::kGangAnnotation) + "…, not of PodGroup " + pod->podGroupName +
                      ": remove one of the two");
  return {};
}

Outcome ResourceClaimAdopter::make(const core::ResourceClaim& resourceClaim, std::stop_token stop) {
  if (const auto outcome = allocatedBefore(resourceClaim, stop)) return *outcome;
  auto wanted = claimFor(resourceClaim);
  if (const auto* why = std::get_if<std::string>(&wanted)) {
    report(resourceClaim, *why);
    return Outcome::done();  // its spec is immutable
  }
  if (const auto joined = joinGang(resourceClaim, std::get<cache::Claim>(wanted), stop); !joined.ok())
    return Outcome::retry(joined);
  const auto made = writer_.create(std::get<cache::Claim>(wanted), stop);
  if (made.ok()) {
    base::log::debug("made a claim for a ResourceClaim", {{"claim", core::keyOf(resourceClaim.metadata).str()}});
    return Outcome::done();  // the claim's own event continues
  }
  return made.status().code() == base::Code::alreadyExists ? Outcome::requeueNow() : Outcome::retry(made.status());
}

void ResourceClaimAdopter::report(const core::ResourceClaim& resourceClaim, const std::string& message) {
  {
    const base::MutexLock lock(mutex_);
    auto& last = reported_[core::keyOf(resourceClaim.metadata)];
    const auto what = resourceClaim.metadata.uid + " " + message;
    if (last == what) return;
    last = what;
  }
  events_.event(kube::referenceTo(resourceClaim), "Warning", "NotServed", message);
}

std::size_t ResourceClaimAdopter::remembered() const {
  const base::MutexLock lock(mutex_);
  return reported_.size();
}

}  // namespace egpu::reconcile

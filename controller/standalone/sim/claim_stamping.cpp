#include "controller/standalone/sim/claim_stamping.h"

#include <algorithm>
#include <map>
#include <utility>

#include "api/v1alpha/pod_claims.h"
#include "controller/base/ids.h"
#include "controller/codec/patch.h"
#include "controller/codec/simulated.h"

namespace egpu::sim {

namespace {

using base::Code;
using base::Result;
using base::Status;

constexpr std::size_t kMaxBaseLength = 57;  ///< maximum length before a hyphen and five characters
constexpr std::size_t kSuffix = 5;

bool ownedBy(const core::ObjectMeta& object, const core::Pod& pod) {
  return std::any_of(object.ownerReferences.begin(), object.ownerReferences.end(),
                     [&](const auto& owner) { return owner.kind == "Pod" && owner.uid == pod.metadata.uid; });
}

/// Returns the ResourceClaims that the pod's status already names, by the names in the pod's spec.
std::map<std::string, std::string> recorded(const core::Pod& pod) {
  std::map<std::string, std::string> names;
  for (const auto& entry : v1alpha::podClaims(pod))
    if (entry.state == v1alpha::PodClaimState::stamped) names[entry.name] = entry.claim;
  return names;
}

}  // namespace

std::string stampedName(const core::Pod& pod, const std::string& name) {
  auto first = pod.metadata.name, second = name;
  const auto whole = first.size() + second.size() + 1;
  if (whole > kMaxBaseLength) {
    first.resize(first.size() * (kMaxBaseLength - 1) / whole);
    second.resize(second.size() * (kMaxBaseLength - 1) / whole);
  }
  return first + "-" + second + "-" + base::hexDigest(pod.metadata.uid + "/" + name).substr(0, kSuffix);
}

Result<std::string> ClaimStamping::claimOf(const core::Pod& pod, const v1alpha::PodClaim& entry, std::stop_token stop) {
  const core::ObjectKey key{pod.metadata.namespace_, stampedName(pod, entry.name)};
  auto there = client_.get<core::ResourceClaim>(key, stop);
  if (!there && there.status().code() != Code::notFound) return there.status();
  if (!there) {
    kube::HttpRequest read;  // raw JSON, so that fields that this project does not decode are copied, too
    read.target = kube::Client::path(core::kindOf<core::ResourceClaimTemplate>, key.namespace_, entry.templateName);
    const auto source = client_.call(std::move(read), stop);
    if (source.status().code() == Code::notFound)
      return Status(Code::notFound, "resource claim template \"" + entry.templateName + "\" not found");
    if (!source) return source.status();
    auto body = codec::stampedClaim(source->body, pod, entry.name, key.name);
    if (!body) return body.status();
    kube::HttpRequest create;
    create.method = kube::Method::post;
    create.target = kube::Client::path(core::kindOf<core::ResourceClaim>, key.namespace_);
    create.headers = {{"Content-Type", "application/json"}};
    create.body = std::move(*body);
    const auto made = client_.call(std::move(create), stop);
    if (made) return key.name;
    if (made.status().code() != Code::alreadyExists) return made.status();
    there = client_.get<core::ResourceClaim>(key, stop);
    if (!there) return there.status();
  }
  if (there->metadata.deleting())
    return Status(Code::conflict, "ResourceClaim " + key.name + ", stamped before, is being deleted");
  if (ownedBy(there->metadata, pod)) return key.name;
  return Status(Code::alreadyExists, "ResourceClaim " + key.name + " exists and is not the pod's");
}

bool ClaimStamping::stamp(const core::Pod& pod, std::stop_token stop) {
  const auto before = recorded(pod);
  auto names = before;
  bool all = true;
  for (const auto& entry : v1alpha::podClaims(pod)) {
    if (entry.state == v1alpha::PodClaimState::named) continue;
    const auto claim = claimOf(pod, entry, stop);
    if (claim) {
      names[entry.name] = *claim;
      continue;
    }
    all = false;
    if (claim.status().code() != Code::cancelled && claim.status().code() != Code::conflict)
      events_.event(kube::referenceTo(pod), "Warning", "FailedResourceClaimCreation",
                    "PodResourceClaim " + entry.name + ": " + claim.status().message());
  }
  if (names == before) return all;
  const auto body = codec::patch::stampedClaims(pod.metadata.uid, names);
  const auto written =
      client_.patch<core::Pod>(core::keyOf(pod.metadata), kube::PatchType::merge, body, "status", stop);
  return all && (written.ok() || written.status().code() == Code::notFound);
}

bool ClaimStamping::remove(const core::ResourceClaim& claim, const core::Pod& pod, std::stop_token stop) {
  if (!ownedBy(claim.metadata, pod) || !claim.reservedFor.empty() || claim.metadata.deleting()) return true;
  const auto status = client_.remove<core::ResourceClaim>(
      core::keyOf(claim.metadata), codec::patch::deleteOptions(claim.metadata.uid, claim.metadata.resourceVersion),
      stop);
  return status.ok() || status.code() == Code::notFound;
}

}  // namespace egpu::sim

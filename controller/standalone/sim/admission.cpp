#include "controller/standalone/sim/admission.h"

#include <utility>
#include <vector>

#include "api/v1alpha/keys.h"
#include "api/v1alpha/validation.h"
#include "controller/codec/codec.h"
#include "controller/codec/simulated.h"

namespace egpu::sim {

namespace {

using base::Code;
using base::Status;
namespace keys = v1alpha::keys;

/// name → claim, of the pod's annotations.
std::vector<std::pair<std::string, std::string>> claimAnnotations(const core::Pod& pod) {
  std::vector<std::pair<std::string, std::string>> out;
  for (const auto& [key, value] : pod.metadata.annotations)
    if (key.rfind(keys::kClaimAnnotationPrefix, 0) == 0)
      out.emplace_back(key.substr(keys::kClaimAnnotationPrefix.size()), value);
  return out;
}

std::string fieldOf(const std::string& name) {
  return "metadata.annotations[" + std::string(keys::kClaimAnnotationPrefix) + name + "]";
}

/// No node offers such a resource and nothing else reads it: the pod would run without a GPU.
Status refuseOwnAmounts(const std::string& objectJson) {
  const auto found = codec::ownAmounts(objectJson);
  if (!found) return Status::okay();
  std::string written;
  for (const auto& [key, value] : found->amounts) {
    if (!written.empty()) written += ", ";
    written += key;
    written += ": ";
    written += value;
  }
  const bool ofPod = found->container.empty();
  const std::string where = ofPod ? "spec." + found->list : "container \"" + found->container + "\": " + found->list;
  return Status(Code::invalid, where + "[" + found->amounts[0].first + "]: a " + (ofPod ? "pod" : "container") +
                                   " gets no GPU from its own resources; make an ElasticGPUClaim with "
                                   "spec.resources.requests: {" +
                                   written + "}, and name it in the pod's metadata.annotations: {" +
                                   std::string(keys::kClaimAnnotationPrefix) +
                                   (ofPod ? "<container>" : found->container) + ": <claim>}");
}

Status admitNew(const core::Pod& pod, std::string& objectJson) {
  if (auto refused = refuseOwnAmounts(objectJson); !refused.ok()) return refused;
  const auto claims = claimAnnotations(pod);
  if (claims.empty()) return Status::okay();
  for (const auto& [name, claim] : claims) {
    if (!v1alpha::isDnsLabel(name))
      return Status(Code::invalid,
                    fieldOf(name) + ": \"" + name + "\" must be a DNS label (a-z, 0-9 and '-', at most 63 characters)");
    if (!v1alpha::isDnsSubdomain(claim))
      return Status(Code::invalid, fieldOf(name) + ": \"" + claim + "\" is not the name of an ElasticGPUClaim");
  }
  // A pod that has its node already can't be gated: the API server takes no such pod.
  auto edited = codec::withResourceClaims(objectJson, claims, pod.nodeName.empty() ? keys::kSchedulingGate : "");
  if (!edited) return edited.status();
  objectJson = std::move(*edited);
  return Status::okay();
}

}  // namespace

Status admitPod(std::string_view resource, std::string_view operation, std::string& objectJson,
                std::string_view oldJson) {
  if (resource != "pods") return Status::okay();
  const auto pod = codec::decode<core::Pod>(objectJson);
  if (!pod) return pod.status();
  if (operation == "CREATE") return admitNew(*pod, objectJson);
  const auto before = codec::decode<core::Pod>(oldJson);
  if (!before) return before.status();
  if (claimAnnotations(*before) != claimAnnotations(*pod))
    return Status(Code::invalid, "metadata.annotations[" + std::string(keys::kClaimAnnotationPrefix) +
                                     "…]: the claims of a pod can't change; delete the pod and create it anew");
  return Status::okay();
}

}  // namespace egpu::sim

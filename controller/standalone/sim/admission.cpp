#include "controller/standalone/sim/admission.h"

#include <utility>
#include <vector>

#include "api/v1alpha/keys.h"
#include "api/v1alpha/pod_amounts.h"
#include "api/v1alpha/validation.h"
#include "controller/codec/codec.h"
#include "controller/codec/simulated.h"

namespace egpu::sim {

namespace {

using base::Code;
using base::Status;
namespace keys = v1alpha::keys;

using Named = std::vector<std::pair<std::string, std::string>>;

/// Returns name → value of the pod's annotations with this prefix. The value names a claim or a template.
Named annotated(const core::Pod& pod, std::string_view prefix) {
  Named out;
  for (const auto& [key, value] : pod.metadata.annotations)
    if (key.rfind(prefix, 0) == 0) out.emplace_back(key.substr(prefix.size()), value);
  return out;
}

Status checkNames(const Named& all, std::string_view prefix, const std::string& kind) {
  for (const auto& [name, value] : all) {
    const auto field = "metadata.annotations[" + std::string(prefix) + name + "]: \"";
    if (!v1alpha::isDnsLabel(name))
      return Status(Code::invalid, field + name + "\" must be a DNS label (a-z, 0-9 and '-', at most 63 characters)");
    if (!v1alpha::isDnsSubdomain(value))
      return Status(Code::invalid, field + value + "\" is not the name of an " + kind);
  }
  return Status::okay();
}

/// Refuses resources of elasticgpu.io in containers: no node offers them, so that the pod would get no GPU.
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
  return Status(Code::invalid, where + "[" + found->amounts[0].first +
                                   "]: GPUs can't be requested here; create an "
                                   "ElasticGPUClaim with spec.resources.requests: {" +
                                   written + "}, and reference it in the pod's metadata.annotations: {" +
                                   std::string(keys::kClaimAnnotationPrefix) +
                                   (ofPod ? "<container>" : found->container) + ": <claim>}");
}

Status admitNew(const core::Pod& pod, std::string& objectJson) {
  if (auto refused = refuseOwnAmounts(objectJson); !refused.ok()) return refused;
  const auto claims = annotated(pod, keys::kClaimAnnotationPrefix);
  auto templates = annotated(pod, keys::kTemplateAnnotationPrefix);
  if (auto bad = checkNames(claims, keys::kClaimAnnotationPrefix, "ElasticGPUClaim"); !bad.ok()) return bad;
  if (auto bad = checkNames(templates, keys::kTemplateAnnotationPrefix, "ElasticGPUClaimTemplate"); !bad.ok())
    return bad;
  // A pod that already has a node gets no gate, because the API server refuses such a pod.
  const auto gate = pod.nodeName.empty() ? keys::kSchedulingGate : std::string_view();
  if (auto name = v1alpha::amountsTemplate(pod.metadata.annotations); !name.empty())
    templates.emplace_back(keys::kAmountsEntry, std::move(name));
  for (const bool templated : {false, true}) {
    const auto& named = templated ? templates : claims;
    if (named.empty()) continue;
    auto edited = codec::withResourceClaims(objectJson, named, gate, templated);
    if (!edited) return edited.status();
    objectJson = std::move(*edited);
  }
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
  for (const auto prefix :
       {keys::kClaimAnnotationPrefix, keys::kTemplateAnnotationPrefix, keys::kAmountAnnotationPrefix})
    if (annotated(*before, prefix) != annotated(*pod, prefix))
      return Status(Code::invalid, "metadata.annotations[" + std::string(prefix) +
                                       "…]: the claims of a pod are immutable; delete the pod and create it again");
  return Status::okay();
}

}  // namespace egpu::sim

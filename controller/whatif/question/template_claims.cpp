#include "controller/whatif/question/template_claims.h"

#include <map>
#include <utility>
#include <variant>

#include "api/v1alpha/keys.h"
#include "api/v1alpha/pod_amounts.h"
#include "api/v1alpha/pod_claims.h"
#include "controller/reconcile/resourceclaim/adopter.h"

namespace egpu::whatif {

namespace {

namespace keys = v1alpha::keys;
using base::Code;
using base::Result;
using base::Status;
using v1alpha::ElasticGPUClaim;

/// Returns name in the pod → template whose claim is not created yet. Includes annotations that await admission.
std::map<std::string, std::string> templatesOf(const core::Pod& pod) {
  std::map<std::string, std::string> templates;
  for (auto& entry : v1alpha::podClaimsOnceAdmitted(pod))
    if (entry.state == v1alpha::PodClaimState::pending) templates[entry.name] = std::move(entry.templateName);
  return templates;
}

Status wrong(const v1alpha::FieldError& mistake) { return {Code::invalid, mistake.field + ": " + mistake.message}; }

/// Returns the claim that would be created from the template; none: the template does not request a GPU of ours.
Result<std::optional<ElasticGPUClaim>> claimOf(const cache::Stores& stores, const core::Pod& pod,
                                               const core::ObjectKey& source) {
  ElasticGPUClaim claim;
  if (const auto claims = stores.templates.get(source)) {
    claim.spec = claims->spec;
    claim.metadata.annotations = claims->annotations;
    return std::optional(std::move(claim));
  }
  if (const auto made = stores.resourceClaimTemplates.get(source)) {
    if (!reconcile::asks(made->claim)) return std::optional<ElasticGPUClaim>();
    auto stamped = made->claim;
    stamped.metadata.annotations = made->annotations;
    auto wanted = claimMadeFor(stamped, "ResourceClaimTemplate " + source.name);
    if (!wanted) return wanted.status();
    return std::optional(std::move(*wanted));
  }
  if (!v1alpha::namesAmounts(source.name))
    return Status(Code::notFound,
                  "there is no ElasticGPUClaimTemplate or ResourceClaimTemplate \"" + source.str() + "\"");
  const bool annotated = source.name == v1alpha::amountsTemplate(pod.metadata.annotations);
  if (const auto mistake = annotated ? v1alpha::validateAmounts(pod.metadata.annotations) : std::nullopt)
    return wrong(*mistake);
  if (const auto mistake = v1alpha::validateAmounts(source.name)) return wrong(*mistake);
  claim.spec = *v1alpha::amountsOf(source.name);
  return std::optional(std::move(claim));
}

}  // namespace

Result<ElasticGPUClaim> claimMadeFor(const core::ResourceClaim& resourceClaim, const std::string& source) {
  auto wanted = reconcile::claimFor(resourceClaim);
  if (auto* why = std::get_if<std::string>(&wanted)) return Status(Code::invalid, source + " can't be served: " + *why);
  auto& asked = std::get<cache::Claim>(wanted);
  ElasticGPUClaim claim;
  claim.metadata.name = std::move(asked.metadata.name);
  claim.metadata.namespace_ = std::move(asked.metadata.namespace_);
  claim.metadata.annotations = std::move(asked.metadata.annotations);
  claim.spec = std::move(asked.spec);
  return claim;
}

Result<std::vector<ElasticGPUClaim>> claimsStampedFor(const cache::Stores& stores, const core::Pod& pod,
                                                      const std::string& space, std::string& note) {
  std::vector<ElasticGPUClaim> claims;
  for (const auto& [name, source] : templatesOf(pod)) {
    auto claim = claimOf(stores, pod, {space, source});
    if (!claim) return claim.status();
    if (!*claim) {
      note += (note.empty() ? "" : "; ") + std::string("ResourceClaimTemplate ") + source +
              " requests no ElasticGPU and is ignored";
      continue;
    }
    (*claim)->metadata.name = (pod.metadata.name.empty() ? "new" : pod.metadata.name) + "-" + name;
    (*claim)->metadata.namespace_ = space;
    claims.push_back(std::move(**claim));
  }
  return claims;
}

}  // namespace egpu::whatif

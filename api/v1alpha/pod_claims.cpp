#include "api/v1alpha/pod_claims.h"

#include <algorithm>
#include <utility>

#include "api/v1alpha/keys.h"
#include "api/v1alpha/pod_amounts.h"

namespace egpu::v1alpha {

namespace {

/// Returns the status entry for a template's entry, or null if there is none yet.
const core::PodResourceClaim* statusOf(const core::Pod& pod, const core::PodResourceClaim& entry) {
  for (const auto& other : pod.resourceClaims)
    if (other.name == entry.name && other.templateName.empty()) return &other;
  return nullptr;
}

/// True if the list item comes from the status: the spec has a template's entry of the same name.
bool isOfStatus(const core::Pod& pod, const core::PodResourceClaim& item) {
  return item.templateName.empty() &&
         std::any_of(pod.resourceClaims.begin(), pod.resourceClaims.end(),
                     [&](const auto& other) { return other.name == item.name && !other.templateName.empty(); });
}

template <class Add>
void eachAnnotation(const core::Pod& pod, std::string_view prefix, Add&& add) {
  const auto& all = pod.metadata.annotations;
  for (auto it = all.lower_bound(std::string(prefix)); it != all.end() && it->first.starts_with(prefix); ++it)
    add(it->first.substr(prefix.size()), it->second);
}

}  // namespace

std::vector<PodClaim> podClaims(const core::Pod& pod) {
  std::vector<PodClaim> claims;
  claims.reserve(pod.resourceClaims.size());
  for (const auto& item : pod.resourceClaims) {
    if (isOfStatus(pod, item)) continue;
    if (item.templateName.empty()) {
      if (!item.resourceClaimName.empty())
        claims.push_back({item.name, PodClaimState::named, item.resourceClaimName, {}});
      continue;
    }
    const auto* status = statusOf(pod, item);
    if (status == nullptr)
      claims.push_back({item.name, PodClaimState::pending, {}, item.templateName});
    else if (!status->resourceClaimName.empty())
      claims.push_back({item.name, PodClaimState::stamped, status->resourceClaimName, item.templateName});
  }
  return claims;
}

bool hasPodClaims(const core::Pod& pod) { return !pod.resourceClaims.empty(); }

std::optional<PodClaim> pendingClaim(const core::Pod& pod) {
  for (auto& claim : podClaims(pod))
    if (claim.state == PodClaimState::pending) return std::move(claim);
  return std::nullopt;
}

std::vector<std::string> claimNames(const core::Pod& pod) {
  std::vector<std::string> names;
  for (auto& entry : podClaims(pod))
    if (!entry.claim.empty() && std::find(names.begin(), names.end(), entry.claim) == names.end())
      names.push_back(std::move(entry.claim));
  return names;
}

bool usesClaim(const core::Pod& pod, std::string_view claim) {
  const auto names = claimNames(pod);
  return std::find(names.begin(), names.end(), claim) != names.end();
}

std::set<std::string> annotatedClaims(const core::Pod& pod) {
  std::set<std::string> names;
  eachAnnotation(pod, keys::kClaimAnnotationPrefix, [&](const auto&, const auto& claim) { names.insert(claim); });
  return names;
}

std::set<std::string> onlyAnnotatedClaims(const core::Pod& pod) {
  auto names = annotatedClaims(pod);
  for (const auto& used : claimNames(pod)) names.erase(used);
  return names;
}

std::map<std::string, std::string> annotatedTemplates(const core::Pod& pod) {
  std::map<std::string, std::string> templates;
  eachAnnotation(pod, keys::kTemplateAnnotationPrefix,
                 [&](const auto& name, const auto& source) { templates[name] = source; });
  if (auto amounts = amountsTemplate(pod.metadata.annotations); !amounts.empty())
    templates[std::string(keys::kAmountsEntry)] = std::move(amounts);
  return templates;
}

std::vector<PodClaim> podClaimsOnceAdmitted(const core::Pod& pod) {
  auto claims = podClaims(pod);
  const auto isEntry = [&pod](const std::string& name) {
    return std::any_of(pod.resourceClaims.begin(), pod.resourceClaims.end(),
                       [&](const auto& item) { return item.name == name; });
  };
  eachAnnotation(pod, keys::kClaimAnnotationPrefix, [&](const auto& name, const auto& claim) {
    if (!isEntry(name)) claims.push_back({name, PodClaimState::named, claim, {}});
  });
  for (auto& [name, source] : annotatedTemplates(pod))
    if (!isEntry(name)) claims.push_back({name, PodClaimState::pending, {}, source});
  return claims;
}

}  // namespace egpu::v1alpha

#include "controller/reconcile/class/remote_class.h"

#include <algorithm>
#include <array>
#include <string>

#include "api/v1alpha/keys.h"
#include "api/v1alpha/parameters.h"
#include "api/v1alpha/remote.h"
#include "controller/reconcile/class/class.h"
#include "controller/reconcile/gang/membership.h"

namespace egpu::reconcile {

namespace keys = v1alpha::keys;

namespace {

/// Parameters of the core that have a meaning without cards.
constexpr std::array<std::string_view, 2> kUsableParameters{"hostPaths", "memoryUnit"};

scheduler::Refusal invalid(std::string field, std::string message) {
  return {std::string(keys::reason::kInvalidParameter), std::move(field), std::move(message)};
}

}  // namespace

bool isRemote(const cache::Stores& stores, const cache::Class& cls) {
  return stores.remoteProvisioners.contains(cls.provisioner);
}

bool isRemote(const cache::Stores& stores, const cache::Claim& claim) {
  if (const auto devices = stores.devicesOfClaim(claim.metadata.uid); !devices.empty())
    return std::any_of(devices.begin(), devices.end(), [](const auto& device) { return v1alpha::isRemote(*device); });
  const auto cls = classOf(stores, claim, nullptr);
  return cls && isRemote(stores, *cls);
}

std::optional<scheduler::Refusal> remoteRefusal(const cache::Stores& stores, const cache::Claim& claim,
                                                const cache::Class& cls) {
  if (!isRemote(stores, cls)) return std::nullopt;
  const auto& spec = claim.spec;
  const auto of = "class " + cls.metadata.name + " provides remote GPUs, which ";
  if (!spec.firstAvailable.empty())
    return invalid("spec.firstAvailable", of + "have no alternatives: state spec.resources.requests instead");
  if (!spec.models.empty()) return invalid("spec.models", of + "report no model: remove the field");
  if (spec.adminAccess) return invalid("spec.adminAccess", of + "have no cards to observe: remove the field");
  if (stores.cards.get({"", spec.elasticGPUName}) != nullptr)
    return invalid("spec.elasticGPUName", of + "are no cards of this cluster: name a remote device, or none");
  if (inGang(stores, claim))
    return invalid("metadata.annotations[" + std::string(keys::kGangAnnotation) + "]",
                   of + "can't be reserved together with the claims of a gang: remove the claim from the gang");
  return std::nullopt;
}

std::optional<scheduler::Refusal> remoteParameterRefusal(const cache::Stores& stores, const cache::Class& cls) {
  if (!isRemote(stores, cls)) return std::nullopt;
  for (const auto& [name, value] : cls.parameters)
    if (v1alpha::isCoreParameter(name) &&
        std::find(kUsableParameters.begin(), kUsableParameters.end(), name) == kUsableParameters.end())
      return invalid("parameters." + std::string(name),
                     "describes cards, and a class of remote GPUs has none: remove it; hostPaths and memoryUnit are "
                     "possible");
  return std::nullopt;
}

}  // namespace egpu::reconcile

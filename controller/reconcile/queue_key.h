// Keys of the work queue: "claim/ns/name", "device/name", … Event handlers make keys; steps parse them.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "api/core/meta.h"

namespace egpu::reconcile {

enum class Concern {
  claim,
  gang,
  device,
  card,
  resourceClaim,
  pod,
  node,
  cls,
  plugin,
  calls,
  assumed,
  reservations,
  capacity,
  plans,
  explain,
  usage,
  quota,
  claimTemplate
};
/// First part of a key of the concern.
std::string_view nameOf(Concern concern);

struct QueueKey {
  Concern concern = Concern::claim;
  core::ObjectKey object;
  bool operator==(const QueueKey&) const = default;

  std::string str() const;
  static std::optional<QueueKey> parse(std::string_view text);
};

inline std::string claimKey(const core::ObjectKey& key) { return "claim/" + key.str(); }
/// Key of a gang of the namespace, by its name; a PodGroup's gang has the name "/" + PodGroup.
inline std::string gangKey(const core::ObjectKey& gang) { return "gang/" + gang.str(); }
inline std::string resourceClaimKey(const core::ObjectKey& key) { return "resourceclaim/" + key.str(); }
inline std::string podKey(const core::ObjectKey& key) { return "pod/" + key.str(); }
inline std::string deviceKey(std::string_view name) { return "device/" + std::string(name); }
inline std::string cardKey(std::string_view name) { return "card/" + std::string(name); }
inline std::string nodeKey(std::string_view name) { return "node/" + std::string(name); }
inline std::string classKey(std::string_view name) { return "class/" + std::string(name); }
/// Key for the running calls of that plugin.
inline std::string callsKey(std::string_view plugin) { return "calls/" + std::string(plugin); }
/// Key for all decisions that are not yet written.
inline std::string assumedKey() { return "assumed/all"; }
/// Key for all reservations.
inline std::string reservationsKey() { return "reservations/all"; }
/// Key for the requeueing of claims that wait for capacity.
inline std::string capacityKey() { return "capacity/all"; }
/// Key for the requeueing of claims that wait until victims may be searched for them.
inline std::string plansKey() { return "plans/all"; }
/// Key for the texts why claims fit nowhere.
inline std::string explainKey() { return "explain/all"; }
inline std::string quotaKey(const core::ObjectKey& key) { return "quota/" + key.str(); }
/// Key for the usage of a claim's cards.
inline std::string usageKey(const core::ObjectKey& claim) { return "usage/" + claim.str(); }
/// Key for a template of claims, and the ResourceClaimTemplate of its name.
inline std::string templateKey(const core::ObjectKey& key) { return "template/" + key.str(); }
inline std::string pluginKey(std::string_view name) { return "plugin/" + std::string(name); }

}  // namespace egpu::reconcile

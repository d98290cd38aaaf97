// What a work queue's key stands for: "claim/ns/name", "device/name", … Handlers only make keys; steps take them apart.
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
  carrier,
  pod,
  node,
  cls,
  plugin,
  calls,
  assumed,
  kept,
  room,
  plans,
  usage,
  quota,
  claimTemplate
};
/// As keys begin.
std::string_view nameOf(Concern concern);

struct QueueKey {
  Concern concern = Concern::claim;
  core::ObjectKey object;
  bool operator==(const QueueKey&) const = default;

  std::string str() const;
  static std::optional<QueueKey> parse(std::string_view text);
};

inline std::string claimKey(const core::ObjectKey& key) { return "claim/" + key.str(); }
/// A gang of the namespace, by its name; a PodGroup's by a slash and its name.
inline std::string gangKey(const core::ObjectKey& gang) { return "gang/" + gang.str(); }
inline std::string carrierKey(const core::ObjectKey& key) { return "carrier/" + key.str(); }
inline std::string podKey(const core::ObjectKey& key) { return "pod/" + key.str(); }
inline std::string deviceKey(std::string_view name) { return "device/" + std::string(name); }
inline std::string cardKey(std::string_view name) { return "card/" + std::string(name); }
inline std::string nodeKey(std::string_view name) { return "node/" + std::string(name); }
inline std::string classKey(std::string_view name) { return "class/" + std::string(name); }
/// Calls of that plugin that are under way.
inline std::string callsKey(std::string_view plugin) { return "calls/" + std::string(plugin); }
/// Decisions that are not yet written, all of them.
inline std::string assumedKey() { return "assumed/all"; }
/// Nodes that are kept for claims, all of them.
inline std::string keptKey() { return "kept/all"; }
/// Turns of those that wait for room.
inline std::string roomKey() { return "room/all"; }
/// Turns of those that wait until victims may be searched for them.
inline std::string plansKey() { return "plans/all"; }
inline std::string quotaKey(const core::ObjectKey& key) { return "quota/" + key.str(); }
/// What a claim uses of its cards.
inline std::string usageKey(const core::ObjectKey& claim) { return "usage/" + claim.str(); }
/// A template of claims, and the ResourceClaimTemplate of its name.
inline std::string templateKey(const core::ObjectKey& key) { return "template/" + key.str(); }
inline std::string pluginKey(std::string_view name) { return "plugin/" + std::string(name); }

}  // namespace egpu::reconcile

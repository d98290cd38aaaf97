#include "controller/reconcile/node_fit.h"

#include <algorithm>
#include <charconv>
#include <optional>

namespace egpu::reconcile {
namespace {

std::optional<int64_t> integer(std::string_view text) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

/// present: the key exists on the node, with this value.
bool holds(const core::NodeSelectorRequirement& requirement, bool present, const std::string& value) {
  const bool listed =
      present && std::find(requirement.values.begin(), requirement.values.end(), value) != requirement.values.end();
  if (requirement.op == "In") return listed;
  if (requirement.op == "NotIn") return !listed;
  if (requirement.op == "Exists") return present;
  if (requirement.op == "DoesNotExist") return !present;
  if (requirement.op == "Gt" || requirement.op == "Lt") {
    if (!present || requirement.values.size() != 1) return false;
    const auto have = integer(value), bound = integer(requirement.values.front());
    if (!have || !bound) return false;
    return requirement.op == "Gt" ? *have > *bound : *have < *bound;
  }
  return false;
}

bool tolerates(const core::Toleration& toleration, const core::Taint& taint) {
  if (!toleration.effect.empty() && toleration.effect != taint.effect) return false;
  if (toleration.key.empty()) return toleration.op == "Exists";
  if (toleration.key != taint.key) return false;
  return toleration.op == "Exists" || toleration.value == taint.value;
}

bool matchesTerm(const core::NodeSelectorTerm& term, const core::Node& node) {
  if (term.matchExpressions.empty() && term.matchFields.empty()) return false;  // an empty term matches nothing
  for (const auto& requirement : term.matchExpressions) {
    auto it = node.metadata.labels.find(requirement.key);
    const bool present = it != node.metadata.labels.end();
    if (!holds(requirement, present, present ? it->second : std::string())) return false;
  }
  for (const auto& requirement : term.matchFields)
    if (requirement.key != "metadata.name" || !holds(requirement, true, node.metadata.name)) return false;
  return true;
}

}  // namespace

bool matches(const core::NodeSelector& selector, const core::Node& node) {
  return std::any_of(selector.terms.begin(), selector.terms.end(),
                     [&](const auto& term) { return matchesTerm(term, node); });
}

std::string nodeUnsuitable(const core::Pod& pod, const core::Node& node) {
  if (!pod.nodeName.empty()) return pod.nodeName == node.metadata.name ? "" : "the pod is on node " + pod.nodeName;
  if (node.unschedulable) return "cordoned";
  if (!node.ready) return "not ready";
  for (const auto& [key, value] : pod.nodeSelector)
    if (node.metadata.label(key) != value || node.metadata.labels.count(key) == 0)
      return "the pod's node selector wants " + key + "=" + value;
  if (pod.requiredNodeAffinity && !matches(*pod.requiredNodeAffinity, node))
    return "the pod's required node affinity excludes it";
  for (const auto& taint : node.taints) {
    if (taint.effect != "NoSchedule" && taint.effect != "NoExecute") continue;
    if (std::none_of(pod.tolerations.begin(), pod.tolerations.end(),
                     [&](const auto& t) { return tolerates(t, taint); }))
      return "taint " + taint.key + " is not tolerated";
  }
  return {};
}

}  // namespace egpu::reconcile

#include "controller/reconcile/pod/node_fit/affinity.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <string_view>

namespace egpu::reconcile {
namespace {

std::optional<int64_t> integer(std::string_view text) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

/// True if the requirement holds. value: of its key on the node; null if the node lacks the key.
bool holds(const core::NodeSelectorRequirement& requirement, const std::string* value) {
  const auto listed = [&] {
    return value != nullptr &&
           std::find(requirement.values.begin(), requirement.values.end(), *value) != requirement.values.end();
  };
  if (requirement.op == "In") return listed();
  if (requirement.op == "NotIn") return !listed();
  if (requirement.op == "Exists") return value != nullptr;
  if (requirement.op == "DoesNotExist") return value == nullptr;
  if (requirement.op == "Gt" || requirement.op == "Lt") {
    if (value == nullptr || requirement.values.size() != 1) return false;
    const auto have = integer(*value), bound = integer(requirement.values.front());
    if (!have || !bound) return false;
    return requirement.op == "Gt" ? *have > *bound : *have < *bound;
  }
  return false;
}

bool empty(const core::NodeSelectorTerm& term) { return term.matchExpressions.empty() && term.matchFields.empty(); }

}  // namespace

bool matches(const core::NodeSelectorTerm& term, const core::Node& node) {
  if (empty(term)) return false;
  for (const auto& requirement : term.matchExpressions) {
    const auto it = node.metadata.labels.find(requirement.key);
    if (!holds(requirement, it == node.metadata.labels.end() ? nullptr : &it->second)) return false;
  }
  return std::all_of(term.matchFields.begin(), term.matchFields.end(), [&](const auto& requirement) {
    return requirement.key == "metadata.name" && holds(requirement, &node.metadata.name);
  });
}

bool matches(const core::NodeSelector& selector, const core::Node& node) {
  return std::any_of(selector.terms.begin(), selector.terms.end(),
                     [&](const auto& term) { return matches(term, node); });
}

bool selects(const core::StringMap& nodeSelector, const core::Node& node) {
  return std::all_of(nodeSelector.begin(), nodeSelector.end(), [&](const auto& wanted) {
    const auto it = node.metadata.labels.find(wanted.first);
    return it != node.metadata.labels.end() && it->second == wanted.second;
  });
}

int64_t preference(const core::Pod& pod, const core::Node& node) {
  int64_t sum = 0;
  for (const auto& preferred : pod.preferredNodeAffinity)
    if (!empty(preferred.term) && matches(preferred.term, node)) sum += preferred.weight;
  return sum;
}

}  // namespace egpu::reconcile

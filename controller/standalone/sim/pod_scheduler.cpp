#include "controller/standalone/sim/pod_scheduler.h"

#include <algorithm>
#include <charconv>

#include "api/v1alpha/quantity.h"

namespace egpu::sim {

namespace {

int64_t amount(const core::StringMap& requests, std::string_view resource, int64_t nanoPerUnit) {
  const auto it = requests.find(resource);
  if (it == requests.end()) return 0;
  const auto q = v1alpha::parseQuantity(it->second);
  return q ? static_cast<int64_t>(q->nano / nanoPerUnit) : 0;
}

bool contains(const std::vector<std::string>& values, std::string_view value) {
  return std::find(values.begin(), values.end(), value) != values.end();
}

bool toNumber(std::string_view text, int64_t& out) {
  const auto r = std::from_chars(text.data(), text.data() + text.size(), out);
  return r.ec == std::errc{} && r.ptr == text.data() + text.size();
}

/// value is null when the node lacks the label or field.
bool holds(const core::NodeSelectorRequirement& r, const std::string* value) {
  if (r.op == "In") return value != nullptr && contains(r.values, *value);
  if (r.op == "NotIn") return value == nullptr || !contains(r.values, *value);
  if (r.op == "Exists") return value != nullptr;
  if (r.op == "DoesNotExist") return value == nullptr;
  if (r.op == "Gt" || r.op == "Lt") {
    int64_t have = 0, want = 0;
    if (value == nullptr || r.values.size() != 1 || !toNumber(*value, have) || !toNumber(r.values[0], want))
      return false;
    return r.op == "Gt" ? have > want : have < want;
  }
  return false;
}

bool tolerated(const core::Taint& taint, const std::vector<core::Toleration>& tolerations) {
  return std::any_of(tolerations.begin(), tolerations.end(), [&](const core::Toleration& t) {
    if (!t.effect.empty() && t.effect != taint.effect) return false;
    if (t.key.empty()) return t.op == "Exists";
    if (t.key != taint.key) return false;
    return t.op == "Exists" || t.value == taint.value;
  });
}

}  // namespace

NodeUse requestsOf(const core::Pod& pod) {
  NodeUse out;
  for (const auto& c : pod.containers) {
    out.cpuMilli += amount(c.requests, "cpu", 1'000'000);
    out.memoryBytes += amount(c.requests, "memory", 1'000'000'000);
  }
  for (const auto& c : pod.initContainers) {
    out.cpuMilli = std::max(out.cpuMilli, amount(c.requests, "cpu", 1'000'000));
    out.memoryBytes = std::max(out.memoryBytes, amount(c.requests, "memory", 1'000'000'000));
  }
  out.pods = 1;
  return out;
}

bool admits(const core::NodeSelector& selector, const core::Node& node) {
  return std::any_of(selector.terms.begin(), selector.terms.end(), [&](const core::NodeSelectorTerm& term) {
    if (term.matchExpressions.empty() && term.matchFields.empty()) return false;  // an empty term matches nothing
    const bool labels = std::all_of(term.matchExpressions.begin(), term.matchExpressions.end(), [&](const auto& r) {
      const auto it = node.metadata.labels.find(r.key);
      return holds(r, it == node.metadata.labels.end() ? nullptr : &it->second);
    });
    return labels && std::all_of(term.matchFields.begin(), term.matchFields.end(), [&](const auto& r) {
             return holds(r, r.key == "metadata.name" ? &node.metadata.name : nullptr);
           });
  });
}

std::string unsuitable(const core::Pod& pod, const core::Node& node, const NodeUse& used) {
  if (!node.ready) return "node(s) were not ready";
  if (node.unschedulable) return "node(s) were unschedulable";
  for (const auto& taint : node.taints)
    if (taint.effect != "PreferNoSchedule" && !tolerated(taint, pod.tolerations))
      return "node(s) had untolerated taint {" + taint.key + ": " + taint.value + "}";
  for (const auto& [key, value] : pod.nodeSelector)
    if (node.metadata.label(key) != value) return "node(s) didn't match Pod's node affinity/selector";
  if (pod.requiredNodeAffinity && !admits(*pod.requiredNodeAffinity, node))
    return "node(s) didn't match Pod's node affinity/selector";
  const NodeUse want = requestsOf(pod);
  if (used.pods + 1 > node.maxPods) return "Too many pods";
  if (want.cpuMilli > 0 && used.cpuMilli + want.cpuMilli > node.cpuMilli) return "Insufficient cpu";
  if (want.memoryBytes > 0 && used.memoryBytes + want.memoryBytes > node.memoryBytes) return "Insufficient memory";
  return {};
}

PodChoice choose(const core::Pod& pod, const std::vector<const core::Node*>& nodes,
                 const std::map<std::string, NodeUse, std::less<>>& used, const std::vector<std::string>& claimNodes) {
  PodChoice out;
  std::map<std::string, int64_t> why;
  const core::Node* best = nullptr;
  int64_t bestPods = 0;
  for (const core::Node* node : nodes) {
    const auto it = used.find(node->metadata.name);
    const NodeUse use = it == used.end() ? NodeUse{} : it->second;
    std::string reason = unsuitable(pod, *node, use);
    if (reason.empty() &&
        std::any_of(claimNodes.begin(), claimNodes.end(), [&](const auto& n) { return n != node->metadata.name; })) {
      reason = "node(s) didn't have the allocated devices of the pod's claims";
      out.otherNodeSuits = true;
    }
    if (!reason.empty()) {
      ++why[reason];
    } else if (best == nullptr || use.pods < bestPods ||
               (use.pods == bestPods && node->metadata.name < best->metadata.name)) {
      best = node;
      bestPods = use.pods;
    }
  }
  if (best != nullptr) {
    out.node = best->metadata.name;
    out.otherNodeSuits = false;
    return out;
  }
  out.message = "0/" + std::to_string(nodes.size()) + " nodes are available";
  std::string list;
  for (const auto& [reason, n] : why) list += (list.empty() ? ": " : ", ") + std::to_string(n) + " " + reason;
  out.message += list + ".";
  return out;
}

}  // namespace egpu::sim

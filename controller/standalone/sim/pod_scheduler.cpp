#include "controller/standalone/sim/pod_scheduler.h"

#include <algorithm>
#include <charconv>

#include "controller/cache/pod_requests.h"

namespace egpu::sim {

namespace {

bool contains(const std::vector<std::string>& values, std::string_view value) {
  return std::find(values.begin(), values.end(), value) != values.end();
}

bool toNumber(std::string_view text, int64_t& out) {
  const auto r = std::from_chars(text.data(), text.data() + text.size(), out);
  return r.ec == std::errc{} && r.ptr == text.data() + text.size();
}

/// True if the requirement is met. value: null if the node lacks the label or field.
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

/// True for resource names of GPUs that device plugins use. Other resources of these domains, such as NICs, are not
/// GPUs.
bool isGpu(std::string_view resource) {
  for (const std::string_view gpu :
       {"nvidia.com/gpu", "nvidia.com/mig-", "volcano.sh/vgpu-", "volcano.sh/gpu-", "aliyun.com/gpu-",
        "tencent.com/vcuda-", "tke.cloud.tencent.com/qgpu-", "tensor-fusion.ai/"})
    if (resource.rfind(gpu, 0) == 0) return true;
  return resource == "amd.com/gpu";
}

/// Returns sentences that name the extended resources that no node has and, for GPUs, the annotations that replace
/// them.
std::string missingResources(const ResourceAmounts& wanted,
                             const std::map<std::string, ResourceAmounts, std::less<>>& offered) {
  std::string out;
  bool gpu = false;
  for (const auto& each : wanted) {
    const auto& resource = each.first;
    const bool there = std::any_of(offered.begin(), offered.end(), [&](const auto& node) {
      const auto has = node.second.find(resource);
      return has != node.second.end() && has->second > 0;
    });
    if (there) continue;
    out += (out.empty() ? " No node has " : ", ") + resource;
    gpu = gpu || isGpu(resource);
  }
  if (!out.empty()) out += '.';
  if (gpu)
    out +=
        " GPUs are claimed here: in place of the limits write metadata.annotations: {egpu.elasticgpu.io/gpu: \"1\"}"
        " (whole cards), or egpu.elasticgpu.io/gpu-core and egpu.elasticgpu.io/gpu-memory; on a cluster"
        " manifests/migrate does that for nvidia.com/gpu and HAMi's resources of whole namespaces.";
  return out;
}

}  // namespace

NodeUse& NodeUse::operator+=(const NodeUse& other) {
  cpuMilli += other.cpuMilli;
  memoryBytes += other.memoryBytes;
  pods += other.pods;
  ephemeralBytes += other.ephemeralBytes;
  for (const auto& [resource, amount] : other.extended) extended[resource] += amount;
  return *this;
}

NodeUse requestsOf(const core::Pod& pod) {
  const auto requests = cache::requestsOf(pod);
  return {requests.cpuMilli, requests.memoryBytes, 1, requests.ephemeralBytes, cache::extendedRequestsOf(pod)};
}

Shortage shortageOf(const core::Pod& pod, const core::Node& node, const NodeUse& used, const ResourceAmounts& offered) {
  const NodeUse want = requestsOf(pod);
  std::vector<Shortage> all = {{"pods", want.pods, used.pods, node.maxPods},
                               {"cpu", want.cpuMilli, used.cpuMilli, node.cpuMilli},
                               {"memory", want.memoryBytes, used.memoryBytes, node.memoryBytes},
                               {"ephemeral-storage", want.ephemeralBytes, used.ephemeralBytes, node.ephemeralBytes}};
  const auto of = [](const ResourceAmounts& amounts, const std::string& resource) {
    const auto it = amounts.find(resource);
    return it == amounts.end() ? int64_t{0} : it->second;
  };
  for (const auto& [resource, amount] : want.extended)
    all.push_back({resource, amount, of(used.extended, resource), of(offered, resource)});
  for (const auto& each : all)
    if (each.requested > 0 && each.used + each.requested > each.capacity) return each;
  return {};
}

bool tolerates(const core::Pod& pod, const core::Taint& taint) {
  return std::any_of(pod.tolerations.begin(), pod.tolerations.end(), [&](const core::Toleration& t) {
    if (!t.effect.empty() && t.effect != taint.effect) return false;
    if (t.key.empty()) return t.op == "Exists";
    if (t.key != taint.key) return false;
    return t.op == "Exists" || t.value == taint.value;
  });
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

bool selects(const core::Pod& pod, const core::Node& node) {
  const auto& wanted = pod.nodeSelector;
  return std::all_of(wanted.begin(), wanted.end(),
                     [&](const auto& label) { return node.metadata.label(label.first) == label.second; }) &&
         (!pod.requiredNodeAffinity || admits(*pod.requiredNodeAffinity, node));
}

std::string unsuitable(const core::Pod& pod, const core::Node& node, const NodeUse& used,
                       const ResourceAmounts& offered) {
  if (!node.ready) return "node(s) were not ready";
  if (node.unschedulable) return "node(s) were unschedulable";
  for (const auto& taint : node.taints)
    if (taint.effect != "PreferNoSchedule" && !tolerates(pod, taint))
      return "node(s) had untolerated taint {" + taint.key + ": " + taint.value + "}";
  if (!selects(pod, node)) return "node(s) didn't match Pod's node affinity/selector";
  const auto shortage = shortageOf(pod, node, used, offered);
  if (shortage.resource.empty()) return {};
  return shortage.resource == "pods" ? "Too many pods" : "Insufficient " + shortage.resource;
}

PodChoice choose(const core::Pod& pod, const std::vector<const core::Node*>& nodes,
                 const std::map<std::string, NodeUse, std::less<>>& used, const std::vector<std::string>& claimNodes,
                 const std::map<std::string, ResourceAmounts, std::less<>>& offered) {
  PodChoice out;
  std::map<std::string, int64_t> why;
  const core::Node* best = nullptr;
  int64_t bestPods = 0;
  for (const core::Node* node : nodes) {
    const auto it = used.find(node->metadata.name);
    const NodeUse use = it == used.end() ? NodeUse{} : it->second;
    const auto has = offered.find(node->metadata.name);
    std::string reason = unsuitable(pod, *node, use, has == offered.end() ? ResourceAmounts{} : has->second);
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
  out.message += list + "." + missingResources(cache::extendedRequestsOf(pod), offered);
  return out;
}

std::string unknownScheduler(const core::Pod& pod) {
  return "spec.schedulerName: no scheduler \"" + pod.schedulerName +
         "\" runs here, so the pod is never scheduled. Write default-scheduler, or leave the field out; pods "
         "written for another GPU scheduler ask for their GPUs by claims here, see manifests/migrate.";
}

}  // namespace egpu::sim

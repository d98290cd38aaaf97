#include <algorithm>
#include <cstdlib>
#include <map>
#include <set>

#include "api/v1alpha/agent_nodes.h"
#include "controller/base/timestamp.h"
#include "controller/kubectl/check/finding.h"

namespace egpu::kubectl {

namespace {

using Level = Finding::Level;

constexpr int kOldestDriver = 455;

std::string nodeOf(const Json& pod) { return textAt(pod, {"spec", "nodeName"}); }

bool isLive(const Json& pod) {
  const auto phase = textAt(pod, {"status", "phase"});
  return phase != "Succeeded" && phase != "Failed";
}

bool isReady(const Json& object) {
  const auto& conditions = at(object, {"status", "conditions"});
  return std::any_of(conditions.begin(), conditions.end(), [](const Json& each) {
    return textAt(each, {"type"}) == "Ready" && textAt(each, {"status"}) == "True";
  });
}

bool hasAgentLabel(const Json& node) {
  const auto& labels = at(node, {"metadata", "labels"});
  if (at(labels, {v1alpha::kAgentLabel}) == "true") return true;
  if (at(labels, {v1alpha::kAgentLabel}) == "false") return false;
  return std::any_of(v1alpha::kGpuNodeLabels.begin(), v1alpha::kGpuNodeLabels.end(),
                     [&labels](const char* label) { return at(labels, {label}) == "true"; });
}

std::string cardNodeOf(const Json& gpu) { return textAt(gpu, {"spec", "card", "nodeName"}); }

const Json& healthyOf(const Json& gpu) {
  static const Json none;
  for (const auto& condition : at(gpu, {"status", "conditions"}))
    if (textAt(condition, {"type"}) == "Healthy") return condition;
  return none;
}

/// Number before the first dot: 535 of "535.104.05".
int majorOf(const std::string& version) { return std::atoi(version.c_str()); }

/// Version of a runtime such as "containerd://1.7.2": 1007. 0 = another runtime.
int runtimeVersion(const std::string& text, const std::string& name) {
  const std::string prefix = name + "://";
  if (!text.starts_with(prefix)) return 0;
  const auto version = text.substr(prefix.size());
  const auto dot = version.find('.');
  return std::atoi(version.c_str()) * 1000 + (dot == std::string::npos ? 0 : std::atoi(version.c_str() + dot + 1));
}

/// Warnings about an object of the kind, by its name: the last message.
std::map<std::string, std::string> warnings(const Inventory& inventory, const std::string& kind,
                                            const std::string& reason) {
  std::map<std::string, std::string> out;
  for (const auto& event : inventory.of("Event"))
    if (textAt(event, {"involvedObject", "kind"}) == kind && textAt(event, {"reason"}) == reason)
      out[textAt(event, {"involvedObject", "name"})] = textAt(event, {"message"});
  return out;
}

bool isForeignPlugin(const Json& pod, std::string& image) {
  static const char* const kNames[] = {"nvidia-device-plugin",       "k8s-device-plugin", "hami-device-plugin",
                                       "volcano-vgpu-device-plugin", "gpu-device-plugin", "projecthami/hami",
                                       "gpushare-device-plugin"};
  for (const auto& container : at(pod, {"spec", "containers"})) {
    image = textAt(container, {"image"});
    for (const char* name : kNames)
      if (image.find(name) != std::string::npos || textAt(container, {"name"}).find(name) != std::string::npos)
        return true;
  }
  return false;
}

bool usesClaims(const Json& pod) { return !at(pod, {"spec", "resourceClaims"}).empty(); }

/// True if a container of the pod sets the variable to all cards.
bool asksForAll(const Json& pod) {
  for (const char* list : {"containers", "initContainers"})
    for (const auto& container : at(pod, {"spec", list}))
      for (const auto& variable : at(container, {"env"}))
        if (textAt(variable, {"name"}) == "NVIDIA_VISIBLE_DEVICES" && textAt(variable, {"value"}) == "all") return true;
  return false;
}

/// True if an image of the pod is one of those that set NVIDIA_VISIBLE_DEVICES=all themselves.
bool hasCudaImage(const Json& pod, std::string& image) {
  static const char* const kImages[] = {"nvidia/cuda", "nvcr.io/nvidia", "pytorch/pytorch", "tensorflow/tensorflow",
                                        "vllm/vllm"};
  for (const auto& container : at(pod, {"spec", "containers"})) {
    image = textAt(container, {"image"});
    for (const char* each : kImages)
      if (image.find(each) != std::string::npos) return true;
  }
  return false;
}

}  // namespace

bool hasCards(const Inventory& inventory, const std::string& node) {
  const auto& gpus = inventory.of("ElasticGPU");
  return std::any_of(gpus.begin(), gpus.end(), [&](const Json& gpu) { return cardNodeOf(gpu) == node; });
}

std::vector<std::string> gpuNodes(const Inventory& inventory) {
  std::set<std::string> names;
  for (const auto& gpu : inventory.of("ElasticGPU"))
    if (const auto node = cardNodeOf(gpu); !node.empty()) names.insert(node);
  for (const auto& node : inventory.of("Node"))
    if (hasAgentLabel(node)) names.insert(nameOf(node));
  return {names.begin(), names.end()};
}

Findings checkAgents(const Inventory& inventory) {
  Findings found;
  if (inventory.isStandalone() || !inventory.isRead("DaemonSet") || !inventory.isRead("Pod") ||
      !inventory.isRead("Node"))
    return found;
  if (inventory.find("DaemonSet", "elastic-gpu-agent").is_null()) {
    found.push_back({Level::error, "agent", "DaemonSet/elastic-gpu-agent",
                     "it is missing in namespace elastic-gpu-system", "kubectl apply -k manifests"});
    return found;
  }
  std::map<std::string, const Json*> agents;
  for (const auto& pod : inventory.of("Pod"))
    if (textAt(pod, {"metadata", "namespace"}) == "elastic-gpu-system" &&
        at(pod, {"metadata", "labels", "app.kubernetes.io/name"}) == "elastic-gpu-agent" && isLive(pod))
      agents[nodeOf(pod)] = &pod;
  for (const auto& node : inventory.of("Node")) {
    if (!hasAgentLabel(node)) continue;
    const auto name = nameOf(node);
    const auto it = agents.find(name);
    if (it == agents.end())
      found.push_back({Level::error, "agent", "Node/" + name, "no agent runs on it",
                       "kubectl -n elastic-gpu-system describe daemonset elastic-gpu-agent"});
    else if (!isReady(*it->second))
      found.push_back({Level::error, "agent", "Node/" + name, "its agent is not ready",
                       "kubectl -n elastic-gpu-system logs " + nameOf(*it->second) + " --tail=50"});
    else if (inventory.isRead("ElasticGPU") && !hasCards(inventory, name) &&
             warnings(inventory, "Node", "DiscoveryWarning").count(name) == 0)
      found.push_back({Level::error, "agent", "Node/" + name, "its agent is ready, but publishes no card",
                       "kubectl -n elastic-gpu-system logs " + nameOf(*it->second) + " --tail=50"});
  }
  return found;
}

Findings checkDrivers(const Inventory& inventory) {
  Findings found;
  for (const auto& [node, message] : warnings(inventory, "Node", "DiscoveryWarning"))
    found.push_back({Level::error, "driver", "Node/" + node, message,
                     "install the driver on node " + node +
                         ", or set the agent's --driver-root (manifests/guide/node-requirements.md)"});
  std::set<std::string> old;
  for (const auto& gpu : inventory.of("ElasticGPU")) {
    const auto node = cardNodeOf(gpu);
    if (node.empty()) continue;
    const auto version = textAt(gpu, {"spec", "card", "attributes", "driverVersion"});
    if (const int major = majorOf(version); major > 0 && major < kOldestDriver && old.insert(node).second)
      found.push_back({Level::error, "driver", "Node/" + node, "its driver is " + version + ", 455 is the oldest",
                       "install NVIDIA driver 455 or later on node " + node});
    const auto& healthy = healthyOf(gpu);
    if (textAt(healthy, {"status"}) != "False") continue;
    const auto reason = textAt(healthy, {"reason"});
    if (reason == "Probation" || reason == "ForeignUse") continue;  // it ends by itself; checkForeign()
    found.push_back({reason == "DriverNotAnswering" ? Level::error : Level::warning, "card",
                     "ElasticGPU/" + nameOf(gpu), reason + ": " + textAt(healthy, {"message"}),
                     "manifests/guide/card-maintenance.md#reset-a-card, node " + node});
  }
  for (const auto& cls : inventory.of("ElasticGPUClass"))
    for (const auto& condition : at(cls, {"status", "conditions"}))
      if (textAt(condition, {"type"}) == "Ready" && textAt(condition, {"status"}) == "False")
        found.push_back({Level::error, "class", "ElasticGPUClass/" + nameOf(cls),
                         textAt(condition, {"reason"}) + ": " + textAt(condition, {"message"}),
                         "kubectl edit egpuclass " + nameOf(cls)});
  return found;
}

Findings checkRuntime(const Inventory& inventory) {
  Findings found;
  constexpr int kContainerd17 = 1007, kContainerd20 = 2000, kCrio123 = 1023, kNewKubelet = 36;
  for (const auto& name : gpuNodes(inventory)) {
    const auto& node = inventory.find("Node", name);
    const auto runtime = textAt(node, {"status", "nodeInfo", "containerRuntimeVersion"});
    const auto kubelet = minorOf(textAt(node, {"status", "nodeInfo", "kubeletVersion"}));
    if (runtime.empty() || inventory.isStandalone()) continue;
    const int containerd = runtimeVersion(runtime, "containerd"), crio = runtimeVersion(runtime, "cri-o");
    const int least = kubelet >= kNewKubelet ? kContainerd20 : kContainerd17;
    if (containerd == 0 && crio == 0)
      found.push_back({Level::error, "runtime", "Node/" + name, runtime + " does not support CDI",
                       "install containerd 2.0 or later, or CRI-O 1.23 or later, on node " + name});
    else if ((containerd > 0 && containerd < least) || (crio > 0 && crio < kCrio123))
      found.push_back({Level::error, "runtime", "Node/" + name, runtime + " is too old",
                       "install containerd " + std::string(least == kContainerd20 ? "2.0" : "1.7") +
                           " or later, or CRI-O 1.23 or later, on node " + name});
  }
  std::set<std::string> reported;
  for (const auto& event : inventory.of("Event")) {
    const auto message = textAt(event, {"message"});
    if (message.find("CDI device") == std::string::npos || message.find("elasticgpu.io/") == std::string::npos)
      continue;
    std::string node = textAt(event, {"source", "host"});
    if (node.empty())
      node = nodeOf(inventory.find("Pod", textAt(event, {"involvedObject", "name"}),
                                   textAt(event, {"involvedObject", "namespace"})));
    if (!reported.insert(node).second) continue;
    found.push_back(
        {Level::error, "cdi", "Node/" + node, "its container runtime does not read CDI files: " + message,
         "in /etc/containerd/config.toml on node " + node +
             ": enable_cdi = true, cdi_spec_dirs = [\"/etc/cdi\", \"/var/run/cdi\"]; then restart containerd"});
  }
  return found;
}

Findings checkForeign(const Inventory& inventory) {
  Findings found;
  for (const auto& name : gpuNodes(inventory)) {
    const auto& allocatable = at(inventory.find("Node", name), {"status", "allocatable"});
    for (const char* resource :
         {"nvidia.com/gpu", "nvidia.com/gpu.shared", "nvidia.com/gpumem", "volcano.sh/vgpu-number"}) {
      const auto& amount = at(allocatable, {resource});
      if (amount.is_null() || amount == "0" || amount == 0) continue;
      found.push_back({Level::error, "foreign-device-plugin", "Node/" + name,
                       "another device plugin offers its cards as " + std::string(resource),
                       "kubectl label node " + name + " nvidia.com/gpu.deploy.device-plugin=false"});
      break;
    }
  }
  for (const auto& pod : inventory.of("Pod")) {
    std::string image;
    const auto node = nodeOf(pod);
    if (!isLive(pod) || !hasCards(inventory, node) || !isForeignPlugin(pod, image)) continue;
    const auto space = textAt(pod, {"metadata", "namespace"});
    found.push_back({Level::error, "foreign-device-plugin", "Pod/" + space + "/" + nameOf(pod),
                     "a device plugin runs on node " + node + " with cards of Elastic GPU (" + image + ")",
                     "kubectl label node " + node +
                         " nvidia.com/gpu.deploy.device-plugin=false  # or exclude the node from its DaemonSet"});
  }
  std::set<std::string> reported;
  for (const auto& slice : inventory.of("ResourceSlice")) {
    const auto node = textAt(slice, {"spec", "nodeName"}), driver = textAt(slice, {"spec", "driver"});
    if (driver != "gpu.nvidia.com" || !hasCards(inventory, node) || !reported.insert(node).second) continue;
    found.push_back(
        {Level::error, "foreign-dra-driver", "Node/" + node, "NVIDIA's DRA driver offers its cards, too",
         "exclude node " + node + " from the kubelet plugin of nvidia-dra-driver-gpu (its ComputeDomains can stay)"});
  }
  for (const auto& gpu : inventory.of("ElasticGPU"))
    if (const auto& healthy = healthyOf(gpu);
        textAt(healthy, {"status"}) == "False" && textAt(healthy, {"reason"}) == "ForeignUse")
      found.push_back({Level::error, "foreign-use", "ElasticGPU/" + nameOf(gpu), textAt(healthy, {"message"}),
                       "delete the pod, or end the process, that the message names; the card returns after 5 minutes"});
  return found;
}

Findings checkVisibleDevices(const Inventory& inventory) {
  Findings found;
  const auto reachable = warnings(inventory, "Node", "CardsReachableWithoutClaim");
  const char* fix =
      "in /etc/nvidia-container-runtime/config.toml of each node: "
      "accept-nvidia-visible-devices-envvar-when-unprivileged = false; then kubectl apply -f "
      "manifests/admission/optional/visible-devices.yaml";
  for (const auto& [node, message] : reachable) {
    std::string pods, image;
    for (const auto& pod : inventory.of("Pod"))
      if (isLive(pod) && nodeOf(pod) == node && !usesClaims(pod) && !asksForAll(pod) && hasCudaImage(pod, image))
        pods += (pods.empty() ? "; images that may ask for all cards: " : ", ") +
                textAt(pod, {"metadata", "namespace"}) + "/" + nameOf(pod) + " (" + image + ")";
    found.push_back({Level::error, "visible-devices", "Node/" + node, message + pods, fix});
  }
  for (const auto& pod : inventory.of("Pod"))
    if (isLive(pod) && hasCards(inventory, nodeOf(pod)) && !usesClaims(pod) && asksForAll(pod))
      found.push_back({Level::error, "visible-devices",
                       "Pod/" + textAt(pod, {"metadata", "namespace"}) + "/" + nameOf(pod),
                       "it sets NVIDIA_VISIBLE_DEVICES=all without a claim, on node " + nodeOf(pod),
                       "kubectl -n " + textAt(pod, {"metadata", "namespace"}) + " delete pod " + nameOf(pod) +
                           "  # and give its template a claim"});
  return found;
}

Findings checkClocks(const Inventory& inventory) {
  Findings found;
  constexpr int64_t kAhead = 10, kBehind = 60, kHere = 60;  // seconds
  const auto now = inventory.serverTime;
  if (now == 0) return found;
  const auto skew = inventory.localTime - now;
  if (skew > kHere || skew < -kHere)
    found.push_back({Level::warning, "clock", "APIServer/",
                     "its clock and this machine's differ by " + std::to_string(skew) + " s",
                     "timedatectl set-ntp true  # on this machine, or on the control plane"});
  for (const auto& lease : inventory.of("NodeLease")) {
    const auto name = nameOf(lease);
    const auto& node = inventory.find("Node", name);
    const auto renewed = base::unixSeconds(textAt(lease, {"spec", "renewTime"}));
    if (renewed == 0 || node.is_null() || !isReady(node)) continue;
    if (renewed > now + kAhead)
      found.push_back({Level::error, "clock", "Node/" + name,
                       "its clock is " + std::to_string(renewed - now) + " s ahead of the API server's",
                       "timedatectl set-ntp true  # on node " + name});
    else if (renewed < now - kBehind)
      found.push_back({Level::error, "clock", "Node/" + name,
                       "its clock is " + std::to_string(now - renewed) +
                           " s behind the API server's, or its kubelet does not renew its Lease",
                       "timedatectl set-ntp true  # on node " + name});
  }
  return found;
}

}  // namespace egpu::kubectl

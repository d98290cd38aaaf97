#include "controller/codec/simulated.h"

#include <nlohmann/json.hpp>

#include "api/v1alpha/keys.h"
#include "api/v1alpha/quantity.h"

namespace egpu::codec {

using base::Code;
using base::Status;
using nlohmann::json;

namespace {

bool isList(const json& parent, const char* key) { return parent.contains(key) && parent[key].is_array(); }

/// Returns the entry of `list` with this name, or null.
const json* named(const json& list, const std::string& name) {
  for (const auto& e : list)
    if (e.is_object() && e.value("name", json()) == name) return &e;
  return nullptr;
}

void claimInContainer(json& container, const std::string& name) {
  auto& resources = container["resources"];
  if (!resources.is_object()) resources = json::object();
  auto& claims = resources["claims"];
  if (!claims.is_array()) claims = json::array();
  if (named(claims, name) == nullptr) claims.push_back({{"name", name}});
}

/// True if the domain of a resource name is elasticgpu.io or a subdomain of it.
bool isElasticGpu(std::string_view key) {
  const auto slash = key.find('/');
  if (slash == std::string_view::npos) return false;
  const auto domain = key.substr(0, slash);
  const auto group = v1alpha::keys::kGroup;
  if (domain == group) return true;
  return domain.size() > group.size() + 1 && domain.substr(domain.size() - group.size()) == group &&
         domain[domain.size() - group.size() - 1] == '.';
}

/// Returns the elasticgpu.io amounts in parent.list; empty if there are none.
std::vector<std::pair<std::string, std::string>> elasticGpuAmounts(const json& parent, const char* list) {
  std::vector<std::pair<std::string, std::string>> out;
  if (!parent.is_object()) return out;
  const auto amounts = parent.find(list);
  if (amounts == parent.end() || !amounts->is_object()) return out;
  for (const auto& [key, value] : amounts->items())
    if (isElasticGpu(key)) out.emplace_back(key, value.is_string() ? value.get<std::string>() : value.dump());
  return out;
}

}  // namespace

base::Result<std::string> withResourceClaims(std::string_view podJson,
                                             const std::vector<std::pair<std::string, std::string>>& claims,
                                             std::string_view gate, bool templates) {
  const char* field = templates ? "resourceClaimTemplateName" : "resourceClaimName";
  json pod = json::parse(podJson, nullptr, false);
  if (!pod.is_object() || !pod.contains("spec") || !pod["spec"].is_object())
    return Status(Code::malformed, "not a pod");
  json& spec = pod["spec"];
  if (!isList(spec, "resourceClaims")) spec["resourceClaims"] = json::array();
  for (const auto& [name, claim] : claims) {
    if (const json* other = named(spec["resourceClaims"], name)) {
      if (other->value(field, json()) != claim)
        return Status(Code::invalid, "spec.resourceClaims: entry \"" + name + "\" does not reference the " +
                                         (templates ? "template" : "claim") + " \"" + claim +
                                         "\" of the annotation of that name; rename the entry or the annotation");
    } else {
      spec["resourceClaims"].push_back({{"name", name}, {field, claim}});
    }
    bool found = false;
    for (const char* list : {"initContainers", "containers"})
      if (isList(spec, list))
        for (auto& c : spec[list])
          if (c.is_object() && c.value("name", json()) == name) {
            claimInContainer(c, name);
            found = true;
          }
    if (found) continue;
    for (const char* list : {"initContainers", "containers"})
      if (isList(spec, list))
        for (auto& c : spec[list])
          if (c.is_object()) claimInContainer(c, name);
  }
  if (gate.empty()) return pod.dump();
  if (!isList(spec, "schedulingGates")) spec["schedulingGates"] = json::array();
  if (named(spec["schedulingGates"], std::string(gate)) == nullptr) spec["schedulingGates"].push_back({{"name", gate}});
  return pod.dump();
}

base::Result<std::string> stampedClaim(std::string_view templateJson, const core::Pod& pod, const std::string& name,
                                       const std::string& claimName) {
  const json source = json::parse(templateJson, nullptr, false);
  const auto at = json::json_pointer("/spec/spec");
  if (!source.is_object() || !source.contains(at)) return Status(Code::malformed, "not a ResourceClaimTemplate");
  json meta = source.value(json::json_pointer("/spec/metadata"), json::object());
  meta["annotations"]["resource.kubernetes.io/pod-claim-name"] = name;
  meta["name"] = claimName;
  meta["namespace"] = pod.metadata.namespace_;
  meta["ownerReferences"] = json::array({{{"apiVersion", "v1"},
                                          {"kind", "Pod"},
                                          {"name", pod.metadata.name},
                                          {"uid", pod.metadata.uid},
                                          {"controller", true}}});
  return json{{"apiVersion", "resource.k8s.io/v1"},
              {"kind", "ResourceClaim"},
              {"metadata", std::move(meta)},
              {"spec", source.at(at)}}
      .dump();
}

std::optional<OwnAmounts> ownAmounts(std::string_view podJson) {
  const json pod = json::parse(podJson, nullptr, false);
  if (!pod.is_object() || !pod.contains("spec") || !pod["spec"].is_object()) return std::nullopt;
  const json& spec = pod["spec"];
  const auto resources = [](const json& of) { return of.is_object() ? of.value("resources", json()) : json(); };
  for (const char* list : {"limits", "requests"})
    for (const char* containers : {"initContainers", "containers"})
      if (isList(spec, containers))
        for (const auto& c : spec[containers])
          if (auto amounts = elasticGpuAmounts(resources(c), list); !amounts.empty()) {
            const json name = c.value("name", json());
            return OwnAmounts{name.is_string() ? name.get<std::string>() : "", std::string("resources.") + list,
                              std::move(amounts)};
          }
  for (const char* list : {"limits", "requests"})
    if (auto amounts = elasticGpuAmounts(resources(spec), list); !amounts.empty())
      return OwnAmounts{"", std::string("resources.") + list, std::move(amounts)};
  if (auto amounts = elasticGpuAmounts(spec, "overhead"); !amounts.empty())
    return OwnAmounts{"", "overhead", std::move(amounts)};
  return std::nullopt;
}

base::Result<std::map<std::string, core::StringMap>> allocatableOf(std::string_view nodeListJson) {
  const json nodes = json::parse(nodeListJson, nullptr, false);
  if (!nodes.is_object() || !isList(nodes, "items")) return Status(Code::malformed, "not a NodeList");
  const json::json_pointer name("/metadata/name"), allocatable("/status/allocatable");
  std::map<std::string, core::StringMap> out;
  for (const json& node : nodes["items"]) {
    if (!node.is_object() || !node.contains(name) || !node.contains(allocatable)) continue;
    auto& amounts = out[node.at(name).get<std::string>()];
    for (const auto& [resource, quantity] : node.at(allocatable).items())
      amounts[resource] = quantity.is_string() ? quantity.get<std::string>() : quantity.dump();
  }
  return out;
}

}  // namespace egpu::codec

namespace egpu::codec::patch {

namespace {

json condition(std::string_view type, std::string_view status, std::string_view now, std::string_view reason = {},
               std::string_view message = {}) {
  json c = {{"type", type}, {"status", status}, {"lastTransitionTime", now}};
  if (!reason.empty()) c["reason"] = reason;
  if (!message.empty()) c["message"] = message;
  return c;
}

json containerStatuses(const std::vector<core::Container>& containers, const json& state, bool ready) {
  json out = json::array();
  for (const auto& c : containers)
    out.push_back({{"name", c.name},
                   {"image", c.image},
                   {"imageID", ""},
                   {"ready", ready},
                   {"restartCount", 0},
                   {"started", ready},
                   {"state", state},
                   {"lastState", json::object()}});
  return out;
}

}  // namespace

std::string reservedFor(std::string_view uid, std::string_view resourceVersion,
                        const std::vector<core::ResourceClaimConsumer>& consumers, bool clearAllocation) {
  json list = json::array();
  for (const auto& c : consumers) list.push_back({{"resource", c.resource}, {"name", c.name}, {"uid", c.uid}});
  json status = {{"reservedFor", consumers.empty() ? json(nullptr) : list}};
  if (clearAllocation) status["allocation"] = nullptr;
  return json{{"metadata", {{"uid", uid}, {"resourceVersion", resourceVersion}}}, {"status", status}}.dump();
}

std::string stampedClaims(std::string_view uid, const std::map<std::string, std::string>& claims) {
  json list = json::array();
  for (const auto& [name, claim] : claims) list.push_back({{"name", name}, {"resourceClaimName", claim}});
  return json{{"metadata", {{"uid", uid}}}, {"status", {{"resourceClaimStatuses", list}}}}.dump();
}

std::string podUnschedulable(std::string_view uid, std::string_view reason, std::string_view message,
                             std::string_view now) {
  return json{{"metadata", {{"uid", uid}}},
              {"status", {{"conditions", json::array({condition("PodScheduled", "False", now, reason, message)})}}}}
      .dump();
}

std::string podRunning(const core::Pod& pod, std::string_view podIP, std::string_view hostIP, std::string_view now) {
  json status = {
      {"phase", "Running"}, {"podIP", podIP}, {"podIPs", json::array({{{"ip", podIP}}})}, {"startTime", now}};
  if (!hostIP.empty()) {
    status["hostIP"] = hostIP;
    status["hostIPs"] = json::array({{{"ip", hostIP}}});
  }
  status["conditions"] =
      json::array({condition("Initialized", "True", now), condition("Ready", "True", now),
                   condition("ContainersReady", "True", now), condition("PodScheduled", "True", now)});
  status["containerStatuses"] = containerStatuses(pod.containers, {{"running", {{"startedAt", now}}}}, true);
  if (!pod.initContainers.empty())
    status["initContainerStatuses"] = containerStatuses(
        pod.initContainers,
        {{"terminated", {{"exitCode", 0}, {"reason", "Completed"}, {"startedAt", now}, {"finishedAt", now}}}}, true);
  return json{{"metadata", {{"uid", pod.metadata.uid}}}, {"status", status}}.dump();
}

std::string podWaiting(const core::Pod& pod, std::string_view reason, std::string_view message, std::string_view now) {
  const json state = {{"waiting", {{"reason", reason}, {"message", message}}}};
  json status = {{"phase", "Pending"}, {"containerStatuses", containerStatuses(pod.containers, state, false)}};
  status["conditions"] =
      json::array({condition("Ready", "False", now, reason, message), condition("PodScheduled", "True", now)});
  return json{{"metadata", {{"uid", pod.metadata.uid}}}, {"status", status}}.dump();
}

std::string podRejected(std::string_view uid, std::string_view reason, std::string_view message) {
  return json{{"metadata", {{"uid", uid}}}, {"status", {{"phase", "Failed"}, {"reason", reason}, {"message", message}}}}
      .dump();
}

std::string podOrphaned(std::string_view uid, std::string_view now) {
  const json why =
      condition("DisruptionTarget", "True", now, "DeletionByPodGC", "PodGC: node no longer exists (simulated)");
  return json{{"metadata", {{"uid", uid}}}, {"status", {{"phase", "Failed"}, {"conditions", json::array({why})}}}}
      .dump();
}

std::string nodeStatus(const core::Node& node, std::string_view now) {
  const json amounts = {{"cpu", std::to_string(node.cpuMilli) + "m"},
                        {"memory", v1alpha::formatBytes(node.memoryBytes)},
                        {"ephemeral-storage", v1alpha::formatBytes(node.ephemeralBytes)},
                        {"pods", std::to_string(node.maxPods)}};
  json ready = condition("Ready", node.ready ? "True" : "False", now,
                         node.ready ? "SimulatedNodeReady" : "SimulatedNodeNotReady", "a simulated node");
  ready["lastHeartbeatTime"] = now;
  json addresses = json::array();
  if (!node.internalIP.empty()) addresses.push_back({{"type", "InternalIP"}, {"address", node.internalIP}});
  addresses.push_back({{"type", "Hostname"}, {"address", node.metadata.name}});
  return json{{"status",
               {{"capacity", amounts},
                {"allocatable", amounts},
                {"conditions", json::array({ready})},
                {"addresses", addresses},
                {"nodeInfo",
                 {{"kubeletVersion", "simulated"},
                  {"operatingSystem", "linux"},
                  {"architecture", "amd64"},
                  {"containerRuntimeVersion", "simulated"},
                  {"osImage", "simulated"},
                  {"kernelVersion", "simulated"},
                  {"machineID", ""},
                  {"systemUUID", ""},
                  {"bootID", ""},
                  {"kubeProxyVersion", ""}}}}}}
      .dump();
}

}  // namespace egpu::codec::patch

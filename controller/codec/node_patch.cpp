#include "controller/codec/node_patch.h"

#include <nlohmann/json.hpp>

#include "api/v1alpha/quantity.h"

namespace egpu::codec::patch {

using nlohmann::json;

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

std::string binding(const core::Pod& pod, std::string_view node) {
  return json{
      {"apiVersion", "v1"},
      {"kind", "Binding"},
      {"metadata", {{"name", pod.metadata.name}, {"namespace", pod.metadata.namespace_}, {"uid", pod.metadata.uid}}},
      {"target", {{"apiVersion", "v1"}, {"kind", "Node"}, {"name", node}}}}
      .dump();
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

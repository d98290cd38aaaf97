#include "controller/standalone/apiserver/show/table_builtin.h"

#include <string>
#include <utility>

#include "controller/base/text.h"
#include "controller/standalone/apiserver/show/table.h"

namespace egpu::apiserver {
namespace {

using Json = nlohmann::json;
using Cells = std::vector<Json>;

const BuiltinColumn kName{"Name", "string", "Unique within a namespace.", 0};
const BuiltinColumn kAge{"Age", "string", "How long ago it was made.", 0};

std::string orNone(const std::string& text) { return text.empty() ? "<none>" : text; }
Json nameOf(const Json& object) { return textAt(object, {"metadata", "name"}); }
bool deleting(const Json& object) { return !textAt(object, {"metadata", "deletionTimestamp"}).empty(); }

struct ContainersState {
  int64_t ready = 0, restarts = 0;
  std::string reason;  // why the first container that is waiting or terminated does not run; empty = all run
};
ContainersState containersState(const Json& pod) {
  ContainersState state;
  bool running = false;
  const Json& statuses = at(pod, {"status", "containerStatuses"});
  if (!statuses.is_array()) return state;
  for (auto it = statuses.rbegin(); it != statuses.rend(); ++it) {
    if (const Json& count = at(*it, {"restartCount"}); count.is_number_integer())
      state.restarts += count.get<int64_t>();
    const Json& terminated = at(*it, {"state", "terminated"});
    if (auto waiting = textAt(*it, {"state", "waiting", "reason"}); !waiting.empty()) {
      state.reason = waiting;
    } else if (auto ended = textAt(*it, {"state", "terminated", "reason"}); !ended.empty()) {
      state.reason = ended;
    } else if (terminated.is_object()) {
      const Json& code = at(terminated, {"exitCode"});
      state.reason = "ExitCode:" + (code.is_number_integer() ? code.dump() : "0");
    } else if (at(*it, {"ready"}) == true && at(*it, {"state", "running"}).is_object()) {
      running = true;
      ++state.ready;
    }
  }
  if (state.reason == "Completed" && running) state.reason = "Running";
  return state;
}

std::string podStatus(const Json& pod, const ContainersState& containers) {
  const std::string phase = textAt(pod, {"status", "phase"});
  const bool ended = phase == "Succeeded" || phase == "Failed";
  std::string reason = textAt(pod, {"status", "reason"});
  if (reason.empty()) reason = phase.empty() ? "Pending" : phase;
  if (const Json& gates = at(pod, {"spec", "schedulingGates"}); gates.is_array() && !gates.empty())
    reason = "SchedulingGated";
  if (!containers.reason.empty()) reason = containers.reason;
  if (deleting(pod) && !ended) return "Terminating";
  return reason;
}

Cells podCells(const Json& pod, int64_t now) {
  const auto state = containersState(pod);
  const Json& containers = at(pod, {"spec", "containers"});
  return {nameOf(pod),
          std::to_string(state.ready) + "/" + std::to_string(containers.is_array() ? containers.size() : 0),
          podStatus(pod, state),
          std::to_string(state.restarts),
          ageOf(pod, now),
          orNone(textAt(pod, {"status", "podIP"})),
          orNone(textAt(pod, {"spec", "nodeName"})),
          orNone(textAt(pod, {"status", "nominatedNodeName"})),
          "<none>"};
}

Cells nodeCells(const Json& node, int64_t now) {
  std::string status = "Unknown", roles, internal, external;
  if (const Json& conditions = at(node, {"status", "conditions"}); conditions.is_array())
    for (const auto& c : conditions)
      if (textAt(c, {"type"}) == "Ready") status = textAt(c, {"status"}) == "True" ? "Ready" : "NotReady";
  if (at(node, {"spec", "unschedulable"}) == true) status += ",SchedulingDisabled";
  constexpr std::string_view kRole = "node-role.kubernetes.io/";
  for (const auto& [key, value] : at(node, {"metadata", "labels"}).items())
    if (key.compare(0, kRole.size(), kRole) == 0) roles += (roles.empty() ? "" : ",") + key.substr(kRole.size());
  if (const Json& addresses = at(node, {"status", "addresses"}); addresses.is_array())
    for (const auto& a : addresses) {
      if (textAt(a, {"type"}) == "InternalIP" && internal.empty()) internal = textAt(a, {"address"});
      if (textAt(a, {"type"}) == "ExternalIP" && external.empty()) external = textAt(a, {"address"});
    }
  auto info = [&](const char* key) {
    const std::string text = textAt(node, {"status", "nodeInfo", key});
    return text.empty() ? std::string("<unknown>") : text;
  };
  return {nameOf(node),
          status,
          orNone(roles),
          ageOf(node, now),
          textAt(node, {"status", "nodeInfo", "kubeletVersion"}),
          orNone(internal),
          orNone(external),
          info("osImage"),
          info("kernelVersion"),
          info("containerRuntimeVersion")};
}

Cells namespaceCells(const Json& object, int64_t now) {
  return {nameOf(object), deleting(object) ? "Terminating" : textAt(object, {"status", "phase"}), ageOf(object, now)};
}

Cells eventCells(const Json& event, int64_t now) {
  const std::string eventTime = textAt(event, {"eventTime"});
  auto age = [&](const char* key) {
    const std::string time = textAt(event, {key});
    return ageOfTime(time.empty() ? eventTime : time, now);
  };
  const std::string kind = base::lowered(textAt(event, {"involvedObject", "kind"}));
  std::string source = textAt(event, {"source", "component"});
  if (source.empty()) source = textAt(event, {"reportingComponent"});
  if (const std::string host = textAt(event, {"source", "host"}); !host.empty()) source += ", " + host;
  const Json& count = at(event, {"count"});
  return {age("lastTimestamp"),
          textAt(event, {"type"}),
          textAt(event, {"reason"}),
          kind + "/" + textAt(event, {"involvedObject", "name"}),
          textAt(event, {"involvedObject", "fieldPath"}),
          source,
          textAt(event, {"message"}),
          age("firstTimestamp"),
          count.is_number_integer() ? count : Json(1),
          nameOf(event)};
}

Cells leaseCells(const Json& lease, int64_t now) {
  return {nameOf(lease), textAt(lease, {"spec", "holderIdentity"}), ageOf(lease, now)};
}

Cells resourceClaimCells(const Json& claim, int64_t now) {
  std::string state = deleting(claim) ? "deleted" : "";
  auto append = [&](const char* word) { state += (state.empty() ? "" : ",") + std::string(word); };
  if (at(claim, {"status", "allocation"}).is_object()) {
    append("allocated");
    if (const Json& users = at(claim, {"status", "reservedFor"}); users.is_array() && !users.empty())
      append("reserved");
  } else if (!deleting(claim)) {
    append("pending");
  }
  return {nameOf(claim), state, ageOf(claim, now)};
}

Cells plainCells(const Json& object, int64_t now) { return {nameOf(object), ageOf(object, now)}; }

const std::vector<std::pair<std::string_view, BuiltinTable>>& tables() {
  static const std::vector<std::pair<std::string_view, BuiltinTable>> all = {
      {"pods",
       {{kName,
         {"Ready", "string", "Ready containers of all.", 0},
         {"Status", "string", "Phase, or what keeps the pod from running.", 0},
         {"Restarts", "string", "How often containers were restarted.", 0},
         kAge,
         {"IP", "string", "Address of the pod.", 1},
         {"Node", "string", "Where it runs.", 1},
         {"Nominated Node", "string", "Node where preemption frees capacity for it.", 1},
         {"Readiness Gates", "string", "Further conditions of readiness.", 1}},
        podCells}},
      {"nodes",
       {{kName,
         {"Status", "string", "Whether it takes pods.", 0},
         {"Roles", "string", "From the labels node-role.kubernetes.io/…", 0},
         kAge,
         {"Version", "string", "Version of its kubelet.", 0},
         {"Internal-IP", "string", "Address inside the cluster.", 1},
         {"External-IP", "string", "Address outside.", 1},
         {"OS-Image", "string", "Operating system.", 1},
         {"Kernel-Version", "string", "Kernel.", 1},
         {"Container-Runtime", "string", "What runs its containers.", 1}},
        nodeCells}},
      {"namespaces", {{kName, {"Status", "string", "Active or Terminating.", 0}, kAge}, namespaceCells}},
      {"events",
       {{{"Last Seen", "string", "When it was last seen.", 0},
         {"Type", "string", "Normal or Warning.", 0},
         {"Reason", "string", "Why, as one word.", 0},
         {"Object", "string", "What it is about.", 0},
         {"Subobject", "string", "Which part of that.", 1},
         {"Source", "string", "Component that reported it.", 1},
         {"Message", "string", "What happened.", 0},
         {"First Seen", "string", "When it was first seen.", 1},
         {"Count", "integer", "How often.", 1},
         {"Name", "string", "Name of the event.", 1}},
        eventCells}},
      {"leases", {{kName, {"Holder", "string", "Holder of the lease.", 0}, kAge}, leaseCells}},
      {"resourceclaims",
       {{kName, {"State", "string", "pending, allocated, reserved, deleted.", 0}, kAge}, resourceClaimCells}},
      {"resourceclaimtemplates", {{kName, kAge}, plainCells}},
      {"deviceclasses", {{kName, kAge}, plainCells}},
      {"devicetaintrules", {{kName, kAge}, plainCells}},
      {"priorityclasses", {{kName, kAge}, plainCells}},
      {"podgroups", {{kName, kAge}, plainCells}},
  };
  return all;
}

}  // namespace

const BuiltinTable* builtinTable(const Resource& resource) {
  if (resource.custom) return nullptr;
  for (const auto& [plural, table] : tables())
    if (plural == resource.plural) return &table;
  return nullptr;
}

const Json& at(const Json& object, std::initializer_list<const char*> path) {
  static const Json none;
  const Json* v = &object;
  for (const char* key : path) {
    if (!v->is_object()) return none;
    auto it = v->find(key);
    if (it == v->end()) return none;
    v = &*it;
  }
  return *v;
}

std::string textAt(const Json& object, std::initializer_list<const char*> path) {
  const Json& v = at(object, path);
  return v.is_string() ? v.get<std::string>() : std::string();
}

std::string ageOfTime(std::string_view timestamp, int64_t now) {
  return ageSince(timestamp, now).value_or("<unknown>");
}
std::string ageOf(const Json& object, int64_t now) {
  return ageOfTime(textAt(object, {"metadata", "creationTimestamp"}), now);
}

}  // namespace egpu::apiserver

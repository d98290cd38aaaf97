#include "controller/kubectl/pod_sources.h"

#include <algorithm>
#include <limits>
#include <set>
#include <string_view>
#include <utility>

namespace egpu::kubectl {

namespace {

using Sources = std::vector<PodSource>;

PodSource templateIn(const Json& object, int64_t count, std::string group = {}) {
  const auto& found = at(object, {"template"});
  return {found.is_object() ? &found : nullptr, count, std::move(group)};
}

/// Job of the group batch: `object` has its spec.
PodSource sourceOfJob(const Json& object, std::string group = {}) {
  const auto& spec = at(object, {"spec"});
  const auto completions = numberAt(spec, {"completions"}, std::numeric_limits<int64_t>::max());
  return templateIn(spec, std::min(numberAt(spec, {"parallelism"}, 1), completions), std::move(group));
}

Sources sourcesOfJobSet(const Json& spec) {
  Sources out;
  for (const auto& job : at(spec, {"replicatedJobs"})) {
    auto source = sourceOfJob(at(job, {"template"}), textAt(job, {"name"}));
    // The product could exceed 64 bits; the caller refuses such numbers in any case.
    const auto replicas = numberAt(job, {"replicas"}, 1);
    source.count = source.count > 0 && replicas > std::numeric_limits<int64_t>::max() / source.count
                       ? std::numeric_limits<int64_t>::max()
                       : source.count * replicas;
    out.push_back(std::move(source));
  }
  return out;
}

Sources sourcesOfLeaderWorkerSet(const Json& spec) {
  const auto& templates = at(spec, {"leaderWorkerTemplate"});
  const auto groups = numberAt(spec, {"replicas"}, 1);
  const auto size = numberAt(templates, {"size"}, 1);
  const auto& worker = at(templates, {"workerTemplate"});
  const auto& leader = at(templates, {"leaderTemplate"});
  const auto pointer = [](const Json& found) { return found.is_object() ? &found : nullptr; };
  const bool isLarge = size > 1 && groups > std::numeric_limits<int64_t>::max() / size;
  return {{pointer(leader.is_null() ? worker : leader), groups, "leader"},
          {pointer(worker), isLarge ? std::numeric_limits<int64_t>::max() : groups * (size - 1), "worker"}};
}

Sources sourcesOfRayCluster(const Json& spec) {
  Sources out = {templateIn(at(spec, {"headGroupSpec"}), 1, "head")};
  for (const auto& group : at(spec, {"workerGroupSpecs"}))
    out.push_back(templateIn(group, numberAt(group, {"replicas"}, 1), textAt(group, {"groupName"})));
  return out;
}

/// Kubeflow's training jobs have a map such as pytorchReplicaSpecs.
std::optional<Sources> sourcesOfTraining(const Json& spec) {
  if (!spec.is_object()) return std::nullopt;
  for (const auto& [name, roles] : spec.items()) {
    if (!std::string_view(name).ends_with("ReplicaSpecs") || !roles.is_object()) continue;
    Sources out;
    for (const auto& [role, each] : roles.items()) {
      std::string group = role;
      std::transform(group.begin(), group.end(), group.begin(), [](unsigned char c) { return std::tolower(c); });
      out.push_back(templateIn(each, numberAt(each, {"replicas"}, 1), group));
    }
    return out;
  }
  return std::nullopt;
}

}  // namespace

std::optional<std::vector<PodSource>> podSourcesOf(const std::string& kind, const Json& object) {
  static const std::set<std::string, std::less<>> replicated = {"Deployment", "ReplicaSet", "StatefulSet",
                                                                "ReplicationController"};
  const auto& spec = at(object, {"spec"});
  if (replicated.count(kind) != 0) return Sources{templateIn(spec, numberAt(spec, {"replicas"}, 1))};
  if (kind == "Job") return Sources{sourceOfJob(object)};
  if (kind == "CronJob") return Sources{sourceOfJob(at(spec, {"jobTemplate"}))};
  if (kind == "JobSet") return sourcesOfJobSet(spec);
  if (kind == "LeaderWorkerSet") return sourcesOfLeaderWorkerSet(spec);
  if (kind == "RayCluster") return sourcesOfRayCluster(spec);
  if (kind == "RayJob") return sourcesOfRayCluster(at(spec, {"rayClusterSpec"}));
  if (kind == "RayService") return sourcesOfRayCluster(at(spec, {"rayClusterConfig"}));
  return sourcesOfTraining(spec);
}

}  // namespace egpu::kubectl

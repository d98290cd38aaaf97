// Pod templates of controllers, and the number of pods that each controller creates of them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "controller/kubectl/connection.h"

namespace egpu::kubectl {

struct PodSource {
  const Json* pod = nullptr;  ///< the template; null: it is missing
  int64_t count = 1;          ///< number of pods, which the caller checks
  std::string group{};        ///< name of the group of pods in its controller; empty = there is one group
};

/// Kinds with pods, for messages.
inline constexpr std::string_view kKindsWithPods =
    "Deployment, ReplicaSet, StatefulSet, ReplicationController, Job, CronJob, JobSet, LeaderWorkerSet, RayCluster, "
    "RayJob, RayService, and Kubeflow's training jobs, such as PyTorchJob";

/// Returns the templates of an object; nullopt: the kind is none of kKindsWithPods. The result refers to `object`.
std::optional<std::vector<PodSource>> podSourcesOf(const std::string& kind, const Json& object);

}  // namespace egpu::kubectl

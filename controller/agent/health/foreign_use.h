// Whether a card is used by somebody who has no claim on it: NVIDIA's device plugin or DRA driver gave it to a pod, or a
// program runs beside Kubernetes. Such a card is fenced while that lasts. The kubelet tells the first before the pod has
// a process on the card, the processes tell the rest.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "api/v1alpha/types.h"
#include "controller/agent/health/health.h"
#include "controller/plugin/provisioner.h"

namespace egpu::agent::health {

inline constexpr std::string_view kForeignUse = "ForeignUse";

/// Whether the pod of this uid has a claim on the card of this uuid; nullopt = not known, nobody is accused.
using HasClaim = std::function<std::optional<bool>(const std::string& pod, const std::string& card)>;

/// Name of the pod of this uid as "namespace/name"; empty = not known.
using PodName = std::function<std::string(const std::string& pod)>;

/// What the kubelet has given to a container, by a device plugin or a DRA driver that is not ours.
struct Given {
  std::string pod;  ///< "namespace/name"
  std::string container;
  std::string by;                  ///< "nvidia.com/gpu", "ResourceClaim ns/name of gpu.nvidia.com"
  std::string driver;              ///< of a ResourceClaim; "" = a device plugin
  std::vector<std::string> ids{};  ///< the plugin's ids; or the driver's name of one device, and CDI names
};

/// Whether this is the card, part of it or one of its time slices: by uuid, or as "gpu-<minor number>" of
/// gpu.nvidia.com. A MIG instance by a uuid of its own is not known to be of its card, which is not offered in MIG mode.
bool isOf(const v1alpha::Card& card, const Given& given);

/// The uid of the pod in whose cgroup a process is, by the text of its /proc/<pid>/cgroup: "/kubepods/burstable/pod<uid>/…"
/// or "…-pod<uid with _>.slice". Empty = none.
std::string podOf(std::string_view cgroups);

/// Likewise of a process: "" if it is of no pod, nullopt if it is gone. proc: "/proc", which must be the host's.
std::optional<std::string> podOfProcess(const std::string& proc, int64_t pid);

/// What is read of the host.
struct Host {
  std::string proc = "/proc";                 ///< the host's
  std::string state = "/var/lib/elasticgpu";  ///< the plugins' folder
};

/// Who uses this card and has no claim on it; nullopt = nobody. Whoever was given the card by others is foreign, even
/// with a claim on it: it has more than the claim. A process that is gone by now is nobody. Nor is an MPS server outside
/// of pods where the operator runs one for claims, host.state/mps/<uuid>/control: it computes for its clients, who are
/// listed, too, and it stays when the last one has gone. The words are the same whatever the order of given and processes.
std::optional<Finding> foreignUse(const v1alpha::Card& card, const std::vector<Given>& given,
                                  const std::vector<plugin::CardProcess>& processes, const Host& host,
                                  const HasClaim& hasClaim, const PodName& podName = {});

}  // namespace egpu::agent::health

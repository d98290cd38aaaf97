// Detects use of a card without a claim: by a pod that got the card from NVIDIA's device plugin or DRA driver, or by a
// process outside of Kubernetes. The card is unhealthy until the use ends. The kubelet's list of container devices
// reveals the first kind before the pod has a process on the card; the card's processes reveal the rest.
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

/// Returns whether the pod with this uid has a claim on the card with this uuid; nullopt = unknown, which counts as a
/// claim.
using HasClaim = std::function<std::optional<bool>(const std::string& pod, const std::string& card)>;

/// Returns the name of the pod with this uid as "namespace/name"; empty = unknown.
using PodName = std::function<std::string(const std::string& pod)>;

/// Device that the kubelet gave to a container through a device plugin or another DRA driver.
struct Given {
  std::string pod;  ///< "namespace/name"
  std::string container;
  std::string by;                  ///< source: "nvidia.com/gpu", "ResourceClaim ns/name of gpu.nvidia.com"
  std::string driver;              ///< driver of a ResourceClaim; "" = a device plugin
  std::vector<std::string> ids{};  ///< ids of the plugin; or one device name of the driver, and CDI names
};

/// True if `given` is the card, a part of it or one of its time slices: by uuid, or as "gpu-<minor number>" of
/// gpu.nvidia.com. A MIG instance with a uuid of its own can't be assigned to its card; cards in MIG mode are not
/// offered.
bool isOf(const v1alpha::Card& card, const Given& given);

/// Returns the uid of the pod in a process's cgroup path; empty = none. `cgroups`: contents of /proc/<pid>/cgroup, with
/// "/kubepods/burstable/pod<uid>/…" or "…-pod<uid with _>.slice".
std::string podOf(std::string_view cgroups);

/// Returns the uid of the pod of a process: "" if it belongs to no pod, nullopt if it has ended. `proc`: the host's
/// "/proc".
std::optional<std::string> podOfProcess(const std::string& proc, int64_t pid);

/// Folders of the host that are read.
struct Host {
  std::string proc = "/proc";                 ///< the host's /proc
  std::string state = "/var/lib/elasticgpu";  ///< state folder of the plugins
};

/// Returns a finding that lists the users of the card without a claim on it; nullopt if there are none. Containers in
/// `given` that have the card count even with a claim, as they have more than it grants. Ended processes do not count.
/// Nor does an MPS server outside of pods, if the operator runs one for claims (host.state/mps/<uuid>/control exists):
/// it computes for its clients, which are listed too, and it outlives them. The message does not depend on the order of
/// `given` and `processes`.
std::optional<Finding> foreignUse(const v1alpha::Card& card, const std::vector<Given>& given,
                                  const std::vector<plugin::CardProcess>& processes, const Host& host,
                                  const HasClaim& hasClaim, const PodName& podName = {});

}  // namespace egpu::agent::health

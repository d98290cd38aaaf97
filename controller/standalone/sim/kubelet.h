// The simulated node side: what the kubelet, the DRA driver and the runtime do for a pod that was placed on a node.
#pragma once

#include <map>
#include <set>
#include <stop_token>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "api/core/objects.h"
#include "api/v1alpha/types.h"
#include "controller/base/clock.h"
#include "controller/base/status.h"
#include "controller/kube/client.h"
#include "controller/kube/events.h"
#include "controller/plugin/provisioner.h"

namespace egpu::sim {

/// Prepares pods' claims through the plugins and makes the pods Running. Of one thread; keeps references that must
/// outlive it.
class Kubelet {
 public:
  /// hardware: every simulated card by uuid.
  Kubelet(kube::Client& client, plugin::Registry& plugins, kube::EventSink& events, base::Clock& clock,
          std::map<std::string, v1alpha::Card> hardware);

  /// For a pod with a node. Ok: it runs (idempotent). Otherwise the pod waits with the reason in its status, and the
  /// caller tries again.
  base::Status run(const core::Pod& pod, std::stop_token stop);
  /// For a pod that is gone or finished: gives its devices back to the plugins.
  void release(std::string_view podUid);
  /// Pods that hold devices.
  bool holds(std::string_view podUid) const { return prepared_.find(podUid) != prepared_.end(); }

 private:
  /// One of the pod's claims, checked: the ResourceClaim is ours, allocated here, and names a Bound device of this
  /// node.
  struct PodDevice {
    std::string name;  ///< the pod's name for it
    std::string provisioner;
    plugin::DeviceRequest request;
  };
  struct Mounted {
    std::string provisioner, key, pod, container;
  };
  base::Result<PodDevice> check(const core::Pod& pod, const core::PodResourceClaim& claim, std::stop_token stop);
  plugin::DeviceRequest requestFor(const v1alpha::ElasticGPU& device) const;
  base::Status prepare(const core::Pod& pod, std::vector<Mounted>& mounted, std::map<std::string, std::string>& shown,
                       std::stop_token stop);
  base::Status refuse(const core::Pod& pod, const base::Status& why, std::stop_token stop);

  kube::Client& client_;
  plugin::Registry& plugins_;
  kube::EventSink& events_;
  base::Clock& clock_;
  const std::map<std::string, v1alpha::Card> hardware_;
  std::map<std::string, std::vector<Mounted>, std::less<>> prepared_;  ///< by pod uid
};

/// One line per edit, each preceded by a line break: "env A=1", "device /dev/nvidia0", "mount /host → /container (ro)",
/// "cdi nvidia.com/gpu=GPU-…". Lines, because kubectl describe cuts annotations at 140 characters a line.
std::string describeEdits(const plugin::ContainerEdits& edits);

}  // namespace egpu::sim

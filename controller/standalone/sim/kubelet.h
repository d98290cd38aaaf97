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
#include "controller/kube/event_sink.h"
#include "controller/plugin/provisioner.h"
#include "controller/standalone/sim/container_edits.h"

namespace egpu::sim {

/// Prepares pods' claims through the plugins and makes the pods Running. Of one thread; keeps references that must
/// outlive it.
class Kubelet {
 public:
  /// hardware: every simulated card by uuid. addresses: of the nodes, by name.
  Kubelet(kube::Client& client, plugin::Registry& plugins, kube::EventSink& events, base::Clock& clock,
          std::map<std::string, v1alpha::Card> hardware, std::map<std::string, std::string> addresses);

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
  /// What a container is given, over all of its claims.
  struct Given {
    std::string claims;  ///< the pod's names for them: "a, b"
    ContainerDevices devices;
  };
  base::Status prepare(const core::Pod& pod, std::vector<Mounted>& mounted, std::map<std::string, Given>& given,
                       std::stop_token stop);
  std::string addressOf(const std::string& node) const;
  base::Status refuse(const core::Pod& pod, const base::Status& why, std::stop_token stop);

  kube::Client& client_;
  plugin::Registry& plugins_;
  kube::EventSink& events_;
  base::Clock& clock_;
  const std::map<std::string, v1alpha::Card> hardware_;
  const std::map<std::string, std::string> addresses_;
  struct Prepared {
    std::vector<Mounted> mounted;
    bool running = false;  ///< the API server has heard of it
  };
  std::map<std::string, Prepared, std::less<>> prepared_;  ///< by pod uid
};

}  // namespace egpu::sim

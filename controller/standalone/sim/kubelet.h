// Simulates the kubelet and the container runtime for pods on a node. agent/prepare prepares claims as on a real node.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <stop_token>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "api/core/objects.h"
#include "api/v1alpha/pod_claims.h"
#include "controller/agent/cdi/folder.h"
#include "controller/agent/prepare/preparer.h"
#include "controller/base/clock.h"
#include "controller/base/status.h"
#include "controller/kube/client.h"
#include "controller/kube/event_sink.h"
#include "controller/plugin/provisioner.h"
#include "controller/standalone/sim/container_edits.h"

namespace egpu::sim {

/// Folders of simulated nodes in place of /run/cdi and the plugins' state folder of real nodes.
struct NodeFolders {
  std::string cdi;    ///< contains one folder per node
  std::string state;  ///< $ELASTICGPU_STATE_DIR of the plugins
};

/// Prepares the claims of pods and sets the pods to Running. Used by one thread. Keeps references that must outlive it.
class Kubelet {
 public:
  /// addresses: node name → address.
  Kubelet(kube::Client& client, plugin::Registry& plugins, kube::EventSink& events, base::Clock& clock,
          std::map<std::string, std::string> addresses, NodeFolders folders);

  /// Unprepares claims that an earlier process prepared and that are no longer in use. Remembers the others. Called at
  /// the start.
  void clean(std::stop_token stop);
  /// Runs a pod that has a node. Idempotent. On failure the pod's status has the reason, and the caller retries.
  base::Status run(const core::Pod& pod, std::stop_token stop);
  /// Unprepares the claims of a pod that is deleted or finished. On failure the caller retries.
  base::Status release(std::string_view podUid, std::stop_token stop);
  /// Unprepares a ResourceClaim that is deleted or not reserved, if an earlier process prepared it: its pod may have
  /// been deleted before run() was called. On failure the caller retries.
  base::Status unreserved(const core::ObjectKey& claim, std::stop_token stop);

 private:
  struct NodeKubelet {
    NodeKubelet(std::string folder, agent::PreparerOptions options, kube::Client& client, plugin::Registry& plugins,
                kube::EventSink& events);
    agent::cdi::Folder cdi;
    agent::ClaimPreparer preparer;
  };
  /// Devices and edits of one container, from all of its claims.
  struct ContainerDevices {
    std::string claims;          ///< names in the pod's spec.resourceClaims: "a, b"
    std::set<std::string> used;  ///< names of the ResourceClaims
    std::vector<std::string> devices;
    core::ContainerEdits all;
  };
  /// A pod whose claims are prepared or being prepared.
  struct Prepared {
    std::string node;
    std::vector<agent::ClaimRef> claims;
    bool done = false;     ///< all claims are prepared
    bool running = false;  ///< the status Running has been written
  };
  base::Result<NodeKubelet*> nodeOf(const std::string& name);
  base::Result<agent::ClaimRef> check(const core::Pod& pod, const v1alpha::PodClaim& claim, std::stop_token stop);
  base::Result<agent::cdi::Spec> prepareClaim(NodeKubelet& node, const core::Pod& pod, const v1alpha::PodClaim& claim,
                                              std::stop_token stop);
  base::Status prepare(const core::Pod& pod, std::map<std::string, ContainerDevices>& given, std::stop_token stop);
  base::Status annotate(const core::Pod& pod, const std::map<std::string, ContainerDevices>& given,
                        std::stop_token stop);
  std::string addressOf(const std::string& node) const;
  base::Status refuse(const core::Pod& pod, const base::Status& why, std::stop_token stop);
  bool usedByOthers(std::string_view podUid, const std::string& node, const agent::ClaimRef& claim) const;

  kube::Client& client_;
  plugin::Registry& plugins_;
  kube::EventSink& events_;
  base::Clock& clock_;
  const std::map<std::string, std::string> addresses_;
  const NodeFolders folders_;
  std::map<std::string, std::unique_ptr<NodeKubelet>> nodes_;  ///< by name: nodes that had a claim to prepare
  std::map<std::string, Prepared, std::less<>> prepared_;      ///< by pod uid
  /// Claims that an earlier process prepared and that no pod has requested since. "namespace/name" of the claim → node
  /// and claim.
  std::multimap<std::string, std::pair<std::string, agent::ClaimRef>> found_;
};

}  // namespace egpu::sim

// The simulated node side: what the kubelet and the runtime do for a pod that was placed on a node. Claims are prepared
// as on a real node, by agent/prepare.
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

/// Where simulated nodes keep what real ones have in /run/cdi and in the plugins' state folder.
struct NodeFolders {
  std::string cdi;    ///< a folder for each node is made in it
  std::string state;  ///< $ELASTICGPU_STATE_DIR of the plugins
};

/// Prepares pods' claims and makes the pods Running. Of one thread; keeps references that must outlive it.
class Kubelet {
 public:
  /// addresses: of the nodes, by name.
  Kubelet(kube::Client& client, plugin::Registry& plugins, kube::EventSink& events, base::Clock& clock,
          std::map<std::string, std::string> addresses, NodeFolders folders);

  /// At the start: what an earlier process left prepared and no pod uses any more is given back. The rest is remembered.
  void clean(std::stop_token stop);
  /// For a pod with a node. Ok: it runs (idempotent). Otherwise the pod waits with the reason in its status, and the
  /// caller tries again.
  base::Status run(const core::Pod& pod, std::stop_token stop);
  /// For a pod that is gone or finished: gives its claims back. Else the caller tries again.
  base::Status release(std::string_view podUid, std::stop_token stop);
  /// For a ResourceClaim that is gone or that nobody has reserved: gives back what an earlier process prepared for it, as
  /// its pod may have gone before run() was asked. Else the caller tries again.
  base::Status unreserved(const core::ObjectKey& claim, std::stop_token stop);

 private:
  struct Node {
    Node(std::string folder, agent::PreparerOptions options, kube::Client& client, plugin::Registry& plugins,
         kube::EventSink& events);
    agent::cdi::Folder cdi;
    agent::ClaimPreparer preparer;
  };
  /// What a container is given, over all of its claims.
  struct Given {
    std::string claims;          ///< the pod's names for them: "a, b"
    std::set<std::string> used;  ///< names of the ResourceClaims
    std::vector<std::string> devices;
    core::ContainerEdits all;
  };
  /// A pod that has begun to have its claims prepared.
  struct Prepared {
    std::string node;
    std::vector<agent::ClaimRef> claims;
    bool done = false;     ///< all of them
    bool running = false;  ///< the API server has heard of it
  };
  base::Result<Node*> nodeOf(const std::string& name);
  base::Result<agent::ClaimRef> check(const core::Pod& pod, const v1alpha::PodClaim& claim, std::stop_token stop);
  base::Result<agent::cdi::Spec> prepareClaim(Node& node, const core::Pod& pod, const v1alpha::PodClaim& claim,
                                              std::stop_token stop);
  base::Status prepare(const core::Pod& pod, std::map<std::string, Given>& given, std::stop_token stop);
  base::Status annotate(const core::Pod& pod, const std::map<std::string, Given>& given, std::stop_token stop);
  std::string addressOf(const std::string& node) const;
  base::Status refuse(const core::Pod& pod, const base::Status& why, std::stop_token stop);
  bool usedByOthers(std::string_view podUid, const std::string& node, const agent::ClaimRef& claim) const;

  kube::Client& client_;
  plugin::Registry& plugins_;
  kube::EventSink& events_;
  base::Clock& clock_;
  const std::map<std::string, std::string> addresses_;
  const NodeFolders folders_;
  std::map<std::string, std::unique_ptr<Node>> nodes_;     ///< those that had a claim to prepare
  std::map<std::string, Prepared, std::less<>> prepared_;  ///< by pod uid
  /// What an earlier process prepared and no pod has asked this one for: the node, by "namespace/name".
  std::multimap<std::string, std::pair<std::string, agent::ClaimRef>> found_;
};

}  // namespace egpu::sim

// Simulates the parts of a cluster other than the API server: nodes with cards, the pod scheduler, the kubelets, and
// the parts of the controller manager that create ResourceClaims from templates, clear reservedFor, and remove the pods
// of deleted nodes. Its objects are marked as simulated. It uses the API server as an ordinary client.
//
// nodes.yaml defines the hardware at the start. A Node or card object that is deleted later stays deleted until the
// next start.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "controller/base/mutex.h"
#include "controller/cache/sinks.h"
#include "controller/cache/store.h"
#include "controller/kube/client.h"
#include "controller/kube/event_sink.h"
#include "controller/kube/reflector.h"
#include "controller/standalone/sim/claim_stamping.h"
#include "controller/standalone/sim/kubelet.h"
#include "controller/standalone/sim/nodes_file.h"
#include "controller/standalone/sim/pod_scheduler.h"

namespace egpu::sim {

/// The simulated cluster. Call publish(), then start(); the destructor stops it. References must outlive it.
class Cluster {
 public:
  /// otherSchedulers: names of schedulers that run elsewhere. Their pods are not scheduled here.
  Cluster(std::vector<SimNode> nodes, kube::Client& client, plugin::Registry& plugins, kube::EventSink& events,
          base::Clock& clock, NodeFolders folders, std::set<std::string> otherSchedulers = {});
  ~Cluster();

  /// Writes the DeviceClass, nodes and cards. Deletes simulated nodes and cards of an earlier start that the file no
  /// longer contains. Idempotent.
  base::Status publish(std::stop_token stop);
  /// Starts to schedule and run pods.
  void start();
  void stop();

 private:
  using Steady = std::chrono::steady_clock::time_point;
  base::Status publishNode(const SimNode& node, std::stop_token stop);
  base::Status publishLease(const SimNode& node, std::stop_token stop);
  base::Status publishCard(const v1alpha::ElasticGPU& card, std::stop_token stop);
  base::Status forgetOthers(std::stop_token stop);

  void listen();
  void enqueue(const std::string& key, std::chrono::milliseconds after = std::chrono::milliseconds(0));
  void enqueueUnscheduled();
  void work(std::stop_token stop);
  /// Processes one key ("pod/ns/name", "claim/ns/name", "leases"). Returns false if it must be retried later.
  bool step(const std::string& key, std::stop_token stop);
  bool syncPod(const core::ObjectKey& key, std::stop_token stop);
  using Claims = std::vector<std::shared_ptr<const core::ResourceClaim>>;
  bool schedule(const core::Pod& pod, std::stop_token stop);
  /// Adds the pod's claims to `claims`. Returns a message if the pod must wait for a claim, otherwise an empty string.
  std::string claimsOf(const core::Pod& pod, Claims& claims) const;
  using Offered = std::map<std::string, ResourceAmounts, std::less<>>;
  base::Result<Offered> offeredTo(const core::Pod& pod, std::stop_token stop);
  /// Returns the sum of the requests of those pods of the node for which `counts` returns true.
  NodeUse useOf(const std::string& node, const std::function<bool(const core::Pod&)>& counts) const;
  PodChoice chooseNode(const core::Pod& pod, const Claims& claims, const Offered& offered) const;
  void clearOne(const Claims& claims, std::stop_token stop);
  bool bind(const core::Pod& pod, const std::string& node, std::stop_token stop);
  bool reserve(const core::Pod& pod, const core::ResourceClaim& claim, std::stop_token stop);
  bool unschedulable(const core::Pod& pod, std::string_view reason, const std::string& message, std::stop_token stop);
  base::Result<bool> admittedByKubelet(const core::Pod& pod, std::stop_token stop);
  bool lostItsNode(const core::Pod& pod, std::stop_token stop);
  bool collect(const core::Pod& pod, std::stop_token stop);
  bool collectStamped(const core::ResourceClaim& claim, std::stop_token stop);
  bool reservePlaced(const core::Pod& pod, std::stop_token stop);
  bool syncReservations(const core::ObjectKey& key, std::stop_token stop);
  bool renewLeases(std::stop_token stop);

  // Constant after construction.
  const std::vector<SimNode> nodes_;
  kube::Client& client_;
  kube::EventSink& events_;
  base::Clock& clock_;
  const std::string started_;  ///< time of the start
  const std::set<std::string> otherSchedulers_;

  // Used only by the worker's thread:
  Kubelet kubelet_;
  ClaimStamping stamping_;
  std::map<std::string, std::string> podUids_;  ///< pod key → uid that was last processed
  std::set<std::string> admitted_;              ///< uids of pods that their kubelets have admitted
  std::map<std::string, int> failures_;
  std::size_t nextLease_ = 0;  ///< index in nodes_ of the lease to renew next

  cache::Store<core::Pod> podStore_;
  cache::Store<core::Node> nodeStore_;
  cache::Store<core::ResourceClaim> claimStore_;
  int byClaim_ = 0, byNode_ = 0, unscheduled_ = 0;
  cache::StoreSink<core::Pod> podSink_{podStore_};
  cache::StoreSink<core::Node> nodeSink_{nodeStore_};
  cache::StoreSink<core::ResourceClaim> claimSink_{claimStore_};

  base::Mutex mutex_;
  std::condition_variable_any changed_;
  std::map<std::string, Steady> due_ EGPU_GUARDED_BY(mutex_);

  kube::Reflector<core::Pod> pods_;
  kube::Reflector<core::Node> nodeReflector_;
  kube::Reflector<core::ResourceClaim> claims_;
  std::jthread worker_;
};

}  // namespace egpu::sim

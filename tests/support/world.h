// A cluster for tests: the embedded API server in process (or a real one, see real_handler.h), and the actions of
// users, node agents and the scheduler.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "api/v1alpha/keys.h"
#include "controller/reconcile/claim/conditions.h"
#include "controller/reconcile/resourceclaim/bridge.h"
#include "controller/standalone/apiserver/server.h"
#include "tests/support/driver.h"
#include "tests/support/real_handler.h"

namespace egpu::support {

namespace keys = v1alpha::keys;
inline constexpr int64_t kGi = 1024LL * 1024 * 1024;

/// Every method throws if the server refuses its request, unless its comment states otherwise.
class World {
 public:
  World();
  ~World();

  http::Handler& handler();
  /// Number of changes that the server has accepted.
  uint64_t writes() const;

  /// Makes later objects younger: creation times have whole seconds. A real server uses the system's clock.
  void nextSecond();
  void addNamespace(const std::string& name);
  void labelNamespace(const std::string& name, const std::string& labels);
  void taint(const std::string& node, const std::string& taints);
  void setClass(const std::string& name, const std::string& body);
  void addNode(const std::string& name, core::StringMap labels = {});
  void removeNode(const std::string& name);
  /// Returns the card's name: "gpu-<node>-<index>" in lower case.
  std::string addCard(const std::string& node, int index, int64_t memory = 16 * kGi, const std::string& model = "T4");
  void addClass(const std::string& name, const std::string& reclaim = "Delete", const std::string& mode = "Immediate",
                core::StringMap parameters = {}, const std::string& provisioner = kPlugin);
  cache::Claim addClaim(const std::string& name, const std::string& cls, core::StringMap requests,
                        const std::string& gpu = {});
  /// addClaim() with annotations.
  cache::Claim addMember(const std::string& name, const std::string& cls, core::StringMap requests,
                         core::StringMap annotations);
  void removeClaim(const std::string& name);
  /// Creates the pod as the admission policy would change it.
  void addPod(const std::string& name, const std::vector<std::string>& claims, bool gate = true,
              core::StringMap selector = {});
  /// Returns the pod that addPod() would create, so that the test can change it first.
  static core::Pod podOf(const std::string& name, const std::vector<std::string>& claims, bool gate = true);
  /// Adds a pod without claims that already runs on the node and uses this much of its CPU.
  void occupy(const std::string& name, const std::string& node, const std::string& cpu, int64_t priority = 0);
  void removePod(const std::string& name);
  void finishPod(const std::string& name);
  /// Reserves the pod's claims and binds the pod, as the scheduler does: to their node or, if none has one, to the
  /// first node.
  void schedule(const std::string& name);
  /// Removes the reservation, as the controller manager does after the pod is deleted or finished.
  void unreserve(const std::string& claim, const std::string& podName);
  void reserve(const core::ResourceClaim& rc);
  /// Clears the allocation, as the scheduler does if no node fits ("deallocation of ResourceClaim completed").
  void clearAllocation(const std::string& claim);

  cache::Claim claim(const std::string& name);
  core::Pod pod(const std::string& name);
  cache::Gpu gpu(const std::string& name);
  std::optional<core::ResourceClaim> resourceClaim(const std::string& name);
  bool exists(const std::string& gpuName);
  /// Returns the reason of a claim's condition; empty if there is none.
  std::string reason(const std::string& name, std::string_view type = "Bound");
  std::string message(const std::string& name, std::string_view type = "Bound");
  /// Instantiated for the kinds that world.cpp names.
  template <class T>
  T json(const core::ObjectKey& key, const std::string& body, std::string_view sub = {});

  /// Returns the first violated invariant of those that hold at any time; empty if none is violated.
  std::string violation();
  /// Returns the first violated invariant of those that hold only when the controller is idle.
  std::string garbage();
  /// Returns the state without uids and times: equal for two runs with the same result.
  std::string picture();

  template <class T>
  static T must(base::Result<T> result) {
    if (!result.ok()) throw std::runtime_error(result.status().str());
    return std::move(result).value();
  }
  static void mustOk(const base::Status& status);

  static constexpr const char* kPlugin = "gpushare.provisioner.elasticgpu.io";
  static constexpr const char* kRemotePlugin = "remote.provisioner.elasticgpu.io";
  base::ManualClock clock;
  base::Random random{7};
  base::NoMetrics metrics;
  std::unique_ptr<apiserver::Server> server;  ///< null if a real server is used
  std::unique_ptr<RealHandler> real;          ///< null if the embedded server is used
  std::unique_ptr<HandlerTransport> transport;
  FakeProvisioner plugin{kPlugin};
  FakeProvisioner remote{kRemotePlugin, "remote"};  ///< provides remote GPUs, once a test adds it to the registry
  std::set<std::string> shrunk;                     ///< cards whose memory a test reduced: their ledgers may exceed it
  FakeRegistry registry;
  kube::Client client;

 private:
  kube::Transport& makeServer();
  /// Checks a bound device: neither its amounts nor its plugin's may exceed its ledger entries. Returns the violation
  /// or empty.
  std::string sizeBroken(const cache::Gpu& device, const std::map<std::string, const cache::Gpu*>& byName) const;
};

}  // namespace egpu::support

// A cluster for tests: the embedded API server in process (or a real one, see real_handler.h), and what users, node
// agents and the scheduler do to it.
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
#include "controller/reconcile/claim/carrier.h"
#include "controller/reconcile/claim/conditions.h"
#include "controller/standalone/apiserver/server.h"
#include "tests/support/driver.h"
#include "tests/support/real_handler.h"

namespace egpu::support {

namespace keys = v1alpha::keys;
inline constexpr int64_t kGi = 1024LL * 1024 * 1024;

/// Everything throws on what the server refuses unless it says otherwise.
class World {
 public:
  World();
  ~World();

  http::Handler& handler();
  /// Changes that the server has taken.
  uint64_t writes() const;

  /// What is made from here on is younger: creation times have whole seconds, and a real server's are the system's.
  void nextSecond();
  void addNamespace(const std::string& name);
  void labelNamespace(const std::string& name, const std::string& labels);
  void taint(const std::string& node, const std::string& taints);
  void setClass(const std::string& name, const std::string& body);
  void addNode(const std::string& name, core::StringMap labels = {});
  void removeNode(const std::string& name);
  /// "gpu-<node>-<index>" in lower case.
  std::string addCard(const std::string& node, int index, int64_t memory = 16 * kGi,
                      const std::string& model = "T4");
  void addClass(const std::string& name, const std::string& reclaim = "Delete", const std::string& mode = "Immediate",
                core::StringMap parameters = {}, const std::string& provisioner = kPlugin);
  cache::Claim addClaim(const std::string& name, const std::string& cls, core::StringMap requests,
                        const std::string& gpu = {});
  /// The same with annotations.
  cache::Claim addMember(const std::string& name, const std::string& cls, core::StringMap requests,
                         core::StringMap annotations);
  void removeClaim(const std::string& name);
  /// As the admission policy leaves it.
  void addPod(const std::string& name, const std::vector<std::string>& claims, bool gate = true,
              core::StringMap selector = {});
  /// The same to be changed before it is created.
  static core::Pod podOf(const std::string& name, const std::vector<std::string>& claims, bool gate = true);
  /// A pod without claims that runs on a node already and takes this much CPU of it.
  void occupy(const std::string& name, const std::string& node, const std::string& cpu, int64_t priority = 0);
  void removePod(const std::string& name);
  void finishPod(const std::string& name);
  /// The scheduler reserves the pod's claims and binds it.
  void schedule(const std::string& name);
  /// As the controller manager does once the pod is gone or finished.
  void unreserve(const std::string& claim, const std::string& podName);
  void reserve(const core::ResourceClaim& rc);
  /// As the scheduler does when no node suits ("deallocation of ResourceClaim completed").
  void clearAllocation(const std::string& claim);

  cache::Claim claim(const std::string& name);
  core::Pod pod(const std::string& name);
  cache::Gpu gpu(const std::string& name);
  std::optional<core::ResourceClaim> carrier(const std::string& name);
  bool exists(const std::string& gpuName);
  /// Of a claim's condition; empty if there is none.
  std::string reason(const std::string& name, std::string_view type = "Bound");
  std::string message(const std::string& name, std::string_view type = "Bound");
  /// Of the kinds that world.cpp names.
  template <class T>
  T json(const core::ObjectKey& key, const std::string& body, std::string_view sub = {});

  /// What must hold at any time; the first broken rule, or empty.
  std::string violation();
  /// What must hold at rest besides.
  std::string garbage();
  /// The world without uids and times: what two runs must agree on.
  std::string picture();

  template <class T>
  static T must(base::Result<T> result) {
    if (!result.ok()) throw std::runtime_error(result.status().str());
    return std::move(result).value();
  }
  static void mustOk(const base::Status& status);

  static constexpr const char* kPlugin = "gpushare.provisioner.elasticgpu.io";
  base::ManualClock clock;
  base::Random random{7};
  base::NoMetrics metrics;
  std::unique_ptr<apiserver::Server> server;  ///< null where the server is a real one
  std::unique_ptr<RealHandler> real;          ///< null where it is not
  std::unique_ptr<HandlerTransport> transport;
  FakeProvisioner plugin{kPlugin};
  std::set<std::string> shrunk;  ///< cards that a test gave less memory: their ledgers may be over-full
  FakeRegistry registry;
  kube::Client client;

 private:
  kube::Transport& makeServer();
  /// Of a bound device: what it has, or its plugin gives, is no more than its entries.
  std::string sizeBroken(const cache::Gpu& device, const std::map<std::string, const cache::Gpu*>& byName) const;
};

}  // namespace egpu::support

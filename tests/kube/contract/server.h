// The API server that the contract tests run against: the embedded one on loopback, or a real one.
//   EGPU_CONTRACT_KUBECONFIG  kubeconfig of a real one, as its administrator; unset = the embedded one
//   EGPU_CONTRACT_ETCD        URL of its etcd, to compact
// Both process at most kInFlight reads and kInFlight writes at once (except those of system:masters).
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "controller/base/clock.h"
#include "controller/base/ids.h"
#include "controller/http/http.h"
#include "controller/kube/client.h"
#include "controller/kube/config/endpoint.h"
#include "controller/standalone/apiserver/server.h"

namespace egpu::kube {

class ContractServer {
 public:
  static constexpr int kInFlight = 4;

  /// Started at the first call, stopped after the last test.
  static ContractServer& get();
  ~ContractServer();

  bool real() const { return embedded_ == nullptr; }
  const Endpoint& endpoint() const { return endpoint_; }
  /// Endpoint of a user with all rights who is not in system:masters, so that limits apply.
  Endpoint ordinaryUser() const;
  /// Drops all history up to now, as etcd's compaction does.
  void compact();
  /// Sets a hook that is called at the beginning of every write to the embedded server; empty = none. A real server has
  /// no such hook.
  void onWrite(std::function<void()> hook);
  /// Creates a namespace that no other test uses.
  std::string makeNamespace();

 private:
  ContractServer();
  void embed();
  void adopt(const std::string& kubeconfig);
  void installCrds(Client& client);
  void must(Client& client, Method method, const std::string& target, const std::string& body);

  base::SystemClock clock_;
  base::Random random_;
  base::NoMetrics metrics_;
  std::mutex mutex_;
  std::function<void()> hook_;  ///< protected by mutex_
  std::unique_ptr<apiserver::Server> embedded_;
  std::unique_ptr<http::Listener> listener_;
  Endpoint endpoint_;
  std::string etcd_;
};

}  // namespace egpu::kube

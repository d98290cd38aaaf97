// The API server that the contract is held against: the embedded one on loopback, or a real one.
//   EGPU_CONTRACT_KUBECONFIG  kubeconfig of a real one, as its administrator; unset = the embedded one
//   EGPU_CONTRACT_ETCD        URL of its etcd, to compact
// Either lets in at most kInFlight reading and as many writing requests at once (of anybody but system:masters).
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
  /// Somebody who may do everything but is nobody's master: limits are for him.
  Endpoint ordinaryUser() const;
  /// Forgets all history up to now, as etcd's compaction does.
  void compact();
  /// Called at the beginning of every write to the embedded server; empty = nothing. A real one can't be stopped there.
  void onWrite(std::function<void()> hook);
  /// A namespace that no other test uses.
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

// Requests to the API server with the rights of the user, as kubectl makes them.
#pragma once

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "controller/base/clock.h"
#include "controller/base/ids.h"
#include "controller/base/metrics.h"
#include "controller/base/status.h"
#include "controller/kube/client.h"
#include "controller/kube/config/endpoint.h"
#include "controller/kubectl/options.h"

namespace egpu::kubectl {

using Json = nlohmann::ordered_json;

/// Returns the member at the path; null if it is missing. The reference is valid as long as `object` is.
const Json& at(const Json& object, std::initializer_list<std::string_view> path);
/// Returns the text at the path; empty if it is missing or not a string.
std::string textAt(const Json& object, std::initializer_list<std::string_view> path);
/// Returns the integer at the path; `otherwise` if it is missing or not a number.
int64_t numberAt(const Json& object, std::initializer_list<std::string_view> path, int64_t otherwise = 0);

/// Returns the name without "KIND/", where KIND is `singular`, its plural, or either with the group, as `kubectl get -o
/// name` writes it.
std::string withoutKind(const std::string& name, std::string_view singular);

/// Thread-safe after open().
class Connection {
 public:
  /// Finds the cluster as kubectl does. Code::invalid names the flag or the kubeconfig's file and field.
  static base::Result<std::unique_ptr<Connection>> open(const ClientFlags& flags);
  ~Connection();

  /// Namespace of --namespace, or else of the context.
  const std::string& space() const { return space_; }
  const kube::Endpoint& endpoint() const { return endpoint_; }
  kube::Client& client() const { return *client_; }
  base::Clock& clock() const { return clock_; }

  /// Returns the object of a GET. path: such as "/api/v1/nodes/a"; its parts are percent-encoded already. The error is
  /// the API server's, which names the missing right.
  base::Result<Json> get(const std::string& path) const;
  /// Returns the text of a GET that is not JSON.
  base::Result<std::string> text(const std::string& path) const;
  /// Returns the items of all pages of a list. query: without '?', may be empty.
  base::Result<std::vector<Json>> list(const std::string& path, const std::string& query = {}) const;
  /// Sends a JSON body. Returns the answer's object.
  base::Result<Json> send(kube::Method method, const std::string& path, const Json& body) const;
  /// Seconds since 1970 of the API server's last answer by its own clock; 0 before the first answer.
  int64_t serverTime() const { return serverTime_.load(); }

 private:
  Connection(kube::Endpoint endpoint, std::string space);
  base::Status connect();
  base::Result<kube::HttpResponse> exchange(kube::HttpRequest request) const;

  const kube::Endpoint endpoint_;
  const std::string space_;
  mutable base::SystemClock clock_;
  mutable base::Random random_;
  mutable base::NoMetrics metrics_;
  std::unique_ptr<kube::Transport> transport_;
  std::unique_ptr<kube::Client> client_;
  mutable std::atomic<int64_t> serverTime_{0};
};

/// Returns metadata.name.
std::string nameOf(const Json& object);

/// Path of an object or a list: pathOf("elasticgpu.io/v1alpha", "ns", "elasticgpuclaims", "name"). The core group is
/// "v1". Empty namespace: cluster scope, or all namespaces. Empty name: the list.
std::string pathOf(std::string_view groupVersion, std::string_view space, std::string_view plural,
                   std::string_view name = {});
inline constexpr std::string_view kOurs = "elasticgpu.io/v1alpha";
/// Namespace of controller and agents.
inline constexpr const char* kSystemNamespace = "elastic-gpu-system";

}  // namespace egpu::kubectl

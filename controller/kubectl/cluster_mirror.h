// A copy of the cluster's objects that questions need, read once with the rights of the user.
#pragma once

#include <memory>
#include <string>

#include "controller/allocator/allocator.h"
#include "controller/base/status.h"
#include "controller/cache/stores.h"
#include "controller/http/http.h"
#include "controller/kubectl/connection.h"

namespace egpu::kubectl {

/// Not thread-safe.
class ClusterMirror {
 public:
  /// Lists all kinds that decisions depend on. Code::forbidden names the missing right and the role.
  static base::Result<std::unique_ptr<ClusterMirror>> read(const Connection& connection);

  cache::Stores& stores() { return stores_; }
  const allocator::Allocator& allocator() const { return allocator_; }
  /// Answers a question such as /simulate in this process, with the code that the controller answers it with. The path
  /// and the parameters: controller/server/README.md.
  http::Response ask(const std::string& target, const std::string& body = {});

 private:
  explicit ClusterMirror(base::Clock& clock) : clock_(clock) {}
  base::Clock& clock_;
  cache::Stores stores_;
  allocator::Allocator allocator_{stores_};
};

}  // namespace egpu::kubectl

// The embedded API server: the paths, watches, conflicts and rules of a Kubernetes API server for the kinds this
// project needs.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "controller/base/clock.h"
#include "controller/base/ids.h"
#include "controller/base/status.h"
#include "controller/http/http.h"

namespace egpu::apiserver {

/// Runs after defaulting and before validation, on create and on updates of the main resource. May edit `objectJson`,
/// or refuse with a Status (its code decides the HTTP code, its message is shown; Code::invalid is 422, Code::forbidden
/// 403). resource: plural with group ("pods", "elasticgpuclaims.elasticgpu.io"); operation: "CREATE" | "UPDATE";
/// oldJson empty on CREATE. Called on many threads at once; must not call the server; may be called again for one
/// request after a conflict.
using Admission = std::function<base::Status(std::string_view resource, std::string_view operation,
                                             std::string& objectJson, std::string_view oldJson)>;

struct Options {
  std::string
      dataDirectory;  ///< empty: everything in memory; else an existing or new folder, held by one server at a time
  std::vector<std::string> crds;  ///< YAML of further CustomResourceDefinitions; the project's own are built in. Their
                                  ///< kinds are served, CRDs themselves are not
  std::vector<Admission> admission;
  std::size_t historyLength = 10'000;  ///< watch events kept per kind; older ones are answered with 410
  std::chrono::milliseconds bookmarkInterval{60'000};
  bool priorityAdmission = true;  ///< a pod's priority comes from its PriorityClass; false: pods state numbers, as on a
                                  ///< cluster without the admission plugin Priority
  int maxInFlight = 0;  ///< reading and as many writing requests at once, watches aside; more get 429. 0 = any number
};

/// Thread-safe. In-process callers use handle(); kubectl and remote clients come through http::listen.
class Server : public http::Handler {
 public:
  /// `clock` and `random` must outlive the server. Fails with Code::invalid on a bad CRD, Code::unavailable if the data
  /// folder can't be used or another process holds it, Code::malformed if it holds something else or is damaged.
  static base::Result<std::unique_ptr<Server>> create(const Options& options, base::Clock& clock, base::Random& random);

  /// The version of the last write; never smaller than an earlier one, restarts included.
  virtual uint64_t resourceVersion() const = 0;
  /// Forgets the history of all kinds, as etcd's compaction does: watches from, and pages at, older versions get 410.
  /// Running watches go on.
  virtual void compact() = 0;
};

}  // namespace egpu::apiserver

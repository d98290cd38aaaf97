// Embedded API server: paths, watches, conflicts and validation of a Kubernetes API server, for the kinds that this
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

/// Admission hook. Runs after defaulting and before validation, on create and on updates of the main resource. It may
/// edit `objectJson`, or refuse the request with a Status: the code determines the HTTP status (Code::invalid 422,
/// Code::forbidden 403), and the client sees the message. resource: plural with group ("pods",
/// "elasticgpuclaims.elasticgpu.io"). operation: "CREATE" or "UPDATE". oldJson: empty on CREATE. Called on many threads
/// at once; must not call the server; may be called again for the same request after a conflict.
using Admission = std::function<base::Status(std::string_view resource, std::string_view operation,
                                             std::string& objectJson, std::string_view oldJson)>;

struct Options {
  std::string
      dataDirectory;  ///< existing or new folder, used by one server at a time; empty: all data is in memory only
  std::vector<std::string> crds;  ///< YAML of further CustomResourceDefinitions; the project's own are built in. Their
                                  ///< kinds are served, CRDs themselves are not
  std::vector<Admission> admission;
  std::size_t historyLength = 10'000;  ///< watch events kept per kind; requests for older ones get 410
  std::chrono::milliseconds bookmarkInterval{60'000};
  bool priorityAdmission = true;  ///< a pod's priority comes from its PriorityClass; false: pods contain numbers, as on
                                  ///< a cluster without the admission plugin Priority
  int maxInFlight =
      0;  ///< maximum of reads, and of writes, at once; further ones get 429. Not for watches. 0 = no limit
};

/// The server. Thread-safe. Callers in the same process use handle(); other clients connect through http::listen().
class Server : public http::Handler {
 public:
  /// Creates a server. `clock` and `random` must outlive it. Fails with Code::invalid if a CRD is invalid, with
  /// Code::unavailable if the data folder can't be used or another process uses it, and with Code::malformed if it has
  /// other content or is damaged.
  static base::Result<std::unique_ptr<Server>> create(const Options& options, base::Clock& clock, base::Random& random);

  /// Returns the version of the last write. It never decreases, even after a restart.
  virtual uint64_t resourceVersion() const = 0;
  /// Drops the history of all kinds, as etcd's compaction does. New watches and list pages at older versions get 410;
  /// running watches continue.
  virtual void compact() = 0;
};

}  // namespace egpu::apiserver

// A typed client for the Kubernetes REST API over a Transport: retries on 429 and 5xx, unknown outcomes, preconditions.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <stop_token>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "api/core/meta.h"
#include "controller/base/clock.h"
#include "controller/base/ids.h"
#include "controller/base/metrics.h"
#include "controller/base/status.h"
#include "controller/codec/codec.h"
#include "controller/kube/transport/transport.h"

namespace egpu::kube {

enum class PatchType { merge, json, strategic };

struct ListOptions {
  std::string namespace_;    ///< empty = all
  std::string_view version;  ///< another one of the kind than its own; a constant. Empty = its own
  std::string labelSelector;
  std::string fieldSelector;
  std::string resourceVersion;  ///< empty = quorum read; "0" = any cache
  int64_t limit = 500;          ///< page size; 0 = one full list
};

struct ClientOptions {
  std::string fieldManager = "elastic-gpu-controller";
  std::string userAgent = "elastic-gpu-controller";
  int maxAttempts = 10;                              ///< per request, on 429 and 5xx
  std::chrono::milliseconds requestTimeout{30'000};  ///< per attempt
  std::chrono::milliseconds listTimeout{120'000};    ///< per attempt of one page, which may be the whole list
  bool freshConnections = false;                     ///< every request on a connection of its own making
  bool brief = false;                                ///< see Client::brief()
};

/// Thread-safe; keeps references to transport, clock, random and metrics, which must outlive it.
/// Every call blocks until answered, given up (retries included) or stopped. The templates are defined for every struct
/// with a kindOf.
/// Writes: a retried 5xx/unavailable is safe because every write of this project is idempotent or carries
/// preconditions; an unknown outcome of a write (time-outs included) is returned as Code::unknownOutcome, and the
/// caller reads before it decides. Waits between attempts: the server's Retry-After (at most 60 s), else 0.1 s doubling
/// up to 10 s; jittered. A brief client leaves retries to its caller. Metrics, per attempt:
/// elasticgpu_api_requests_total{verb,code}, elasticgpu_api_request_duration_seconds{verb},
/// elasticgpu_api_writes_total{verb,resource}. A code that isn't HTTP's is the name of the error, e.g. "unavailable".
class Client {
 public:
  Client(Transport& transport, base::Clock& clock, base::Random& random, base::Metrics& metrics,
         ClientOptions options = {});

  /// The same client for callers whose thread others wait for and who have a queue to come back by. A request is
  /// repeated once at most, and only where that is likely to help within a second: nothing of it was sent, or the
  /// server said 429 with a Retry-After of at most 1 s, or the connection of a read broke. Everything else, 5xx above
  /// all (a failing webhook is 500), is returned at once, with the server's Retry-After in the Status.
  Client brief() const;

  /// Quorum read.
  template <class T>
  base::Result<T> get(const core::ObjectKey& key, std::stop_token stop = {});
  /// All pages; a 410 in the middle starts over once without a limit. `each` gets the objects as they are decoded
  /// (again from the first after such a restart: `restart` is called before).
  template <class T>
  base::Result<codec::ListMeta> list(const ListOptions& options, const std::function<void(T&&)>& each,
                                     const std::function<void()>& restart, std::stop_token stop = {});
  template <class T>
  base::Result<std::vector<T>> listAll(const ListOptions& options, std::stop_token stop = {});
  template <class T>
  base::Result<T> create(const T& object, std::stop_token stop = {});
  /// subresource: "" or "status", "binding", …
  template <class T>
  base::Result<T> patch(const core::ObjectKey& key, PatchType type, std::string_view body,
                        std::string_view subresource = {}, std::stop_token stop = {});
  /// PUT; needs metadata.resourceVersion.
  template <class T>
  base::Result<T> replace(const T& object, std::string_view subresource = {}, std::stop_token stop = {});
  /// options: JSON of DeleteOptions (codec::patch::deleteOptions) or empty. notFound is an error like any other.
  /// left, unless null: set to the object as the server answered, if a finalizer keeps it.
  template <class T>
  base::Status remove(const core::ObjectKey& key, std::string_view options = {}, std::stop_token stop = {},
                      std::optional<T>* left = nullptr);

  /// One exchange with retries, for everything that has no struct (discovery, pods/binding). A value is a 2xx answer;
  /// any other is the Status that its body tells. timeout 0 = options().requestTimeout.
  base::Result<HttpResponse> call(HttpRequest request, std::stop_token stop = {});
  /// The raw transport for watches (no retry).
  Transport& transport() { return transport_; }
  const ClientOptions& options() const { return options_; }
  base::Clock& clock() { return clock_; }
  base::Random& random() { return random_; }
  base::Metrics& metrics() { return metrics_; }

  /// The kind in another version; empty = as it is.
  static core::Kind inVersion(core::Kind kind, std::string_view version);
  /// "/apis/elasticgpu.io/v1alpha/namespaces/ns/elasticgpuclaims/name/status"; parts are percent-encoded.
  static std::string path(const core::Kind& kind, std::string_view ns, std::string_view name = {},
                          std::string_view subresource = {});

 private:
  /// What an exchange is called in metrics.
  struct Purpose {
    std::string_view verb;      ///< get | list | create | patch | update | delete | call
    std::string_view resource;  ///< plural, or empty
    bool write = false;
  };
  base::Result<HttpResponse> exchange(HttpRequest& request, const Purpose& purpose, std::stop_token stop);
  bool worthRepeating(const base::Status& status, int attempt) const;
  base::Result<HttpResponse> getRaw(const core::Kind& kind, const core::ObjectKey& key, std::stop_token stop);
  base::Result<HttpResponse> createRaw(const core::Kind& kind, std::string_view ns, std::string body,
                                       std::stop_token stop);
  base::Result<HttpResponse> patchRaw(const core::Kind& kind, const core::ObjectKey& key, PatchType type,
                                      std::string_view body, std::string_view subresource, std::stop_token stop);
  base::Result<HttpResponse> replaceRaw(const core::Kind& kind, const core::ObjectKey& key, std::string body,
                                        std::string_view subresource, std::stop_token stop);
  base::Result<HttpResponse> removeRaw(const core::Kind& kind, const core::ObjectKey& key, std::string_view options,
                                       std::stop_token stop);
  using PageDecoder = std::function<base::Result<codec::ListMeta>(std::string_view body)>;
  base::Result<codec::ListMeta> listRaw(const core::Kind& kind, const ListOptions& options, const PageDecoder& decode,
                                        const std::function<void()>& restart, std::stop_token stop);
  /// The answer to a write that can't be read leaves its outcome unknown to the caller.
  template <class T>
  static base::Result<T> decodeWritten(base::Result<HttpResponse> answer);

  Transport& transport_;
  base::Clock& clock_;
  base::Random& random_;
  base::Metrics& metrics_;
  const ClientOptions options_;
};

}  // namespace egpu::kube

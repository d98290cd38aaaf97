// A typed client for the Kubernetes REST API over a Transport. It handles retries on 429 and 5xx, unknown outcomes and
// preconditions.
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
  std::string_view version;  ///< another version of the kind; a constant. Empty = the kind's own version
  std::string labelSelector;
  std::string fieldSelector;
  std::string resourceVersion;  ///< empty = quorum read; "0" = any cache
  int64_t limit = 500;          ///< page size; 0 = one full list
  std::string continueToken;    ///< from the previous page; empty = first page
  bool onePage = false;         ///< return after one page, unless that page has expired (410)
};

struct ClientOptions {
  std::string fieldManager = "elastic-gpu-controller";
  std::string userAgent = "elastic-gpu-controller";
  int maxAttempts = 10;                              ///< per request, on 429 and 5xx
  std::chrono::milliseconds requestTimeout{30'000};  ///< per attempt
  std::chrono::milliseconds listTimeout{120'000};    ///< per attempt of one page, which may be the whole list
  bool freshConnections = false;                     ///< open a new connection for every request
  bool brief = false;                                ///< see Client::brief()
};

/// Thread-safe; keeps references to transport, clock, random and metrics, which must outlive it. Every call blocks
/// until it is answered, has failed (retries included) or is stopped. The templates are defined for every struct with a
/// kindOf. Writes: a retry after 5xx or unavailable is safe because every write of this project is idempotent or
/// carries preconditions. An unknown outcome of a write (timeouts included) is returned as Code::unknownOutcome; the
/// caller reads before it decides. Waits between attempts: the server's Retry-After (at most 60 s), otherwise 0.1 s
/// doubling up to 10 s; jittered. A brief client leaves retries to its caller. Metrics, per attempt:
/// elasticgpu_api_requests_total{verb,code}, elasticgpu_api_request_duration_seconds{verb},
/// elasticgpu_api_writes_total{verb,resource}. A code that is not an HTTP status is the name of the error, e.g.
/// "unavailable".
class Client {
 public:
  Client(Transport& transport, base::Clock& clock, base::Random& random, base::Metrics& metrics,
         ClientOptions options = {});

  /// Returns the same client for callers that must not block their thread and requeue by themselves. A request is
  /// retried at most once, and only if a retry is likely to help within a second: nothing of it was sent, the server
  /// answered 429 with a Retry-After of at most 1 s, or the connection of a read broke. All other failures, in
  /// particular 5xx (a failing webhook is a 500), are returned immediately, with the server's Retry-After in the
  /// Status.
  Client brief() const;

  /// Quorum read.
  template <class T>
  base::Result<T> get(const core::ObjectKey& key, std::stop_token stop = {});
  /// Lists all pages, or with onePage the page after continueToken. A 410 on a later page restarts the list once,
  /// without a limit. `each` receives the objects as they are decoded; after a restart, from the first again, after a
  /// call of `restart`.
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
  /// options: JSON of DeleteOptions (codec::patch::deleteOptions) or empty. notFound is returned as an error. left,
  /// unless null: set to the returned object if a finalizer keeps it.
  template <class T>
  base::Status remove(const core::ObjectKey& key, std::string_view options = {}, std::stop_token stop = {},
                      std::optional<T>* left = nullptr);

  /// Performs one request with retries, for resources without a struct (discovery, pods/binding). Returns a 2xx answer;
  /// any other answer becomes the Status in its body. timeout 0 = options().requestTimeout.
  base::Result<HttpResponse> call(HttpRequest request, std::stop_token stop = {});
  /// The raw transport for watches (no retry).
  Transport& transport() { return transport_; }
  const ClientOptions& options() const { return options_; }
  base::Clock& clock() { return clock_; }
  base::Random& random() { return random_; }
  base::Metrics& metrics() { return metrics_; }

  /// Returns the kind in another version; empty = unchanged.
  static core::Kind inVersion(core::Kind kind, std::string_view version);
  /// Returns "/apis/elasticgpu.io/v1alpha/namespaces/ns/elasticgpuclaims/name/status"; the parts are percent-encoded.
  static std::string path(const core::Kind& kind, std::string_view ns, std::string_view name = {},
                          std::string_view subresource = {});

 private:
  /// Labels of a request in metrics.
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
  /// Decodes the answer to a write. An unreadable answer leaves the outcome unknown.
  template <class T>
  static base::Result<T> decodeWritten(base::Result<HttpResponse> answer);

  Transport& transport_;
  base::Clock& clock_;
  base::Random& random_;
  base::Metrics& metrics_;
  const ClientOptions options_;
};

}  // namespace egpu::kube

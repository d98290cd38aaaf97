#include "controller/standalone/apiserver/server.h"

#include <atomic>
#include <utility>

#include "controller/base/log.h"
#include "controller/standalone/apiserver/kinds/builtin_kinds.h"
#include "controller/standalone/apiserver/kinds/discovery.h"
#include "controller/standalone/apiserver/schema/crd.h"
#include "controller/standalone/apiserver/schema/openapi.h"
#include "controller/standalone/apiserver/show/status_json.h"
#include "controller/standalone/apiserver/storage/sqlite_log.h"
#include "controller/standalone/apiserver/verbs/expiry.h"
#include "controller/standalone/apiserver/verbs/rest.h"

namespace egpu::apiserver {
namespace {

constexpr std::size_t kMaxRequestBytes = std::size_t{3} * 1024 * 1024;

/// RAII counter of requests in flight.
class InFlight {
 public:
  /// limit: 0 = no limit.
  InFlight(std::atomic<int>& count, int limit) : count_(count), admitted_(++count <= limit || limit == 0) {}
  ~InFlight() { --count_; }
  InFlight(const InFlight&) = delete;
  InFlight& operator=(const InFlight&) = delete;
  bool admitted() const { return admitted_; }

 private:
  std::atomic<int>& count_;
  const bool admitted_;
};

/// Returns a 429 in plain text, not as a Status, because a real API server's filter for this limit answers so.
http::Response tooManyRequests() {
  http::Response r;
  r.status = 429;
  r.contentType = "text/plain; charset=utf-8";
  r.headers.emplace_back("Retry-After", "1");
  r.body = "Too many requests, please try again later.\n";
  return r;
}

class EmbeddedServer final : public Server {
 public:
  EmbeddedServer(std::unique_ptr<ResourceTable> table, std::unique_ptr<Preparation> preparation,
                 std::unique_ptr<SqliteLog> journal, const Options& options, base::Clock& clock, base::Random& random)
      : table_(std::move(table)),
        preparation_(std::move(preparation)),
        journal_(std::move(journal)),
        openApi_(*table_),
        store_(*table_, options.historyLength, journal_.get()),
        deletion_(*table_, store_, clock),
        expiry_(*table_, store_, deletion_, clock),
        priorities_(*table_, store_),
        rest_(store_, *preparation_, options.priorityAdmission ? &priorities_ : nullptr, deletion_, clock, random,
              options.bookmarkInterval),
        maxInFlight_(options.maxInFlight) {}

  base::Status start() {
    if (journal_) {
      base::Status read = journal_->load(*table_, [&](const Resource& r, std::string_view text, uint64_t version) {
        store_.restore(r, text, version);
      });
      if (!read.ok()) return read;
      store_.restoreVersion(journal_->version());
    }
    try {
      deletion_.sweep();
      for (const char* ns : {"default", "kube-system", "kube-public", "kube-node-lease"})
        ensure("/api/v1/namespaces", Json{{"apiVersion", "v1"}, {"kind", "Namespace"}, {"metadata", {{"name", ns}}}});
      for (const Json& each : systemPriorityClasses()) ensure("/apis/scheduling.k8s.io/v1/priorityclasses", each);
    } catch (const ApiError& e) {
      return {base::Code::unavailable, e.message};
    }
    return {};
  }

  http::Response handle(const http::Request& request, std::stop_token) override {
    const bool reads = request.method == "GET" || request.method == "HEAD";
    const InFlight slot(reads ? reading_ : writing_, maxInFlight_);
    if (!slot.admitted()) return tooManyRequests();
    try {
      if (request.body.size() > kMaxRequestBytes)
        throw tooLargeBody("Request entity too large: limit is " + std::to_string(kMaxRequestBytes));
      if (auto fixed = fixedAnswer(request)) return std::move(*fixed);
      const RequestInfo call = requestInfoOf(*table_, request);
      expiry_.onRequest(*call.resource);
      return rest_.serve(call);
    } catch (const ApiError& e) {
      return toResponse(e);
    } catch (const std::exception& e) {
      base::log::error("a request failed inside the API server",
                       {{"method", request.method}, {"path", request.path}, {"error", e.what()}});
      return toResponse({500, "InternalError", std::string("Internal error occurred: ") + e.what(), nullptr, 0});
    }
  }

  uint64_t resourceVersion() const override { return store_.version(); }
  void compact() override { store_.compact(); }

 private:
  // Answers requests for paths that are not resources: health, discovery, schemas. Returns nullopt for other paths.
  std::optional<http::Response> fixedAnswer(const http::Request& request) {
    const std::string& path = request.path;
    http::Response r;
    const bool health = path == "/healthz" || path == "/livez" || path == "/readyz";
    if (health) {
      r.contentType = "text/plain; charset=utf-8";
      r.body = "ok";
    } else if (path.compare(0, 9, "/openapi/") == 0) {
      auto answer = openApi_.answer(path, request.header("accept"));
      if (answer.body.empty()) return std::nullopt;
      r.contentType = answer.contentType;
      r.body = answer.body;
    } else if (auto found = discover(*table_, path, request.header("accept"), request.header("host"))) {
      r.contentType = found->contentType;
      r.body = found->body.dump();
    } else {
      return std::nullopt;
    }
    if (request.method != "GET" && request.method != "HEAD") throw methodNotAllowed();
    return r;
  }

  /// Creates a cluster-scoped object unless one with its name exists.
  void ensure(const std::string& path, const Json& object) {
    http::Request request;
    request.method = "POST";
    request.path = path;
    request.body = object.dump();
    const RequestInfo call = requestInfoOf(*table_, request);
    if (!store_.get(*call.resource, Key{"", metaString(object, "name")})) rest_.serve(call);
  }

  const std::unique_ptr<ResourceTable> table_;
  const std::unique_ptr<Preparation> preparation_;
  const std::unique_ptr<SqliteLog> journal_;
  const OpenApi openApi_;
  Store store_;
  Deletion deletion_;
  EventExpiry expiry_;
  const PriorityAdmission priorities_;
  Rest rest_;
  const int maxInFlight_;
  std::atomic<int> reading_{0}, writing_{0};
};

}  // namespace

base::Result<std::unique_ptr<Server>> Server::create(const Options& options, base::Clock& clock, base::Random& random) {
  auto table = std::make_unique<ResourceTable>();
  if (base::Status s = addBuiltinKinds(*table); !s.ok()) return s;
  if (base::Status s = addCustomKinds(*table); !s.ok()) return s;
  for (const auto& yaml : options.crds) {
    auto resource = loadCrd(yaml);
    if (!resource) return resource.status();
    if (base::Status s = table->add(std::move(*resource)); !s.ok()) return s;
  }
  auto preparation = Preparation::create(*table, options.admission, clock, random);
  if (!preparation) return preparation.status();
  std::unique_ptr<SqliteLog> journal;
  if (!options.dataDirectory.empty()) {
    auto opened = SqliteLog::open(options.dataDirectory);
    if (!opened) return opened.status();
    journal = std::move(*opened);
  }
  auto server = std::make_unique<EmbeddedServer>(std::move(table), std::move(*preparation), std::move(journal), options,
                                                 clock, random);
  if (base::Status s = server->start(); !s.ok()) return s;
  return std::unique_ptr<Server>(std::move(server));
}

}  // namespace egpu::apiserver

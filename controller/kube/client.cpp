#include "controller/kube/client.h"

#include <algorithm>
#include <charconv>
#include <optional>

#include "controller/kube/query.h"

namespace egpu::kube {

using base::Code;
using base::Result;
using base::Status;
using std::chrono::milliseconds;

namespace {

constexpr milliseconds kFirstWait{100};
constexpr milliseconds kMaxWait{10'000};
constexpr milliseconds kMaxRetryAfter{60'000};
constexpr int kBriefAttempts = 2;
constexpr milliseconds kBriefRetryAfter{1'000};

bool success(int http) { return http >= 200 && http < 300; }

/// Parses seconds only: the API server never sends the date form.
std::optional<milliseconds> retryAfter(const HttpResponse& answer) {
  const std::string_view text = answer.header("retry-after");
  int64_t seconds = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), seconds);
  if (error != std::errc{} || end != text.data() + text.size() || seconds < 0) return std::nullopt;
  return std::min(milliseconds(std::chrono::seconds(std::min<int64_t>(seconds, 3600))), kMaxRetryAfter);
}

Status statusOf(const HttpResponse& answer) {
  Status status = codec::decodeStatus(answer.status, answer.body);
  if (status.ok())  // a failed answer whose body reports Success must not count as success
    status = Status(Code::internal, "HTTP " + std::to_string(answer.status));
  status.http = answer.status;
  if (auto wait = retryAfter(answer)) status.retryAfter = wait;
  if (status.retryAfter) status.retryAfter = std::min(*status.retryAfter, kMaxRetryAfter);
  return status;
}

/// True for an HTTP error that may be gone at the next attempt.
bool isTransient(const Status& status) {
  if (status.code() == Code::tooLarge) return false;  // the caller retries without a version instead of waiting
  return status.http == 429 || status.http == 500 || status.http == 502 || status.http == 503 || status.http == 504;
}

std::string_view contentType(PatchType type) {
  switch (type) {
    case PatchType::merge:
      return "application/merge-patch+json";
    case PatchType::json:
      return "application/json-patch+json";
    case PatchType::strategic:
      return "application/strategic-merge-patch+json";
  }
  return "application/merge-patch+json";
}

}  // namespace

Client::Client(Transport& transport, base::Clock& clock, base::Random& random, base::Metrics& metrics,
               ClientOptions options)
    : transport_(transport), clock_(clock), random_(random), metrics_(metrics), options_(std::move(options)) {}

core::Kind Client::inVersion(core::Kind kind, std::string_view version) {
  if (!version.empty()) kind.version = version;
  return kind;
}

std::string Client::path(const core::Kind& kind, std::string_view ns, std::string_view name,
                         std::string_view subresource) {
  std::string out = kind.group.empty() ? "/api/" : "/apis/";
  if (!kind.group.empty()) out.append(kind.group).append("/");
  out.append(kind.version);
  if (kind.namespaced && !ns.empty()) out.append("/namespaces/").append(percentEncode(ns));
  out.append("/").append(kind.plural);
  if (!name.empty()) out.append("/").append(percentEncode(name));
  if (!subresource.empty()) out.append("/").append(percentEncode(subresource));
  return out;
}

Result<HttpResponse> Client::call(HttpRequest request, std::stop_token stop) {
  if (request.timeout.count() <= 0) request.timeout = options_.requestTimeout;
  const bool write = request.method != Method::get;
  return exchange(request, Purpose{write ? "call" : "get", "", write}, std::move(stop));
}

Result<HttpResponse> Client::exchange(HttpRequest& request, const Purpose& purpose, std::stop_token stop) {
  request.freshConnection = request.freshConnection || options_.freshConnections;
  request.headers.emplace_back("User-Agent", options_.userAgent);
  request.headers.emplace_back("Accept", "application/json");
  const bool typed = std::any_of(request.headers.begin(), request.headers.end(),
                                 [](const auto& h) { return h.first == "Content-Type"; });
  if (!request.body.empty() && !typed) request.headers.emplace_back("Content-Type", "application/json");
  milliseconds wait = kFirstWait;
  for (int attempt = 1;; ++attempt) {
    if (stop.stop_requested()) return Status(Code::cancelled, "stopped");
    const auto begin = clock_.now();
    auto answer = transport_.perform(request, stop);
    const std::chrono::duration<double> took = clock_.now() - begin;
    const std::string verb(purpose.verb);
    metrics_.observe("elasticgpu_api_request_duration_seconds", took.count(), {{"verb", verb}});
    metrics_.add("elasticgpu_api_requests_total", 1,
                 {{"verb", verb},
                  {"code", answer ? std::to_string(answer->status) : std::string(toString(answer.status().code()))}});
    if (purpose.write)
      metrics_.add("elasticgpu_api_writes_total", 1, {{"verb", verb}, {"resource", std::string(purpose.resource)}});

    if (answer && success(answer->status)) return answer;
    const Status status = answer ? statusOf(*answer) : answer.status();
    const bool unknown = !answer && (status.code() == Code::unknownOutcome || status.code() == Code::deadline);
    // Only a read can show whether a write took effect, so it is not retried here.
    if (unknown && purpose.write) return Status(Code::unknownOutcome, status.message());
    if (!worthRepeating(status, attempt)) return status;

    const milliseconds delay =
        status.retryAfter ? *status.retryAfter + milliseconds(random_.below(static_cast<uint64_t>(kFirstWait.count())))
                          : wait / 2 + milliseconds(random_.below(static_cast<uint64_t>(wait.count() / 2 + 1)));
    wait = std::min(wait * 2, kMaxWait);
    if (!clock_.sleepFor(delay, stop))
      return Status(Code::cancelled, "stopped while waiting to retry: " + status.message());
  }
}

/// Called after a failed attempt, but never for a write with unknown outcome.
bool Client::worthRepeating(const Status& status, int attempt) const {
  if (attempt >= options_.maxAttempts) return false;
  const bool answered = status.http != 0;
  if (!options_.brief)
    return answered ? isTransient(status)
                    : status.code() == Code::unavailable || status.code() == Code::unknownOutcome ||
                          status.code() == Code::deadline;
  if (attempt >= kBriefAttempts) return false;
  if (answered) return status.http == 429 && status.retryAfter && *status.retryAfter <= kBriefRetryAfter;
  return status.code() == Code::unavailable || status.code() == Code::unknownOutcome;
}

Client Client::brief() const {
  ClientOptions options = options_;
  options.brief = true;
  return {transport_, clock_, random_, metrics_, std::move(options)};
}

Result<HttpResponse> Client::getRaw(const core::Kind& kind, const core::ObjectKey& key, std::stop_token stop) {
  HttpRequest request;
  request.target = path(kind, key.namespace_, key.name);
  request.timeout = options_.requestTimeout;
  return exchange(request, Purpose{"get", kind.plural, false}, std::move(stop));
}

Result<HttpResponse> Client::createRaw(const core::Kind& kind, std::string_view ns, std::string body,
                                       std::stop_token stop) {
  HttpRequest request;
  request.method = Method::post;
  request.target = path(kind, ns);
  addQuery(request.target, "fieldManager", options_.fieldManager);
  request.body = std::move(body);
  request.timeout = options_.requestTimeout;
  return exchange(request, Purpose{"create", kind.plural, true}, std::move(stop));
}

Result<HttpResponse> Client::patchRaw(const core::Kind& kind, const core::ObjectKey& key, PatchType type,
                                      std::string_view body, std::string_view subresource, std::stop_token stop) {
  HttpRequest request;
  request.method = Method::patch;
  request.target = path(kind, key.namespace_, key.name, subresource);
  addQuery(request.target, "fieldManager", options_.fieldManager);
  request.headers.emplace_back("Content-Type", contentType(type));
  request.body = body;
  request.timeout = options_.requestTimeout;
  return exchange(request, Purpose{"patch", kind.plural, true}, std::move(stop));
}

Result<HttpResponse> Client::replaceRaw(const core::Kind& kind, const core::ObjectKey& key, std::string body,
                                        std::string_view subresource, std::stop_token stop) {
  HttpRequest request;
  request.method = Method::put;
  request.target = path(kind, key.namespace_, key.name, subresource);
  addQuery(request.target, "fieldManager", options_.fieldManager);
  request.body = std::move(body);
  request.timeout = options_.requestTimeout;
  return exchange(request, Purpose{"update", kind.plural, true}, std::move(stop));
}

Result<HttpResponse> Client::removeRaw(const core::Kind& kind, const core::ObjectKey& key, std::string_view options,
                                       std::stop_token stop) {
  HttpRequest request;
  request.method = Method::del;
  request.target = path(kind, key.namespace_, key.name);
  request.body = options;
  request.timeout = options_.requestTimeout;
  return exchange(request, Purpose{"delete", kind.plural, true}, std::move(stop));
}

Result<codec::ListMeta> Client::listRaw(const core::Kind& kind, const ListOptions& options, const PageDecoder& decode,
                                        const std::function<void()>& restart, std::stop_token stop) {
  std::string version = options.resourceVersion;
  int64_t limit = options.limit;
  std::string next = options.continueToken;
  bool anyPage = !next.empty(), startedOver = false, withoutVersion = false;
  const auto startOver = [&] {
    next.clear();
    if (anyPage && restart) restart();
    anyPage = false;
  };
  for (;;) {
    HttpRequest request;
    request.target = path(kind, options.namespace_);
    request.timeout = options_.listTimeout;
    addQuery(request.target, "labelSelector", options.labelSelector);
    addQuery(request.target, "fieldSelector", options.fieldSelector);
    if (limit > 0) addQuery(request.target, "limit", std::to_string(limit));
    if (!next.empty()) {
      addQuery(request.target, "continue", next);  // the server refuses it together with a version
    } else if (!version.empty()) {
      addQuery(request.target, "resourceVersion", version);
      addQuery(request.target, "resourceVersionMatch", "NotOlderThan");
    }
    auto answer = exchange(request, Purpose{"list", kind.plural, false}, stop);
    if (!answer) {
      const Code code = answer.status().code();
      if (code == Code::expired && !next.empty() && !startedOver) {
        // The snapshot behind `continue` is gone: list again in one piece, which can't expire midway.
        startedOver = true;
        limit = 0;
        startOver();
        continue;
      }
      if (code == Code::tooLarge && !version.empty() && !withoutVersion) {
        withoutVersion = true;
        version.clear();
        startOver();
        continue;
      }
      return answer.status();
    }
    anyPage = true;
    auto meta = decode(answer->body);
    if (!meta || meta->continueToken.empty()) return meta;
    if (meta->continueToken == next) return Status(Code::malformed, "the list's continue token repeats itself");
    if (options.onePage) return meta;
    next = std::move(meta->continueToken);
  }
}

template <class T>
Result<T> Client::decodeWritten(Result<HttpResponse> answer) {
  if (!answer) return answer.status();
  auto object = codec::decode<T>(answer->body);
  if (object) return object;
  Status unknown(Code::unknownOutcome, "the answer to a write can't be read: " + object.status().message());
  unknown.http = answer->status;
  return unknown;
}

template <class T>
Result<T> Client::get(const core::ObjectKey& key, std::stop_token stop) {
  auto answer = getRaw(core::kindOf<T>, key, std::move(stop));
  if (!answer) return answer.status();
  return codec::decode<T>(answer->body);
}

template <class T>
Result<codec::ListMeta> Client::list(const ListOptions& options, const std::function<void(T&&)>& each,
                                     const std::function<void()>& restart, std::stop_token stop) {
  return listRaw(
      inVersion(core::kindOf<T>, options.version), options,
      [&each](std::string_view body) { return codec::decodeList<T>(body, each); }, restart, std::move(stop));
}

template <class T>
Result<std::vector<T>> Client::listAll(const ListOptions& options, std::stop_token stop) {
  std::vector<T> all;
  auto meta = list<T>(
      options, [&all](T&& object) { all.push_back(std::move(object)); }, [&all] { all.clear(); }, std::move(stop));
  if (!meta) return meta.status();
  return all;
}

template <class T>
Result<T> Client::create(const T& object, std::stop_token stop) {
  return decodeWritten<T>(
      createRaw(core::kindOf<T>, object.metadata.namespace_, codec::encode<T>(object), std::move(stop)));
}

template <class T>
Result<T> Client::patch(const core::ObjectKey& key, PatchType type, std::string_view body, std::string_view subresource,
                        std::stop_token stop) {
  return decodeWritten<T>(patchRaw(core::kindOf<T>, key, type, body, subresource, std::move(stop)));
}

template <class T>
Result<T> Client::replace(const T& object, std::string_view subresource, std::stop_token stop) {
  return decodeWritten<T>(replaceRaw(core::kindOf<T>, core::keyOf(object.metadata), codec::encode<T>(object),
                                     subresource, std::move(stop)));
}

template <class T>
Status Client::remove(const core::ObjectKey& key, std::string_view options, std::stop_token stop,
                      std::optional<T>* left) {
  auto answer = removeRaw(core::kindOf<T>, key, options, std::move(stop));
  if (!answer) return answer.status();
  if (left == nullptr) return {};
  left->reset();
  // An object without finalizers is gone: the answer is a Status, without deletionTimestamp and finalizers.
  auto object = codec::decode<T>(answer->body);
  if (object.ok() && object->metadata.deleting() && !object->metadata.finalizers.empty()) *left = std::move(*object);
  return {};
}

// NOLINTBEGIN(bugprone-macro-parentheses): a type can't stand in them.
#define EGPU_CLIENT(T)                                                                                       \
  template Result<T> Client::get<T>(const core::ObjectKey&, std::stop_token);                                \
  template Result<codec::ListMeta> Client::list<T>(const ListOptions&, const std::function<void(T &&)>&,     \
                                                   const std::function<void()>&, std::stop_token);           \
  template Result<std::vector<T>> Client::listAll<T>(const ListOptions&, std::stop_token);                   \
  template Result<T> Client::create<T>(const T&, std::stop_token);                                           \
  template Result<T> Client::patch<T>(const core::ObjectKey&, PatchType, std::string_view, std::string_view, \
                                      std::stop_token);                                                      \
  template Result<T> Client::replace<T>(const T&, std::string_view, std::stop_token);                        \
  template Status Client::remove<T>(const core::ObjectKey&, std::string_view, std::stop_token, std::optional<T>*)
// NOLINTEND(bugprone-macro-parentheses)

EGPU_CLIENT(v1alpha::ElasticGPU);
EGPU_CLIENT(v1alpha::ElasticGPUClaim);
EGPU_CLIENT(v1alpha::ElasticGPUClass);
EGPU_CLIENT(v1alpha::ElasticGPUQuota);
EGPU_CLIENT(v1alpha::ElasticGPUClaimTemplate);
EGPU_CLIENT(core::ResourceClaimTemplate);
EGPU_CLIENT(core::Namespace);
EGPU_CLIENT(core::PriorityClass);
EGPU_CLIENT(core::Node);
EGPU_CLIENT(core::Pod);
EGPU_CLIENT(core::ResourceClaim);
EGPU_CLIENT(core::PersistentVolumeClaim);
EGPU_CLIENT(core::PersistentVolume);
EGPU_CLIENT(core::DeviceClass);
EGPU_CLIENT(core::DeviceTaintRule);
EGPU_CLIENT(core::PodGroup);
EGPU_CLIENT(core::Event);
EGPU_CLIENT(core::Lease);

}  // namespace egpu::kube

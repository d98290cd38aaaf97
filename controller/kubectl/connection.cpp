#include "controller/kubectl/connection.h"

#include <ctime>
#include <utility>

#include "api/v1alpha/keys.h"
#include "controller/base/timestamp.h"
#include "controller/codec/codec.h"
#include "controller/kube/config/kubeconfig.h"
#include "controller/kube/query.h"
#include "controller/kube/transport/curl_transport.h"

namespace egpu::kubectl {

namespace {

constexpr int kPageSize = 500;

/// Seconds since 1970 of an HTTP date ("Fri, 27 Nov 2026 00:50:48 GMT"); 0 if it can't be read.
int64_t httpDate(std::string_view text) {
  std::tm parts{};
  const std::string date(text);
  const char* end = ::strptime(date.c_str(), "%a, %d %b %Y %H:%M:%S GMT", &parts);
  return end == nullptr ? 0 : static_cast<int64_t>(::timegm(&parts));
}

base::Result<Json> parsed(const std::string& body) {
  auto value = Json::parse(body, nullptr, false);
  if (value.is_discarded()) return base::Status(base::Code::malformed, "the API server's answer is not JSON");
  return value;
}

kube::ClientOptions clientOptions() {
  kube::ClientOptions options;
  options.fieldManager = "kubectl-egpu";
  options.userAgent = "kubectl-egpu";
  options.maxAttempts = 3;
  return options;
}

}  // namespace

const Json& at(const Json& object, std::initializer_list<std::string_view> path) {
  static const Json none;
  const Json* here = &object;
  for (const auto name : path) {
    if (!here->is_object()) return none;
    const auto it = here->find(std::string(name));
    if (it == here->end()) return none;
    here = &*it;
  }
  return *here;
}

std::string textAt(const Json& object, std::initializer_list<std::string_view> path) {
  const Json& value = at(object, path);
  return value.is_string() ? value.get<std::string>() : std::string();
}

int64_t numberAt(const Json& object, std::initializer_list<std::string_view> path, int64_t otherwise) {
  const Json& value = at(object, path);
  return value.is_number() ? value.get<int64_t>() : otherwise;
}

std::string withoutKind(const std::string& name, std::string_view singular) {
  const auto slash = name.find('/');
  if (slash == std::string::npos) return name;
  std::string_view kind(name.data(), slash);
  const std::string group = "." + std::string(v1alpha::keys::kGroup);
  if (kind.ends_with(group)) kind.remove_suffix(group.size());
  return kind == singular || kind == std::string(singular) + "s" ? name.substr(slash + 1) : name;
}

std::string nameOf(const Json& object) { return textAt(object, {"metadata", "name"}); }

std::string pathOf(std::string_view groupVersion, std::string_view space, std::string_view plural,
                   std::string_view name) {
  std::string path = groupVersion.find('/') == std::string_view::npos ? "/api/" : "/apis/";
  path += groupVersion;
  if (!space.empty()) path += "/namespaces/" + kube::percentEncode(space);
  path += "/";
  path += plural;
  if (!name.empty()) path += "/" + kube::percentEncode(name);
  return path;
}

Connection::Connection(kube::Endpoint endpoint, std::string space)
    : endpoint_(std::move(endpoint)), space_(std::move(space)) {}

Connection::~Connection() = default;

base::Result<std::unique_ptr<Connection>> Connection::open(const ClientFlags& flags) {
  auto endpoint = kube::loadEndpoint({flags.kubeconfig, flags.context}, kube::Environment::process());
  if (!endpoint) return endpoint.status();
  if (!flags.server.empty()) endpoint->server = flags.server;
  if (!flags.token.empty()) {  // with a client certificate, too, the API server would not read the token
    endpoint = kube::withoutCredentials(std::move(*endpoint));
    endpoint->token = flags.token;
  }
  if (!flags.asUser.empty()) {
    endpoint->impersonateUser = flags.asUser;
    endpoint->impersonateGroups = flags.asGroup;
  } else if (!flags.asGroup.empty()) {
    return base::Status(base::Code::invalid, "--as-group needs --as");
  }
  std::string space = flags.namespace_.empty() ? endpoint->namespace_ : flags.namespace_;
  std::unique_ptr<Connection> made(new Connection(std::move(*endpoint), std::move(space)));
  if (auto status = made->connect(); !status.ok()) return status;
  return made;
}

base::Status Connection::connect() {
  kube::CurlOptions options;
  options.http2 = false;  // the statically linked program has none
  auto transport = kube::curlTransport(endpoint_, clock_, options);
  if (!transport) return transport.status();
  transport_ = std::move(*transport);
  client_ = std::make_unique<kube::Client>(*transport_, clock_, random_, metrics_, clientOptions());
  return base::Status::okay();
}

base::Result<kube::HttpResponse> Connection::exchange(kube::HttpRequest request) const {
  auto answer = client_->call(std::move(request));
  if (answer)
    if (const auto seconds = httpDate(answer->header("date")); seconds > 0) serverTime_ = seconds;
  return answer;
}

base::Result<Json> Connection::get(const std::string& path) const {
  const auto body = text(path);
  if (!body) return body.status();
  return parsed(*body);
}

base::Result<std::string> Connection::text(const std::string& path) const {
  kube::HttpRequest request;
  request.target = path;
  auto answer = exchange(std::move(request));
  if (!answer) return answer.status();
  return std::move(answer->body);
}

base::Result<std::vector<Json>> Connection::list(const std::string& path, const std::string& query) const {
  std::vector<Json> all;
  std::string next;
  do {
    std::string target = path + "?limit=" + std::to_string(kPageSize) + (query.empty() ? "" : "&" + query);
    kube::addQuery(target, "continue", next);
    auto page = get(target);
    if (!page) return page.status();
    const auto kind = textAt(*page, {"kind"});
    for (auto& item : (*page)["items"]) {
      if (kind.ends_with("List") && !item.contains("kind")) item["kind"] = kind.substr(0, kind.size() - 4);
      all.push_back(std::move(item));
    }
    next = textAt(*page, {"metadata", "continue"});
  } while (!next.empty());
  return all;
}

base::Result<Json> Connection::send(kube::Method method, const std::string& path, const Json& body) const {
  kube::HttpRequest request;
  request.method = method;
  request.target = path;
  request.headers.emplace_back("Content-Type",
                               method == kube::Method::patch ? "application/merge-patch+json" : "application/json");
  if (!body.is_null()) request.body = body.dump();
  const auto answer = exchange(std::move(request));
  if (!answer) return answer.status();
  return parsed(answer->body);
}

}  // namespace egpu::kubectl

#include "tests/support/real_handler.h"

#include <cstdlib>
#include <map>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <utility>

#include "controller/kube/config/kubeconfig.h"
#include "controller/kube/transport/curl_transport.h"

namespace egpu::support {

namespace {

using Json = nlohmann::json;

kube::Method methodOf(const std::string& name) {
  for (const auto each :
       {kube::Method::get, kube::Method::post, kube::Method::put, kube::Method::patch, kube::Method::del})
    if (kube::toString(each) == name) return each;
  throw std::runtime_error("no such method: " + name);
}

/// A watch of one collection that lists it again at each read.
class Differences final : public http::BodyStream {
 public:
  Differences(RealHandler& server, std::string path) : server_(server), path_(std::move(path)) {
    (void)readList(known_);
  }

  bool next(std::string& chunk, std::stop_token) override {
    std::map<std::string, Json> now;
    const auto head = readList(now);
    for (const auto& [key, object] : now) {
      const auto before = known_.find(key);
      if (before == known_.end())
        append("ADDED", object, chunk);
      else if (before->second["metadata"]["resourceVersion"] != object["metadata"]["resourceVersion"])
        append("MODIFIED", object, chunk);
    }
    for (auto& [key, object] : known_) {
      if (now.count(key) != 0) continue;
      object["metadata"]["resourceVersion"] = head;
      append("DELETED", object, chunk);
    }
    known_ = std::move(now);
    return true;
  }

 private:
  /// Maps objects by uid: a recreated object is a different one. Returns the list's version.
  std::string readList(std::map<std::string, Json>& into) {
    http::Request request;
    request.method = "GET";
    request.path = path_;
    const auto answer = server_.handle(request, {});
    if (answer.status != 200) throw std::runtime_error(path_ + ": " + answer.body);
    const auto list = Json::parse(answer.body);
    const std::string kind = list.at("kind").get<std::string>();
    for (const auto& item : list.at("items")) {
      Json object = item;
      object["apiVersion"] = list.at("apiVersion");  // lists of built-in kinds omit both
      object["kind"] = kind.substr(0, kind.size() - 4);
      into.emplace(object["metadata"]["uid"].get<std::string>(), std::move(object));
    }
    return list.at("metadata").at("resourceVersion").get<std::string>();
  }
  static void append(const char* type, const Json& object, std::string& chunk) {
    chunk += Json{{"type", type}, {"object", object}}.dump() + "\n";
  }

  RealHandler& server_;
  const std::string path_;
  std::map<std::string, Json> known_;
};

}  // namespace

std::unique_ptr<RealHandler> RealHandler::fromEnvironment() {
  const char* kubeconfig = std::getenv("EGPU_WORLD_KUBECONFIG");
  if (kubeconfig == nullptr) return nullptr;
  auto endpoint = kube::loadEndpoint({kubeconfig, {}}, kube::Environment::process());
  if (!endpoint) throw std::runtime_error(endpoint.status().str());
  std::unique_ptr<RealHandler> made(new RealHandler);
  auto transport = kube::curlTransport(*endpoint, made->clock_);
  if (!transport) throw std::runtime_error(transport.status().str());
  made->transport_ = std::move(*transport);
  made->wipe();
  return made;
}

http::Response RealHandler::handle(const http::Request& request, std::stop_token stop) {
  http::Response out;
  if (request.query.find("watch=true") != std::string::npos) {
    out.stream = std::make_unique<Differences>(*this, request.path);
    return out;
  }
  kube::HttpRequest real;
  real.method = methodOf(request.method);
  real.target = request.path + (request.query.empty() ? "" : "?" + request.query);
  real.headers = request.headers;
  real.body = request.body;
  auto answer = transport_->perform(real, stop);
  if (!answer) throw std::runtime_error(real.target + ": " + answer.status().str());
  if (real.method != kube::Method::get && answer->status < 300) ++writes_;
  out.status = answer->status;
  out.headers = std::move(answer->headers);
  out.body = std::move(answer->body);
  return out;
}

http::Response RealHandler::must(const std::string& method, const std::string& path, const std::string& body) {
  http::Request request;
  request.method = method;
  request.path = path;
  request.body = body;
  if (!body.empty())
    request.headers = {{"content-type", method == "PATCH" ? "application/merge-patch+json" : "application/json"}};
  auto answer = handle(request, {});
  if (answer.status >= 300 && answer.status != 404) throw std::runtime_error(method + " " + path + ": " + answer.body);
  return answer;
}

void RealHandler::wipe() {
  const std::string ours = "/apis/elasticgpu.io/v1alpha/", core = "/api/v1/",
                    resourceClaims = "/apis/resource.k8s.io/v1/";
  // group and version, resource, whether it is namespaced
  const std::tuple<std::string, std::string, bool> kinds[] = {
      {core, "pods", true},
      {ours, "elasticgpuclaimtemplates", true},
      {resourceClaims, "resourceclaimtemplates", true},
      {ours, "elasticgpuclaims", true},
      {ours, "elasticgpuquotas", true},
      {resourceClaims, "resourceclaims", true},
      {ours, "elasticgpus", false},
      {ours, "elasticgpuclasses", false},
      {core, "nodes", false},
      {core, "persistentvolumeclaims", true},
      {core, "persistentvolumes", false},
  };
  for (const auto& [group, plural, namespaced] : kinds) {
    const auto list = Json::parse(must("GET", group + plural).body);
    for (const auto& item : list.at("items")) {
      const auto& meta = item.at("metadata");
      const std::string path = group +
                               (namespaced ? "namespaces/" + meta.at("namespace").get<std::string>() + "/" : "") +
                               plural + "/" + meta.at("name").get<std::string>();
      if (meta.contains("finalizers")) must("PATCH", path, R"({"metadata":{"finalizers":null}})");
      must("DELETE", path, R"({"gracePeriodSeconds":0})");
    }
  }
  writes_ = 0;
}

}  // namespace egpu::support

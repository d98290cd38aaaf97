#include "tests/kube/contract/server.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <stdexcept>
#include <utility>

#include "controller/base/files.h"
#include "controller/codec/codec.h"
#include "controller/kube/config/kubeconfig.h"
#include "controller/kube/transport/curl_transport.h"

namespace egpu::kube {

namespace {

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

[[noreturn]] void fail(const std::string& what) { throw std::runtime_error(what); }

std::unique_ptr<ContractServer>& instance() {
  static std::unique_ptr<ContractServer> server;
  return server;
}

/// Ends the server while everything that it uses still exists.
class Ending final : public ::testing::Environment {
  void TearDown() override { instance().reset(); }
};
const auto* const ending = ::testing::AddGlobalTestEnvironment(new Ending);

constexpr const char* kOrdinaryGroup = "contract-tests";

}  // namespace

ContractServer& ContractServer::get() {
  if (!instance()) instance().reset(new ContractServer);
  return *instance();
}

ContractServer::ContractServer() {
  (void)ending;
  const std::string kubeconfig = variable("EGPU_CONTRACT_KUBECONFIG");
  if (kubeconfig.empty())
    embed();
  else
    adopt(kubeconfig);
}

ContractServer::~ContractServer() {
  if (listener_) listener_->stop();
}

void ContractServer::embed() {
  apiserver::Options options;
  options.bookmarkInterval = std::chrono::milliseconds(200);
  options.maxInFlight = kInFlight;
  options.admission.push_back([this](std::string_view, std::string_view, std::string&, std::string_view) {
    std::function<void()> hook;
    {
      std::lock_guard lock(mutex_);
      hook = hook_;
    }
    if (hook) hook();
    return base::Status::okay();
  });
  auto server = apiserver::Server::create(options, clock_, random_);
  if (!server) fail(server.status().str());
  embedded_ = std::move(*server);
  auto listener = http::listen("127.0.0.1:0", *embedded_);
  if (!listener) fail(listener.status().str());
  listener_ = std::move(*listener);
  endpoint_.server = "http://" + listener_->address();
}

void ContractServer::adopt(const std::string& kubeconfig) {
  auto endpoint = loadEndpoint({kubeconfig, {}}, Environment::process());
  if (!endpoint) fail(endpoint.status().str());
  endpoint_ = std::move(*endpoint);
  etcd_ = variable("EGPU_CONTRACT_ETCD");
  if (etcd_.empty()) fail("EGPU_CONTRACT_ETCD is not set: history can't be compacted");
  auto transport = curlTransport(endpoint_, clock_);
  if (!transport) fail(transport.status().str());
  Client client(**transport, clock_, random_, metrics_);
  installCrds(client);
  must(client, Method::post, "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
       std::string(R"({"metadata":{"name":"contract-tests"},"roleRef":{"apiGroup":"rbac.authorization.k8s.io",)") +
           R"("kind":"ClusterRole","name":"cluster-admin"},"subjects":[{"apiGroup":"rbac.authorization.k8s.io",)" +
           R"("kind":"Group","name":")" + kOrdinaryGroup + "\"}]}");
}

/// Objects of an earlier run are accepted.
void ContractServer::must(Client& client, Method method, const std::string& target, const std::string& body) {
  HttpRequest request;
  request.method = method;
  request.target = target;
  request.body = body;
  const auto answer = client.call(request);
  if (!answer && answer.status().code() != base::Code::alreadyExists) fail(target + ": " + answer.status().str());
}

void ContractServer::installCrds(Client& client) {
  for (const auto& each : std::filesystem::directory_iterator(EGPU_SOURCE_DIR "/manifests/crd")) {
    if (each.path().filename().string().rfind("elasticgpu.io_", 0) != 0) continue;
    auto json = codec::yamlToJson(*base::readFile(each.path()));
    if (!json) fail(each.path().string() + ": " + json.status().str());
    must(client, Method::post, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", *json);
  }
  // CRDs become established a moment later.
  for (const auto* kind : {&core::kindOf<v1alpha::ElasticGPU>, &core::kindOf<v1alpha::ElasticGPUClaim>,
                           &core::kindOf<v1alpha::ElasticGPUClass>, &core::kindOf<v1alpha::ElasticGPUQuota>}) {
    HttpRequest list;
    list.target = Client::path(*kind, {});
    for (int tries = 0;; ++tries) {
      const auto answer = client.call(list);
      if (answer) break;
      if (tries == 300) fail(list.target + ": " + answer.status().str());
      clock_.sleepFor(std::chrono::milliseconds(100), {});
    }
  }
}

Endpoint ContractServer::ordinaryUser() const {
  Endpoint endpoint = endpoint_;
  if (!real()) return endpoint;
  endpoint.impersonateUser = "contract-test";
  endpoint.impersonateGroups = {kOrdinaryGroup};
  return endpoint;
}

void ContractServer::onWrite(std::function<void()> hook) {
  std::lock_guard lock(mutex_);
  hook_ = std::move(hook);
}

void ContractServer::compact() {
  if (embedded_) {
    embedded_->compact();
    return;
  }
  Endpoint endpoint;
  endpoint.server = etcd_;
  auto transport = curlTransport(endpoint, clock_);
  if (!transport) fail(transport.status().str());
  const auto post = [&](const std::string& target, const std::string& body) {
    HttpRequest request;
    request.method = Method::post;
    request.target = target;
    request.body = body;
    request.headers = {{"Content-Type", "application/json"}};
    auto answer = (*transport)->perform(request, {});
    if (!answer) fail(answer.status().str());
    if (answer->status != 200) fail(target + ": " + answer->body);
    return answer->body;
  };
  const std::string head = post("/v3/kv/range", R"({"key":"AA=="})");
  const std::string mark = "\"revision\":\"";
  const auto at = head.find(mark);
  if (at == std::string::npos) fail("etcd says no revision: " + head);
  const std::string revision = head.substr(at + mark.size(), head.find('"', at + mark.size()) - at - mark.size());
  post("/v3/kv/compaction", R"({"revision":")" + revision + R"(","physical":true})");
}

std::string ContractServer::makeNamespace() {
  auto transport = curlTransport(endpoint_, clock_);
  if (!transport) fail(transport.status().str());
  Client client(**transport, clock_, random_, metrics_);
  core::Namespace object;
  object.metadata.name = "contract-" + random_.suffix(10);
  auto made = client.create(object);
  if (!made) fail("namespace: " + made.status().str());
  return object.metadata.name;
}

}  // namespace egpu::kube

// An API server is restored from a backup under the running controller: its versions go back, deleted objects exist
// again, and objects created after the backup are missing.
#include <gtest/gtest.h>
#include <stdlib.h>

#include <condition_variable>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "controller/reconcile/controller.h"
#include "controller/standalone/apiserver/server.h"
#include "tests/support/driver.h"

namespace egpu::reconcile {
namespace {

/// The connection to a server that disappears and returns, possibly as a different one.
class ServerLine final : public kube::Transport {
 public:
  /// Connects to the server; null: no server answers. Ends every request to the previous server.
  void lead(http::Handler* server) {
    std::unique_lock lock(mutex_);
    server_ = nullptr;
    cut_.request_stop();
    changed_.wait(lock, [this] { return inside_ == 0; });
    cut_ = std::stop_source();
    server_ = server;
  }
  base::Result<kube::HttpResponse> perform(const kube::HttpRequest& request, std::stop_token stop) override {
    return with(stop, [&](support::HandlerTransport& there, std::stop_token until) {
      return there.perform(request, std::move(until));
    });
  }
  base::Result<kube::HttpResponse> stream(const kube::HttpRequest& request,
                                          const std::function<bool(std::string_view)>& data,
                                          std::stop_token stop) override {
    return with(stop, [&](support::HandlerTransport& there, std::stop_token until) {
      return there.stream(request, data, std::move(until));
    });
  }

 private:
  template <class Fn>
  base::Result<kube::HttpResponse> with(const std::stop_token& stop, Fn&& exchange) {
    std::unique_lock lock(mutex_);
    if (server_ == nullptr) return base::Status(base::Code::unavailable, "connection refused");
    support::HandlerTransport there(*server_);
    std::stop_source until;
    const std::stop_callback stopped(stop, [&] { until.request_stop(); });
    const std::stop_callback cut(cut_.get_token(), [&] { until.request_stop(); });
    ++inside_;
    lock.unlock();
    auto answer = exchange(there, until.get_token());
    lock.lock();
    --inside_;
    changed_.notify_all();
    if (!answer.ok() && !stop.stop_requested()) return base::Status(base::Code::unknownOutcome, "connection lost");
    return answer;
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  http::Handler* server_ = nullptr;
  std::stop_source cut_;
  int inside_ = 0;
};

class RestoredControllerTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = ::testing::TempDir() + "egpu-restore-XXXXXX";
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    folder = pattern;
    registry.add(plugin);
    open("live");
    post("/api/v1/nodes", R"({"metadata":{"name":"n1"}})");
    send("PATCH", "/api/v1/nodes/n1/status",
         R"({"status":{"allocatable":{"cpu":"64","memory":"256Gi","pods":"110"},)"
         R"("conditions":[{"type":"Ready","status":"True"}]}})");
    for (const std::string name : {"gpu-1", "gpu-2"})
      post("/apis/elasticgpu.io/v1alpha/elasticgpus",
           R"({"metadata":{"name":")" + name +
               R"(","labels":{"elasticgpu.io/role":"card","elasticgpu.io/node":"n1"},)" +
               R"("finalizers":["elasticgpu.io/ledger"]},)" + R"("spec":{"physicalGPU":{"gpuNames":[")" + name +
               R"("]},"card":{"uuid":")" + name +
               R"(","nodeName":"n1","index":0,"model":"T4","core":1000,"memory":17179869184}}})");
    post("/apis/elasticgpu.io/v1alpha/elasticgpuclasses",
         R"({"metadata":{"name":"share"},"provisioner":"gpushare.provisioner.elasticgpu.io"})");
    ControllerOptions options;
    options.workers = 4;
    controller = std::make_unique<Controller>(client, registry, clock, events, metrics, options);
    controller->start();
    ASSERT_TRUE(controller->waitUntilReady());
  }
  void TearDown() override {
    if (controller) controller->stop();
    registry.forgetListeners();
    line.lead(nullptr);
    server.reset();
    std::filesystem::remove_all(folder);
  }
  void open(const std::string& name) {
    apiserver::Options options;
    options.priorityAdmission = false;  // as in tests/reconcile/real_server.py: pods here have plain priorities
    options.dataDirectory = folder + "/" + name;
    auto made = apiserver::Server::create(options, clock, random);
    ASSERT_TRUE(made.ok()) << made.status().str();
    server = std::move(*made);
    line.lead(server.get());
  }
  void close() {
    line.lead(nullptr);
    server.reset();
  }
  /// Sends a request. Bodies omit kind and version, which the path determines.
  http::Response send(const std::string& method, const std::string& path, const std::string& body = {}) {
    http::Request request;
    request.method = method;
    request.path = path;
    request.headers = {{"content-type", method == "PATCH" ? "application/merge-patch+json" : "application/json"}};
    request.body = body;
    auto answer = server->handle(request, {});
    EXPECT_LT(answer.status, 300) << answer.body;
    return answer;
  }
  void post(const std::string& path, const std::string& body) { send("POST", path, body); }
  void addClaim(const std::string& name) {
    post("/apis/elasticgpu.io/v1alpha/namespaces/default/elasticgpuclaims",
         R"({"metadata":{"name":")" + name +
             R"("},"spec":{"egpuClassName":"share","resources":{"requests":{"elasticgpu.io/gpu-core":"20"}}}})");
  }
  void removeClaim(const std::string& name) {
    send("DELETE", "/apis/elasticgpu.io/v1alpha/namespaces/default/elasticgpuclaims/" + name);
  }
  /// Claims that are Bound in the controller's cache; other claims have a "?" appended.
  std::set<std::string> claims() const {
    std::set<std::string> out;
    controller->stores().claims.forEach(
        [&](const auto& c) { out.insert(c->metadata.name + (c->status.phase == "Bound" ? "" : "?")); });
    return out;
  }
  std::size_t devices() const { return controller->stores().devices.size(); }
  int64_t used() const { return controller->cluster().allocationMap().totals().usedCore; }
  bool comesTrue(const std::function<bool()>& holds) {
    const auto deadline = clock.now() + std::chrono::seconds(60);
    while (!holds()) {
      if (clock.now() > deadline) return false;
      clock.sleepFor(std::chrono::milliseconds(5), {});
    }
    return true;
  }
  using Names = std::set<std::string>;

  std::string folder;
  base::SystemClock clock;
  base::Random random{7};
  base::NoMetrics metrics;
  std::unique_ptr<apiserver::Server> server;
  ServerLine line;
  kube::Client client{line, clock, random, metrics};
  support::EventLog events;
  support::FakeProvisioner plugin{"gpushare.provisioner.elasticgpu.io"};
  support::FakeRegistry registry;
  std::unique_ptr<Controller> controller;
};

TEST_F(RestoredControllerTest, ShowsWhatIsThereAndGoesOn) {
  addClaim("old");
  addClaim("again");
  ASSERT_TRUE(comesTrue([&] {
    return claims() == Names{"again", "old"};
  })) << send("GET", "/apis/elasticgpu.io/v1alpha/elasticgpuclaims").body;
  close();
  std::filesystem::copy(folder + "/live", folder + "/backup", std::filesystem::copy_options::recursive);
  open("live");

  removeClaim("old");
  removeClaim("again");
  ASSERT_TRUE(comesTrue([&] { return claims().empty() && devices() == 0; }));
  addClaim("again");  // another uid under the same name
  for (const char* name : {"new1", "new2", "new3"}) addClaim(name);
  ASSERT_TRUE(comesTrue([&] { return claims() == Names{"again", "new1", "new2", "new3"}; }));
  const auto newest = server->resourceVersion();

  close();
  open("backup");
  ASSERT_LT(server->resourceVersion(), newest);
  EXPECT_TRUE(comesTrue([&] { return claims() == Names{"again", "old"} && devices() == 2 && used() == 400; }));
  addClaim("new1");
  EXPECT_TRUE(comesTrue([&] { return claims() == Names{"again", "new1", "old"} && devices() == 3 && used() == 600; }));
  removeClaim("old");
  EXPECT_TRUE(comesTrue([&] { return claims() == Names{"again", "new1"} && devices() == 2 && used() == 400; }));
}

}  // namespace
}  // namespace egpu::reconcile

// Replicas on one API server: which one leads, which one stands by with synced caches, and how leadership ends.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <string>
#include <thread>

#include "controller/cmd/compose.h"
#include "controller/http/http.h"
#include "controller/kube/transport/curl_transport.h"
#include "controller/standalone/apiserver/server.h"

namespace egpu::cmd {
namespace {

using std::chrono::milliseconds;
using ::testing::HasSubstr;

class ElectionTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto made = apiserver::Server::create({}, clock, random);
    ASSERT_TRUE(made.ok()) << made.status().str();
    server = std::move(*made);
    auto listening = http::listen("127.0.0.1:0", *server);
    ASSERT_TRUE(listening.ok()) << listening.status().str();
    listener = std::move(*listening);
    transport = connect("http://" + listener->address());
    client = std::make_unique<kube::Client>(*transport, clock, random, metrics);
  }
  std::unique_ptr<kube::Transport> connect(const std::string& url) {
    kube::Endpoint endpoint;
    endpoint.server = url;
    auto made = kube::curlTransport(endpoint, clock);
    EXPECT_TRUE(made.ok()) << made.status().str();
    return std::move(*made);
  }
  /// Durations that a slow machine does not exceed; only the lease is read frequently.
  static CoreOptions replica(const std::string& name) {
    CoreOptions options;
    options.workers = 2;
    options.plugins = EGPU_BIN_DIR "/../lib/provisioners";
    options.opsListen = "127.0.0.1:0";
    options.election.emplace();
    options.election->namespace_ = "default";
    options.election->identity = name;
    options.election->leaseDuration = milliseconds(120'000);
    options.election->renewDeadline = milliseconds(100'000);
    options.election->retryPeriod = milliseconds(50);
    return options;
  }
  void holdLease(const std::string& by) {
    core::Lease lease;
    lease.metadata.namespace_ = "default";
    lease.metadata.name = "elastic-gpu-controller";
    lease.holderIdentity = by;
    lease.leaseDurationSeconds = 3600;
    ASSERT_TRUE(client->create(lease).ok());
  }
  void patchHolder(const std::string& to) {
    const auto done = client->patch<core::Lease>({"default", "elastic-gpu-controller"}, kube::PatchType::merge,
                                                 R"({"spec":{"holderIdentity":")" + to + "\"}}");
    ASSERT_TRUE(done.ok()) << done.status().str();
  }
  std::string holder() {
    const auto lease = client->get<core::Lease>({"default", "elastic-gpu-controller"});
    return lease ? lease->holderIdentity : "(" + lease.status().str() + ")";
  }
  std::string ask(const Core& core, const std::string& path) {
    kube::HttpRequest request;
    request.target = path;
    const auto answer = connect("http://" + core.opsAddress())->perform(request, {});
    return answer ? std::to_string(answer->status) + " " + answer->body : answer.status().str();
  }
  template <class Predicate>
  static void waitUntil(Predicate&& done) {
    while (!done()) std::this_thread::sleep_for(milliseconds(5));
  }

  base::SystemClock clock;
  base::Random random;
  base::NoMetrics metrics;
  std::unique_ptr<apiserver::Server> server;
  std::unique_ptr<http::Listener> listener;
  std::unique_ptr<kube::Transport> transport;
  std::unique_ptr<kube::Client> client;
};

TEST_F(ElectionTest, AStandbyIsReadyMirrorsAndWritesNothingUntilItLeads) {
  holdLease("another");
  Core core(*transport, clock, random, replica("a"));
  ASSERT_TRUE(core.start().ok());
  ASSERT_TRUE(core.announce().ok());
  EXPECT_EQ(ask(core, "/readyz"), "200 ok: standby\n");
  EXPECT_THAT(ask(core, "/metrics"), HasSubstr("elasticgpu_leader 0"));

  v1alpha::ElasticGPUClaim claim;
  claim.metadata.namespace_ = "default";
  claim.metadata.name = "c";
  claim.spec.className = "no-such-class";
  claim.spec.requests = {{"elasticgpu.io/gpu-core", "10"}};
  const auto made = client->create(claim);
  ASSERT_TRUE(made.ok()) << made.status().str();
  waitUntil([&] { return core.controller().stores().claims.get({"default", "c"}) != nullptr; });
  EXPECT_EQ(core.controller().queueDepth(), 0U);  // queued keys would only accumulate
  EXPECT_EQ(client->get<v1alpha::ElasticGPUClaim>({"default", "c"})->metadata.resourceVersion,
            made->metadata.resourceVersion);

  patchHolder("");
  // Changes during the standby are processed now: the claim's condition reports that its class is missing.
  waitUntil([&] { return !client->get<v1alpha::ElasticGPUClaim>({"default", "c"})->status.conditions.empty(); });
  EXPECT_EQ(ask(core, "/readyz"), "200 ok: leader\n");
  EXPECT_THAT(ask(core, "/metrics"), HasSubstr("elasticgpu_leader 1"));
  EXPECT_EQ(holder(), "a");
  core.stop();
  EXPECT_EQ(holder(), "");
}

TEST_F(ElectionTest, AnOrderlyEndHandsOver) {
  Core first(*transport, clock, random, replica("a"));
  ASSERT_TRUE(first.start().ok());
  ASSERT_TRUE(first.announce().ok());
  waitUntil([&] { return holder() == "a"; });
  Core second(*transport, clock, random, replica("b"));
  ASSERT_TRUE(second.start().ok());
  ASSERT_TRUE(second.announce().ok());
  EXPECT_EQ(ask(second, "/readyz"), "200 ok: standby\n");
  first.stop();
  EXPECT_FALSE(first.leaseLost());
  waitUntil([&] { return holder() == "b"; });
  EXPECT_FALSE(second.leaseLost());
}

TEST_F(ElectionTest, ALostLeaseEndsTheWorkAndIsReported) {
  Core core(*transport, clock, random, replica("a"));
  std::atomic<bool> reported{false};
  ASSERT_TRUE(core.start([&] { reported = true; }).ok());
  ASSERT_TRUE(core.announce().ok());
  waitUntil([&] { return holder() == "a"; });
  patchHolder("thief");
  waitUntil([&] { return reported.load(); });
  EXPECT_TRUE(core.leaseLost());
  EXPECT_EQ(ask(core, "/healthz").substr(0, 3), "503");
  core.stop();
  EXPECT_EQ(holder(), "thief");
}

TEST_F(ElectionTest, WithoutElectionThereIsNoLease) {
  auto options = replica("a");
  options.election.reset();
  Core core(*transport, clock, random, options);
  ASSERT_TRUE(core.start().ok());
  ASSERT_TRUE(core.announce().ok());
  EXPECT_EQ(ask(core, "/readyz"), "200 ok\n");
  EXPECT_EQ(client->get<core::Lease>({"default", "elastic-gpu-controller"}).status().code(), base::Code::notFound);
}

TEST_F(ElectionTest, AStopEndsTheWaitForAServerThatDoesNotAnswer) {
  const auto nowhere = connect("http://127.0.0.1:1");
  Core core(*nowhere, clock, random, replica("a"));
  ASSERT_TRUE(core.start().ok());
  std::jthread announcing([&](std::stop_token stop) { EXPECT_EQ(core.announce(stop).code(), base::Code::cancelled); });
  announcing.request_stop();
  announcing.join();
  core.stop();
}

}  // namespace
}  // namespace egpu::cmd

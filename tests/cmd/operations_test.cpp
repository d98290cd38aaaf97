// The operations and probe ports of the whole controller on an embedded API server.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "controller/cmd/compose.h"
#include "controller/kube/transport/curl_transport.h"
#include "controller/standalone/apiserver/server.h"
#include "tests/support/handler_transport.h"

namespace egpu::cmd {
namespace {

using ::testing::HasSubstr;

/// Holds back patches of claims' status while the test sets it.
class HoldingTransport final : public support::HandlerTransport {
 public:
  using HandlerTransport::HandlerTransport;
  base::Result<kube::HttpResponse> perform(const kube::HttpRequest& request, std::stop_token stop) override {
    if (request.method == kube::Method::patch && request.target.find("elasticgpuclaims") != std::string::npos) {
      std::unique_lock lock(mutex_);
      if (holds_) ++held;
      released_.wait(lock, stop, [this] { return !holds_; });
    }
    return HandlerTransport::perform(request, stop);
  }
  void release() {
    {
      const std::lock_guard lock(mutex_);
      holds_ = false;
    }
    released_.notify_all();
  }
  std::atomic<int> held{0};

 private:
  std::mutex mutex_;
  std::condition_variable_any released_;
  bool holds_ = true;
};

class CoreOperationsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto made = apiserver::Server::create({}, clock, random);
    ASSERT_TRUE(made.ok()) << made.status().str();
    server = std::move(*made);
    transport = std::make_unique<HoldingTransport>(*server);
    client = std::make_unique<kube::Client>(*transport, clock, random, metrics);
    options.workers = 2;
    options.plugins = EGPU_BIN_DIR "/../lib/provisioners";
    options.opsListen = "127.0.0.1:0";
  }
  /// Returns "200 body".
  std::string ask(const std::string& address, const std::string& path) {
    kube::Endpoint endpoint;
    endpoint.server = "http://" + address;
    const auto to = kube::curlTransport(endpoint, wallClock);
    kube::HttpRequest request;
    request.target = path;
    const auto answer = (*to)->perform(request, {});
    return answer ? std::to_string(answer->status) + " " + answer->body : answer.status().str();
  }
  void startWith(Core& core) {
    ASSERT_TRUE(core.start().ok());
    ASSERT_TRUE(core.announce().ok());
  }

  base::ManualClock clock;
  base::SystemClock wallClock;
  base::Random random;
  base::NoMetrics metrics;
  CoreOptions options;
  std::unique_ptr<apiserver::Server> server;
  std::unique_ptr<HoldingTransport> transport;
  std::unique_ptr<kube::Client> client;
};

TEST_F(CoreOperationsTest, ProbesHaveAPortOfTheirOwnWhichServesNothingElse) {
  Core core(*transport, clock, random, options);
  startWith(core);
  EXPECT_NE(core.probesAddress(), core.opsAddress());
  for (const char* path : {"/healthz", "/livez", "/readyz"}) EXPECT_EQ(ask(core.probesAddress(), path), "200 ok\n");
  for (const char* path : {"/metrics", "/allocation-map", "/forecast"})
    EXPECT_THAT(ask(core.probesAddress(), path), HasSubstr("404 ")) << path;
  transport->release();
}

TEST_F(CoreOperationsTest, CallersMustBeKnownUnlessTheOptionsStateOtherwise) {
  {
    Core core(*transport, clock, random, options);
    startWith(core);
    EXPECT_THAT(ask(core.opsAddress(), "/allocation-map"), HasSubstr("401 "));
    EXPECT_THAT(ask(core.opsAddress(), "/metrics"), HasSubstr("elasticgpu_build_info{version="));
  }
  options.opsAuth = false;
  Core core(*transport, clock, random, options);
  startWith(core);
  EXPECT_THAT(ask(core.opsAddress(), "/allocation-map"), HasSubstr("200 "));
  transport->release();
}

TEST_F(CoreOperationsTest, AStuckWorkerFailsLivenessAndIsNamed) {
  Core core(*transport, clock, random, options);
  startWith(core);
  v1alpha::ElasticGPUClaim claim;
  claim.metadata.namespace_ = "default";
  claim.metadata.name = "c";
  claim.spec.className = "no-such-class";
  claim.spec.requests = {{"elasticgpu.io/gpu-core", "10"}};
  ASSERT_TRUE(client->create(claim).ok());
  while (transport->held == 0) std::this_thread::yield();
  clock.advance(Core::kStuck - std::chrono::seconds(1));
  EXPECT_EQ(ask(core.probesAddress(), "/livez"), "200 ok\n");
  clock.advance(std::chrono::seconds(2));
  // A plugin's key may still be in progress beside the claim's, and be the one that is named.
  auto answer = ask(core.probesAddress(), "/livez");
  for (int i = 0; i < 200 && answer.find("at claim/") == std::string::npos; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    answer = ask(core.probesAddress(), "/livez");
  }
  EXPECT_THAT(answer, HasSubstr("503 a worker is stuck: it has been at claim/default/c for"));
  EXPECT_THAT(ask(core.probesAddress(), "/healthz"), HasSubstr("503 "));
  transport->release();
  while (ask(core.probesAddress(), "/livez") != "200 ok\n") std::this_thread::yield();
}

TEST_F(CoreOperationsTest, CardsHaveSeriesOnlyWhereTheyAreAskedForAndNotTooMany) {
  const std::string series = "elasticgpu_card_core_allocated_millicards{";
  const auto addCards = [this](int64_t from, int64_t to) {
    for (int64_t i = from; i < to; ++i) {
      v1alpha::ElasticGPU card;
      card.metadata.name = "gpu-" + std::to_string(i);
      card.spec.card.emplace();
      card.spec.card->uuid = "GPU-" + std::to_string(i);
      card.spec.card->nodeName = "n" + std::to_string(i / 8);
      card.spec.card->index = i % 8;
      card.spec.card->memory = int64_t{1} << 34;
      ASSERT_TRUE(client->create(card).ok());
    }
  };
  const auto metricsText = [this] {
    Core core(*transport, clock, random, options);
    startWith(core);
    return ask(core.opsAddress(), "/metrics");
  };
  addCards(0, kMaxCardSeries);
  auto text = metricsText();
  EXPECT_THAT(text, HasSubstr("elasticgpu_cards{state=\"free\"}"));
  EXPECT_EQ(text.find(series), std::string::npos);
  options.cardMetrics = true;
  EXPECT_NE(metricsText().find(series), std::string::npos);
  addCards(kMaxCardSeries, kMaxCardSeries + 1);
  text = metricsText();
  EXPECT_THAT(text, HasSubstr("elasticgpu_cards{state=\"free\"}"));
  EXPECT_EQ(text.find(series), std::string::npos);
  transport->release();
}

}  // namespace
}  // namespace egpu::cmd

// Shared by the tests of a node's cards: a plugin whose answers the test sets, and an API server.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "controller/agent/cards/publisher.h"
#include "controller/kube/client.h"
#include "controller/standalone/apiserver/server.h"
#include "tests/support/handler_transport.h"
#include "tests/support/refusing_transport.h"

namespace egpu::agent::cards {

inline constexpr int64_t kGiB = int64_t{1} << 30;

inline plugin::Gpu gpu(const std::string& uuid, int64_t index = 0) {
  plugin::Gpu out;
  out.uuid = uuid;
  out.model = "A100-SXM4-80GB";
  out.index = index;
  out.memory = 80 * kGiB;
  out.smCount = 108;
  out.numaNode = 1;
  out.pciAddress = "0000:3b:00.0";
  out.milliTflops = 312'000;
  out.attributes = {{"driverVersion", "535.104.05"}};
  return out;
}
inline PluginReport answer(std::vector<plugin::Gpu> gpus, std::vector<plugin::CardHealth> health = {}) {
  return {{{}, std::move(gpus)}, {{}, std::move(health)}};
}
inline PluginReport failure(plugin::ReplyCode code = plugin::ReplyCode::unavailable) {
  return {{{code, "the driver is away"}, {}}, {{code, "the driver is away"}, {}}};
}

class Events final : public kube::EventSink {
 public:
  void event(const core::ObjectReference& about, std::string_view, std::string_view reason,
             std::string_view message) override {
    std::lock_guard lock(mutex_);
    all_.push_back(about.kind + " " + about.name + " " + std::string(reason) + ": " + std::string(message));
  }
  std::vector<std::string> taken() {
    std::lock_guard lock(mutex_);
    return std::exchange(all_, {});
  }

 private:
  std::mutex mutex_;
  std::vector<std::string> all_;
};

class ApiTest : public ::testing::Test {
 protected:
  ApiTest() {
    apiserver::Options options;
    options.bookmarkInterval = std::chrono::milliseconds(0);
    auto made = apiserver::Server::create(options, serverClock, random);
    EXPECT_TRUE(made.ok()) << made.status().str();
    server = std::move(made).value();
    inner = std::make_unique<support::HandlerTransport>(*server);
    transport = std::make_unique<support::RefusingTransport>(*inner);
    kube::ClientOptions once;
    once.maxAttempts = 1;
    client = std::make_unique<kube::Client>(*transport, serverClock, random, metrics, once);
    admin = std::make_unique<kube::Client>(*inner, serverClock, random, metrics, once);
  }

  std::optional<Gpu> card(const std::string& name) {
    auto have = admin->get<Gpu>({"", name});
    return have.ok() ? std::optional(*have) : std::nullopt;
  }
  core::Condition healthy(const std::string& name) {
    const auto have = card(name);
    const auto* c = have ? health::healthyOf(have->status.conditions) : nullptr;
    return c ? *c : core::Condition{};
  }
  Gpu change(const std::string& name, const std::string& body, std::string_view sub = {}) {
    auto written = admin->patch<Gpu>({"", name}, kube::PatchType::merge, body, sub);
    EXPECT_TRUE(written.ok()) << written.status().str();
    return *written;
  }
  /// Adds a ledger entry of a claim's device to the card.
  void occupy(const std::string& name) {
    change(name, R"({"spec":{"allocations":{"u1":{"device":"egpu-u1","claim":"default/a","core":100,"memory":1}}}})");
  }
  void free(const std::string& name) { change(name, R"({"spec":{"allocations":{"u1":null}}})"); }

  base::SystemClock serverClock;
  base::ManualClock clock;
  base::Random random{7};
  base::NoMetrics metrics;
  std::unique_ptr<apiserver::Server> server;
  std::unique_ptr<support::HandlerTransport> inner;
  std::unique_ptr<support::RefusingTransport> transport;
  std::unique_ptr<kube::Client> client, admin;
  Events events;
};

}  // namespace egpu::agent::cards

// Publishes the cards of this node while the agent runs.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <optional>
#include <stop_token>
#include <thread>
#include <vector>

#include "controller/agent/cards/discovery_loop.h"
#include "controller/agent/cards/publisher.h"
#include "controller/agent/cards/wakeable_timer.h"
#include "controller/cache/sinks.h"
#include "controller/kube/reflector.h"

namespace egpu::agent::cards {

struct CardsOptions {
  PublisherOptions publisher;
  std::chrono::milliseconds interval{15'000};  ///< between two queries of a plugin, and two passes over the objects
  std::chrono::milliseconds patience{1'000};   ///< maximum wait of the first publication for all plugins' answers
  std::chrono::milliseconds backoff{500};      ///< after a failed write; doubles each time, half of it random
  std::chrono::milliseconds maxBackoff{60'000};
  /// Attributes readings to claims and pods. Empty: no usage is written.
  std::function<usage::Usage(const std::vector<usage::Reading>& readings, std::stop_token stop)> attribute{};
  /// Publishes the health of devices without cards; empty = none.
  std::function<base::Status(const Answers& answers, const std::stop_token& stop)> publishDevices{};
};

/// References must outlive it. Call start() once; the destructor stops and joins.
class Cards {
 public:
  Cards(kube::Client& client, plugin::Registry& plugins, kube::EventSink& events, base::Clock& clock,
        base::Random& random, CardsOptions options);
  ~Cards();

  void start();
  void stop();
  /// Queries the plugins and compares all objects immediately. Thread-safe, as are all functions below.
  void wake();
  /// True once all found cards are published, except those that the server refuses; for the readiness probe.
  bool published() const { return published_; }
  /// Returns the usage of the cards as the plugins last reported it.
  std::vector<usage::Reading> readings() const;
  /// Returns why the card with this object name can't be assigned, if the plugin that found it no longer finds it: the
  /// end of a sentence, with the illness that the plugin reports. Otherwise, or if the plugin has failed, returns an
  /// empty string.
  std::string whyGone(const std::string& card) const;
  /// Returns the memory of the card as it was last found, in bytes; nullopt if no plugin finds it.
  std::optional<int64_t> memoryOf(const std::string& card) const;
  /// Returns the card as it was last found; nullopt if no plugin finds it.
  std::optional<v1alpha::Card> foundCard(const std::string& card) const;
  /// ElasticGPU objects of the cards.
  const cache::Store<Gpu>& store() const { return store_; }
  /// `listener` is called after each change of an object, on any thread. Call before start().
  void listen(cache::Store<Gpu>::Listener listener) { store_.listen(std::move(listener)); }

 private:
  void run(std::stop_token stop);
  base::Status publish(const std::stop_token& stop);
  std::chrono::milliseconds wait(int failures, const base::Status& status);

  kube::Client client_;  ///< short retries, because run() tries again
  base::Clock& clock_;
  base::Random& random_;
  const CardsOptions options_;
  WakeableTimer alarm_;
  std::atomic<bool> published_{false};
  cache::Store<Gpu> store_;
  cache::StoreSink<Gpu> sink_{store_};
  kube::Reflector<Gpu> reflector_;
  DiscoveryLoop discovery_;
  Publisher publisher_;
  std::jthread thread_;  ///< last member, because it uses all others
};

}  // namespace egpu::agent::cards

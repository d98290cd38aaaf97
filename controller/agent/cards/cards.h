// The cards of this node, published for as long as the agent runs.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <optional>
#include <stop_token>
#include <thread>
#include <vector>

#include "controller/agent/cards/alarm.h"
#include "controller/agent/cards/publisher.h"
#include "controller/agent/cards/survey.h"
#include "controller/cache/sinks.h"
#include "controller/kube/reflector.h"

namespace egpu::agent::cards {

struct CardsOptions {
  PublisherOptions publisher;
  std::chrono::milliseconds interval{15'000};  ///< between two questions to a plugin, and two looks at the objects
  std::chrono::milliseconds patience{1'000};   ///< that the first publication waits for all plugins' answers
  std::chrono::milliseconds backoff{500};      ///< after a failed write, doubled each time, half of it at random
  std::chrono::milliseconds maxBackoff{60'000};
  /// Whose what the plugins read is. Empty: nothing is written of what is used.
  std::function<usage::Usage(const std::vector<usage::Reading>& readings, std::stop_token stop)> attribute{};
};

/// References must outlive it. start() once; the destructor stops and joins.
class Cards {
 public:
  Cards(kube::Client& client, plugin::Registry& plugins, kube::EventSink& events, base::Clock& clock,
        base::Random& random, CardsOptions options);
  ~Cards();

  void start();
  void stop();
  /// Asks the plugins anew and looks at all objects, now. Thread-safe, as all below.
  void wake();
  /// All that was found is published, but for what the server refuses; for the readiness probe.
  bool published() const { return published_; }
  /// What is used of the cards, as the plugins last said.
  std::vector<usage::Reading> readings() const;
  /// Why this card, an object's name, can't be given, if the plugin that found it has answered well and finds it no more:
  /// the end of a sentence, with what its health says of it. Else empty.
  std::string whyGone(const std::string& card) const;
  /// What it was found to have, bytes; nullopt while nobody finds it.
  std::optional<int64_t> memoryOf(const std::string& card) const;
  /// The card as it was found last; nullopt while no plugin finds it.
  std::optional<v1alpha::Card> foundCard(const std::string& card) const;
  /// The cards' objects.
  const cache::Store<Gpu>& store() const { return store_; }
  /// Called after each change of one, on any thread; before start().
  void listen(cache::Store<Gpu>::Listener listener) { store_.listen(std::move(listener)); }

 private:
  void run(std::stop_token stop);
  base::Status publish(const std::stop_token& stop);
  std::chrono::milliseconds wait(int failures, const base::Status& status);

  kube::Client client_;  ///< brief: what fails comes back by the loop
  base::Clock& clock_;
  base::Random& random_;
  const CardsOptions options_;
  Alarm alarm_;
  std::atomic<bool> published_{false};
  cache::Store<Gpu> store_;
  cache::StoreSink<Gpu> sink_{store_};
  kube::Reflector<Gpu> reflector_;
  Survey survey_;
  Publisher publisher_;
  std::jthread thread_;  ///< last: it uses all above
};

}  // namespace egpu::agent::cards

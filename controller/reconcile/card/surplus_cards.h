// (S5) Bound on the cards of one node: a compromised node's agent may create objects of its own node without end.
#pragma once

#include <cstddef>
#include <memory>
#include <mutex>
#include <stop_token>
#include <string>
#include <unordered_map>
#include <vector>

#include "controller/cache/stores.h"
#include "controller/kube/event_sink.h"
#include "controller/reconcile/state_machine.h"
#include "controller/reconcile/writer.h"

namespace egpu::reconcile {

/// Maximum number of cards of a node, the same as an agent publishes.
inline constexpr std::size_t kMaxCardsOfNode = 128;

/// Made before the stores are filled. Thread-safe.
class SurplusCards {
 public:
  SurplusCards(Writer& writer, cache::Stores& stores, kube::EventSink& events);

  /// Keeps kMaxCardsOfNode cards of the node: those that claims hold, then the oldest. Deletes the rest, except cards that
  /// claims hold.
  Outcome node(const std::string& node, std::stop_token stop);

 private:
  void count(const cache::Gpu* card, bool isNew);
  std::vector<std::shared_ptr<const cache::Gpu>> surplusOf(const std::string& node) const;

  Writer& writer_;
  cache::Stores& stores_;
  kube::EventSink& events_;
  mutable std::mutex mutex_;
  std::unordered_map<std::string, std::size_t> counts_;  ///< protected by mutex_: cards by node
};

}  // namespace egpu::reconcile

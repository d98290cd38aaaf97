// (S5) Bound on the cards of one node: a compromised node's agent may create objects of its own node without end.
#pragma once

#include <cstddef>
#include <memory>
#include <mutex>
#include <stop_token>
#include <string>
#include <unordered_map>

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

  /// Step of a card whose node has more than kMaxCardsOfNode cards, those being deleted aside. Cards that claims hold are
  /// kept, then the oldest. Deletes this card if it is surplus, else the last card of its node, but no card that claims
  /// hold. Makes one write at most: each of very many cards has a step of its own, with other cards' steps in between.
  Outcome card(const cache::Gpu& card, std::stop_token stop);

 private:
  void count(const cache::Gpu* card, bool isNew);
  /// The card that this card's step deletes; null if there is none.
  std::shared_ptr<const cache::Gpu> surplusFor(const cache::Gpu& card) const;

  Writer& writer_;
  cache::Stores& stores_;
  kube::EventSink& events_;
  mutable std::mutex mutex_;
  std::unordered_map<std::string, std::size_t> counts_;  ///< protected by mutex_: cards that are not deleted, by node
};

}  // namespace egpu::reconcile

// (S5) Limits the cards of one node: the agent of a compromised node may create objects of its own node without end.
#pragma once

#include <cstddef>
#include <memory>
#include <stop_token>
#include <string>
#include <unordered_map>

#include "controller/base/mutex.h"
#include "controller/cache/stores.h"
#include "controller/kube/event_sink.h"
#include "controller/reconcile/state_machine.h"
#include "controller/reconcile/writer.h"

namespace egpu::reconcile {

/// Maximum number of cards of a node, the same as an agent publishes.
inline constexpr std::size_t kMaxCardsOfNode = 128;

/// Construct it before the stores are filled. Thread-safe.
class SurplusCards {
 public:
  SurplusCards(Writer& writer, cache::Stores& stores, kube::EventSink& events);

  /// Deletes a surplus card if the card's node has more than kMaxCardsOfNode cards, not counting those being deleted.
  /// Cards with allocations are kept first, then the oldest. Deletes this card if it is surplus, else the last card of
  /// its node, but never a card with allocations. One write at most: each of very many cards has a step of its own,
  /// with other steps in between.
  Outcome card(const cache::Gpu& card, std::stop_token stop);

 private:
  void count(const cache::Gpu* card, bool isNew);
  /// Returns the card that this card's step deletes; null if there is none.
  std::shared_ptr<const cache::Gpu> surplusFor(const cache::Gpu& card) const;

  Writer& writer_;
  cache::Stores& stores_;
  kube::EventSink& events_;
  mutable base::Mutex mutex_;
  std::unordered_map<std::string, std::size_t> counts_ EGPU_GUARDED_BY(mutex_);  ///< cards not being deleted, by node
};

}  // namespace egpu::reconcile

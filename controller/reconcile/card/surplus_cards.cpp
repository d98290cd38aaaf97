#include "controller/reconcile/card/surplus_cards.h"

#include <algorithm>
#include <cstddef>
#include <tuple>

#include "controller/base/log.h"

namespace egpu::reconcile {

namespace {

/// Order in which cards are kept: those that claims hold, then the oldest.
auto precedence(const cache::Gpu& card) {
  return std::tuple(card.spec.allocations.empty(), std::string_view(card.metadata.creationTimestamp),
                    std::string_view(card.metadata.name));
}

}  // namespace

SurplusCards::SurplusCards(Writer& writer, cache::Stores& stores, kube::EventSink& events)
    : writer_(writer), stores_(stores), events_(events) {
  stores.cards.listen([this](const cache::Gpu* before, const cache::Gpu* after) {
    count(before, false);
    count(after, true);
  });
}

void SurplusCards::count(const cache::Gpu* card, bool isNew) {
  if (card == nullptr || !card->isCard() || card->metadata.deleting()) return;
  const base::MutexLock lock(mutex_);
  auto& count = counts_[card->spec.card->nodeName];
  if (isNew)
    ++count;
  else if (count > 0)
    --count;
  if (count == 0) counts_.erase(card->spec.card->nodeName);
}

std::shared_ptr<const cache::Gpu> SurplusCards::surplusFor(const cache::Gpu& card) const {
  {
    const base::MutexLock lock(mutex_);
    const auto known = counts_.find(card.spec.card->nodeName);
    if (known == counts_.end() || known->second <= kMaxCardsOfNode) return nullptr;
  }
  std::size_t count = 0, before = 0;  // before: cards that are kept rather than this one
  std::shared_ptr<const cache::Gpu> own, last;
  for (const auto& each : stores_.cardsOnNode(card.spec.card->nodeName)) {
    if (each->metadata.deleting()) continue;
    ++count;
    if (each->metadata.uid == card.metadata.uid) own = each;
    if (precedence(*each) < precedence(card)) ++before;
    if (!last || precedence(*last) < precedence(*each)) last = each;
  }
  if (count <= kMaxCardsOfNode) return nullptr;
  const auto& surplus = own && before >= kMaxCardsOfNode ? own : last;
  return surplus->spec.allocations.empty() ? surplus : nullptr;
}

Outcome SurplusCards::card(const cache::Gpu& card, std::stop_token stop) {
  const auto surplus = surplusFor(card);
  if (!surplus) return Outcome::done();
  const auto& node = surplus->spec.card->nodeName;
  // One text for all cards: thousands of them make one event.
  const std::string why = "node " + node + " has more than " + std::to_string(kMaxCardsOfNode) +
                          " cards; those that were published after them are deleted";
  base::log::warn("surplus card", {{"card", surplus->metadata.name}, {"why", why}});
  events_.event({"v1", "Node", "", node, node, ""}, "Warning", "TooManyCards", why);
  const auto removed = writer_.remove(*surplus, stop);  // (S5)
  if (removed.ok() || removed.code() == base::Code::notFound) return Outcome::done();
  return removed.code() == base::Code::conflict ? Outcome::requeueNow() : Outcome::retry(removed);
}

}  // namespace egpu::reconcile

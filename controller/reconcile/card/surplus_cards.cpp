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
  if (card == nullptr || !card->isCard()) return;
  const std::lock_guard lock(mutex_);
  auto& count = counts_[card->spec.card->nodeName];
  if (isNew)
    ++count;
  else if (count > 0)
    --count;
  if (count == 0) counts_.erase(card->spec.card->nodeName);
}

std::vector<std::shared_ptr<const cache::Gpu>> SurplusCards::surplusOf(const std::string& node) const {
  {
    const std::lock_guard lock(mutex_);
    const auto known = counts_.find(node);
    if (known == counts_.end() || known->second <= kMaxCardsOfNode) return {};
  }
  std::vector<std::shared_ptr<const cache::Gpu>> all;
  stores_.cards.forEach([&](const auto& card) {
    if (card->spec.card->nodeName == node && !card->metadata.deleting()) all.push_back(card);
  });
  if (all.size() <= kMaxCardsOfNode) return {};
  std::sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return precedence(*a) < precedence(*b); });
  all.erase(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(kMaxCardsOfNode));
  std::erase_if(all, [](const auto& card) { return !card->spec.allocations.empty(); });
  return all;
}

Outcome SurplusCards::node(const std::string& node, std::stop_token stop) {
  for (const auto& card : surplusOf(node)) {
    const std::string why = "node " + node + " has more than " + std::to_string(kMaxCardsOfNode) +
                            " cards; this one was published after them and is deleted";
    base::log::warn("surplus card", {{"card", card->metadata.name}, {"why", why}});
    events_.event(kube::referenceTo(*card), "Warning", "TooManyCards", why);
    const auto removed = writer_.remove(*card, stop);  // (S5)
    if (removed.ok() || removed.code() == base::Code::notFound) continue;
    return removed.code() == base::Code::conflict ? Outcome::again() : Outcome::retry(removed);
  }
  return Outcome::done();
}

}  // namespace egpu::reconcile

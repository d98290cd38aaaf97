#include "controller/reconcile/device/lost_cards.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "api/v1alpha/keys.h"

namespace egpu::reconcile {

namespace {

/// Cards that are lost for the same reason, for one part of the sentence.
struct Loss {
  std::string singular, plural;  ///< "is gone", "are gone"
  std::vector<std::string> cards;
};

/// Returns why a card is lost, in singular and plural; empty if the card is as the device needs it.
std::pair<std::string, std::string> fateOf(const cache::Gpu* card, const cache::Gpu& device) {
  const auto be = [](const std::string& rest) { return std::pair("is " + rest, "are " + rest); };
  if (card == nullptr) return be("gone");
  if (card->metadata.deleting()) return be("being removed");
  if (card->status.phase == v1alpha::keys::phase::kFailed) {
    const auto text = "failed" + (card->status.message.empty() ? "" : ": " + card->status.message);
    return {text, text};
  }
  const auto& node = device.spec.nodeName;
  if (!node.empty() && card->spec.card->nodeName != node) return be("on node " + card->spec.card->nodeName + " now");
  return {};
}

}  // namespace

std::string lostCards(const cache::Stores& stores, const cache::Gpu& device) {
  std::vector<Loss> losses;
  for (const auto& share : device.spec.cards) {
    auto fate = fateOf(stores.cards.get({"", share.name}).get(), device);
    if (fate.first.empty()) continue;
    auto loss =
        std::find_if(losses.begin(), losses.end(), [&](const auto& known) { return known.plural == fate.second; });
    if (loss == losses.end()) loss = losses.insert(loss, {std::move(fate.first), std::move(fate.second), {}});
    loss->cards.push_back(share.name);
  }
  std::string text;
  for (const auto& loss : losses) {
    const bool one = loss.cards.size() == 1;
    text += (text.empty() ? "" : "; ") + std::string(one ? "card " : "cards ");
    for (const auto& card : loss.cards) text += (&card == &loss.cards.front() ? "" : ", ") + card;
    text += " " + (one ? loss.singular : loss.plural);
  }
  return text;
}

}  // namespace egpu::reconcile

#include "controller/scheduler/remedy.h"

#include <algorithm>
#include <optional>

#include "api/v1alpha/quantity.h"
#include "controller/scheduler/fill.h"
#include "controller/scheduler/fit.h"
#include "controller/scheduler/parameters.h"
#include "controller/scheduler/state.h"

namespace egpu::scheduler {
namespace {

constexpr int64_t kPercent = 10;  // milli-cards

std::string cardsText(const Request& r) {
  const std::string n = std::to_string(r.cards);
  return n + (r.wholeCards ? " whole card" : " card") + (r.cards == 1 ? "" : "s");
}

/// "free 10% and 4Gi of card x"
std::string roomText(const Remedy::Room& room) {
  std::string text;
  auto add = [&text](const std::string& part) { text += (text.empty() ? "" : " and ") + part; };
  if (room.amount.core > 0) add(v1alpha::formatMilliCards(room.amount.core));
  if (room.amount.memory > 0) add(v1alpha::formatBytes(room.amount.memory));
  if (room.claims > 0) add(std::to_string(room.claims) + (room.claims == 1 ? " claim" : " claims"));
  return text + " of card " + room.card;
}

class Searching {
 public:
  Searching(const Cluster& cluster, const Request& request, const NodePredicate& suits)
      : cluster_(cluster), state_(cluster.state()), request_(request), suits_(suits), needs_(state_, request) {}

  std::vector<Remedy> run() {
    std::vector<Remedy> found;
    // Who asks for no card is short of what only other pods can give back.
    if (request_.cards == 0 || decide(cluster_, request_, suits_).fits) return found;
    if (std::optional<Remedy> r = ask()) found.push_back(std::move(*r));
    if (std::optional<Remedy> r = release()) found.push_back(std::move(*r));
    if (!found.empty() || !request_.pinnedCards.empty()) return found;
    if (std::optional<Remedy> r = add()) found.push_back(std::move(*r));
    return found;
  }

 private:
  /// A smaller request and how much of the original is left of what shrinks most, in millionths.
  struct Smaller {
    Request request;
    int64_t kept = 0;
    std::string text;
  };

  /// The largest n in [1, most] for which set(n) fits. Fitting is monotone: less never fits worse.
  template <class Set>
  std::optional<int64_t> largest(int64_t most, Set set) const {
    int64_t good = 0, bad = most + 1;
    while (bad - good > 1) {
      const int64_t middle = good + (bad - good) / 2;
      Request r = request_;
      set(r, middle);
      (decide(cluster_, r, suits_).fits ? good : bad) = middle;
    }
    return good > 0 ? std::optional<int64_t>(good) : std::nullopt;
  }

  template <class Set, class Text>
  void tryShrinking(std::optional<Smaller>& best, int64_t original, int64_t unit, Set set, Text text) const {
    if (original < unit) return;
    auto scaled = [&](Request& r, int64_t n) { set(r, n * unit); };
    std::optional<int64_t> n = largest((original - 1) / unit, scaled);
    if (!n) return;
    Smaller smaller{request_, shareOf(*n * unit, original), {}};
    scaled(smaller.request, *n);
    smaller.text = text(smaller.request);
    if (!best || smaller.kept > best->kept) best = std::move(smaller);
  }

  std::optional<Remedy> ask() const {
    std::optional<Smaller> best;
    const std::string each = request_.cards > 1 ? " on each card" : "";
    auto coreText = [&](const Request& r) { return "gpu-core " + std::to_string(r.perCard.core / kPercent) + each; };
    auto memoryText = [&](const Request& r) { return "gpu-memory " + v1alpha::formatBytes(r.perCard.memory) + each; };
    const bool shares = !request_.wholeCards;
    const bool ownCore = shares && request_.tflopsPerCard == 0;
    const bool ownMemory = shares && !request_.memoryFromCore;
    if (ownCore)
      tryShrinking(
          best, request_.perCard.core, kPercent, [](Request& r, int64_t v) { r.perCard.core = v; }, coreText);
    if (shares && request_.tflopsPerCard > 0)
      tryShrinking(
          best, request_.tflopsPerCard, 1, [](Request& r, int64_t v) { r.tflopsPerCard = v; },
          [&](const Request& r) { return "tflops " + std::to_string(r.tflopsPerCard) + each; });
    if (ownMemory)
      tryShrinking(
          best, request_.perCard.memory, kMiB, [](Request& r, int64_t v) { r.perCard.memory = v; }, memoryText);
    if (request_.pinnedCards.empty())
      tryShrinking(
          best, request_.cards, 1, [](Request& r, int64_t v) { r.cards = v; }, cardsText);
    if (!best && ownMemory && request_.perCard.memory >= kMiB) shrinkBoth(best, each);
    if (!best) return std::nullopt;
    Remedy remedy;
    remedy.kind = Remedy::Kind::ask;
    remedy.node = decide(cluster_, best->request, suits_).node;
    remedy.request = std::move(best->request);
    remedy.text = best->text + " would fit now (node " + remedy.node + ')';
    return remedy;
  }

  /// No single amount is to blame: compute and memory in the same proportion, then each as far up again as it goes.
  void shrinkBoth(std::optional<Smaller>& best, const std::string& each) const {
    constexpr int64_t kParts = 1000;
    const bool rated = request_.tflopsPerCard > 0;
    if (!rated && request_.perCard.core < kPercent) return;
    const int64_t compute = rated ? request_.tflopsPerCard : request_.perCard.core / kPercent;
    const int64_t memory = request_.perCard.memory / kMiB;
    auto setCompute = [&](Request& r, int64_t v) { rated ? r.tflopsPerCard = v : r.perCard.core = v * kPercent; };
    auto setMemory = [&](Request& r, int64_t v) { r.perCard.memory = v * kMiB; };
    auto part = [](int64_t whole, int64_t parts) { return std::max<int64_t>(1, whole * parts / kParts); };
    std::optional<int64_t> parts = largest(kParts, [&](Request& r, int64_t n) {
      setCompute(r, part(compute, n));
      setMemory(r, part(memory, n));
    });
    if (!parts) return;
    std::optional<int64_t> c = largest(compute, [&](Request& r, int64_t n) {
      setCompute(r, n);
      setMemory(r, part(memory, *parts));
    });
    std::optional<int64_t> m = largest(memory, [&](Request& r, int64_t n) {
      setCompute(r, *c);
      setMemory(r, n);
    });
    Smaller smaller{request_, std::min(shareOf(*c, compute), shareOf(*m, memory)), {}};
    setCompute(smaller.request, *c);
    setMemory(smaller.request, *m);
    smaller.text = (rated ? "tflops " : "gpu-core ") + std::to_string(*c) + " with gpu-memory " +
                   v1alpha::formatBytes(*m * kMiB) + each;
    best = std::move(smaller);
  }

  bool eligible(const NodeRecord& node) const {
    return node.offered() && nodeHasRoom(node, request_) &&
           (request_.pinnedNode.empty() || node.name == request_.pinnedNode) && (!suits_ || suits_(node.name));
  }

  bool eligible(CardId id) {
    const CardRecord& card = state_.cards[id];
    const auto& names = request_.pinnedCards;
    return card.healthy && needs_.of(card.type).possible() &&
           (names.empty() || std::find(names.begin(), names.end(), card.facts->name) != names.end());
  }

  /// What is missing on a card, and how much that is of it, in millionths; a claim counts a little, so that fewer are
  /// preferred.
  std::pair<int64_t, Remedy::Room> missing(CardId id) {
    const CardRecord& card = state_.cards[id];
    const Need need = needs_.of(card.type);
    Remedy::Room room{card.facts->name, {}, 0};
    const int64_t claims = static_cast<int64_t>(card.takes.size());
    if (request_.wholeCards) {
      room.amount = card.used;
      room.claims = claims;
    } else {
      const Amount free = card.free();
      room.amount = {std::max<int64_t>(0, need.charged.core - free.core),
                     std::max<int64_t>(0, need.charged.memory - free.memory)};
    }
    if (request_.maxClaimsPerCard > 0) room.claims = std::max(room.claims, claims - request_.maxClaimsPerCard + 1);
    room.claims = std::max<int64_t>(room.claims, 0);
    return {fillOf(room.amount, card.capacity) + room.claims, std::move(room)};
  }

  std::optional<Remedy> release() {
    std::optional<Remedy> best;
    int64_t bestCost = 0;
    const std::size_t wanted = static_cast<std::size_t>(request_.cards);
    if (!request_.pinnedCards.empty() && request_.pinnedCards.size() != wanted) return best;
    for (const auto& [name, id] : state_.nodeIds) {
      const NodeRecord& node = state_.nodes[id];
      if (node.cards.size() < wanted || !eligible(node)) continue;
      std::vector<std::pair<int64_t, Remedy::Room>> costs;
      for (CardId c : node.cards)
        if (eligible(c)) costs.push_back(missing(c));
      if (costs.size() < wanted) continue;
      std::stable_sort(costs.begin(), costs.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
      costs.resize(wanted);
      Remedy remedy;
      remedy.kind = Remedy::Kind::release;
      remedy.node = name;
      if (!nodeBelowLimit(node, request_)) remedy.nodeClaims = node.claims - request_.maxClaimsPerNode + 1;
      int64_t cost = remedy.nodeClaims;
      for (auto& [each, room] : costs) {
        cost += each;
        if (room.amount != Amount{} || room.claims > 0) remedy.rooms.push_back(std::move(room));
      }
      if (best && cost >= bestCost) continue;
      best = std::move(remedy);
      bestCost = cost;
    }
    if (!best) return best;
    for (const Remedy::Room& room : best->rooms) best->text += (best->text.empty() ? "free " : ", ") + roomText(room);
    if (best->nodeClaims > 0)
      best->text += (best->text.empty() ? "release " : ", and release ") + std::to_string(best->nodeClaims) +
                    (best->nodeClaims == 1 ? " claim" : " claims");
    best->text += " (node " + best->node + ')';
    return best;
  }

  std::optional<Remedy> add() {
    Remedy remedy;
    remedy.kind = Remedy::Kind::add;
    remedy.cards = request_.cards;
    remedy.card.core = std::max<int64_t>(1000, request_.wholeCards ? 0 : request_.perCard.core);
    remedy.card.memory = std::max({request_.minMemory, request_.wholeCards ? 0 : request_.perCard.memory, kGiB});
    remedy.card.tflops = request_.tflopsPerCard;
    if (!request_.models.empty()) remedy.card.model = request_.models.front();
    // The node that is closest; a new one if none has any fitting card.
    int64_t most = 0;
    for (const auto& [name, id] : state_.nodeIds) {
      const NodeRecord& node = state_.nodes[id];
      if (!eligible(node) || !nodeBelowLimit(node, request_)) continue;
      int64_t fitting = 0;
      for (CardId c : node.cards)
        if (eligible(c) && cardFits(state_.cards[c], needs_.of(state_.cards[c].type), request_)) ++fitting;
      if (fitting <= most && (request_.pinnedNode.empty() || fitting > 0)) continue;
      most = fitting;
      remedy.node = name;
    }
    if (!request_.pinnedNode.empty() && remedy.node.empty()) return std::nullopt;
    remedy.cards -= most;
    std::string models;
    for (const std::string& model : request_.models) models += (models.empty() ? " of model " : " or ") + model;
    remedy.text =
        "add " + std::to_string(remedy.cards) + (remedy.cards == 1 ? " card" : " cards") + models + " with at least " +
        v1alpha::formatBytes(remedy.card.memory) +
        (request_.tflopsPerCard > 0 ? " and " + std::to_string(request_.tflopsPerCard) + " TFLOPS" : "") +
        (remedy.node.empty() ? std::string(remedy.cards == 1 ? "" : " on one node") : " to node " + remedy.node);
    return remedy;
  }

  const Cluster& cluster_;
  const Cluster::State& state_;
  const Request& request_;
  const NodePredicate& suits_;
  Needs needs_;
};

}  // namespace

std::vector<Remedy> findRemedies(const Cluster& cluster, const Request& request, const NodePredicate& suits) {
  return Searching(cluster, request, suits).run();
}

}  // namespace egpu::scheduler

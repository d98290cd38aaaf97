#include "controller/scheduler/remedies/remedy.h"

#include <algorithm>
#include <optional>
#include <tuple>

#include "api/v1alpha/keys.h"
#include "api/v1alpha/quantity.h"
#include "controller/scheduler/choice/fit.h"
#include "controller/scheduler/choice/parameters.h"
#include "controller/scheduler/remedies/amount_text.h"
#include "controller/scheduler/remedies/each_node.h"
#include "controller/scheduler/remedies/freeing.h"
#include "controller/scheduler/remedies/instances.h"
#include "controller/scheduler/remedies/unit_question.h"
#include "controller/scheduler/state/fill.h"
#include "controller/scheduler/state/state.h"

namespace egpu::scheduler {
namespace {

std::string cardsText(const Request& r) {
  const std::string n = std::to_string(r.cards);
  return n + (r.wholeCards ? " whole card" : " card") + (r.cards == 1 ? "" : "s");
}

/// Returns text such as "10% and 4Gi".
std::string amountText(const Remedy::CardCapacity& shortage) {
  std::string text;
  if (!shortage.isolation.empty()) return "all";
  auto add = [&text](const std::string& part) { text += (text.empty() ? "" : " and ") + part; };
  if (shortage.amount.core > 0) add(v1alpha::formatMilliCards(shortage.amount.core));
  if (shortage.amount.memory > 0) add(atLeastText(shortage.amount.memory));
  if (shortage.claims > 0) add(std::to_string(shortage.claims) + (shortage.claims == 1 ? " claim" : " claims"));
  return text;
}

/// "free 2 more cards of node n: x, y" for whole cards, otherwise "free 10% of each of cards x, y, 20% of card z (node
/// n)", or "free all of card x, in use with isolation mps (node n)". Cards that lack the same amount are listed
/// together.
std::string shortagesText(const Remedy& remedy, bool wholeCards) {
  struct AlikeShortages {
    std::string amount;
    std::string_view isolation;
    std::vector<std::string_view> cards;
  };
  std::vector<AlikeShortages> alike;
  for (const Remedy::CardCapacity& shortage : remedy.shortages) {
    const std::string amount = wholeCards ? std::string() : amountText(shortage);
    auto same = std::find_if(alike.begin(), alike.end(), [&](const AlikeShortages& each) {
      return each.amount == amount && each.isolation == shortage.isolation;
    });
    if (same == alike.end()) same = alike.insert(same, {amount, shortage.isolation, {}});
    same->cards.push_back(shortage.card);
  }
  std::string text;
  for (const auto& [amount, isolation, cards] : alike) {
    std::string names;
    for (const std::string_view card : cards) names += (names.empty() ? "" : ", ") + std::string(card);
    text += text.empty() ? "free " : ", ";
    if (wholeCards)
      text += std::to_string(cards.size()) + (cards.size() == 1 ? " more card" : " more cards") + " of node " +
              remedy.node + ": " + names;
    else
      text += amount + (cards.size() == 1 ? " of card " : " of each of cards ") + names +
              (isolation.empty() ? "" : ", in use with isolation " + std::string(isolation));
  }
  return text;
}

/// Number of totals tried one by one below the largest candidate, because a smaller total can fit worse. With at most
/// 16 cards of equal capacity, one of 16 consecutive totals fits.
constexpr int64_t kTriedOneByOne = 64;

class Searching {
 public:
  Searching(const Cluster& cluster, const Request& request, const NodePredicate& suits, const Pause& pause)
      : cluster_(cluster),
        state_(cluster.state()),
        request_(request),
        suits_(suits),
        pause_(pause),
        needs_(state_, request),
        freeing_(state_, request, needs_) {}

  std::vector<Remedy> run() {
    std::vector<Remedy> found;
    // A request without cards lacks only CPU or memory, which other pods must release.
    if (request_.cards == 0 || decide(cluster_, request_, suits_).fits) return found;
    if (!request_.mig.profile.empty()) return findInstanceRemedies(cluster_, request_, suits_, pause_);
    if (std::optional<Remedy> r = ask()) found.push_back(std::move(*r));
    if (std::optional<Remedy> r = release()) found.push_back(std::move(*r));
    if (!found.empty() || !request_.pinnedCards.empty()) return found;
    if (suits_ && decide(cluster_, request_).fits) return found;  // further cards would not help the pod
    if (std::optional<Remedy> r = add()) found.push_back(std::move(*r));
    return found;
  }

 private:
  /// A smaller request. kept: remaining share, in millionths, of the amount that is reduced most.
  struct Smaller {
    Request request;
    int64_t remaining = 0;
    std::string text;
  };

  /// True if the request fits after set(request, n).
  template <class Set>
  bool fitsWith(Set set, int64_t n) const {
    Request r = request_;
    set(r, n);
    if (pause_) pause_();
    return decide(cluster_, r, suits_).fits;
  }

  /// Returns the largest n in [least, max] for which set(n) fits. Bisects, if a smaller n never fits worse. Otherwise
  /// tries the first `exact` numbers from `max` down, and bisects below them.
  template <class Set>
  std::optional<int64_t> largest(int64_t least, int64_t max, Set set, int64_t exact = 0) const {
    for (; exact > 0 && max >= least; --exact, --max)
      if (fitsWith(set, max)) return max;
    int64_t good = least - 1, bad = std::max(max, good) + 1;
    while (bad - good > 1) {
      const int64_t middle = good + (bad - good) / 2;
      (fitsWith(set, middle) ? good : bad) = middle;
    }
    return good >= least ? std::optional<int64_t>(good) : std::nullopt;
  }

  template <class Set, class Text>
  void tryShrinking(std::optional<Smaller>& best, int64_t original, int64_t unit, Set set, Text text) const {
    if (original < unit) return;
    auto scaled = [&](Request& r, int64_t n) { set(r, n * unit); };
    consider(best, largest(leastSteps(), (original - 1) / unit, scaled), original, unit, set, text);
  }

  /// For a total divided with its memory, a smaller total can fit worse, because the memory per step is rounded. The
  /// search starts from the largest total that fits without memory.
  template <class Set>
  std::optional<int64_t> largestCompute(int64_t max, Set set) const {
    if (!divides(request_) || !ownMemory()) return largest(leastSteps(), max, set);
    auto alone = [&](Request& r, int64_t n) {
      set(r, n);
      r.perCard.memory = 0;
    };
    const auto without = largest(leastSteps(), max, alone);
    return without ? largest(leastSteps(), *without, set, kTriedOneByOne) : std::nullopt;
  }

  template <class Set, class Text>
  void consider(std::optional<Smaller>& best, std::optional<int64_t> n, int64_t original, int64_t unit, Set set,
                Text text) const {
    if (!n) return;
    Smaller smaller{request_, shareOf(*n * unit, original), {}};
    set(smaller.request, *n * unit);
    smaller.text = text(smaller.request);
    if (!best || smaller.remaining > best->remaining) best = std::move(smaller);
  }

  /// With pinned cards, each must get at least one step of a divided total.
  int64_t leastSteps() const {
    return divides(request_) ? std::max<int64_t>(1, static_cast<int64_t>(request_.pinnedCards.size())) : 1;
  }

  template <class Set, class Text>
  void tryShrinkingCompute(std::optional<Smaller>& best, int64_t original, int64_t unit, Set set, Text text) const {
    if (original < unit) return;
    auto scaled = [&](Request& r, int64_t n) { set(r, n * unit); };
    consider(best, largestCompute((original - 1) / unit, scaled), original, unit, set, text);
  }

  /// Card policies with fixed sets allow only some set sizes.
  void tryFewerCards(std::optional<Smaller>& best) const {
    auto set = [](Request& r, int64_t v) { r.cards = v; };
    const CardPolicy* policy = findCardPolicy(request_.cardPolicy);
    const bool fixedSets = policy != nullptr && !policy->takesAny;
    constexpr auto kLargestSet = static_cast<int64_t>(SplitTotal::kMaxCards);
    const int64_t max = fixedSets ? std::min(request_.cards - 1, kLargestSet) : request_.cards - 1;
    consider(best, largest(1, max, set, fixedSets ? kLargestSet : 0), request_.cards, 1, set, cardsText);
  }

  std::optional<Remedy> ask() const {
    std::optional<Smaller> best;
    const std::string each = request_.cards > 1 ? " on each card" : "";
    auto coreText = [&](const Request& r) {
      return "gpu-core " + std::to_string(r.perCard.core / kMilliPerPercent) + each;
    };
    auto memoryText = [&](const Request& r) { return "gpu-memory " + v1alpha::formatBytes(r.perCard.memory) + each; };
    const bool shares = !request_.wholeCards;
    const bool ownCore = shares && request_.milliTflopsPerCard == 0;
    if (ownCore)
      tryShrinkingCompute(
          best, request_.perCard.core, kMilliPerPercent, [](Request& r, int64_t v) { r.perCard.core = v; }, coreText);
    if (shares && request_.milliTflopsPerCard > 0)
      tryShrinkingCompute(
          best, request_.milliTflopsPerCard, tflopsStep(), [](Request& r, int64_t v) { r.milliTflopsPerCard = v; },
          [&](const Request& r) { return "tflops " + v1alpha::formatThousandths(r.milliTflopsPerCard) + each; });
    if (ownMemory())
      tryShrinking(
          best, request_.perCard.memory, kMiB, [](Request& r, int64_t v) { r.perCard.memory = v; }, memoryText);
    if (request_.pinnedCards.empty()) tryFewerCards(best);
    if (!best && ownMemory() && request_.perCard.memory >= kMiB) shrinkBoth(best, each);
    if (!best) return std::nullopt;
    Remedy remedy;
    remedy.kind = Remedy::Kind::ask;
    remedy.node = decide(cluster_, best->request, suits_).node;
    if (remedy.node.empty()) return std::nullopt;  // the cluster changed in a pause, and it no longer fits
    remedy.request = std::move(best->request);
    remedy.text = best->text + " would fit now (node " + remedy.node + ')' + unitHint(each);
    return remedy;
  }

  /// Asks whether MiB were meant, if the memory has no unit and fits as MiB. Empty otherwise.
  std::string unitHint(const std::string& each) const {
    if (!ownMemory() || !request_.memoryAssumedGiB) return {};
    const int64_t memory = request_.perCard.memory / (kGiB / kMiB);
    if (!fitsWith([](Request& r, int64_t bytes) { r.perCard.memory = bytes; }, memory)) return {};
    return "; " + std::string(kUnitQuestion) + v1alpha::formatBytes(memory) + each + " meant?";
  }

  /// If no single reduction is enough: reduces compute and memory in proportion, then raises each as far as possible.
  void shrinkBoth(std::optional<Smaller>& best, const std::string& each) const {
    constexpr int64_t kParts = 1000;
    const bool rated = request_.milliTflopsPerCard > 0;
    const int64_t unit = rated ? tflopsStep() : kMilliPerPercent;
    if (!rated && request_.perCard.core < kMilliPerPercent) return;
    const int64_t compute = (rated ? request_.milliTflopsPerCard : request_.perCard.core) / unit;
    const int64_t memory = request_.perCard.memory / kMiB;
    auto setCompute = [&](Request& r, int64_t v) { (rated ? r.milliTflopsPerCard : r.perCard.core) = v * unit; };
    auto setMemory = [&](Request& r, int64_t v) { r.perCard.memory = v * kMiB; };
    auto part = [](int64_t whole, int64_t parts) { return std::max<int64_t>(1, whole * parts / kParts); };
    std::optional<int64_t> parts = largest(1, kParts, [&](Request& r, int64_t n) {
      setCompute(r, part(compute, n));
      setMemory(r, part(memory, n));
    });
    if (!parts) return;
    // Without monotonicity a search can miss the amount that is known to fit.
    const int64_t memoryThen = part(memory, *parts);
    const int64_t c = largestCompute(compute, [&](Request& r, int64_t n) {
                        setCompute(r, n);
                        setMemory(r, memoryThen);
                      }).value_or(part(compute, *parts));
    const int64_t m = largest(1, memory, [&](Request& r, int64_t n) {
                        setCompute(r, c);
                        setMemory(r, n);
                      }).value_or(memoryThen);
    Smaller smaller{request_, std::min(shareOf(c, compute), shareOf(m, memory)), {}};
    setCompute(smaller.request, c);
    setMemory(smaller.request, m);
    smaller.text = (rated ? "tflops " + v1alpha::formatThousandths(c * unit) : "gpu-core " + std::to_string(c)) +
                   " with gpu-memory " + v1alpha::formatBytes(m * kMiB) + each;
    best = std::move(smaller);
  }

  /// True if the request has a memory amount of its own.
  bool ownMemory() const { return !request_.wholeCards && !request_.memoryFromCore; }
  /// For a whole number of TFLOPS the smaller request is whole, too.
  int64_t tflopsStep() const { return request_.milliTflopsPerCard % 1000 == 0 ? 1000 : 1; }
  /// Returns the smallest whole rating that holds `milli` thousandths.
  static int64_t ratingFor(int64_t milli) { return (milli + 999) / 1000 * 1000; }

  bool eligible(const NodeRecord& node) const {
    return node.offered() && nodeHasCapacity(node, request_) &&
           (request_.pinnedNode.empty() || node.name == request_.pinnedNode) && (!suits_ || suits_(node.name));
  }

  std::optional<Remedy> release() {
    std::optional<Remedy> best;
    int64_t bestCost = 0;
    const std::size_t wanted = static_cast<std::size_t>(request_.cards);
    if (request_.pinnedCards.size() > wanted) return best;
    eachNode(state_, pause_, [&](std::string_view name, const NodeRecord& node) {
      if (node.cards.size() < wanted || !eligible(node)) return;
      std::optional<Freeing::Freed> freed = freeing_.on(node);
      if (!freed) return;
      Remedy remedy;
      remedy.kind = Remedy::Kind::release;
      remedy.node = std::string(name);
      if (!isBelowClaimLimit(node, request_)) remedy.nodeClaims = node.claims - request_.maxClaimsPerNode + 1;
      const int64_t cost = remedy.nodeClaims + freed->cost;
      remedy.shortages = std::move(freed->shortages);
      if (best && cost >= bestCost) return;
      if (remedy.shortages.empty() && remedy.nodeClaims == 0) return;  // it was released in a pause
      best = std::move(remedy);
      bestCost = cost;
    });
    if (!best) return best;
    best->text = shortagesText(*best, request_.wholeCards);
    const bool named = request_.wholeCards && !best->shortages.empty();  // the text contains the node already
    if (best->nodeClaims > 0)
      best->text += (best->shortages.empty() ? "release " : ", at least ") + std::to_string(best->nodeClaims) +
                    (best->nodeClaims == 1 ? " claim" : " claims") +
                    (best->shortages.empty() ? "" : " of the node in all");
    if (!named) best->text += " (node " + best->node + ')';
    return best;
  }

  Remedy described(Remedy remedy) const {
    if (!request_.models.empty()) remedy.card.model = request_.models.front();
    std::string models;
    for (const std::string& model : request_.models) models += (models.empty() ? " of model " : " or ") + model;
    remedy.text =
        "add " + std::to_string(remedy.cards) + (remedy.cards == 1 ? " card" : " cards") + models +
        (remedy.card.memory > 0 ? " with at least " + atLeastText(remedy.card.memory) : "") +
        (remedy.card.milliTflops > 0 ? (remedy.card.memory > 0 ? " and " : " with at least ") +
                                           v1alpha::formatThousandths(remedy.card.milliTflops) + " TFLOPS"
                                     : "") +
        (remedy.node.empty() ? std::string(remedy.cards == 1 ? "" : " on one node") : " to node " + remedy.node);
    if (modeOf(state_, request_) != kDriverLimits) return remedy;
    remedy.card.attributes[std::string(v1alpha::keys::kMemoryLimitsAttribute)] = v1alpha::keys::kMemoryLimitsAvailable;
    remedy.text += ", with the driver's memory limits";
    return remedy;
  }

  /// True if the namespace's quotas allow such a card, of every model that the request could get.
  bool withinQuotas(const v1alpha::Card& card) const {
    std::vector<std::string> models = request_.models;
    if (models.empty()) models.emplace_back();
    if (request_.models.empty())
      for (const RemainingQuota& quota : request_.quota)
        models.insert(models.end(), quota.models.begin(), quota.models.end());
    return std::all_of(models.begin(), models.end(), [&](const std::string& model) {
      return needOn({model, card.core, card.memory, card.milliTflops}, request_).verdict != TypeVerdict::overQuota;
    });
  }

  /// Returns a card that is large enough, and how many of them provide what a divided total lacks on a node.
  std::optional<std::pair<v1alpha::Card, int64_t>> cardsFor(const SplitTotal& total, int64_t lacking) const {
    v1alpha::Card card;
    const int64_t perCard = total.unit() == SplitTotal::Unit::core ? card.core / total.inUnits(1) : lacking;
    if (perCard <= 0 || lacking <= 0) return std::nullopt;
    const int64_t cards = (lacking + perCard - 1) / perCard;
    const int64_t part = (lacking + cards - 1) / cards;
    card.milliTflops = total.unit() == SplitTotal::Unit::tflops ? ratingFor(total.inUnits(part)) : 0;
    const Amount max = total.maxAmount({{}, card.core, 0, card.milliTflops}, part);
    card.memory = std::max(request_.minMemory, max.memory);
    return std::pair(card, cards);
  }

  /// Chooses the node that lacks least, or a new node.
  std::optional<Remedy> addForTotal() {
    const SplitTotal total(request_);
    Remedy remedy;
    remedy.kind = Remedy::Kind::add;
    int64_t max = 0;
    eachNode(state_, pause_, [&](std::string_view name, const NodeRecord& node) {
      if (!eligible(node) || !isBelowClaimLimit(node, request_)) return;
      int64_t capacity = 0, cards = 0;
      for (CardId c : node.cards) {
        const CardRecord& card = state_.cards[c];
        if (!freeing_.couldServe(c) || !canHold(card, needs_.of(card.type), request_)) continue;
        capacity += total.capacityOn(state_.types[card.type], card.free());
        ++cards;
      }
      const auto added = cardsFor(total, total.steps() - capacity);
      if (!added || cards + added->second > static_cast<int64_t>(SplitTotal::kMaxCards) || capacity <= max) return;
      max = capacity;
      remedy.node = std::string(name);
    });
    if (!request_.pinnedNode.empty() && remedy.node.empty()) return std::nullopt;
    const auto added = cardsFor(total, total.steps() - max);
    if (!added || !withinQuotas(added->first) || added->second > static_cast<int64_t>(SplitTotal::kMaxCards))
      return std::nullopt;
    std::tie(remedy.card, remedy.cards) = *added;
    return described(std::move(remedy));
  }

  std::optional<Remedy> add() {
    const CardPolicy* policy = findCardPolicy(request_.cardPolicy);
    if (policy && !policy->takesAny) return std::nullopt;  // machines have a fixed number of cards
    if (divides(request_)) return addForTotal();
    Remedy remedy;
    remedy.kind = Remedy::Kind::add;
    remedy.cards = request_.cards;
    remedy.card.core = std::max<int64_t>(1000, request_.wholeCards ? 0 : request_.perCard.core);
    remedy.card.memory = std::max(request_.minMemory, ownMemory() ? request_.perCard.memory : 0);
    remedy.card.milliTflops = ratingFor(request_.milliTflopsPerCard);
    if (!withinQuotas(remedy.card)) return std::nullopt;
    // The node with the most fitting cards, or a new node if none has any.
    int64_t max = 0;
    eachNode(state_, pause_, [&](std::string_view name, const NodeRecord& node) {
      if (!eligible(node) || !isBelowClaimLimit(node, request_)) return;
      int64_t fitting = 0;
      for (CardId c : node.cards)
        if (freeing_.couldServe(c) && canHold(state_.cards[c], needs_.of(state_.cards[c].type), request_)) ++fitting;
      if (fitting <= max && (request_.pinnedNode.empty() || fitting > 0)) return;
      max = fitting;
      remedy.node = std::string(name);
    });
    if (!request_.pinnedNode.empty() && remedy.node.empty()) return std::nullopt;
    remedy.cards -= max;
    return described(std::move(remedy));
  }

  const Cluster& cluster_;
  const Cluster::State& state_;
  const Request& request_;
  const NodePredicate& suits_;
  const Pause& pause_;
  Needs needs_;
  Freeing freeing_;
};

}  // namespace

std::vector<Remedy> findRemedies(const Cluster& cluster, const Request& request, const NodePredicate& suits,
                                 const Pause& pause) {
  return Searching(cluster, request, suits, pause).run();
}

}  // namespace egpu::scheduler

// Repeats the filters of decide(), and counts the exclusions per stage.
#include "controller/scheduler/explain.h"

#include <algorithm>
#include <limits>
#include <map>
#include <set>
#include <string_view>

#include "api/v1alpha/quantity.h"
#include "controller/scheduler/choice/card_choice.h"
#include "controller/scheduler/choice/fit.h"
#include "controller/scheduler/mig/placement.h"
#include "controller/scheduler/quota/quota.h"
#include "controller/scheduler/remedies/amount_text.h"
#include "controller/scheduler/remedies/each_node.h"
#include "controller/scheduler/remedies/remedy.h"
#include "controller/scheduler/state/state.h"

namespace egpu::scheduler {
namespace {

constexpr std::size_t kMaxReasons = 10;  ///< maximum number of reasons in a sentence
constexpr std::size_t kMaxModels = 8;
constexpr int64_t kMaxNamedCards = 3;
constexpr std::string_view kTooExclusive = "in compute mode EXCLUSIVE_PROCESS, which admits one process";

/// Counters of one stage.
struct Counting {
  int64_t before = 0;
  std::map<std::string, int64_t> reasons;
  std::vector<Dropped> dropped;

  StageReport report(std::string stage) {
    StageReport r{std::move(stage), before, before, {}, std::move(dropped)};
    for (const auto& [reason, count] : reasons) {
      r.after -= count;
      r.reasons.emplace_back(reason, count);
    }
    std::stable_sort(r.reasons.begin(), r.reasons.end(),
                     [](const auto& a, const auto& b) { return a.second > b.second; });
    return r;
  }
};

std::string number(int64_t n) { return std::to_string(std::max<int64_t>(n, 0)); }
std::string share(int64_t n) { return v1alpha::formatMilliCards(std::max<int64_t>(n, 0)); }
std::string tflops(int64_t n) { return v1alpha::formatThousandths(std::max<int64_t>(n, 0)) + " TFLOPS"; }
std::string cpu(int64_t n) { return n > 0 && n % 1000 != 0 ? number(n) + 'm' : number(n / 1000); }

/// Items that have too little of one resource, and the smallest gap. The text is made at the end, when that gap is
/// known.
struct Shortfall {
  Counting& stage;
  std::string_view what;  ///< "short of free core"
  std::string_view verb;  ///< "has"
  std::string (*needed)(int64_t);
  std::string (*had)(int64_t);
  int64_t count = 0;
  int64_t need = 0;
  int64_t have = std::numeric_limits<int64_t>::min();

  std::string text(int64_t wants, int64_t has, const char* who) const {
    return std::string(what) + " (need " + needed(wants) + ", " + who + std::string(verb) + ' ' + had(has) + ')';
  }
  void add(int64_t wants, int64_t has) {
    if (count++ == 0 || wants - has < need - have) {
      need = wants;
      have = has;
    }
  }
  void spellOut() {
    if (count > 0) stage.reasons[text(need, have, "best ")] += count;
  }
};

/// Returns the formatter for amounts of a total to be divided.
std::string (*unitOf(const Request& request, std::string (*ofMemory)(int64_t)))(int64_t) {
  if (request.milliTflopsPerCard > 0) return tflops;
  return request.perCard.core > 0 ? share : ofMemory;
}

std::string counted(int64_t n, std::string_view noun) {
  return std::to_string(n) + ' ' + std::string(noun) + (n == 1 ? "" : "s");
}

/// Reason for cards in MIG mode without the profile. Lists the existing profiles if no card of the cluster has it,
/// because the name could be misspelt.
std::string noProfileText(const Cluster::State& state, const Request& request) {
  std::string text = "without the MIG profile " + request.mig.profile;
  std::set<std::string> profiles;
  for (const auto& type : state.types) {
    if (mig::findProfile(type.mig, request.mig.profile) != nullptr) return text;
    for (const auto& profile : type.mig) profiles.insert(mig::keyOf(profile.name));
  }
  std::string list;
  for (const auto& profile : profiles) list += (list.empty() ? "" : ", ") + profile;
  return list.empty() ? text : text + " (the cluster has " + list + ")";
}

/// Reason for cards of models that the request does not name. Lists the existing models if no card of the cluster has
/// one of the request's models, because the name could be misspelt.
std::string otherModelText(const Cluster::State& state, const Request& request) {
  std::string text = "of another model";
  if (request.models.empty()) return text;
  std::set<std::string_view> models;
  for (const auto& [name, id] : state.nodesByName())
    for (const CardId card : state.nodes[id].cards) models.insert(state.types[state.cards[card].type].model);
  std::string list;
  std::size_t named = 0;
  for (const std::string_view model : models) {
    if (anyOf(request.models, model)) return text;
    if (++named <= kMaxModels)
      list += (list.empty() ? "" : ", ") + (model.empty() ? "without a name" : std::string(model));
  }
  return models.empty() ? text : text + " (the cluster has " + list + (named > kMaxModels ? ", …)" : ")");
}

class Explaining {
 public:
  Explaining(const Cluster::State& state, const Request& request, const NodePredicate& suits, std::size_t names,
             const Pause& pause, const WhyUnsuited& whyUnsuited)
      : state_(state),
        request_(request),
        suits_(suits),
        names_(names),
        pause_(pause),
        whyUnsuited_(whyUnsuited),
        needs_(state, request),
        otherModel_(otherModelText(state, request)),
        noProfile_(noProfileText(state, request)) {}

  std::vector<StageReport> run() {
    eachNode(state_, pause_, [this](std::string_view name, const NodeRecord& node) {
      ++node_.before;
      at_ = {name, {}};
      if (std::string why = nodeFault(node); !why.empty()) {
        fault(node_, why);
        return;
      }
      if (!hasCapacity(node)) return;
      int64_t fitting = 0;
      for (CardId c : node.cards)
        if (passes(c)) ++fitting;
      at_.card = {};
      if (fitting > 0 || request_.cards == 0) ++enough_.before;
      if (fitting > 0) enough(node, fitting);
    });
    return reports();
  }

 private:
  /// Counts the node if its fitting cards are not enough for decide().
  void enough(const NodeRecord& node, int64_t fitting) {
    if (fitting < request_.cards) {
      lacks(few_, request_.cards, fitting);
    } else if (isMissingPinned(node)) {
      fault(enough_, "whose pinned card does not fit");
    } else if (policy_ && !CardChoice(state_, request_, *policy_, needs_).fits(node)) {
      if (!divides(request_)) return void(fault(enough_, "without a fixed set of fitting cards"));
      const SplitTotal total(request_);
      int64_t capacity = 0;
      for (const CardId id : node.cards) {
        const CardRecord& card = state_.cards[id];
        const Need& need = needs_.of(card.type);
        if (need.possible() && canHold(card, need, request_))
          capacity += total.capacityOn(state_.types[card.type], card.free());
      }
      if (capacity >= total.steps()) return void(fault(enough_, "without a set of cards that it can be divided over"));
      lacks(short_, total.inUnits(total.steps()), total.inUnits(capacity));
    }
  }

  bool isMissingPinned(const NodeRecord& node) {
    return !isLimitedToPinned(request_) && std::any_of(node.cards.begin(), node.cards.end(), [&](CardId id) {
      const CardRecord& card = state_.cards[id];
      const Need& need = needs_.of(card.type);
      return isPinned(state_, request_, id) && !(need.possible() && canHold(card, need, request_));
    });
  }

  std::string nodeFault(const NodeRecord& node) const {
    if (!request_.pinnedNode.empty() && node.name != request_.pinnedNode) return "not the pinned node";
    if (node.cards.empty() && request_.cards > 0) return "without cards";
    if (!node.hasObject) return "without a Node object";
    if (!node.offered()) return "unschedulable (not ready, cordoned or being deleted)";
    if (!isBelowClaimLimit(node, request_))
      return "at the limit of " + counted(request_.maxClaimsPerNode, "claim") + " per node";
    if (!suits_ || suits_(node.name)) return {};
    std::string why = whyUnsuited_ ? whyUnsuited_(node.name) : std::string();
    return why.empty() ? std::string(kUnsuitedForPod) : why;
  }

  bool hasCapacity(const NodeRecord& node) {
    const NodeAmount free = node.free();
    ++nodeCpu_.before;
    if (request_.cpuMilli > 0 && free.cpuMilli < request_.cpuMilli)
      return lacks(lackNodeCpu_, request_.cpuMilli, free.cpuMilli);
    ++nodeMemory_.before;
    if (request_.podMemory > 0 && free.memory < request_.podMemory)
      return lacks(lackNodeMemory_, request_.podMemory, free.memory);
    return true;
  }

  /// Returns true if the card passes all stages.
  bool passes(CardId id) {
    const CardRecord& card = state_.cards[id];
    const CardType& type = state_.types[card.type];
    const Need need = needs_.of(card.type);
    at_.card = state_.cardName(id);
    if (!request_.pinnedCards.empty()) {
      ++pinned_.before;
      if (!isAllowedByPin(state_, request_, id))
        return fault(pinned_,
                     isLimitedToPinned(request_) ? "not the pinned card" : "on another node than the pinned card");
    }
    ++health_.before;
    if (!card.healthy) return fault(health_, "quarantined");
    ++model_.before;
    if (need.verdict == TypeVerdict::otherModel) return fault(model_, otherModel_);
    ++minMemory_.before;
    if (need.verdict == TypeVerdict::belowMinMemory)
      return fault(minMemory_, "with less memory than " + atLeastText(request_.minMemory));
    ++capacity_.before;
    if (need.verdict == TypeVerdict::inMigMode)
      return fault(capacity_, "in MIG mode (only MIG instances can be allocated)");
    if (need.verdict == TypeVerdict::notInMigMode) return fault(capacity_, "not in MIG mode");
    if (need.verdict == TypeVerdict::noProfile) return fault(capacity_, noProfile_);
    if (need.verdict == TypeVerdict::tooSmall && need.profile != nullptr)
      return fault(capacity_, "with places for fewer than " + instances());
    if (need.verdict == TypeVerdict::noRating) return fault(capacity_, "without a TFLOPS rating");
    if (need.verdict == TypeVerdict::tooSmall)
      return need.granted.core > type.core ? lacks(smallCore_, need.granted.core, type.core)
                                           : lacks(smallMemory_, need.granted.memory, type.memory);
    ++quota_.before;
    if (need.verdict == TypeVerdict::overQuota) return fault(quota_, "over a quota of the namespace");
    ++isolation_.before;
    if (isTooExclusive(card, need.mode)) return tooExclusive(id);
    if (!canTakeMode(card, need.mode)) return fault(isolation_, otherMode(card, need.mode));
    ++claims_.before;
    if (request_.maxClaimsPerCard > 0 && card.claims() >= request_.maxClaimsPerCard)
      return fault(claims_, "at the limit of " + counted(request_.maxClaimsPerCard, "claim") + " per card");
    if (request_.wholeCards) {
      ++empty_.before;
      return card.empty() || fault(empty_, "in use");
    }
    ++core_.before;
    const Amount free = card.free();
    if (free.core < need.charged.core) return lacks(lackCore_, need.charged.core, free.core);
    ++memory_.before;
    if (free.memory < need.charged.memory) return lacks(lackMemory_, need.charged.memory, free.memory);
    return hasSlots(card, need, request_) || fault(memory_, "without free slots for " + instances());
  }

  std::string instances() const {
    return counted(request_.mig.instances, "MIG instance") + " of " + request_.mig.profile;
  }

  std::string otherMode(const CardRecord& card, ModeId requested) const {
    if (!offersMode(card, requested))
      return resolvedMode(card, requested) == kDriverLimits ? "without the driver's memory limits"
                                                            : "on nodes without the limiter";
    return "in use with isolation " + std::string(state_.modes.nameOf(static_cast<ModeId>(card.mode)));
  }

  /// Names the first cards with the command that admits several processes.
  bool tooExclusive(CardId id) {
    if (++exclusive_ <= kMaxNamedCards)
      exclusiveCards_ += (exclusive_ == 1 ? "nvidia-smi -i " : "; nvidia-smi -i ") +
                         std::string(state_.facts[id]->uuid()) + " -c DEFAULT on node " + std::string(at_.node);
    if (isolation_.dropped.size() < names_)
      isolation_.dropped.push_back({std::string(at_.node), std::string(at_.card), std::string(kTooExclusive)});
    return false;
  }

  bool fault(Counting& stage, const std::string& reason) {
    ++stage.reasons[reason];
    if (stage.dropped.size() < names_) stage.dropped.push_back({std::string(at_.node), std::string(at_.card), reason});
    return false;
  }
  bool lacks(Shortfall& shortfall, int64_t need, int64_t have) {
    shortfall.add(need, have);
    if (auto& dropped = shortfall.stage.dropped; dropped.size() < names_)
      dropped.push_back({std::string(at_.node), std::string(at_.card), shortfall.text(need, have, "")});
    return false;
  }

  std::vector<StageReport> reports() {
    for (Shortfall* shortfall :
         {&lackNodeCpu_, &lackNodeMemory_, &smallCore_, &smallMemory_, &lackCore_, &lackMemory_, &few_, &short_})
      shortfall->spellOut();
    if (exclusive_ > 0)
      isolation_.reasons[std::string(kTooExclusive) + " (" + exclusiveCards_ +
                         (exclusive_ > kMaxNamedCards ? "; and others" : "") + ")"] = exclusive_;
    std::vector<StageReport> all;
    all.push_back(node_.report("node"));
    if (request_.cpuMilli > 0) all.push_back(nodeCpu_.report("node cpu"));
    if (request_.podMemory > 0) all.push_back(nodeMemory_.report("node memory"));
    if (!request_.pinnedCards.empty()) all.push_back(pinned_.report("pinned"));
    all.push_back(health_.report("health"));
    all.push_back(model_.report("model"));
    all.push_back(minMemory_.report("minMemory"));
    all.push_back(capacity_.report("capacity"));
    if (!request_.quota.empty()) all.push_back(quota_.report("quota"));
    if (!isolation_.reasons.empty()) all.push_back(isolation_.report("isolation"));
    all.push_back(claims_.report("claims"));
    if (request_.wholeCards) {
      all.push_back(empty_.report("empty"));
    } else {
      all.push_back(core_.report("core"));
      all.push_back(memory_.report("memory"));
    }
    all.push_back(enough_.report("cards"));
    return all;
  }

  struct CardOnNode {
    std::string_view node;
    std::string_view card;
  };

  const Cluster::State& state_;
  const Request& request_;
  const NodePredicate& suits_;
  const std::size_t names_;
  const Pause& pause_;
  const WhyUnsuited& whyUnsuited_;
  Needs needs_;
  const std::string otherModel_, noProfile_;
  CardOnNode at_;
  Counting node_, nodeCpu_, nodeMemory_, pinned_, health_, model_, minMemory_, capacity_, quota_, isolation_, claims_,
      empty_, core_, memory_, enough_;
  Shortfall lackNodeCpu_{nodeCpu_, "short of free CPU", "has", cpu, cpu};
  Shortfall lackNodeMemory_{nodeMemory_, "short of free node memory", "has", atLeastText, maxText};
  Shortfall smallCore_{capacity_, "too small in core", "is", share, share};
  Shortfall smallMemory_{capacity_, "too small in memory", "is", atLeastText, maxText};
  Shortfall lackCore_{core_, "short of free core", "has", share, share};
  Shortfall lackMemory_{memory_, "short of free memory", "has", atLeastText, maxText};
  Shortfall few_{enough_, "with too few fitting cards", "has", number, number};
  Shortfall short_{enough_, "short of free capacity on all its cards together", "has", unitOf(request_, atLeastText),
                   unitOf(request_, maxText)};
  int64_t exclusive_ = 0;  ///< number of cards that are kTooExclusive
  std::string exclusiveCards_;
  const CardPolicy* policy_ = findCardPolicy(request_.cardPolicy);
};

}  // namespace

Explanation explain(const Cluster& cluster, const Request& request, const NodePredicate& suits, std::size_t names,
                    const Pause& pause, const WhyUnsuited& whyUnsuited) {
  Explanation e;
  e.stages = Explaining(cluster.state(), request, suits, names, pause, whyUnsuited).run();
  e.remedies = findRemedies(cluster, request, suits, pause);
  for (const Remedy& remedy : e.remedies) e.smallestChange += (e.smallestChange.empty() ? "" : "; or ") + remedy.text;
  return e;
}

std::string Explanation::text() const {
  if (stages.empty()) return "not explained";
  const StageReport& first = stages.front();
  const StageReport& last = stages.back();
  std::string line =
      std::to_string(last.after) + '/' + counted(first.before, "node") + " fit" + (first.before == 1 ? "s" : "");
  auto append = [&line](const std::vector<std::pair<std::string, int64_t>>& reasons, std::string_view lead) {
    std::string_view separator = lead;
    int64_t rest = 0;
    for (std::size_t i = 0; i < reasons.size(); ++i) {
      if (i >= kMaxReasons) {
        rest += reasons[i].second;
        continue;
      }
      line += std::string(separator) + std::to_string(reasons[i].second) + ' ' + reasons[i].first;
      separator = ", ";
    }
    if (rest > 0)
      line += ", " + std::to_string(rest) + " for " + std::to_string(reasons.size() - kMaxReasons) + " other reasons";
  };
  std::size_t firstOfCards = 1;
  std::vector<std::pair<std::string, int64_t>> nodes = first.reasons;
  for (; stages[firstOfCards].stage.starts_with("node "); ++firstOfCards)
    nodes.insert(nodes.end(), stages[firstOfCards].reasons.begin(), stages[firstOfCards].reasons.end());
  append(nodes, ": ");
  std::vector<std::pair<std::string, int64_t>> cards;
  for (std::size_t i = firstOfCards; i + 1 < stages.size(); ++i)
    cards.insert(cards.end(), stages[i].reasons.begin(), stages[i].reasons.end());
  std::stable_sort(cards.begin(), cards.end(), [](const auto& a, const auto& b) { return a.second > b.second; });
  if (!cards.empty()) {
    line += (nodes.empty() ? ": " : "; of ") + counted(stages[firstOfCards].before, "card");
    append(cards, ": ");
  }
  if (!last.reasons.empty()) append(last.reasons, cards.empty() && nodes.empty() ? ": nodes: " : "; nodes: ");
  if (!smallestChange.empty()) line += "; " + smallestChange;
  return line;
}

}  // namespace egpu::scheduler

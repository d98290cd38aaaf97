// Why nothing fits: the filters of decide() once more, but counting what falls out where.
#include <algorithm>
#include <limits>
#include <map>

#include "api/v1alpha/quantity.h"
#include "controller/scheduler/decide.h"
#include "controller/scheduler/fit.h"
#include "controller/scheduler/remedy.h"
#include "controller/scheduler/state.h"

namespace egpu::scheduler {
namespace {

/// A stage while it is being counted.
struct Counting {
  int64_t before = 0;
  std::map<std::string, int64_t> reasons;

  StageReport report(std::string stage) const {
    StageReport r{std::move(stage), before, before, {}};
    for (const auto& [reason, count] : reasons) {
      r.after -= count;
      r.reasons.emplace_back(reason, count);
    }
    std::stable_sort(r.reasons.begin(), r.reasons.end(),
                     [](const auto& a, const auto& b) { return a.second > b.second; });
    return r;
  }
};

/// How close the best card came at one stage; the text is made once the best is known.
struct Shortfall {
  int64_t count = 0;
  int64_t need = 0;
  int64_t have = std::numeric_limits<int64_t>::min();

  void add(int64_t needed, int64_t had) {
    if (count++ == 0 || needed - had < need - have) {
      need = needed;
      have = had;
    }
  }
};

class Explaining {
 public:
  Explaining(const Cluster::State& state, const Request& request, const NodePredicate& suits)
      : state_(state), request_(request), suits_(suits), needs_(state, request) {}

  std::vector<StageReport> run() {
    for (const auto& [name, id] : state_.nodeIds) {
      ++node_.before;
      const NodeRecord& node = state_.nodes[id];
      if (std::string why = nodeFault(node); !why.empty()) {
        ++node_.reasons[why];
        continue;
      }
      if (!hasRoom(node)) continue;
      int64_t fitting = 0;
      for (CardId c : node.cards)
        if (passes(c)) ++fitting;
      if (fitting > 0 || request_.cards == 0) ++enough_.before;
      if (fitting > 0 && fitting < request_.cards) few_.add(request_.cards, fitting);
    }
    return reports();
  }

 private:
  std::string nodeFault(const NodeRecord& node) const {
    if (!request_.pinnedNode.empty() && node.name != request_.pinnedNode) return "not the pinned node";
    if (node.cards.empty() && request_.cards > 0) return "without cards";
    if (!node.offered()) return "not ready or cordoned";
    if (!nodeBelowLimit(node, request_))
      return "at the limit of " + std::to_string(request_.maxClaimsPerNode) + " claims per node";
    if (suits_ && !suits_(node.name)) return "not suitable for the pod";
    return {};
  }

  bool hasRoom(const NodeRecord& node) {
    const NodeAmount free = node.free();
    ++nodeCpu_.before;
    if (request_.cpuMilli > 0 && free.cpuMilli < request_.cpuMilli) {
      lackNodeCpu_.add(request_.cpuMilli, free.cpuMilli);
      return false;
    }
    ++nodeMemory_.before;
    if (request_.podMemory > 0 && free.memory < request_.podMemory) {
      lackNodeMemory_.add(request_.podMemory, free.memory);
      return false;
    }
    return true;
  }

  /// Walks a card through the stages.
  bool passes(CardId id) {
    const CardRecord& card = state_.cards[id];
    const CardType& type = state_.types[card.type];
    const Need need = needs_.of(card.type);
    if (!request_.pinnedCards.empty()) {
      ++pinned_.before;
      const auto& names = request_.pinnedCards;
      if (std::find(names.begin(), names.end(), card.facts->name) == names.end())
        return fault(pinned_, "not the pinned card");
    }
    ++health_.before;
    if (!card.healthy) return fault(health_, "quarantined");
    ++model_.before;
    if (need.verdict == TypeVerdict::otherModel) return fault(model_, "of another model");
    ++minMemory_.before;
    if (need.verdict == TypeVerdict::belowMinMemory)
      return fault(minMemory_, "with less memory than " + v1alpha::formatBytes(request_.minMemory));
    ++capacity_.before;
    if (need.verdict == TypeVerdict::noRating) return fault(capacity_, "without a TFLOPS rating");
    if (need.verdict == TypeVerdict::tooSmall) {
      if (need.granted.core > type.core) {
        smallCore_.add(need.granted.core, type.core);
      } else {
        smallMemory_.add(need.granted.memory, type.memory);
      }
      return false;
    }
    ++claims_.before;
    if (request_.maxClaimsPerCard > 0 && static_cast<int64_t>(card.takes.size()) >= request_.maxClaimsPerCard)
      return fault(claims_, "at the limit of " + std::to_string(request_.maxClaimsPerCard) + " claims per card");
    if (request_.wholeCards) {
      ++empty_.before;
      return card.empty() || fault(empty_, "in use");
    }
    ++core_.before;
    const Amount free = card.free();
    if (free.core < need.charged.core) {
      lackCore_.add(need.charged.core, free.core);
      return false;
    }
    ++memory_.before;
    if (free.memory < need.charged.memory) {
      lackMemory_.add(need.charged.memory, free.memory);
      return false;
    }
    return true;
  }

  static bool fault(Counting& stage, const std::string& reason) {
    ++stage.reasons[reason];
    return false;
  }

  static std::string bytes(int64_t n) { return v1alpha::formatBytes(std::max<int64_t>(n, 0)); }
  static std::string share(int64_t n) { return v1alpha::formatMilliCards(std::max<int64_t>(n, 0)); }
  static std::string cpu(int64_t n) {
    n = std::max<int64_t>(n, 0);
    return n % 1000 == 0 ? std::to_string(n / 1000) : std::to_string(n) + 'm';
  }
  template <class Format>
  static void spellOut(Counting& stage, const Shortfall& s, const std::string& what, const std::string& verb,
                       Format format) {
    if (s.count > 0)
      stage.reasons[what + " (need " + format(s.need) + ", best " + verb + ' ' + format(s.have) + ')'] += s.count;
  }

  std::vector<StageReport> reports() {
    spellOut(nodeCpu_, lackNodeCpu_, "short of free CPU", "has", cpu);
    spellOut(nodeMemory_, lackNodeMemory_, "short of free node memory", "has", bytes);
    spellOut(capacity_, smallCore_, "too small in core", "is", share);
    spellOut(capacity_, smallMemory_, "too small in memory", "is", bytes);
    spellOut(core_, lackCore_, "short of free core", "has", share);
    spellOut(memory_, lackMemory_, "short of free memory", "has", bytes);
    spellOut(enough_, few_, "with too few fitting cards", "has", [](int64_t n) { return std::to_string(n); });
    std::vector<StageReport> all;
    all.push_back(node_.report("node"));
    if (request_.cpuMilli > 0) all.push_back(nodeCpu_.report("node cpu"));
    if (request_.podMemory > 0) all.push_back(nodeMemory_.report("node memory"));
    if (!request_.pinnedCards.empty()) all.push_back(pinned_.report("pinned"));
    all.push_back(health_.report("health"));
    all.push_back(model_.report("model"));
    all.push_back(minMemory_.report("minMemory"));
    all.push_back(capacity_.report("capacity"));
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

  const Cluster::State& state_;
  const Request& request_;
  const NodePredicate& suits_;
  Needs needs_;
  Counting node_, nodeCpu_, nodeMemory_, pinned_, health_, model_, minMemory_, capacity_, claims_, empty_, core_,
      memory_, enough_;
  Shortfall lackNodeCpu_, lackNodeMemory_, smallCore_, smallMemory_, lackCore_, lackMemory_, few_;
};

std::string counted(int64_t n, std::string_view noun) {
  return std::to_string(n) + ' ' + std::string(noun) + (n == 1 ? "" : "s");
}

}  // namespace

Explanation explain(const Cluster& cluster, const Request& request, const NodePredicate& suits) {
  Explanation e;
  e.stages = Explaining(cluster.state(), request, suits).run();
  e.remedies = findRemedies(cluster, request, suits);
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
    for (const auto& [reason, count] : reasons) {
      line += std::string(separator) + std::to_string(count) + ' ' + reason;
      separator = ", ";
    }
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

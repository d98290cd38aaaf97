#include "controller/reconcile/pod/node_choice.h"

#include <algorithm>
#include <memory>
#include <set>
#include <utility>

#include "controller/reconcile/pod/node_fit/resources.h"

namespace egpu::reconcile {

namespace {
constexpr std::size_t kMaxReasons = 10;
}  // namespace

NodeChoice::NodeChoice(cache::Stores& stores, const core::Pod& pod, std::vector<core::NodeSelector> volumes,
                       std::string onlyNode, std::function<bool(std::string_view node)> rejected)
    : stores_(stores),
      pod_(pod),
      volumes_(std::move(volumes)),
      onlyNode_(std::move(onlyNode)),
      rejected_(std::move(rejected)),
      requests_(cache::requestsOf(pod)) {}

const NodeChoice::Verdict& NodeChoice::evaluate(std::string_view name) {
  const auto [it, fresh] = seen_.try_emplace(std::string(name));
  auto& verdict = it->second;
  if (!fresh) return verdict;
  const auto node = stores_.nodes.get({"", it->first});
  if (!node) return verdict;
  const auto key = core::keyOf(pod_.metadata);
  auto why = nodeUnsuitable(pod_, volumes_, *node);
  if (why.empty() && needsCapacityOn(it->first)) {
    why = shortOf(requests_, stores_.usage.of(it->first, key), *node);
    if (!why.empty()) {
      ++podsWaitingForNodeResources_;
      verdict.onceFree = shortOf(requests_, stores_.usage.ofLastingPods(it->first, key), *node).empty();
    }
    if (!why.empty() && pod_.preempts &&
        shortOf(requests_, stores_.usage.of(it->first, key, pod_.priority), *node).empty()) {
      verdict.fit = Fit::byEviction;
      ++evictable_;
    }
  }
  if (why.empty()) {
    verdict.fit = Fit::suits;
    if (ranked()) verdict.score = scoreOf(pod_, *node);
  } else {
    ++reasons_[why];
  }
  return verdict;
}

/// Capacity is not checked on the pod's own node, nor where the scheduler evicts pods for it.
bool NodeChoice::needsCapacityOn(const std::string& node) const {
  return pod_.nodeName.empty() && pod_.nominatedNodeName != node;
}

bool NodeChoice::promise(const std::string& name) {
  const auto node = stores_.nodes.get({"", name});
  if (!pod_.nodeName.empty() || !node) return true;
  const bool careful = needsCapacityOn(name) && evaluate(name).fit == Fit::suits;
  return stores_.usage.plan(pod_, name, [&](const cache::NodeUsage::Sum& taken) {
    return !careful || shortOf(requests_, taken, *node).empty();
  });
}

bool NodeChoice::isAsked(std::string_view node) const {
  return (onlyNode_.empty() || node == onlyNode_) && !(rejected_ && rejected_(node));
}

bool NodeChoice::suitsOnceFree(std::string_view node) {
  if (!isAsked(node)) return false;
  const auto& verdict = evaluate(node);
  return verdict.fit == Fit::suits || verdict.onceFree;
}

bool NodeChoice::suits(std::string_view node) {
  if (!isAsked(node)) return false;
  if (seen_.find(std::string(node)) == seen_.end()) {
    if (evaluationsLeft_ == 0) {
      limitReached_ = true;
      return false;
    }
    --evaluationsLeft_;
  }
  return evaluate(node).fit == Fit::suits;
}

void NodeChoice::evaluateAll() {
  evaluationsLeft_ = static_cast<std::size_t>(-1);
  limitReached_ = false;
  if (!onlyNode_.empty())
    evaluate(onlyNode_);
  else
    stores_.nodes.forEach([this](const auto& node) { evaluate(node->metadata.name); });
}

scheduler::NodePredicate NodeChoice::suitable() {
  const auto names = std::make_shared<std::set<std::string, std::less<>>>();
  for (const auto& [name, verdict] : seen_)
    if (verdict.fit == Fit::suits && suits(name)) names->insert(name);
  return [names](std::string_view node) { return names->contains(node); };
}

bool NodeChoice::anySuits() {
  return std::any_of(seen_.begin(), seen_.end(),
                     [this](const auto& each) { return each.second.fit == Fit::suits && suits(each.first); });
}

bool NodeChoice::ranked() const { return !pod_.preferredNodeAffinity.empty() || stores_.anyTaintToAvoid(); }

std::vector<scheduler::NodePredicate> NodeChoice::groups() {
  std::vector<const std::string*> names;
  std::vector<NodeScore> scores;
  for (const auto& [name, verdict] : seen_) {
    if (verdict.fit != Fit::suits) continue;
    names.push_back(&name);
    scores.push_back(verdict.score);
  }
  const auto worth = normalised(scores);
  auto ordered = worth;
  std::sort(ordered.begin(), ordered.end(), std::greater<>());
  ordered.erase(std::unique(ordered.begin(), ordered.end()), ordered.end());
  const auto groupOf = std::make_shared<std::unordered_map<std::string_view, std::size_t>>();
  for (std::size_t i = 0; i < names.size(); ++i) {
    const auto place = std::lower_bound(ordered.begin(), ordered.end(), worth[i], std::greater<>()) - ordered.begin();
    groupOf->emplace(*names[i], std::min(static_cast<std::size_t>(place), kGroups - 1));
  }
  std::vector<scheduler::NodePredicate> groups;
  for (std::size_t group = 0; group < std::min(ordered.size(), kGroups); ++group)
    groups.emplace_back([this, groupOf, group](std::string_view node) {
      const auto it = groupOf->find(node);
      return it != groupOf->end() && it->second == group && suits(node);
    });
  return groups;
}

scheduler::NodePredicate NodeChoice::byEviction() {
  if (evictable_ == 0) return {};
  return [this](std::string_view node) { return isAsked(node) && evaluate(node).fit == Fit::byEviction; };
}

std::string NodeChoice::text() const {
  std::vector<std::pair<int64_t, std::string_view>> ordered;
  for (const auto& [why, count] : reasons_) ordered.emplace_back(count, why);
  std::stable_sort(ordered.begin(), ordered.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
  std::string text;
  int64_t rest = 0;
  for (std::size_t i = 0; i < ordered.size(); ++i) {
    if (i >= kMaxReasons)
      rest += ordered[i].first;
    else
      text += (text.empty() ? "" : ", ") + std::to_string(ordered[i].first) + " " + std::string(ordered[i].second);
  }
  if (rest > 0)
    text += ", " + std::to_string(rest) + " for " + std::to_string(ordered.size() - kMaxReasons) + " other reasons";
  return text;
}

}  // namespace egpu::reconcile

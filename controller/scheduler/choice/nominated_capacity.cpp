#include "controller/scheduler/choice/nominated_capacity.h"

#include "controller/scheduler/choice/colocate.h"
#include "controller/scheduler/quota/within.h"

namespace egpu::scheduler {

void NominatedCapacity::add(const Cluster& from, const std::string& node, const Request& request,
                            std::optional<QuotaClaim> claim) {
  auto [known, fresh] = nodes_.try_emplace(node);
  if (fresh) copyNode(from, node, known->second.cluster);
  added_.emplace_back(node, known->second.requests.size());
  known->second.requests.push_back(request);
  known->second.claims.push_back(std::move(claim));
}

Cluster* NominatedCapacity::find(const std::string& node) {
  const auto known = nodes_.find(node);
  return known == nodes_.end() ? nullptr : &known->second.cluster;
}

bool NominatedCapacity::release(const std::vector<std::string>& victims) {
  for (const auto& victim : victims) released_.try_emplace(victim);
  for (auto& [name, node] : nodes_)
    for (auto& [device, holdings] : holdingsOn(node.cluster, name))
      if (const auto victim = released_.find(device); victim != released_.end())
        victim->second = {name, std::move(holdings), {}};
  for (auto& [victim, of] : released_) take(victim, of);
  return placeAll();
}

bool NominatedCapacity::spare(const std::string& victim) {
  const auto known = released_.find(victim);
  if (known == released_.end()) return true;
  giveBack(victim, known->second);
  if (!fitBeside(known->second)) {
    take(victim, known->second);
    return false;
  }
  released_.erase(known);
  return true;
}

bool NominatedCapacity::spareAll(const std::vector<std::string>& victims) {
  if (victims.size() == 1) return spare(victims.front());
  std::vector<std::string> back;
  for (const auto& victim : victims)
    if (const auto known = released_.find(victim); known != released_.end()) {
      giveBack(victim, known->second);
      back.push_back(victim);
    }
  const bool fit = back.empty() || placeAll();
  for (const auto& victim : back) {
    if (fit)
      released_.erase(victim);
    else
      take(victim, released_.at(victim));
  }
  return fit;
}

bool NominatedCapacity::fitBeside(const Released& of) {
  if (!of.node.empty()) {
    auto& node = nodes_.at(of.node);
    auto placed = place(node, of.node);
    if (!placed) return false;
    if (of.quota.parts.empty()) {
      node.placed = std::move(*placed);
      return true;
    }
    auto before = std::exchange(node.placed, std::move(*placed));
    if (withinQuotas()) return true;
    node.placed = std::move(before);
  }
  return of.quota.parts.empty() || withinQuotas() || placeAll();
}

void NominatedCapacity::take(const std::string& victim, Released& of) {
  if (!of.node.empty()) scheduler::release(nodes_.at(of.node).cluster, victim, of.holdings);
  of.quota = book_.withdraw(victim);
}

void NominatedCapacity::giveBack(const std::string& victim, const Released& of) {
  if (!of.node.empty()) hold(nodes_.at(of.node).cluster, victim, of.holdings);
  book_.restore(victim, of.quota);
}

std::optional<NominatedCapacity::Placed> NominatedCapacity::place(Node& node, const std::string& name) {
  ++tries_;
  for (std::size_t i = 0; i < node.requests.size(); ++i)
    if (node.claims[i]) node.requests[i].quota = book_.remaining(*node.claims[i]);
  Placed placed{togetherOn(node.cluster, node.requests, name), {}};
  if (placed.decisions.empty()) return std::nullopt;
  for (std::size_t i = 0; i < placed.decisions.size(); ++i)
    if (node.claims[i]) placed.asked.push_back({*node.claims[i], partsOf(node.cluster, placed.decisions[i])});
  return placed;
}

bool NominatedCapacity::placeAll() {
  std::vector<Placed> before;
  for (auto& [name, node] : nodes_) {
    auto placed = place(node, name);
    if (!placed) break;
    before.push_back(std::exchange(node.placed, std::move(*placed)));
  }
  if (before.size() == nodes_.size() && withinQuotas()) return true;
  auto node = nodes_.begin();
  for (auto& placed : before) (node++)->second.placed = std::move(placed);
  return false;
}

bool NominatedCapacity::withinQuotas() const {
  std::vector<QuotaAsked> all;
  for (const auto& [name, node] : nodes_) all.insert(all.end(), node.placed.asked.begin(), node.placed.asked.end());
  return !book_.excess(all);
}

std::vector<Decision> NominatedCapacity::decisions() const {
  std::vector<Decision> all;
  for (const auto& [node, position] : added_) all.push_back(nodes_.at(node).placed.decisions[position]);
  return all;
}

}  // namespace egpu::scheduler

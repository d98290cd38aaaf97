#include "controller/reconcile/retry/node_backoff.h"

#include <algorithm>

namespace egpu::reconcile {

void NodeBackoff::reject(const std::string& claimUid, const std::string& node, const std::string& why,
                         std::chrono::milliseconds howLong) {
  const base::MutexLock lock(mutex_);
  auto& nodes = rejected_[claimUid];
  auto& rejection = nodes[node];
  if (clock_.now() < rejection.until) return;  // the same refusal, reported again
  const auto longer = base::exponentialBackoff(howLong, rejection.times + 1, timeouts_.maxNodeBackoff);
  rejection = {clock_.now() + longer, why, rejection.times + 1};
  if (nodes.size() <= kMaxNodes) return;
  nodes.erase(std::min_element(nodes.begin(), nodes.end(),
                               [](const auto& a, const auto& b) { return a.second.until < b.second.until; }));
}

void NodeBackoff::nodeChanged(std::string_view node) {
  const base::MutexLock lock(mutex_);
  const auto now = clock_.now();
  for (auto& [claim, nodes] : rejected_)
    if (auto it = nodes.find(node); it != nodes.end()) it->second.until = std::min(it->second.until, now);
}

bool NodeBackoff::rejected(const std::string& claimUid, std::string_view node) const {
  const base::MutexLock lock(mutex_);
  auto claim = rejected_.find(claimUid);
  if (claim == rejected_.end()) return false;
  auto it = claim->second.find(node);
  return it != claim->second.end() && clock_.now() < it->second.until;
}

bool NodeBackoff::anyRejected(const std::string& claimUid) const { return untilNextNode(claimUid).count() > 0; }

std::string NodeBackoff::text(const std::string& claimUid) const {
  const base::MutexLock lock(mutex_);
  auto claim = rejected_.find(claimUid);
  if (claim == rejected_.end()) return {};
  std::string text;
  std::size_t more = 0;
  for (const auto& [node, rejection] : claim->second) {
    if (clock_.now() >= rejection.until) continue;
    if (!text.empty()) {
      ++more;
      continue;
    }
    text = "node " + node + " is not tried for a while" + (rejection.why.empty() ? "" : ": " + rejection.why);
  }
  return more == 0 ? text : text + " (and " + std::to_string(more) + " more)";
}

std::chrono::milliseconds NodeBackoff::untilNextNode(const std::string& claimUid) const {
  const base::MutexLock lock(mutex_);
  auto claim = rejected_.find(claimUid);
  if (claim == rejected_.end()) return {};
  const auto now = clock_.now();
  std::chrono::milliseconds least{0};
  for (const auto& [node, rejection] : claim->second) {
    if (now >= rejection.until) continue;
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(rejection.until - now);
    if (least.count() == 0 || left < least) least = left;
  }
  return least;
}

void NodeBackoff::refusedOn(const std::string& claimUid, const std::string& node) {
  const base::MutexLock lock(mutex_);
  auto& nodes = refusedOn_[claimUid];
  if (nodes.size() >= kMaxNodes) nodes.clear();
  nodes.insert(node);
}

bool NodeBackoff::wasRefusedOn(const std::string& claimUid, std::string_view node) const {
  const base::MutexLock lock(mutex_);
  const auto it = refusedOn_.find(claimUid);
  return it != refusedOn_.end() && it->second.find(node) != it->second.end();
}

bool NodeBackoff::anyRefused(const std::string& claimUid) const {
  const base::MutexLock lock(mutex_);
  return refusedOn_.count(claimUid) != 0;
}

void NodeBackoff::forgetRefused(const std::string& claimUid) {
  const base::MutexLock lock(mutex_);
  refusedOn_.erase(claimUid);
}

NodeBackoff::Placement& NodeBackoff::placementOf(const std::string& claimUid, const std::string& device) {
  auto& placement = placements_[claimUid];
  if (placement.device != device) placement = {device, clock_.now(), std::nullopt};
  return placement;
}

std::chrono::milliseconds NodeBackoff::waitedFor(const std::string& claimUid, const std::string& device) {
  const base::MutexLock lock(mutex_);
  return std::chrono::duration_cast<std::chrono::milliseconds>(clock_.now() - placementOf(claimUid, device).since);
}

std::chrono::milliseconds NodeBackoff::unplacedFor(const std::string& claimUid, const std::string& device) {
  const base::MutexLock lock(mutex_);
  auto& placement = placementOf(claimUid, device);
  if (!placement.unplacedSince) placement.unplacedSince = clock_.now();
  return std::chrono::duration_cast<std::chrono::milliseconds>(clock_.now() - *placement.unplacedSince);
}

void NodeBackoff::notUnplaced(const std::string& claimUid) {
  const base::MutexLock lock(mutex_);
  if (const auto placement = placements_.find(claimUid); placement != placements_.end())
    placement->second.unplacedSince.reset();
}

void NodeBackoff::placed(const std::string& claimUid) {
  const base::MutexLock lock(mutex_);
  placements_.erase(claimUid);
}

void NodeBackoff::forgetClaim(const std::string& claimUid) {
  choices_.reset(claimUid);
  const base::MutexLock lock(mutex_);
  rejected_.erase(claimUid);
  refusedOn_.erase(claimUid);
  placements_.erase(claimUid);
}

std::size_t NodeBackoff::claims() const {
  const base::MutexLock lock(mutex_);
  return rejected_.size() + refusedOn_.size() + choices_.size() + placements_.size();
}

}  // namespace egpu::reconcile

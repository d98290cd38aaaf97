#include "controller/cache/node_usage.h"

#include <utility>

#include "api/v1alpha/pod_claims.h"
#include "controller/cache/holder_signs.h"
#include "controller/cache/store.h"

namespace egpu::cache {

namespace {
bool leaves(const core::Pod& pod) { return v1alpha::hasPodClaims(pod) && !isReplaced(pod); }
}  // namespace

void NodeUsage::add(Sum& sum, const PodUsage& entry, int64_t sign) {
  sum.pods += sign;
  if (sign > 0)
    sum.requests += entry.requests;
  else
    sum.requests -= entry.requests;
}

void NodeUsage::count(const PodUsage& entry, int64_t sign) {
  if (!entry.leaves) {
    auto& sum = lasting_[entry.node];
    add(sum, entry, sign);
    if (sum.pods == 0) lasting_.erase(entry.node);
  }
  auto& sums = nodes_[entry.node];
  auto& sum = sums[entry.priority];
  add(sum, entry, sign);
  if (sum.pods > 0) return;
  sums.erase(entry.priority);
  if (sums.empty()) nodes_.erase(entry.node);
}

void NodeUsage::put(const std::string& key, PodUsage entry, std::vector<std::string>& freed) {
  entry.list = lists_;
  if (auto old = pods_.find(key); old != pods_.end()) {
    const bool same = old->second.node == entry.node && old->second.priority == entry.priority &&
                      old->second.requests == entry.requests && old->second.leaves == entry.leaves;
    if (!same) {
      count(old->second, -1);
      freed.push_back(old->second.node);
      count(entry, 1);
    }
    old->second = std::move(entry);
    return;
  }
  count(entry, 1);
  pods_.emplace(key, std::move(entry));
}

void NodeUsage::drop(const std::string& key, std::vector<std::string>& freed) {
  const auto it = pods_.find(key);
  if (it == pods_.end()) return;
  count(it->second, -1);
  freed.push_back(it->second.node);
  pods_.erase(it);
}

void NodeUsage::see(const core::Pod& pod, bool listed, std::vector<std::string>& freed) {
  const auto key = core::keyOf(pod.metadata).str();
  const auto version = versionOf(pod.metadata.resourceVersion);
  const auto known = pods_.find(key);
  const bool same = known != pods_.end() && known->second.uid == pod.metadata.uid;
  const bool replaces = listed && same && known->second.list != lists_;
  if (same && !replaces && version != 0 && version < known->second.version) return;
  if (pod.finished()) return drop(key, freed);
  if (pod.nodeName.empty()) {
    if (known != pods_.end() && !(same && known->second.planned)) drop(key, freed);
    return;
  }
  put(key, {pod.metadata.uid, pod.nodeName, version, pod.priority, requestsOf(pod), false, leaves(pod)}, freed);
}

void NodeUsage::seen(const core::Pod& pod) {
  std::vector<std::string> freed;
  {
    const base::MutexLock lock(mutex_);
    see(pod, false, freed);
  }
  notify(freed);
}

void NodeUsage::gone(const core::ObjectKey& key, std::string_view uid) {
  std::vector<std::string> freed;
  {
    const base::MutexLock lock(mutex_);
    const auto it = pods_.find(key.str());
    if (it == pods_.end() || (!uid.empty() && it->second.uid != uid)) return;
    listed_.erase(it->first);
    drop(it->first, freed);
  }
  notify(freed);
}

void NodeUsage::listBegins() {
  const base::MutexLock lock(mutex_);
  listed_.clear();
  ++lists_;
}

void NodeUsage::listed(const core::Pod& pod) {
  std::vector<std::string> freed;
  {
    const base::MutexLock lock(mutex_);
    listed_.insert(core::keyOf(pod.metadata).str());
    see(pod, true, freed);
  }
  notify(freed);
}

void NodeUsage::listEnds() {
  std::vector<std::string> freed;
  {
    const base::MutexLock lock(mutex_);
    std::vector<std::string> vanished;
    for (const auto& [key, entry] : pods_)
      if (listed_.count(key) == 0) vanished.push_back(key);
    for (const auto& key : vanished) drop(key, freed);
    listed_ = {};
  }
  notify(freed);
}

bool NodeUsage::plan(const core::Pod& pod, const std::string& node, const std::function<bool(const Sum&)>& fits) {
  std::vector<std::string> freed;
  {
    const base::MutexLock lock(mutex_);
    const auto key = core::keyOf(pod.metadata).str();
    const auto known = pods_.find(key);
    if (known != pods_.end() && known->second.uid == pod.metadata.uid && !known->second.planned)
      return true;  // it has a node, or is finished
    if (fits && !fits(sumOf(node, key, kAllPriorities))) return false;
    put(key, {pod.metadata.uid, node, 0, pod.priority, requestsOf(pod), true, leaves(pod)}, freed);
  }
  notify(freed);
  return true;
}

void NodeUsage::unplan(const core::ObjectKey& pod) {
  std::vector<std::string> freed;
  {
    const base::MutexLock lock(mutex_);
    const auto it = pods_.find(pod.str());
    if (it == pods_.end() || !it->second.planned) return;
    drop(it->first, freed);
  }
  notify(freed);
}

NodeUsage::Sum NodeUsage::sumOf(std::string_view node, const std::string& without, int64_t leastPriority) const {
  Sum all;
  const auto sums = nodes_.find(std::string(node));
  if (sums == nodes_.end()) return all;
  for (auto it = sums->second.lower_bound(leastPriority); it != sums->second.end(); ++it) {
    all.requests += it->second.requests;
    all.pods += it->second.pods;
  }
  const auto self = pods_.find(without);
  if (self != pods_.end() && self->second.node == node && self->second.priority >= leastPriority) {
    all.requests -= self->second.requests;
    --all.pods;
  }
  return all;
}

NodeUsage::Sum NodeUsage::of(std::string_view node, const core::ObjectKey& without, int64_t leastPriority) const {
  const base::MutexLock lock(mutex_);
  return sumOf(node, without.str(), leastPriority);
}

NodeUsage::Sum NodeUsage::ofLastingPods(std::string_view node, const core::ObjectKey& without) const {
  const base::MutexLock lock(mutex_);
  const auto known = lasting_.find(std::string(node));
  Sum sum = known == lasting_.end() ? Sum() : known->second;
  const auto self = pods_.find(without.str());
  if (self != pods_.end() && self->second.node == node && !self->second.leaves) add(sum, self->second, -1);
  return sum;
}

void NodeUsage::notify(const std::vector<std::string>& freed) const {
  if (!freed_) return;
  for (const auto& node : freed) freed_(node);
}

}  // namespace egpu::cache

#include "controller/cache/node_taints.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <mutex>
#include <utility>

namespace egpu::cache {
namespace {

bool repels(const core::Taint& taint) { return taint.effect == "NoSchedule" || taint.effect == "NoExecute"; }

NodeTaints::Taints ofNode(const core::Node* node) {
  NodeTaints::Taints taints;
  if (node != nullptr) std::copy_if(node->taints.begin(), node->taints.end(), std::back_inserter(taints), repels);
  return taints;
}

}  // namespace

NodeTaints::NodeTaints(Store<core::Node>& nodes) : nodes_(nodes) {
  nodes.listen([this](const auto* before, const auto* after) { changed(before, after); });
}

void NodeTaints::changed(const core::Node* before, const core::Node* after) {
  if (ofNode(before) == ofNode(after)) return;
  const auto& name = (after ? after : before)->metadata.name;
  const base::ExclusiveLock lock(mutex_);
  const auto now = nodes_.get({"", name});  // `after` may be outdated
  auto taints = ofNode(now.get());
  ++version_;
  if (taints.empty()) {
    byNode_.erase(name);
    return;
  }
  const auto same =
      std::find_if(byNode_.begin(), byNode_.end(), [&](const auto& one) { return *one.second == taints; });
  byNode_[name] = same != byNode_.end() ? same->second : std::make_shared<const Taints>(std::move(taints));
}

bool NodeTaints::any() const {
  const base::SharedLock lock(mutex_);
  return !byNode_.empty();
}

uint64_t NodeTaints::version() const {
  const base::SharedLock lock(mutex_);
  return version_;
}

std::shared_ptr<const NodeTaints::Taints> NodeTaints::of(std::string_view node) const {
  const base::SharedLock lock(mutex_);
  const auto it = byNode_.find(std::string(node));
  return it == byNode_.end() ? nullptr : it->second;
}

std::vector<NodeTaints::TaintGroup> NodeTaints::groups() const {
  std::map<const Taints*, TaintGroup> byList;
  {
    const base::SharedLock lock(mutex_);
    for (const auto& [node, taints] : byNode_) {
      auto& group = byList[taints.get()];
      if (group.nodes++ == 0) group.taints = *taints;
      if (group.example.empty() || node < group.example) group.example = node;
    }
  }
  std::vector<TaintGroup> all;
  all.reserve(byList.size());
  for (auto& [list, group] : byList) all.push_back(std::move(group));
  std::sort(all.begin(), all.end(), [](const TaintGroup& a, const TaintGroup& b) { return a.example < b.example; });
  return all;
}

}  // namespace egpu::cache

// Read access to ClusterView: the allocation map, totals, and differences between a card's ledger and its allocations.
#include <algorithm>
#include <tuple>
#include <utility>

#include "api/v1alpha/keys.h"
#include "controller/allocator/allocator.h"

namespace egpu::cache {

namespace phase = v1alpha::keys::phase;

bool MapNode::isUsed() const {
  return std::any_of(cards.begin(), cards.end(), [](const MapCard& card) {
    return std::any_of(card.allocations.begin(), card.allocations.end(),
                       [](const MapAllocation& each) { return !each.adminAccess(); });
  });
}

MapCard ClusterView::mapCard(const Cards::value_type& card) const {
  const auto& [name, state] = card;
  const auto known = cluster_.findCard(name);
  MapCard out;
  out.name = name;
  out.uuid = known.uuid;
  out.model = known.model;
  out.index = known.index;
  out.core = known.capacity.core;
  out.memory = known.capacity.memory;
  out.why = unschedulableReason(card);
  out.offered = out.why.empty();
  for (const auto& held : state.held) {
    MapAllocation row;
    row.deviceUid = held.take.uid();
    row.core = held.take.effective().core;
    row.memory = held.take.effective().memory;
    row.phase = phase::kPending;
    if (held.take.hasSource(AllocationSource::assumed) && row.deviceUid.starts_with(kAssumed))
      if (const auto it = assumptions_.find(row.deviceUid.substr(kAssumed.size())); it != assumptions_.end())
        row.claim = it->second.claim;
    if (held.device) row.device = held.device->first;
    out.usedCore += row.core;
    out.usedMemory += row.memory;
    out.allocations.push_back(std::move(row));
  }
  std::sort(out.allocations.begin(), out.allocations.end(),
            [](const MapAllocation& a, const MapAllocation& b) { return a.deviceUid < b.deviceUid; });
  return out;
}

void ClusterView::eachCard(const std::function<void(const Cards::value_type&)>& visit) const {
  std::unique_lock lock(mutex_);
  std::size_t seen = 0;
  for (auto card = cards_.begin(); card != cards_.end();) {
    if (card->second.present) visit(*card);
    if (++seen % kCardsAtOnce != 0) {
      ++card;
      continue;
    }
    const auto last = card->first;
    yieldLock(lock);
    card = cards_.upper_bound(last);
  }
}

std::vector<std::string> ClusterView::nodesOf(const MapPage& page) const {
  const std::lock_guard lock(mutex_);
  auto nodes = cluster_.nodes();
  if (!cluster_.cardsOfNoNode().empty()) nodes.emplace_back();
  std::sort(nodes.begin(), nodes.end());
  nodes.erase(std::unique(nodes.begin(), nodes.end()), nodes.end());
  std::erase_if(nodes, [&page](const std::string& name) {
    return (!page.node.empty() && name != page.node) || (!page.after.empty() && name <= page.after);
  });
  return nodes;
}

std::optional<MapNode> ClusterView::mapNode(const std::string& name) const {
  MapNode node{name, cluster_.nodeSchedulable(name), {}};
  for (const auto& each : name.empty() ? cluster_.cardsOfNoNode() : cluster_.cardsOf(name))
    if (const auto card = cards_.find(each); card != cards_.end() && card->second.present)
      node.cards.push_back(mapCard(*card));
  if (node.cards.empty() && (name.empty() || !cluster_.describeNode(name))) return std::nullopt;
  return node;
}

AllocationMap ClusterView::map(const MapPage& page) const {
  AllocationMap result;
  std::size_t seen = 0;
  const auto names = nodesOf(page);
  std::unique_lock lock(mutex_);
  for (const auto& name : names) {
    auto node = mapNode(name);
    if (!node) continue;
    seen += 1 + node->cards.size();
    if (seen >= kCardsAtOnce) {
      yieldLock(lock);
      seen = 0;
    }
    if (page.idle && node->isUsed()) continue;
    if (page.limit > 0 && result.nodes.size() == page.limit) {
      result.next = result.nodes.back().name;
      break;
    }
    result.nodes.push_back(std::move(*node));
  }
  lock.unlock();
  for (auto& node : result.nodes) {
    for (auto& card : node.cards) describe(card);
    std::sort(node.cards.begin(), node.cards.end(),
              [](const MapCard& a, const MapCard& b) { return std::tie(a.index, a.uuid) < std::tie(b.index, b.uuid); });
  }
  return result;
}

void ClusterView::describe(MapCard& card) const {
  for (auto& take : card.allocations) describe(take);
  const auto object = stores_.cards.get({"", card.name});
  if (!object || !object->status.usage) return;
  card.usage = object->status.usage;
  for (auto& take : card.allocations) {
    if (take.device.empty()) continue;
    const auto used = card.usage->devices.find(take.deviceUid);
    take.usage = used == card.usage->devices.end() ? v1alpha::DeviceUsage{0, 0} : used->second;
  }
}

void ClusterView::describe(MapAllocation& take) const {
  if (take.device.empty()) return;
  const auto device = stores_.devices.get({"", take.device});
  if (!device || device->metadata.uid != take.deviceUid) {
    take.device.clear();
    return;
  }
  if (!device->status.phase.empty()) take.phase = device->status.phase;
  if (device->spec.claimRef) take.claim = device->spec.claimRef->namespace_ + "/" + device->spec.claimRef->name;
}

ClusterTotals ClusterView::totals() const {
  ClusterTotals totals;
  eachCard([&](const auto& card) {
    const auto& [name, state] = card;
    const auto known = cluster_.findCard(name);
    ++totals.cards;
    if (!unschedulableReason(card).empty()) {
      ++totals.quarantined;
    } else {
      ++totals.offered;
      const bool full = known.used.core >= known.capacity.core || known.used.memory >= known.capacity.memory;
      ++(state.held.empty() ? totals.free : full ? totals.full : totals.partly);
    }
    totals.allocations += static_cast<int64_t>(state.held.size());
    totals.core += known.capacity.core;
    totals.memory += known.capacity.memory;
    totals.usedCore += known.used.core;
    totals.usedMemory += known.used.memory;
  });
  const std::lock_guard lock(mutex_);
  totals.nodes = static_cast<int64_t>(cluster_.nodeCount());
  return totals;
}

CardAudit ClusterView::audit(std::string_view card) const {
  CardAudit audit;
  std::lock_guard lock(mutex_);
  const auto it = cards_.find(card);
  if (it == cards_.end() || !it->second.present) return audit;
  const auto known = cluster_.findCard(card);
  audit.known = true;
  audit.core = known.capacity.core;
  audit.memory = known.capacity.memory;
  audit.usedCore = known.used.core;
  audit.usedMemory = known.used.memory;
  for (const auto& held : it->second.held) {
    if (const auto entry = held.take.of(AllocationSource::ledger)) {
      audit.ledgerCore += entry->core;
      audit.ledgerMemory += entry->memory;
      if (!held.device) audit.entryWithoutDevice.push_back(held.take.uid());
    } else if (held.device && committed(*held.device->second.object)) {
      audit.deviceWithoutEntry.push_back(held.device->first);
    }
  }
  std::sort(audit.entryWithoutDevice.begin(), audit.entryWithoutDevice.end());
  std::sort(audit.deviceWithoutEntry.begin(), audit.deviceWithoutEntry.end());
  return audit;
}

std::string ClusterView::quarantineReason(std::string_view card) const {
  std::lock_guard lock(mutex_);
  const auto it = cards_.find(card);
  if (it == cards_.end() || !it->second.present) return "not known";
  return unschedulableReason(*it);
}

scheduler::Cluster ClusterView::copy() const {
  std::lock_guard lock(mutex_);
  return cluster_;  // without the listener
}

}  // namespace egpu::cache

#include "controller/allocator/allocation_map.h"

#include <algorithm>
#include <functional>
#include <tuple>
#include <utility>

#include "api/v1alpha/keys.h"
#include "api/v1alpha/remote.h"
#include "controller/allocator/allocator_state.h"
#include "controller/base/mutex.h"

namespace egpu::allocator {
namespace {

/// Map entry of the card, without the fields that come from device objects.
MapCard mapCard(const ClusterState& state, const CardEntry& card) {
  const auto& name = card.first;
  const auto known = state.cluster().findCard(name);
  MapCard out;
  out.name = name;
  out.uuid = known.uuid;
  out.model = known.model;
  out.index = known.index;
  out.core = known.capacity.core;
  out.memory = known.capacity.memory;
  out.why = state.unschedulableReason(card);
  out.offered = out.why.empty();
  for (const auto& held : card.second.held) {
    MapAllocation row;
    row.deviceUid = held.amounts.uid();
    row.core = held.amounts.effective().core;
    row.memory = held.amounts.effective().memory;
    row.slots = held.amounts.effective().slots;
    row.phase = v1alpha::keys::phase::kPending;
    if (held.amounts.hasSource(AllocationSource::assumed) && row.deviceUid.starts_with(ClusterState::kAssumed))
      if (const auto* const assumption = state.findAssumption(row.deviceUid.substr(ClusterState::kAssumed.size())))
        row.claim = assumption->claim;
    if (held.device) row.device = held.device->first;
    out.usedCore += row.core;
    out.usedMemory += row.memory;
    out.allocations.push_back(std::move(row));
  }
  std::sort(out.allocations.begin(), out.allocations.end(),
            [](const MapAllocation& a, const MapAllocation& b) { return a.deviceUid < b.deviceUid; });
  return out;
}

/// Nullopt if the node is gone.
std::optional<MapNode> mapNode(const ClusterState& state, const std::string& name) {
  const auto& cluster = state.cluster();
  MapNode node{name, cluster.nodeSchedulable(name), {}};
  for (const auto& each : name.empty() ? cluster.cardsOfNoNode() : cluster.cardsOf(name))
    if (const auto card = state.cards().find(each); card != state.cards().end() && card->second.present)
      node.cards.push_back(mapCard(state, *card));
  if (node.cards.empty() && (name.empty() || !cluster.describeNode(name))) return std::nullopt;
  return node;
}

/// Visits each card whose object exists. Releases the lock in between.
void eachCard(AllocatorState& state, const std::function<void(const CardEntry&)>& visit) EGPU_REQUIRES(state.mutex) {
  const auto& cards = state.cluster.cards();
  std::size_t seen = 0;
  for (auto card = cards.begin(); card != cards.end();) {
    if (card->second.present) visit(*card);
    if (++seen % AllocatorState::kCardsAtOnce != 0) {
      ++card;
      continue;
    }
    const auto last = card->first;
    state.yield();
    card = cards.upper_bound(last);
  }
}

}  // namespace

bool MapNode::isUsed() const {
  return std::any_of(cards.begin(), cards.end(), [](const MapCard& card) {
    return std::any_of(card.allocations.begin(), card.allocations.end(),
                       [](const MapAllocation& each) { return !each.adminAccess(); });
  });
}

std::vector<std::string> AllocationMapReader::nodesOf(const MapPage& page) const {
  // One node must not cost a list of all: the page of the operations endpoint asks for each node that changes.
  if (!page.node.empty()) return page.node > page.after ? std::vector{page.node} : std::vector<std::string>{};
  const base::MutexLock lock(state_.mutex);
  const auto& cluster = state_.cluster.cluster();
  auto nodes = cluster.nodes();
  if (!cluster.cardsOfNoNode().empty()) nodes.emplace_back();
  std::sort(nodes.begin(), nodes.end());
  nodes.erase(std::unique(nodes.begin(), nodes.end()), nodes.end());
  std::erase_if(nodes, [&page](const std::string& name) { return !page.after.empty() && name <= page.after; });
  return nodes;
}

AllocationMap AllocationMapReader::map(const MapPage& page) const {
  AllocationMap result;
  std::size_t seen = 0;
  const auto names = nodesOf(page);
  base::MutexLock lock(state_.mutex);
  for (const auto& name : names) {
    auto node = mapNode(state_.cluster, name);
    if (!node) continue;
    seen += 1 + node->cards.size();
    if (seen >= AllocatorState::kCardsAtOnce) {
      state_.yield();
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
  if (page.node.empty() && page.after.empty() && !page.idle) result.remote = remoteDevices();
  for (auto& node : result.nodes) {
    for (auto& card : node.cards) describe(card);
    std::sort(node.cards.begin(), node.cards.end(),
              [](const MapCard& a, const MapCard& b) { return std::tie(a.index, a.uuid) < std::tie(b.index, b.uuid); });
  }
  return result;
}

std::vector<MapRemoteDevice> AllocationMapReader::remoteDevices() const {
  std::vector<MapRemoteDevice> out;
  state_.stores.devices.forEach([&out](const auto& device) {
    if (!v1alpha::isRemote(*device)) return;
    const auto& spec = device->spec;
    const auto pool = spec.parameters.find(std::string_view("pool"));
    out.push_back({device->metadata.name, spec.claimRef ? spec.claimRef->namespace_ + "/" + spec.claimRef->name : "",
                   device->status.phase.empty() ? std::string(v1alpha::keys::phase::kPending) : device->status.phase,
                   spec.className, pool == spec.parameters.end() ? "" : v1alpha::withoutSecrets(pool->second),
                   v1alpha::withoutSecrets(spec.source->endpoint)});
  });
  std::sort(out.begin(), out.end(), [](const auto& a, const auto& b) { return a.device < b.device; });
  return out;
}

void AllocationMapReader::describe(MapCard& card) const {
  for (auto& take : card.allocations) describe(take);
  const auto object = state_.stores.cards.get({"", card.name});
  if (object && !card.allocations.empty()) card.mode = object->spec.mode;
  if (!object || !object->status.usage) return;
  card.usage = object->status.usage;
  for (auto& take : card.allocations) {
    if (take.device.empty()) continue;
    const auto used = card.usage->devices.find(take.deviceUid);
    take.usage = used == card.usage->devices.end() ? v1alpha::DeviceUsage{0, 0} : used->second;
  }
}

void AllocationMapReader::describe(MapAllocation& take) const {
  if (take.device.empty()) return;
  const auto device = state_.stores.devices.get({"", take.device});
  if (!device || device->metadata.uid != take.deviceUid) {
    take.device.clear();
    return;
  }
  if (!device->status.phase.empty()) take.phase = device->status.phase;
  if (device->spec.source && !take.slots.empty()) take.profile = device->spec.source->profile;
  if (device->spec.claimRef) take.claim = device->spec.claimRef->namespace_ + "/" + device->spec.claimRef->name;
}

ClusterTotals AllocationMapReader::totals() const {
  ClusterTotals totals;
  const base::MutexLock lock(state_.mutex);
  const auto* const state = &state_.cluster;
  eachCard(state_, [&totals, state](const CardEntry& card) {
    const auto known = state->cluster().findCard(card.first);
    ++totals.cards;
    if (!state->unschedulableReason(card).empty()) {
      ++totals.quarantined;
    } else {
      ++totals.offered;
      const bool full = known.used.core >= known.capacity.core || known.used.memory >= known.capacity.memory;
      ++(card.second.held.empty() ? totals.free : full ? totals.full : totals.partly);
    }
    totals.allocations += static_cast<int64_t>(card.second.held.size());
    totals.core += known.capacity.core;
    totals.memory += known.capacity.memory;
    totals.usedCore += known.used.core;
    totals.usedMemory += known.used.memory;
  });
  totals.nodes = static_cast<int64_t>(state->cluster().nodeCount());
  return totals;
}

CardAudit AllocationMapReader::audit(std::string_view card) const {
  CardAudit audit;
  const base::MutexLock lock(state_.mutex);
  const auto it = state_.cluster.cards().find(card);
  if (it == state_.cluster.cards().end() || !it->second.present) return audit;
  const auto known = state_.cluster.cluster().findCard(card);
  audit.known = true;
  audit.core = known.capacity.core;
  audit.memory = known.capacity.memory;
  audit.usedCore = known.used.core;
  audit.usedMemory = known.used.memory;
  for (const auto& held : it->second.held) {
    if (const auto entry = held.amounts.of(AllocationSource::ledger)) {
      audit.ledgerCore += entry->core;
      audit.ledgerMemory += entry->memory;
      if (!held.device) audit.entryWithoutDevice.push_back(held.amounts.uid());
    } else if (held.device && isCommitted(*held.device->second.object)) {
      audit.deviceWithoutEntry.push_back(held.device->first);
    }
  }
  std::sort(audit.entryWithoutDevice.begin(), audit.entryWithoutDevice.end());
  std::sort(audit.deviceWithoutEntry.begin(), audit.deviceWithoutEntry.end());
  return audit;
}

std::string AllocationMapReader::quarantineReason(std::string_view card) const {
  const base::MutexLock lock(state_.mutex);
  const auto it = state_.cluster.cards().find(card);
  if (it == state_.cluster.cards().end() || !it->second.present) return "not known";
  return state_.cluster.unschedulableReason(*it);
}

}  // namespace egpu::allocator

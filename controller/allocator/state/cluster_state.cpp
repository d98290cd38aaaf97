#include "controller/allocator/state/cluster_state.h"

#include <algorithm>
#include <utility>

#include "api/v1alpha/keys.h"
#include "api/v1alpha/quantity.h"
#include "api/v1alpha/remote.h"
#include "api/v1alpha/size.h"

namespace egpu::allocator {
namespace {

namespace phase = v1alpha::keys::phase;
using scheduler::Amount;

bool holds(const Amount& has, const Amount& needs) { return has.core >= needs.core && has.memory >= needs.memory; }

/// True if the device was made for a claim of all memory of its cards: the claim names no amount of memory.
bool takesAllMemory(const cache::Stores& stores, const cache::Gpu& device) {
  const auto& ref = device.spec.claimRef;
  const auto claim = ref ? stores.claims.get({ref->namespace_, ref->name}) : nullptr;
  if (!claim || claim->metadata.uid != ref->uid) return false;
  // A claim that named the device has no requests: the device's source decides.
  if (device.metadata.name != std::string(v1alpha::keys::kDevicePrefix) + claim->metadata.uid)
    return device.spec.source && device.spec.source->kind == v1alpha::SourceKind::physicalGPU;
  const auto& requests = device.spec.target               ? device.spec.target->requests
                         : claim->status.requests.empty() ? claim->spec.requests
                                                          : claim->status.requests;
  return std::none_of(requests.begin(), requests.end(),
                      [](const auto& request) { return request.first.ends_with(v1alpha::keys::kGpuMemory); });
}

/// True if the device takes the whole card and the card has gained memory. The claim's step then charges the device for
/// it.
bool isChargedLess(const cache::Stores& stores, const cache::Gpu& device, const std::string& card, int64_t memory) {
  constexpr int64_t kWholeCore = 1000;
  for (std::size_t i = 0; i < device.spec.cards.size(); ++i) {
    const auto part = v1alpha::cardCharged(device, i);
    if (part.name == card && part.chargedCore == kWholeCore && part.slots.empty() && part.memory < memory)
      return takesAllMemory(stores, device);
  }
  return false;
}

/// Parses a usage of core as ClaimUse writes it, such as "35%" of one card, to milli-cards; -1 if there is none.
int64_t usedCoreOf(const cache::Claim& claim) {
  constexpr int64_t kMilliCardsPerPercent = 10;
  if (!claim.status.usage) return -1;
  std::string_view text = claim.status.usage->core;
  if (!text.ends_with('%')) return -1;
  text.remove_suffix(1);
  const auto percent = v1alpha::parseQuantity(text);
  return percent ? percent->ceil() * kMilliCardsPerPercent : -1;
}

HolderChanged holderOf(const cache::Stores& stores, const cache::Gpu& device) {
  HolderChanged holder{device.metadata.uid, {}, {}, device.spec.className, -1};
  const auto& ref = device.spec.claimRef;
  if (!ref || device.status.phase == phase::kReleased) return holder;  // the claim of a Released device is gone
  holder.claim = ref->namespace_ + "/" + ref->name;
  holder.claimUid = ref->uid;
  const auto claim = stores.claims.get({ref->namespace_, ref->name});
  if (claim && claim->metadata.uid == ref->uid) holder.usedCore = usedCoreOf(*claim);
  return holder;
}

/// Records the isolation mode in the card's ledger, which the API server enforces, if the card has entries. Returns
/// true if it was another one.
bool noteMode(ObservedCluster& cluster, const cache::Gpu& card) {
  const auto& entries = card.spec.allocations;
  const bool hasShares = std::any_of(entries.begin(), entries.end(), [](const auto& entry) {
    return entry.second.core > 0 || entry.second.memory > 0;
  });
  // An entry from before an upgrade has no mode: none.
  return hasShares && cluster.noteMode(card.metadata.name, card.spec.mode);
}

/// Returns the isolation mode of the share; nullopt if only the ledger knows it.
std::optional<std::string_view> isolationOf(const std::unordered_map<std::string, Assumption>& assumptions,
                                            const std::string& card, const HeldAllocation& held) {
  if (held.device != nullptr) {
    const auto& parameters = held.device->second.object->spec.parameters;
    const auto mode = parameters.find(std::string_view("isolation"));
    return mode == parameters.end() ? std::string_view() : std::string_view(mode->second);
  }
  if (!held.amounts.hasSource(AllocationSource::assumed)) return std::nullopt;
  const auto assumed = assumptions.find(held.amounts.uid().substr(ClusterState::kAssumed.size()));
  if (assumed == assumptions.end()) return std::nullopt;
  for (const auto& each : assumed->second.cards)
    if (each.card == card) return each.isolation;
  return std::nullopt;
}

scheduler::QuotaClaim quotaClaim(const std::string& name, std::string id, const std::string& className) {
  return {name.substr(0, name.find('/')), name, std::move(id), className};
}

/// The claim that the device names; nullopt if it names none.
std::optional<scheduler::QuotaClaim> ownerOf(const cache::Gpu& device) {
  const auto& ref = device.spec.claimRef;
  if (!ref) return std::nullopt;
  const auto name = ref->namespace_ + "/" + ref->name;
  return quotaClaim(name, ref->reserves() ? "name/" + name : ref->uid, device.spec.className);
}

/// Updates the quotas' usage by the device if it is remote. It has no allocations.
void countRemote(QuotaAccounting& quotas, const cache::Gpu& device) {
  if (!quotas.empty() && v1alpha::isRemote(device)) quotas.countRemote(ownerOf(device), device);
}

}  // namespace

bool isCommitted(const cache::Gpu& device) {
  return phase::committed(device.status.phase) && !device.metadata.deleting();
}

bool allExist(const cache::Stores& stores, const std::vector<SchedulingRequest>& asks) {
  return std::all_of(asks.begin(), asks.end(), [&stores](const SchedulingRequest& ask) {
    const auto claim = stores.claims.get(core::ObjectKey::of(ask.claim));
    return claim && claim->metadata.uid == ask.claimUid;
  });
}

HeldAllocation* CardState::find(std::string_view uid) {
  for (auto& each : held)
    if (each.amounts.uid() == uid) return &each;
  return nullptr;
}

const HeldAllocation* CardState::find(std::string_view uid) const { return const_cast<CardState*>(this)->find(uid); }

void ClusterState::refreshNode(const std::string& name) {
  const auto node = stores_.nodes.get({"", name});
  if (!node) return cluster_.removeNode(name);
  const bool schedulable = node->ready && !node->unschedulable && !node->metadata.deleting();
  if (schedulable && !cluster_.nodeSchedulable(name)) hasFreed_ = true;
  cluster_.upsertNode({name, schedulable});
}

void ClusterState::refreshCard(const std::string& name, const cache::Gpu* before) {
  const auto object = stores_.cards.get({"", name});
  auto& card = *cards_.try_emplace(name).first;
  auto& state = card.second;
  std::vector<std::string> stale;
  if (object) {
    const auto& spec = *object->spec.card;
    const auto known = cluster_.findCard(name);
    // Any other change of the card's description may be what a pending claim waits for.
    if (!known.known || !before || !before->spec.card || !(*before->spec.card == spec)) hasFreed_ = true;
    state.unschedulableReason = cache::troubleOf(*object).reason;
    // Health is evaluated last, because it depends on the allocations.
    cluster_.upsertCard({name, spec, known.known && known.healthy});
    if (!state.present)
      for (const auto& held : state.held)
        if (held.amounts.effective() != Amount{}) take(card, held);
    if (!state.present || !before || before->spec.card != object->spec.card)
      for (const auto& held : state.held) count(card, held);
    state.present = true;
    for (const auto& held : state.held)
      if (held.amounts.hasSource(AllocationSource::ledger) && object->spec.allocations.count(held.amounts.uid()) == 0)
        stale.push_back(held.amounts.uid());
  } else {
    if (state.present) cluster_.removeCard(name);
    state.present = false;
    for (const auto& held : state.held) stale.push_back(held.amounts.uid());
  }
  for (const auto& uid : stale) updateAllocation(card, uid, AllocationSource::ledger, std::nullopt);
  if (object) {
    for (const auto& [uid, entry] : object->spec.allocations) {
      cluster_.reportHolderIfUnknown(uid, entry.claim);
      updateAllocation(card, uid, AllocationSource::ledger, Amount{entry.core, entry.memory, entry.slots});
    }
    if (noteMode(cluster_, *object)) hasFreed_ = true;
    updateSchedulability(card);
  } else {
    forgetIfEmpty(card);
  }
}

void ClusterState::refreshDevice(const std::string& name) {
  const auto device = stores_.devices.get({"", name});
  if (const auto known = devices_.find(name);
      known != devices_.end() && (!device || device->metadata.uid != known->second.object->metadata.uid))
    removeDevice(known);
  if (device) {
    auto& entry = *devices_.try_emplace(name).first;
    const auto was = std::exchange(entry.second.object, device);
    const bool fresh = !was;
    if (fresh) addDevice(entry);
    if (!fresh && (was->spec.target != device->spec.target || was->status.inForce != device->status.inForce)) {
      chargeDevice(entry);
      for (const auto* card : entry.second.cards) updateSchedulability(*card);
      if (was->spec.target != device->spec.target) forgetResize(device->metadata.uid);
    }
    if (fresh || was->spec.nodeName != device->spec.nodeName || isCommitted(*was) != isCommitted(*device))
      for (const auto* card : entry.second.cards) updateSchedulability(*card);
    if (!fresh && cluster_.hasListener()) cluster_.reportHolder(holderOf(stores_, *device));
    if (!fresh && was->spec.claimRef != device->spec.claimRef) countRemote(quotas_, *device);
    if (!fresh && was->spec.claimRef != device->spec.claimRef)
      for (auto* const card : entry.second.cards)
        if (const auto* held = card->second.find(device->metadata.uid)) count(*card, *held);
    // A device that is being deleted may arrive late, when its claim has been decided again: keep that assumption.
    if (fresh || !device->metadata.deleting()) confirm(*device);
  }
}

void ClusterState::refreshSchedulability(const std::string& card) {
  if (const auto known = cards_.find(card); known != cards_.end()) updateSchedulability(*known);
}

void ClusterState::countForQuotas() {
  if (!quotas_.mustRecount()) return;
  for (const auto& card : cards_)
    for (const auto& held : card.second.held) count(card, held);
  for (const auto& [name, device] : devices_) countRemote(quotas_, *device.object);
}

std::optional<scheduler::QuotaClaim> ClusterState::ownerOf(const CardEntry& card, const HeldAllocation& held) const {
  const auto& uid = held.amounts.uid();
  const auto named = quotaClaim;
  if (held.device) return allocator::ownerOf(*held.device->second.object);
  if (held.amounts.hasSource(AllocationSource::assumed)) {
    const auto decided = assumptions_.find(uid.substr(kAssumed.size()));
    if (decided == assumptions_.end()) return std::nullopt;
    return named(decided->second.claim, decided->first, decided->second.className);
  }
  const auto object = stores_.cards.get({"", card.first});
  if (!object) return std::nullopt;
  const auto entry = object->spec.allocations.find(uid);
  if (entry == object->spec.allocations.end()) return std::nullopt;
  return named(entry->second.claim, "entry/" + uid, {});
}

void ClusterState::count(const CardEntry& card, const HeldAllocation& held) {
  if (quotas_.empty()) return;
  const auto charged = held.amounts.effective();
  quotas_.count(held.amounts.uid(), charged == Amount{} ? std::nullopt : ownerOf(card, held), card.first,
                cluster_.findCard(card.first), charged);
}

void ClusterState::reportUsage(std::string_view claimUid) {
  for (const auto& device : stores_.devicesOfClaim(claimUid))
    if (devices_.contains(device->metadata.name) && cluster_.hasListener())
      cluster_.reportHolder(holderOf(stores_, *device));
}

void ClusterState::addDevice(DeviceEntry& entry) {
  auto& state = entry.second;
  const auto& device = *state.object;
  ages_.record(device);
  if (device.spec.claimRef) cluster_.note(DeviceMade{device.metadata.uid, device.spec.claimRef->uid});
  if (cluster_.hasListener()) cluster_.reportHolder(holderOf(stores_, device));
  state.cards.reserve(device.spec.cards.size());
  for (const auto& part : device.spec.cards) {
    auto* const card = &*cards_.try_emplace(part.name).first;
    if (std::find(state.cards.begin(), state.cards.end(), card) == state.cards.end()) state.cards.push_back(card);
  }
  chargeDevice(entry);
  countRemote(quotas_, device);
}

void ClusterState::chargeDevice(DeviceEntry& entry) {
  const auto& device = *entry.second.object;
  for (std::size_t i = 0; i < device.spec.cards.size(); ++i) {
    const auto part = v1alpha::cardCharged(device, i);
    updateAllocation(*cards_.find(part.name), device.metadata.uid, AllocationSource::device,
                     Amount{part.chargedCore, part.chargedMemory, part.slots}, &entry);
  }
}

void ClusterState::confirm(const cache::Gpu& device) {
  if (!device.spec.claimRef || assumptions_.empty()) return;
  bool freed = hasFreed_;  // forget() sets the member for all that the assumption had
  for (const auto& assumed : forget(device.spec.claimRef->uid)) {
    const auto& parts = device.spec.cards;
    freed = freed || std::none_of(parts.begin(), parts.end(), [&assumed](const auto& part) {
              return part.name == assumed.card && holds({part.chargedCore, part.chargedMemory}, assumed.charged);
            });
  }
  hasFreed_ = freed;
}

void ClusterState::removeDevice(DeviceStates::iterator known) {
  const auto uid = known->second.object->metadata.uid;
  forgetResize(uid);
  const auto cards = std::move(known->second.cards);
  for (auto* const card : cards) updateAllocation(*card, uid, AllocationSource::device, std::nullopt);
  if (v1alpha::isRemote(*known->second.object)) quotas_.drop(uid);
  ages_.forget(uid);
  cluster_.forgetHolder(uid);
  devices_.erase(known);
  for (auto* const card : cards) {
    updateSchedulability(*card);
    forgetIfEmpty(*card);
  }
}

void ClusterState::updateAllocation(CardEntry& card, const std::string& uid, AllocationSource source,
                                    const std::optional<Amount>& amount, const DeviceEntry* device) {
  auto& [name, state] = card;
  auto* held = state.find(uid);
  const bool fresh = held == nullptr;
  if (fresh) {
    if (!amount) return;
    held = &state.held.emplace_back(HeldAllocation{TrackedAllocation(uid), nullptr});
  }
  const auto before = held->amounts.effective();
  held->amounts.set(source, amount);
  if (source == AllocationSource::device) held->device = device;
  if (held->amounts.empty()) {
    if (before != Amount{}) {  // an allocation for admin access was never in the cluster
      cluster_.giveBack(name, uid);
      quotas_.drop(uid, name);
      hasFreed_ = true;
    }
    if (source != AllocationSource::device) cluster_.forgetHolder(uid);
    if (held != &state.held.back()) *held = std::move(state.held.back());
    state.held.pop_back();
    return;
  }
  count(card, *held);
  const auto sum = held->amounts.effective();
  if (!fresh && sum == before) return;
  if (sum.core < before.core || sum.memory < before.memory) hasFreed_ = true;
  if (!state.present) return;
  if (sum != Amount{})
    take(card, *held);
  else if (before != Amount{})
    cluster_.giveBack(name, uid);
}

void ClusterState::take(const CardEntry& card, const HeldAllocation& held) {
  cluster_.take(card.first, held.amounts.uid(), held.amounts.effective(), isolationOf(assumptions_, card.first, held));
}

std::string ClusterState::unschedulableReason(const CardEntry& card) const {
  const auto& [name, state] = card;
  if (!state.unschedulableReason.empty()) return state.unschedulableReason;
  const auto known = cluster_.findCard(name);
  const auto node = known.node;
  if (auto taint = stores_.taintOn(node, name)) return std::move(taint.reason);
  std::string first, why;  // name of the first blocking device
  for (const auto& held : state.held) {
    if (!held.device || held.amounts.effective() == Amount{}) continue;
    const auto& device = *held.device->second.object;
    const auto& deviceName = device.metadata.name;
    const bool elsewhere = !device.spec.nodeName.empty() && device.spec.nodeName != node;
    const bool entryMissing = isCommitted(device) && !held.amounts.hasSource(AllocationSource::ledger);
    if (!elsewhere && !entryMissing && !isChargedLess(stores_, device, name, known.capacity.memory)) continue;
    if (!why.empty() && first < deviceName) continue;
    first = deviceName;
    why = elsewhere      ? "device " + deviceName + " uses it on node " + device.spec.nodeName
          : entryMissing ? "the entry of device " + deviceName + " is being restored"
                         : "device " + deviceName + " takes the whole card and is charged for the memory it gained";
  }
  return why;
}

void ClusterState::updateSchedulability(const CardEntry& card) {
  const auto& [name, state] = card;
  if (!state.present) return;
  const auto known = cluster_.findCard(name);
  const bool healthy = unschedulableReason(card).empty();
  if (healthy == known.healthy) return;
  if (healthy) hasFreed_ = true;
  cluster_.upsertCard({name, *cluster_.describe(name), healthy});
}

void ClusterState::forgetIfEmpty(const CardEntry& card) {
  if (!card.second.present && card.second.held.empty()) cards_.erase(cards_.find(card.first));
}

void ClusterState::assume(const SchedulingRequest& ask, const scheduler::Decision& decision, bool ofGang) {
  auto& assumption = assumptions_[ask.claimUid];
  assumption.claim = ask.claim;
  assumption.className = ask.className;
  assumption.number = ++lastNumber_;
  assumption.inGang.reset();
  if (ofGang) assumption.inGang = decision;
  cluster_.recordHolder({assumedKey(ask.claimUid), ask.claim, ask.claimUid, ask.className, -1});
  writes_.hasAssumptions.store(true, std::memory_order_relaxed);
  for (const auto& placement : decision.placements) {
    assumption.cards.push_back({placement.card, placement.charged, placement.isolation});
    updateAllocation(*cards_.try_emplace(placement.card).first, assumedKey(ask.claimUid), AllocationSource::assumed,
                     placement.charged);
  }
}

std::vector<AssumedAmount> ClusterState::forget(std::string_view claimUid) {
  if (assumptions_.empty()) return {};
  auto it = assumptions_.find(std::string(claimUid));
  if (it == assumptions_.end()) return {};
  auto dropped = std::move(it->second.cards);
  assumptions_.erase(it);
  writes_.hasAssumptions.store(!assumptions_.empty(), std::memory_order_relaxed);
  quotas_.drop(assumedKey(claimUid));
  for (const auto& each : dropped) {
    const auto card = cards_.find(each.card);
    if (card == cards_.end()) continue;
    updateAllocation(*card, assumedKey(claimUid), AllocationSource::assumed, std::nullopt);
    forgetIfEmpty(*card);
  }
  return dropped;
}

std::vector<AssumedAmount> ClusterState::forgetForRetry(std::string_view claimUid) {
  const bool freed = hasFreed_;
  auto dropped = forget(claimUid);
  hasFreed_ = freed;
  return dropped;
}

void ClusterState::noteRetried(std::string_view claimUid, const std::vector<AssumedAmount>& dropped) {
  if (dropped.empty()) return;
  const auto* const now = findAssumption(claimUid);
  const bool isAssumedAgain =
      now != nullptr && std::all_of(dropped.begin(), dropped.end(), [now](const auto& old) {
        return std::any_of(now->cards.begin(), now->cards.end(), [&old](const AssumedAmount& each) {
          return each.card == old.card && holds(each.charged, old.charged);
        });
      });
  if (!isAssumedAgain) hasFreed_ = true;
}

const Assumption* ClusterState::findAssumption(std::string_view claimUid) const {
  const auto known = assumptions_.find(std::string(claimUid));
  return known == assumptions_.end() ? nullptr : &known->second;
}

void ClusterState::assumeResize(const std::string& deviceUid, const std::vector<scheduler::Placement>& placements) {
  auto& cards = resizes_[deviceUid];
  for (const auto& placement : placements) {
    cards.push_back(placement.card);
    updateAllocation(*cards_.find(placement.card), deviceUid, AllocationSource::assumed, placement.charged);
  }
  writes_.resizes = resizes_.size();
}

void ClusterState::forgetResize(std::string_view deviceUid) {
  const auto known = resizes_.find(std::string(deviceUid));
  if (known == resizes_.end()) return;
  const auto [uid, cards] = std::move(*known);
  resizes_.erase(known);
  writes_.resizes = resizes_.size();
  for (const auto& name : cards)
    if (const auto card = cards_.find(name); card != cards_.end())
      updateAllocation(*card, uid, AllocationSource::assumed, std::nullopt);
}

std::vector<scheduler::Holding> ClusterState::holdingsOf(const cache::Gpu& device) const {
  std::vector<scheduler::Holding> holdings;
  for (const auto& part : device.spec.cards) {
    const auto card = cards_.find(part.name);
    const auto* const held = card == cards_.end() ? nullptr : card->second.find(device.metadata.uid);
    if (held == nullptr) return {};
    holdings.push_back({part.name, held->amounts.effective(), {}});
  }
  return holdings;
}

bool ClusterState::isPlaced(const std::string& claimUid) const {
  return assumptions_.contains(claimUid) || !stores_.devicesOfClaim(claimUid).empty();
}

bool ClusterState::isAnyPlaced(const std::vector<SchedulingRequest>& asks) const {
  return std::any_of(asks.begin(), asks.end(), [this](const SchedulingRequest& ask) { return isPlaced(ask.claimUid); });
}

const std::string* ClusterState::uidOf(const std::string& device) const {
  const auto known = devices_.find(device);
  return known == devices_.end() ? nullptr : &known->second.object->metadata.uid;
}

std::vector<std::string> ClusterState::uidsOf(const std::vector<std::string>& devices) const {
  std::vector<std::string> uids;
  for (const auto& name : devices)
    if (const auto* const uid = uidOf(name)) uids.push_back(*uid);
  return uids;
}

void ClusterState::excludeDevices(const std::vector<std::string>& devices, bool excluded) {
  scheduler::Cluster& cluster = cluster_;  // without notification: restored before the next decision
  for (const auto& name : devices) {
    const auto known = devices_.find(name);
    if (known == devices_.end()) continue;
    const auto& uid = known->second.object->metadata.uid;
    for (auto* const card : known->second.cards) {
      const auto* const held = card->second.find(uid);
      if (held == nullptr || !card->second.present || held->amounts.effective() == scheduler::Amount{}) continue;
      if (excluded)
        cluster.giveBack(card->first, uid);
      else
        cluster.take(card->first, uid, held->amounts.effective(), {}, isolationOf(assumptions_, card->first, *held));
    }
  }
}

}  // namespace egpu::allocator

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

#include "api/v1alpha/keys.h"
#include "api/v1alpha/size.h"
#include "controller/allocator/allocator.h"

namespace egpu::cache {

namespace phase = v1alpha::keys::phase;
namespace {

using scheduler::Amount;

constexpr std::chrono::microseconds kGiveWay{50};

bool holds(const Amount& has, const Amount& needs) { return has.core >= needs.core && has.memory >= needs.memory; }

}  // namespace

void ClusterView::yieldLock(std::unique_lock<std::mutex>& lock) {
  lock.unlock();
  std::this_thread::sleep_for(kGiveWay);
  lock.lock();
}

bool ClusterView::committed(const Gpu& device) {
  return phase::committed(device.status.phase) && !device.metadata.deleting();
}

std::string ClusterView::assumedKey(std::string_view claimUid) { return std::string(kAssumed).append(claimUid); }

ClusterView::ClusterView(Stores& stores) : stores_(stores) {
  stores_.claims.listen([this](const auto* before, const auto* after) { refreshClaim(before, after); });
  stores_.nodes.listen([this](const auto* before, const auto* after) { refreshNode(before, after); });
  stores_.cards.listen([this](const auto* before, const auto* after) { refreshCard(before, after); });
  stores_.devices.listen([this](const auto* before, const auto* after) { refreshDevice(before, after); });
  stores_.taintRules.listen([this](const auto* before, const auto* after) { refreshTaint(before, after); });
  stores_.quotas.listen([this](const auto* before, const auto* after) { refreshQuota(before, after); });
}

void ClusterView::refreshClaim(const Claim* before, const Claim* after) {
  const bool same = before && after && before->metadata.uid == after->metadata.uid;
  if (after && (after->status.nominated || (same && before->status.nominated))) refreshNomination(*after, false);
  if (before && !same && before->status.nominated) refreshNomination(*before, true);
  if (!before || same) return;
  {
    const std::lock_guard lock(mutex_);
    dropReservation(before->metadata.uid);
    reserveNoQuota(before->metadata.uid);
    demand_.forget(before->metadata.uid);
    drop(before->metadata.uid);
    cluster_.note(ClaimGone{before->metadata.uid});
  }
  announce();
}

void ClusterView::refreshNode(const core::Node* before, const core::Node* after) {
  const auto& name = (after ? after : before)->metadata.name;
  {
    std::lock_guard lock(mutex_);
    if (const auto node = stores_.nodes.get({"", name})) {
      const bool schedulable = node->ready && !node->unschedulable && !node->metadata.deleting();
      if (schedulable && !cluster_.nodeSchedulable(name)) capacityFreed_ = true;
      cluster_.upsertNode({name, schedulable});
    } else {
      cluster_.removeNode(name);
    }
  }
  announce();
}

void ClusterView::refreshCard(const Gpu* before, const Gpu* after) {
  if (before && after && onlyUsageDiffers(*before, *after)) return;
  const auto& name = (after ? after : before)->metadata.name;
  {
    std::lock_guard lock(mutex_);
    const auto object = stores_.cards.get({"", name});
    auto& card = *cards_.try_emplace(name).first;
    auto& state = card.second;
    std::vector<std::string> stale;
    if (object) {
      const auto& spec = *object->spec.card;
      const auto known = cluster_.findCard(name);
      // Any other change of the card's description may be what a pending claim waits for.
      if (!known.known || !before || !before->spec.card || !(*before->spec.card == spec)) capacityFreed_ = true;
      state.why = cache::troubleOf(*object).reason;
      // Health is evaluated last, because it depends on the allocations.
      cluster_.upsertCard({name, spec, known.known && known.healthy});
      if (!state.present)
        for (const auto& held : state.held)
          if (held.take.effective() != Amount{}) cluster_.take(name, held.take.uid(), held.take.effective());
      if (!state.present || !before || before->spec.card != object->spec.card)
        for (const auto& held : state.held) count(card, held);
      state.present = true;
      for (const auto& held : state.held)
        if (held.take.hasSource(AllocationSource::ledger) && object->spec.allocations.count(held.take.uid()) == 0)
          stale.push_back(held.take.uid());
    } else {
      if (state.present) cluster_.removeCard(name);
      state.present = false;
      for (const auto& held : state.held) stale.push_back(held.take.uid());
    }
    for (const auto& uid : stale) updateAllocation(card, uid, AllocationSource::ledger, std::nullopt);
    if (object) {
      for (const auto& [uid, entry] : object->spec.allocations)
        updateAllocation(card, uid, AllocationSource::ledger, Amount{entry.core, entry.memory});
      updateSchedulability(card);
    } else {
      forgetIfEmpty(card);
    }
  }
  announce();
}

void ClusterView::refreshDevice(const Gpu* before, const Gpu* after) {
  const auto& name = (after ? after : before)->metadata.name;
  {
    std::lock_guard lock(mutex_);
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
        if (was->spec.target != device->spec.target) dropResize(device->metadata.uid);
      }
      if (fresh || was->spec.nodeName != device->spec.nodeName || committed(*was) != committed(*device))
        for (const auto* card : entry.second.cards) updateSchedulability(*card);
      if (!fresh && was->spec.claimRef != device->spec.claimRef)
        for (auto* const card : entry.second.cards)
          if (const auto* held = card->second.find(device->metadata.uid)) count(*card, *held);
      // A device that is being deleted may arrive late, when its claim has been decided again: keep that assumption.
      if (fresh || !device->metadata.deleting()) confirmAssumed(*device);
    }
  }
  announce();
}

void ClusterView::refreshTaint(const core::DeviceTaintRule* before, const core::DeviceTaintRule* after) {
  std::unique_lock lock(mutex_);
  std::size_t seen = 0;
  for (const auto* rule : {before, after}) {
    if (rule == nullptr) continue;
    for (const auto& object : stores_.cardsTaintedBy(*rule)) {
      if (const auto card = cards_.find(object->metadata.name); card != cards_.end()) updateSchedulability(*card);
      if (++seen % kCardsAtOnce == 0) yieldLock(lock);
    }
  }
  lock.unlock();
  announce();
}

void ClusterView::refreshQuota(const Quota* before, const Quota* after) {
  const auto& namespace_ = (after ? after : before)->metadata.namespace_;
  {
    const std::lock_guard lock(mutex_);
    std::vector<scheduler::Quota> quotas;
    for (const auto& quota : stores_.quotasIn(namespace_)) quotas.push_back(scheduler::readQuota(*quota));
    book_.setQuotas(namespace_, std::move(quotas));
  }
  announce();
}

void ClusterView::accountExistingHoldings() {
  if (!book_.untold()) return;
  for (const auto& card : cards_)
    for (const auto& held : card.second.held) count(card, held);
}

std::optional<scheduler::QuotaClaim> ClusterView::ownerOf(const Cards::value_type& card, const Held& held) const {
  const auto& uid = held.take.uid();
  const auto named = [](const std::string& name, std::string id, const std::string& className) {
    return scheduler::QuotaClaim{name.substr(0, name.find('/')), name, std::move(id), className};
  };
  if (held.device) {
    const auto& spec = held.device->second.object->spec;
    if (!spec.claimRef) return std::nullopt;
    const auto name = spec.claimRef->namespace_ + "/" + spec.claimRef->name;
    return named(name, spec.claimRef->reserves() ? "name/" + name : spec.claimRef->uid, spec.className);
  }
  if (held.take.hasSource(AllocationSource::assumed)) {
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

void ClusterView::count(const Cards::value_type& card, const Held& held) {
  if (book_.empty()) return;
  const auto& uid = held.take.uid();
  const auto owner = held.take.effective() == Amount{} ? std::nullopt : ownerOf(card, held);
  if (!owner || !book_.counts(owner->namespace_)) return book_.drop(uid, card.first);
  const auto known = cluster_.findCard(card.first);
  scheduler::QuotaPart part{std::string(known.model), {}, known.capacity.core, known.milliTflops, known.known};
  if (const auto* was = book_.find(uid, card.first); was != nullptr && !known.known) part = *was;
  part.charged = held.take.effective();
  book_.put(uid, *owner, card.first, part);
}

std::optional<scheduler::QuotaClaim> ClusterView::quotaClaimFor(const SchedulingRequest& ask) {
  if (book_.empty()) return std::nullopt;
  auto namespace_ = ask.claim.substr(0, ask.claim.find('/'));
  if (!book_.counts(namespace_)) return std::nullopt;
  accountExistingHoldings();
  return scheduler::QuotaClaim{std::move(namespace_), ask.claim, ask.claimUid, ask.className};
}

scheduler::Together ClusterView::decideFor(const std::vector<SchedulingRequest>& asks,
                                           const std::vector<scheduler::Request>& requests,
                                           const scheduler::NodePredicate& suits, const scheduler::Pause& pause) {
  std::vector<scheduler::QuotaClaim> claims;  // from one pod at most: one namespace
  for (const auto& ask : asks)
    if (auto claim = quotaClaimFor(ask)) claims.push_back(*std::move(claim));
  if (claims.empty()) return scheduler::decideTogether(cluster_, requests, suits, pause);
  auto together = scheduler::decideWithin(cluster_, book_, claims, requests, suits, pause);
  if (together.excess) book_.refused(claims.front().namespace_);
  return together;
}

void ClusterView::addDevice(Devices::value_type& entry) {
  auto& state = entry.second;
  const auto& device = *state.object;
  ages_.record(device);
  if (device.spec.claimRef) cluster_.note(DeviceMade{device.metadata.uid, device.spec.claimRef->uid});
  state.cards.reserve(device.spec.cards.size());
  for (const auto& part : device.spec.cards) {
    auto* const card = &*cards_.try_emplace(part.name).first;
    if (std::find(state.cards.begin(), state.cards.end(), card) == state.cards.end()) state.cards.push_back(card);
  }
  chargeDevice(entry);
}

void ClusterView::chargeDevice(Devices::value_type& entry) {
  const auto& device = *entry.second.object;
  for (std::size_t i = 0; i < device.spec.cards.size(); ++i) {
    const auto part = v1alpha::cardCharged(device, i);
    updateAllocation(*cards_.find(part.name), device.metadata.uid, AllocationSource::device,
                     Amount{part.chargedCore, part.chargedMemory}, &entry);
  }
}

void ClusterView::confirmAssumed(const Gpu& device) {
  if (!device.spec.claimRef || assumptions_.empty()) return;
  bool freed = capacityFreed_;  // drop() sets the member for all that the assumption had
  for (const auto& [card, charged] : drop(device.spec.claimRef->uid)) {
    const auto& parts = device.spec.cards;
    freed = freed || std::none_of(parts.begin(), parts.end(), [&card = card, &charged = charged](const auto& part) {
              return part.name == card && holds({part.chargedCore, part.chargedMemory}, charged);
            });
  }
  capacityFreed_ = freed;
}

void ClusterView::removeDevice(Devices::iterator known) {
  const auto uid = known->second.object->metadata.uid;
  dropResize(uid);
  const auto cards = std::move(known->second.cards);
  for (auto* const card : cards) updateAllocation(*card, uid, AllocationSource::device, std::nullopt);
  ages_.forget(uid);
  devices_.erase(known);
  for (auto* const card : cards) {
    updateSchedulability(*card);
    forgetIfEmpty(*card);
  }
}

ClusterView::Held* ClusterView::CardState::find(std::string_view uid) {
  const auto it = std::find_if(held.begin(), held.end(), [&uid](const Held& each) { return each.take.uid() == uid; });
  return it == held.end() ? nullptr : &*it;
}

void ClusterView::updateAllocation(Cards::value_type& card, const std::string& uid, AllocationSource source,
                                   const std::optional<Amount>& amount, const Devices::value_type* device) {
  auto& [name, state] = card;
  auto* held = state.find(uid);
  const bool fresh = held == nullptr;
  if (fresh) {
    if (!amount) return;
    held = &state.held.emplace_back(Held{TrackedAllocation(uid), nullptr});
  }
  const auto before = held->take.effective();
  held->take.set(source, amount);
  if (source == AllocationSource::device) held->device = device;
  if (held->take.empty()) {
    if (before != Amount{}) {  // an allocation for admin access was never in the cluster
      cluster_.giveBack(name, uid);
      book_.drop(uid, name);
      capacityFreed_ = true;
    }
    if (held != &state.held.back()) *held = std::move(state.held.back());
    state.held.pop_back();
    return;
  }
  count(card, *held);
  const auto sum = held->take.effective();
  if (!fresh && sum == before) return;
  if (sum.core < before.core || sum.memory < before.memory) capacityFreed_ = true;
  if (!state.present) return;
  if (sum != Amount{})
    cluster_.take(name, uid, sum);
  else if (before != Amount{})
    cluster_.giveBack(name, uid);
}

namespace {

/// True if the device was made for a claim of all memory of its cards: the claim names no amount of memory.
bool takesAllMemory(const Stores& stores, const Gpu& device) {
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
bool isChargedLess(const Stores& stores, const Gpu& device, const std::string& card, int64_t memory) {
  constexpr int64_t kWholeCore = 1000;
  for (std::size_t i = 0; i < device.spec.cards.size(); ++i) {
    const auto part = v1alpha::cardCharged(device, i);
    if (part.name == card && part.chargedCore == kWholeCore && part.memory < memory)
      return takesAllMemory(stores, device);
  }
  return false;
}

}  // namespace

std::string ClusterView::unschedulableReason(const Cards::value_type& card) const {
  const auto& [name, state] = card;
  if (!state.why.empty()) return state.why;
  const auto known = cluster_.findCard(name);
  const auto node = known.node;
  if (auto taint = stores_.taintOn(node, name)) return std::move(taint.reason);
  std::string first, why;  // name of the first blocking device
  for (const auto& held : state.held) {
    if (!held.device || held.take.effective() == Amount{}) continue;
    const auto& device = *held.device->second.object;
    const auto& deviceName = device.metadata.name;
    const bool elsewhere = !device.spec.nodeName.empty() && device.spec.nodeName != node;
    const bool entryMissing = committed(device) && !held.take.hasSource(AllocationSource::ledger);
    if (!elsewhere && !entryMissing && !isChargedLess(stores_, device, name, known.capacity.memory)) continue;
    if (!why.empty() && first < deviceName) continue;
    first = deviceName;
    why = elsewhere      ? "device " + deviceName + " uses it on node " + device.spec.nodeName
          : entryMissing ? "the entry of device " + deviceName + " is being restored"
                         : "device " + deviceName + " takes the whole card and is charged for the memory it gained";
  }
  return why;
}

void ClusterView::updateSchedulability(const Cards::value_type& card) {
  const auto& [name, state] = card;
  if (!state.present) return;
  const auto known = cluster_.findCard(name);
  const bool healthy = unschedulableReason(card).empty();
  if (healthy == known.healthy) return;
  if (healthy) capacityFreed_ = true;
  cluster_.upsertCard({name, *cluster_.describe(name), healthy});
}

void ClusterView::forgetIfEmpty(Cards::value_type& card) {
  if (!card.second.present && card.second.held.empty()) cards_.erase(cards_.find(card.first));
}

void ClusterView::assume(const SchedulingRequest& ask, const scheduler::Decision& decision) {
  dropReservation(ask.claimUid, true);
  reserveNoQuota(ask.claimUid);
  auto& assumption = assumptions_[ask.claimUid];
  assumption.claim = ask.claim;
  assumption.className = ask.className;
  assumption.number = ++lastNumber_;
  assumption.inGang.reset();
  assuming_.store(true, std::memory_order_relaxed);
  for (const auto& placement : decision.placements) {
    assumption.cards.push_back({placement.card, placement.charged});
    updateAllocation(*cards_.try_emplace(placement.card).first, assumedKey(ask.claimUid), AllocationSource::assumed,
                     placement.charged);
  }
}

std::vector<ClusterView::Assumed> ClusterView::drop(std::string_view claimUid) {
  if (assumptions_.empty()) return {};
  auto it = assumptions_.find(std::string(claimUid));
  if (it == assumptions_.end()) return {};
  auto dropped = std::move(it->second.cards);
  assumptions_.erase(it);
  assuming_.store(!assumptions_.empty(), std::memory_order_relaxed);
  book_.drop(assumedKey(claimUid));
  for (const auto& each : dropped) {
    const auto card = cards_.find(each.card);
    if (card == cards_.end()) continue;
    updateAllocation(*card, assumedKey(claimUid), AllocationSource::assumed, std::nullopt);
    forgetIfEmpty(*card);
  }
  return dropped;
}

std::vector<ClusterView::Assumed> ClusterView::forgetForRetry(std::string_view claimUid) {
  const bool freed = capacityFreed_;
  auto dropped = drop(claimUid);
  capacityFreed_ = freed;
  return dropped;
}

bool ClusterView::freedBy(std::string_view claimUid, const std::vector<Assumed>& retracted) const {
  if (retracted.empty()) return false;
  const auto now = assumptions_.find(std::string(claimUid));
  if (now == assumptions_.end()) return true;
  const auto& cards = now->second.cards;
  return std::any_of(retracted.begin(), retracted.end(), [&cards](const Assumed& old) {
    return std::none_of(cards.begin(), cards.end(), [&old](const Assumed& each) {
      return each.card == old.card && holds(each.charged, old.charged);
    });
  });
}

void ClusterView::forget(std::string_view claimUid) {
  {
    std::lock_guard lock(mutex_);
    drop(claimUid);
    dropReservation(claimUid);
    reserveNoQuota(claimUid);
  }
  announce();
}

void ClusterView::releaseReservation(std::string_view claimUid) {
  {
    const std::lock_guard lock(mutex_);
    if (!reservations_.contains(claimUid) && !unreserved_.contains(claimUid) && quotaReservations_.empty()) return;
    dropReservation(claimUid);
    reserveNoQuota(claimUid);
  }
  announce();
}

void ClusterView::adopted(std::string_view claimUid, const Gpu& device) {
  refreshDevice(nullptr, &device);  // the thread that saw it first may not have notified yet
  forget(claimUid);
}

std::vector<AssumedDecision> ClusterView::assumed() const {
  std::vector<AssumedDecision> all;
  const std::lock_guard lock(mutex_);
  for (const auto& [uid, assumption] : assumptions_) {
    auto& each = all.emplace_back(AssumedDecision{uid, assumption.claim, assumption.number, {}});
    for (const auto& on : assumption.cards) each.cards.push_back(on.card);
  }
  return all;
}

bool ClusterView::forgetDecision(std::string_view claimUid, uint64_t number) {
  {
    const std::lock_guard lock(mutex_);
    const auto it = assumptions_.find(std::string(claimUid));
    if (it == assumptions_.end() || it->second.number != number) return false;
    drop(claimUid);
  }
  announce();
  return true;
}

void ClusterView::forgetEarlier(std::string_view claim, std::string_view uid) {
  {
    std::lock_guard lock(mutex_);
    std::vector<std::string> stale;
    for (const auto& [of, assumption] : assumptions_)
      if (of != uid && assumption.claim == claim) stale.push_back(of);
    for (const auto& of : stale) drop(of);
  }
  announce();
}

void ClusterView::announce() {
  bool grew = false;
  std::vector<scheduler::QuotaBook::Change> changes;
  std::shared_ptr<const scheduler::Cluster> old;  // large: freed after unlocking
  {
    std::lock_guard lock(mutex_);
    old = snapshots_.takeOutdated(cluster_);
    grew = std::exchange(capacityFreed_, false);
    if (grew) unschedulable_.clear();
    if (book_.changed()) changes = book_.takeChanges();
    for (const auto& change : changes)
      if (change.freed) unschedulable_.forgetQuotasOf(change.namespace_);
  }
  if (grew && onCapacityFreed_) onCapacityFreed_();
  for (const auto& change : changes)
    if (counted_) counted_(change.namespace_, change.freed);
}

}  // namespace egpu::cache

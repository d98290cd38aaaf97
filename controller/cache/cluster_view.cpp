#include "controller/cache/cluster_view.h"

#include <algorithm>
#include <chrono>
#include <tuple>

#include "api/v1alpha/keys.h"

namespace egpu::cache {
namespace {

using scheduler::Amount;

bool committedPhase(std::string_view phase) { return phase == "Bound" || phase == "Released" || phase == "Available"; }

std::string assumedKey(std::string_view claimUid) { return "claim/" + std::string(claimUid); }

bool unhealthy(const Gpu& card, std::string& why) {
  if (card.metadata.deleting()) {
    why = "being deleted";
    return true;
  }
  if (card.status.phase == "Failed") {
    why = card.status.reason.empty() ? "Failed" : card.status.reason;
    return true;
  }
  for (const auto& condition : card.status.conditions)
    if (condition.type == "Healthy" && condition.status == "False") {
      why = condition.reason.empty() ? "unhealthy" : condition.reason;
      return true;
    }
  return false;
}

}  // namespace

ClusterView::ClusterView(Stores& stores) : stores_(stores) {
  stores_.nodes.listen(
      [this](const auto& before, const auto& after) { refreshNode((after ? after : before)->metadata.name); });
  stores_.cards.listen(
      [this](const auto& before, const auto& after) { refreshCard((after ? after : before)->metadata.name); });
  stores_.devices.listen(
      [this](const auto& before, const auto& after) { refreshDevice((after ? after : before)->metadata.name); });
}

void ClusterView::refreshNode(const std::string& name) {
  {
    std::lock_guard lock(mutex_);
    if (auto node = stores_.nodes.get({"", name})) {
      const bool schedulable = node->ready && !node->unschedulable && !node->metadata.deleting();
      if (schedulable && !cluster_.nodeSchedulable(name)) grew_ = true;
      cluster_.upsertNode({name, schedulable});
    } else {
      cluster_.removeNode(name);
    }
  }
  announce();
}

void ClusterView::refreshCard(const std::string& name) {
  {
    std::lock_guard lock(mutex_);
    auto card = stores_.cards.get({"", name});
    auto& state = cards_[name];
    if (!card) {
      if (state.present) cluster_.removeCard(name);
      state.present = false;
      std::vector<std::string> uids;
      for (const auto& [uid, take] : state.takes) uids.push_back(uid);
      for (const auto& uid : uids) setTake(name, uid, [](Take& t) { t.ledger.reset(); });
      forgetIfEmpty(name);
    } else {
      const auto& spec = *card->spec.card;
      if (!state.present || state.info.card.core < spec.core || state.info.card.memory < spec.memory) grew_ = true;
      state.info.name = name;
      state.info.card = spec;
      std::string why;
      state.info.healthy = !unhealthy(*card, why);
      state.why = why;
      if (!state.present) {
        state.present = true;
        cluster_.upsertCard(state.info);
        for (const auto& [uid, take] : state.takes) cluster_.take(name, uid, take.sum);
      }
      std::vector<std::string> stale;
      for (const auto& [uid, take] : state.takes)
        if (take.ledger && card->spec.allocations.count(uid) == 0) stale.push_back(uid);
      for (const auto& uid : stale) setTake(name, uid, [](Take& t) { t.ledger.reset(); });
      for (const auto& [uid, entry] : card->spec.allocations)
        setTake(name, uid, [&entry = entry](Take& t) { t.ledger = Amount{entry.core, entry.memory}; });
      offer(name);
    }
  }
  announce();
}

void ClusterView::refreshDevice(const std::string& name) {
  {
    std::lock_guard lock(mutex_);
    auto device = stores_.devices.get({"", name});
    auto known = devices_.find(name);
    if (known != devices_.end() && (!device || device->metadata.uid != known->second.uid)) {
      const auto old = known->second;
      devices_.erase(known);
      for (const auto& [card, amount] : old.cards) {
        cards_[card].devices.erase(name);
        setTake(card, old.uid, [](Take& t) { t.device.reset(); });
        offer(card);
        forgetIfEmpty(card);
      }
    }
    if (device) {
      auto& state = devices_[name];
      const bool fresh = state.uid.empty();
      const bool wasCommitted = state.committed;
      state.uid = device->metadata.uid;
      state.node = device->spec.nodeName;
      state.committed = committedPhase(device->status.phase) && !device->metadata.deleting();
      if (fresh) {
        for (const auto& card : device->spec.cards) {
          state.cards.emplace_back(card.name, Amount{card.chargedCore, card.chargedMemory});
          cards_[card.name].devices.insert(name);
          setTake(card.name, state.uid, [&](Take& t) { t.device = Amount{card.chargedCore, card.chargedMemory}; });
        }
        // Its own takes replace the assumption: nothing became free by that.
        const bool grew = grew_;
        if (device->spec.claimRef) drop(device->spec.claimRef->uid);
        grew_ = grew;
      }
      if (fresh || wasCommitted != state.committed)
        for (const auto& [card, amount] : state.cards) offer(card);
    }
  }
  announce();
}

void ClusterView::setTake(const std::string& card, const std::string& uid, const std::function<void(Take&)>& change) {
  auto& state = cards_[card];
  auto [it, fresh] = state.takes.try_emplace(uid);
  auto& take = it->second;
  change(take);
  if (take.empty()) {
    if (!fresh) {
      cluster_.giveBack(card, uid);
      grew_ = true;
    }
    state.takes.erase(it);
    return;
  }
  Amount sum;
  for (const auto* part : {&take.ledger, &take.device, &take.assumed}) {
    if (!*part) continue;
    sum.core = std::max(sum.core, (*part)->core);
    sum.memory = std::max(sum.memory, (*part)->memory);
  }
  if (!fresh && sum == take.sum) return;
  if (sum.core < take.sum.core || sum.memory < take.sum.memory) grew_ = true;
  take.sum = sum;
  if (state.present) cluster_.take(card, uid, sum);
}

std::string ClusterView::reasonAgainst(const std::string&, const CardState& state) const {
  if (!state.why.empty()) return state.why;
  for (const auto& name : state.devices) {
    auto it = devices_.find(name);
    if (it == devices_.end()) continue;
    if (!it->second.node.empty() && it->second.node != state.info.card.nodeName)
      return "device " + name + " has it on node " + it->second.node;
    if (!it->second.committed) continue;
    auto take = state.takes.find(it->second.uid);
    if (take == state.takes.end() || !take->second.ledger) return "the entry of device " + name + " is being restored";
  }
  return {};
}

void ClusterView::offer(const std::string& card) {
  auto it = cards_.find(card);
  if (it == cards_.end() || !it->second.present) return;
  auto info = it->second.info;
  info.healthy = info.healthy && reasonAgainst(card, it->second).empty();
  const auto view = cluster_.findCard(card);
  if (info.healthy && !view.healthy) grew_ = true;
  cluster_.upsertCard(info);
}

void ClusterView::forgetIfEmpty(const std::string& card) {
  auto it = cards_.find(card);
  if (it != cards_.end() && !it->second.present && it->second.takes.empty() && it->second.devices.empty())
    cards_.erase(it);
}

void ClusterView::assume(const Ask& ask, const scheduler::Decision& decision) {
  auto& [claim, cards] = assumptions_[ask.claimUid];
  claim = ask.claim;
  for (const auto& placement : decision.placements) {
    cards.push_back(placement.card);
    setTake(placement.card, assumedKey(ask.claimUid), [&](Take& t) {
      t.assumed = placement.charged;
      t.claim = ask.claim;
    });
  }
}

void ClusterView::learn(const Ask& ask) {
  if (learned_.size() >= kMostLearned) learned_.clear();
  if (learned_.insert(ask.claimUid).second) cluster_.observe(ask.request);
}

void ClusterView::drop(std::string_view claimUid) {
  auto it = assumptions_.find(std::string(claimUid));
  if (it == assumptions_.end()) return;
  const auto cards = std::move(it->second.cards);
  assumptions_.erase(it);
  for (const auto& card : cards) {
    setTake(card, assumedKey(claimUid), [](Take& t) { t.assumed.reset(); });
    forgetIfEmpty(card);
  }
}

scheduler::Decision ClusterView::decideAndAssume(const Ask& ask, const scheduler::NodePredicate& suits) {
  std::unique_lock lock(mutex_);
  const bool grew = grew_;
  const auto start = std::chrono::steady_clock::now();
  drop(ask.claimUid);
  learn(ask);
  auto decision = scheduler::decide(cluster_, ask.request, suits);
  if (decision.fits) {
    assume(ask, decision);
    learned_.erase(ask.claimUid);  // it no longer waits
  }
  grew_ = grew;  // trying frees nothing
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  lock.unlock();
  if (decided_) decided_(decision.fits, took.count());
  return decision;
}

std::vector<scheduler::Decision> ClusterView::decideTogether(const std::vector<Ask>& asks,
                                                             const scheduler::NodePredicate& suits,
                                                             std::size_t* failed) {
  std::set<std::string, std::less<>> excluded;
  const auto open = [&](std::string_view node) { return excluded.count(node) == 0 && (!suits || suits(node)); };
  // Each round either ends or excludes one more node. Others may decide between two rounds: all or nothing is assumed
  // in each.
  for (;;) {
    std::vector<scheduler::Decision> decisions;
    const std::lock_guard lock(mutex_);
    const bool grew = grew_;
    for (const auto& ask : asks) drop(ask.claimUid);
    for (const auto& ask : asks) learn(ask);
    for (std::size_t i = 0; i < asks.size(); ++i) {
      auto request = asks[i].request;
      if (i > 0) request.pinnedNode = decisions.front().node;
      auto decision = scheduler::decide(cluster_, request, open);
      if (!decision.fits) {
        if (failed != nullptr) *failed = i;
        break;
      }
      assume(asks[i], decision);
      decisions.push_back(std::move(decision));
    }
    if (decisions.size() < asks.size())
      for (const auto& ask : asks) drop(ask.claimUid);
    grew_ = grew;  // trying frees nothing
    if (decisions.size() == asks.size()) return decisions;
    if (decisions.empty()) return {};
    excluded.insert(decisions.front().node);
  }
}

scheduler::Explanation ClusterView::explain(const scheduler::Request& request,
                                            const scheduler::NodePredicate& suits) const {
  std::lock_guard lock(mutex_);
  return scheduler::explain(cluster_, request, suits);
}

void ClusterView::forget(std::string_view claimUid) {
  {
    std::lock_guard lock(mutex_);
    drop(claimUid);
  }
  announce();
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
  {
    std::lock_guard lock(mutex_);
    if (!grew_) return;
    grew_ = false;
  }
  if (grown_) grown_();
}

AllocationMap ClusterView::map() const {
  std::map<std::string, MapNode> nodes;
  std::lock_guard lock(mutex_);
  for (const auto& name : cluster_.nodes()) nodes[name] = {name, cluster_.nodeSchedulable(name), {}};
  for (const auto& [name, state] : cards_) {
    if (!state.present) continue;
    const auto& card = state.info.card;
    auto& node = nodes.try_emplace(card.nodeName, MapNode{card.nodeName, false, {}}).first->second;
    MapCard out;
    out.name = name;
    out.uuid = card.uuid;
    out.model = card.model;
    out.index = card.index;
    out.core = card.core;
    out.memory = card.memory;
    out.why = reasonAgainst(name, state);
    out.offered = out.why.empty();
    for (const auto& [uid, take] : state.takes) {
      MapTake row;
      row.deviceUid = uid;
      row.core = take.sum.core;
      row.memory = take.sum.memory;
      row.claim = take.claim;
      row.phase = "Pending";
      out.usedCore += row.core;
      out.usedMemory += row.memory;
      out.takes.push_back(std::move(row));
    }
    for (const auto& deviceName : state.devices) {
      auto device = stores_.devices.get({"", deviceName});
      if (!device) continue;
      for (auto& row : out.takes) {
        if (row.deviceUid != device->metadata.uid) continue;
        row.device = deviceName;
        row.phase = device->status.phase.empty() ? "Pending" : device->status.phase;
        if (device->spec.claimRef) row.claim = device->spec.claimRef->namespace_ + "/" + device->spec.claimRef->name;
      }
    }
    node.cards.push_back(std::move(out));
  }
  AllocationMap result;
  for (auto& [name, node] : nodes) {
    std::sort(node.cards.begin(), node.cards.end(),
              [](const MapCard& a, const MapCard& b) { return std::tie(a.index, a.uuid) < std::tie(b.index, b.uuid); });
    result.nodes.push_back(std::move(node));
  }
  return result;
}

ClusterTotals ClusterView::totals() const {
  ClusterTotals totals;
  std::lock_guard lock(mutex_);
  totals.nodes = static_cast<int64_t>(cluster_.nodeCount());
  for (const auto& [name, state] : cards_) {
    if (!state.present) continue;
    ++totals.cards;
    ++(reasonAgainst(name, state).empty() ? totals.offered : totals.quarantined);
    totals.takes += static_cast<int64_t>(state.takes.size());
    totals.core += state.info.card.core;
    totals.memory += state.info.card.memory;
    for (const auto& [uid, take] : state.takes) {
      totals.usedCore += take.sum.core;
      totals.usedMemory += take.sum.memory;
    }
  }
  return totals;
}

CardAudit ClusterView::audit(std::string_view card) const {
  CardAudit audit;
  std::lock_guard lock(mutex_);
  auto it = cards_.find(card);
  if (it == cards_.end() || !it->second.present) return audit;
  const auto& state = it->second;
  audit.known = true;
  audit.core = state.info.card.core;
  audit.memory = state.info.card.memory;
  const auto view = cluster_.findCard(card);
  audit.usedCore = view.used.core;
  audit.usedMemory = view.used.memory;
  for (const auto& [uid, take] : state.takes) {
    if (!take.ledger) continue;
    audit.ledgerCore += take.ledger->core;
    audit.ledgerMemory += take.ledger->memory;
    if (!take.device) audit.entryWithoutDevice.push_back(uid);
  }
  for (const auto& name : state.devices) {
    auto device = devices_.find(name);
    if (device == devices_.end() || !device->second.committed) continue;
    auto take = state.takes.find(device->second.uid);
    if (take == state.takes.end() || !take->second.ledger) audit.deviceWithoutEntry.push_back(name);
  }
  return audit;
}

std::string ClusterView::quarantineReason(std::string_view card) const {
  std::lock_guard lock(mutex_);
  auto it = cards_.find(card);
  if (it == cards_.end() || !it->second.present) return "not known";
  return reasonAgainst(it->first, it->second);
}

scheduler::Cluster ClusterView::copy() const {
  std::lock_guard lock(mutex_);
  return cluster_;
}

}  // namespace egpu::cache

#include "controller/reconcile/priority/preemption.h"

#include <algorithm>
#include <limits>
#include <set>
#include <utility>

#include "api/v1alpha/keys.h"
#include "controller/base/processor_time.h"
#include "controller/base/timestamp.h"
#include "controller/reconcile/claim/binder.h"
#include "controller/reconcile/device/users.h"
#include "controller/reconcile/gang/membership.h"
#include "controller/reconcile/pod/schedulability.h"
#include "controller/reconcile/resourceclaim/adopter.h"
#include "controller/reconcile/retry/unschedulable_queue.h"

namespace egpu::reconcile {

namespace phase = v1alpha::keys::phase;
namespace reason = v1alpha::keys::reason;

namespace {

/// Pause after a search for victims, in multiples of its processor time. Searches without a result use a tenth of the
/// time at most. Searches with victims are limited by the number of victims: they may use half of it.
constexpr int kBackoffPerFailedSearch = 9, kBackoffPerPlan = 1;
constexpr std::size_t kVictimsNamed = 3;  ///< victims in a message
constexpr std::size_t kNodesNamed = 3;    ///< nodes in a message
constexpr std::string_view kMoves = "moving to another device because of annotation ";

/// True if the claim was made for a ResourceClaim that was created by hand. Such a claim outlives its pods: the next
/// pod may use it before the last one has ended, so evictions would free no capacity.
bool outlivesItsPods(const cache::Stores& stores, const cache::Claim& claim) {
  const auto resourceClaim = stores.resourceClaims.get(core::keyOf(claim.metadata));
  return resourceClaim && asks(*resourceClaim) && stampedFor(*resourceClaim) == nullptr;
}

/// Returns the claim that holds the device and may lose it by this parameter of its class; else null.
cache::Store<cache::Claim>::Ptr claimThatMay(const char* parameter, const cache::Stores& stores,
                                             const cache::Gpu& device) {
  const auto& spec = device.spec;
  const auto may = spec.parameters.find(parameter);
  if (may == spec.parameters.end() || may->second != "true" || spec.reclaimPolicy != "Delete") return nullptr;
  const bool well = device.status.reason.empty() || device.status.reason == reason::kPreempted;
  if (device.status.phase != phase::kBound || device.metadata.deleting() || !well || !spec.claimRef) return nullptr;
  auto claim = stores.claims.get({spec.claimRef->namespace_, spec.claimRef->name});
  const bool own = claim && claim->metadata.uid == spec.claimRef->uid && deviceNameFor(*claim) == device.metadata.name;
  return own && !claim->metadata.deleting() && !outlivesItsPods(stores, *claim) ? claim : nullptr;
}

/// Returns the claim that holds the device and may move; else null. A gang is of no use without one of its members, and
/// moves of whole gangs are not planned.
cache::Store<cache::Claim>::Ptr movableHolder(const cache::Stores& stores, const cache::Gpu& device) {
  auto claim = claimThatMay("movable", stores, device);
  return claim && !gangOfHolder(stores, *claim) ? claim : nullptr;
}

/// Returns the victims of all nominations.
std::vector<std::string> victimsOf(std::span<const v1alpha::Nomination> nominations) {
  std::vector<std::string> victims;
  for (const auto& nomination : nominations)
    victims.insert(victims.end(), nomination.victims.begin(), nomination.victims.end());
  return victims;
}

/// True if a claim is about to be bound to the device. The device is no candidate before that.
bool becomesBound(const cache::Gpu& device) {
  const auto& phase = device.status.phase;
  return (phase.empty() || phase == phase::kPending) && !device.metadata.deleting() && device.spec.claimRef.has_value();
}

/// Priorities of many claims. Looks up each PriorityClass once.
class Priorities {
 public:
  explicit Priorities(const cache::Stores& stores) : stores_(stores) {}

  int64_t of(const cache::Claim& claim) {
    const auto& name = claim.spec.priorityClassName;
    if (name.empty() || name.starts_with("system-")) return priorityOf(stores_, claim).value;
    const auto known = ofClass_.find(name);
    if (known != ofClass_.end()) return known->second;
    const bool exists = stores_.priorityClasses.get({"", name}) != nullptr;
    const auto value = priorityOf(stores_, claim).value;
    if (exists) ofClass_.emplace(name, value);  // else the claim's own status counts
    return value;
  }

 private:
  const cache::Stores& stores_;
  std::unordered_map<std::string, int64_t> ofClass_;
};

/// Returns the priority of that claim; the highest if the claim is gone.
int64_t priorityOfOwner(const cache::Stores& stores, const cache::Gpu& device) {
  const auto claim = stores.claims.get({device.spec.claimRef->namespace_, device.spec.claimRef->name});
  return claim ? priorityOf(stores, *claim).value : std::numeric_limits<int64_t>::max();
}

int64_t lowestOf(const std::vector<allocator::Allocator::SchedulingRequest>& asks) {
  const auto lowest = std::min_element(
      asks.begin(), asks.end(), [](const auto& a, const auto& b) { return a.order.priority < b.order.priority; });
  return lowest->order.priority;
}

/// True if a victim is on none of the nodes: its release frees quota.
bool anyElsewhere(const cache::Stores& stores, std::span<const v1alpha::Nomination> nominations) {
  const auto victims = victimsOf(nominations);
  std::set<std::string> nodes;
  for (const auto& nomination : nominations) nodes.insert(nomination.nodeName);
  return std::any_of(victims.begin(), victims.end(), [&](const std::string& name) {
    const auto device = stores.devices.get({"", name});
    const auto holder = device ? preemptibleClaim(stores, *device) : nullptr;
    if (holder && gangNamedBy(*holder)) return false;  // it may be a victim because another member is
    return device && !nodes.contains(device->spec.nodeName);
  });
}

/// Lists the nodes, for people.
std::string nodesOf(std::span<const v1alpha::Nomination> nominations) {
  std::set<std::string> nodes;
  for (const auto& nomination : nominations) nodes.insert(nomination.nodeName);
  std::string text = nodes.size() > 1 ? "nodes" : "node";
  std::size_t named = 0;
  for (const auto& node : nodes) {
    if (++named > kNodesNamed) return text + ", …";
    text += (named > 1 ? ", " : " ") + node;
  }
  return text;
}

}  // namespace

cache::Store<cache::Claim>::Ptr preemptibleClaim(const cache::Stores& stores, const cache::Gpu& device) {
  return claimThatMay("preemptible", stores, device);
}

std::optional<core::ObjectKey> gangOfHolder(const cache::Stores& stores, const cache::Claim& claim) {
  return inGang(stores, claim) && gangOf(stores, claim) ? gangNamedBy(claim) : std::nullopt;
}

allocator::Allocator::VictimGroup victimGroups(const cache::Stores& stores) {
  return [&stores](const std::string& victim) {
    const auto device = stores.devices.get({"", victim});
    const auto holder = device ? preemptibleClaim(stores, *device) : nullptr;
    auto group = holder ? victimGangOf(stores, *device, *holder).devices : std::vector<std::string>();
    if (std::find(group.begin(), group.end(), victim) == group.end()) group.push_back(victim);
    return group;
  };
}

VictimGang victimGangOf(const cache::Stores& stores, const cache::Gpu& device, const cache::Claim& holder) {
  const auto gang = gangOfHolder(stores, holder);
  if (!gang) return {{}, {device.metadata.name}, priorityOf(stores, holder).value};
  VictimGang group{*gang, {}, std::numeric_limits<int64_t>::max()};
  for (const auto& member : stores.claimsOfGang(gang->namespace_, gang->name)) {
    if (gangNamedBy(*member) != gang) continue;
    const auto own = stores.devices.get({"", deviceNameFor(*member)});
    if (!own || preemptibleClaim(stores, *own) != member) continue;
    group.devices.push_back(own->metadata.name);
    group.priority = std::min(group.priority, priorityOf(stores, *member).value);
  }
  return group;
}

cache::Store<cache::Claim>::Ptr movableClaim(const cache::Stores& stores, const cache::Gpu& device) {
  if (!stores.claimsPreempting(device.metadata.name).empty()) return nullptr;
  auto claim = movableHolder(stores, device);
  // A claim that moves because of its annotation is still on this device.
  return claim && (device.status.reason.empty() || asksToMove(*claim, device)) ? claim : nullptr;
}

bool asksToMove(const cache::Claim& claim, const cache::Gpu& device) {
  return claim.metadata.annotation(v1alpha::keys::kMoveAnnotation) == device.metadata.uid;
}

bool mayMove(const cache::Stores& stores, const cache::Claim& claim, const cache::Gpu& device) {
  const auto may = movableHolder(stores, device);
  return may && may->metadata.uid == claim.metadata.uid;
}

std::string textOfMove(const std::string& since) {
  return std::string(kMoves).append(v1alpha::keys::kMoveAnnotation) + " since " + since;
}

bool markedToMove(const cache::Gpu& device) {
  return device.status.reason == reason::kPreempted && device.status.message.starts_with(kMoves);
}

std::set<std::string> Preemption::podsOf(const AskedTogether& asked) const {
  std::set<std::string> uids;
  for (const auto& claim : asked.claims)
    for (const auto& pod : stores_.podsOfClaim(core::keyOf(claim->metadata))) uids.insert(pod->metadata.uid);
  return uids;
}

core::HeapOptional<v1alpha::Nomination> Preemption::planFor(const cache::Store<cache::Claim>::Ptr& claim,
                                                            const allocator::Allocator::SchedulingRequest& ask,
                                                            const scheduler::NodePredicate& suits,
                                                            const std::stop_token& stop) {
  auto nominations = planForGroup({{claim}, {ask}, {{suits, {}, {}}}}, stop);
  return nominations.empty() ? core::HeapOptional<v1alpha::Nomination>()
                             : core::HeapOptional<v1alpha::Nomination>(std::move(nominations.front()));
}

std::vector<v1alpha::Nomination> Preemption::planForGroup(const AskedTogether& asked, const std::stop_token& stop) {
  auto now = standing(asked);
  const auto victims = victimsOf(now);
  if (!now.empty() && victims.empty()) {
    // The claims fit by now: the last victim was released after the decision that found no capacity. The nomination
    // stands for the next decision.
    const base::MutexLock lock(mutex_);
    const auto at = clock_.now();
    auto& until = searchBackoffs_["fits/" + asked.claims.front()->metadata.uid].until;
    if (until <= at) until = at + timeouts_.maxSearchBackoff;
    if (until - at > timeouts_.maxSearchBackoff - timeouts_.nominationFitTimeout) return now;
    now.clear();
  }
  if (!now.empty() && (evictionStarted(victims) ||
                       std::none_of(victims.begin(), victims.end(),
                                    [this](const auto& device) { return blockedByBudget(device).has_value(); })))
    return now;
  auto other = searchBackoff(asked.claims.front()->metadata.uid).count() > 0 ? std::vector<v1alpha::Nomination>()
                                                                             : fresh(asked, stop);
  return other.empty() ? now : other;
}

std::vector<v1alpha::Nomination> Preemption::standing(const AskedTogether& asked) const {
  std::vector<v1alpha::Nomination> left;
  for (std::size_t i = 0; i < asked.claims.size(); ++i) {
    const auto& nominated = asked.claims[i]->status.nominated;
    const auto& suits = asked.places[i].suits;
    if (!nominated || (suits && !suits(nominated->nodeName))) return {};
    left.push_back(*nominated);
  }
  if (asked.within != nullptr &&
      std::none_of(asked.within->begin(), asked.within->end(), [&left](const scheduler::TopologyGroup& group) {
        return std::all_of(left.begin(), left.end(), [&group](const auto& nomination) {
          return std::find(group.nodes.begin(), group.nodes.end(), nomination.nodeName) != group.nodes.end();
        });
      }))
    return {};
  const auto priority = lowestOf(asked.asks);
  std::size_t spared = 0;
  for (auto& nomination : left)
    spared += std::erase_if(nomination.victims, [&](const std::string& name) {
      const auto device = stores_.devices.get({"", name});
      // The allocator may learn of a removal later than the stores: victims that it still counts are released in the
      // try.
      if (!device || leaves(*device)) return false;
      const auto holder = preemptibleClaim(stores_, *device);
      return !holder || victimGangOf(stores_, *device, *holder).priority >= priority;
    });
  // Each released victim of a large gang requeues the gang.
  if (auto checked = spared == 0 ? neededByLastCheck(asked, left) : std::nullopt) return *std::move(checked);
  return needed(asked, std::move(left));
}

std::optional<std::vector<v1alpha::Nomination>> Preemption::neededByLastCheck(
    const AskedTogether& asked, std::vector<v1alpha::Nomination> nominations) const {
  const auto plan = shared_.recent(SharedPlans::keyOf(*asked.claims.front()));
  if (!plan) return std::nullopt;
  const std::set<std::string> checked(plan->victims.begin(), plan->victims.end());
  bool hasVictims = false;
  for (auto& nomination : nominations) {
    const auto& victims = nomination.victims;
    const bool isOfPlan = std::all_of(victims.begin(), victims.end(),
                                      [&checked](const auto& victim) { return checked.contains(victim); });
    if (!isOfPlan) return std::nullopt;  // a part of a new plan is written
    std::erase_if(nomination.victims, [&](const std::string& victim) {
      return !plan->needed.contains(victim) || !stores_.devices.get({"", victim});
    });
    hasVictims = hasVictims || !nomination.victims.empty();
  }
  return hasVictims ? std::optional(std::move(nominations)) : std::nullopt;
}

std::vector<v1alpha::Nomination> Preemption::needed(const AskedTogether& asked,
                                                    std::vector<v1alpha::Nomination> nominations) const {
  if (nominations.empty()) return nominations;
  const auto needed = cluster_.queries().neededVictims(asked.asks, nominations, victimGroups(stores_));
  if (!needed) return {};
  for (auto& nomination : nominations)
    std::erase_if(nomination.victims, [&needed](const auto& victim) { return !needed->contains(victim); });
  return nominations;
}

bool Preemption::leaves(const cache::Gpu& device) const {
  if (device.status.phase == phase::kFailed && device.status.reason == reason::kPreempted) return true;
  const auto& ref = device.spec.claimRef;
  if (!ref || device.spec.reclaimPolicy != "Delete") return device.metadata.deleting();
  const core::ObjectKey key{ref->namespace_, ref->name};
  const auto claim = stores_.claims.get(key);
  if (claim && claim->metadata.uid == ref->uid && !claim->metadata.deleting() && !device.metadata.deleting())
    return false;
  const auto pods = stores_.podsOfClaim(key);
  return std::none_of(pods.begin(), pods.end(), [](const auto& pod) {
    return alive(*pod) && !pod->metadata.deleting() && !pod->nodeName.empty();
  });
}

Preemption::Candidates Preemption::candidatesFor(const AskedTogether& asked) const {
  Candidates candidates;
  const auto priority = lowestOf(asked.asks);
  const auto pods = podsOf(asked);
  // A pod that uses both claims would end up with neither.
  const auto shares = [&](const cache::Claim& holder) {
    if (pods.empty() || holder.metadata.namespace_ != asked.claims.front()->metadata.namespace_) return false;
    const auto theirs = stores_.podsOfClaim(core::keyOf(holder.metadata));
    return std::any_of(theirs.begin(), theirs.end(), [&](const auto& pod) { return pods.contains(pod->metadata.uid); });
  };
  Priorities priorities(stores_);
  const auto blockedByBudget = heldUpNow();
  const auto own = gangNamedBy(*asked.claims.front());
  std::set<std::string> exempt;  // gangs with a member that can't be evicted now
  for (const auto& device : stores_.preemptibleDevices()) {
    const auto& ref = device->spec.claimRef;
    const auto owner = ref ? stores_.claims.get({ref->namespace_, ref->name}) : nullptr;
    // True for most devices; the other checks cost more.
    if (owner && !inGang(stores_, *owner) && priorities.of(*owner) >= priority) continue;
    const auto holder = preemptibleClaim(stores_, *device);
    if (!holder) {
      const bool soon = becomesBound(*device) && priorityOfOwner(stores_, *device) < priority;
      candidates.moreSoon = candidates.moreSoon || soon;
      continue;
    }
    const auto gang = gangOfHolder(stores_, *holder);
    const auto key = gang ? gang->str() : std::string();
    if (!key.empty() && !candidates.gangs.contains(key))
      candidates.gangs[key] = victimGangOf(stores_, *device, *holder);
    const auto theirs = key.empty() ? priorities.of(*holder) : candidates.gangs[key].priority;
    if (theirs >= priority || (gang && gang == own)) continue;
    const bool held = blockedByBudget.contains(device->metadata.name);
    candidates.moreSoon = candidates.moreSoon || held;
    if (held || shares(*holder)) {
      if (!key.empty()) exempt.insert(key);
      continue;
    }
    candidates.byDevice[device->metadata.uid] = {
        device->metadata.name, {theirs, base::unixSeconds(device->metadata.creationTimestamp)}, key};
  }
  std::erase_if(candidates.byDevice, [&](const auto& each) { return exempt.contains(each.second.gang); });
  return candidates;
}

std::vector<v1alpha::Nomination> Preemption::fresh(const AskedTogether& asked, const std::stop_token& stop) {
  const auto began = base::processorTime(clock_);
  const scheduler::StopCondition enough = [&] {
    return stop.stop_requested() || base::processorTime(clock_) - began >= timeouts_.victimSearchTimeout;
  };
  const auto candidates = candidatesFor(asked);
  bool cut = false;
  std::vector<v1alpha::Nomination> nominations;
  if (!candidates.byDevice.empty()) nominations = needed(asked, searchGangsLast(asked, candidates, enough, cut));
  // Without a candidate nothing was searched, and only an event can change that.
  else if (!candidates.moreSoon)
    return nominations;
  if (victimsOf(nominations).empty()) nominations.clear();
  const auto found = !nominations.empty() ? SearchResult::victims
                     : cut                ? SearchResult::cutShort
                                          : SearchResult::noVictims;
  recordSearch(asked.claims.front()->metadata.uid, base::processorTime(clock_) - began, found, candidates.moreSoon);
  return nominations;
}

std::vector<v1alpha::Nomination> Preemption::searchGangsLast(const AskedTogether& asked, const Candidates& candidates,
                                                             const scheduler::StopCondition& enough, bool& cut) const {
  if (candidates.gangs.empty()) return search(asked, candidates, enough, cut);
  auto single = candidates;
  std::erase_if(single.byDevice, [](const auto& each) { return !each.second.gang.empty(); });
  auto nominations = single.byDevice.empty() ? std::vector<v1alpha::Nomination>() : search(asked, single, enough, cut);
  return nominations.empty() && single.byDevice.size() < candidates.byDevice.size()
             ? search(asked, candidates, enough, cut)
             : nominations;
}

std::vector<v1alpha::Nomination> Preemption::search(const AskedTogether& asked, const Candidates& candidates,
                                                    const scheduler::StopCondition& enough, bool& cut) const {
  const auto& known = candidates.byDevice;
  const scheduler::IsEvictable isEvictable = [&](std::string_view device) {
    return known.contains(std::string(device));
  };
  const scheduler::EvictionRankOf standing = [&](std::string_view device) {
    return known.at(std::string(device)).standing;
  };
  std::vector<scheduler::Decision> decisions;
  std::vector<scheduler::Victim> victims;
  if (asked.asks.size() > 1 || asked.within != nullptr) {
    auto asks = asked.asks;
    for (auto& ask : asks) ask.order.priority = lowestOf(asked.asks);
    auto found = cluster_.queries().preemptTogether(asks, asked.places, asked.within, isEvictable, standing, enough);
    cut = !found.exact;
    if (found.after.lacking) return {};
    decisions = std::move(found.after.decisions);
    victims = std::move(found.victims);
  } else {
    auto found =
        cluster_.queries().preempt(asked.asks.front(), asked.places.front().suits, isEvictable, standing, enough);
    cut = !found.exact;
    if (!found.possible) return {};
    decisions.push_back(std::move(found.decision));
    victims = std::move(found.victims);
  }
  std::vector<v1alpha::Nomination> nominations;
  std::map<std::string, std::size_t> firstOn;  // by node
  for (const auto& decision : decisions) {
    firstOn.try_emplace(decision.node, nominations.size());
    auto& nomination = nominations.emplace_back();
    nomination.nodeName = decision.node;
    for (const auto& placement : decision.placements)
      nomination.cards.push_back({placement.card, placement.charged.core, placement.charged.memory});
  }
  std::set<std::string> names;  // with all other members of their gangs
  for (const auto& victim : victims) {
    const auto& candidate = known.at(victim.device);
    names.insert(candidate.device);
    if (candidate.gang.empty()) continue;
    const auto& all = candidates.gangs.at(candidate.gang).devices;
    names.insert(all.begin(), all.end());
  }
  for (const auto& name : names) {
    const auto device = stores_.devices.get({"", name});
    if (!device) return {};  // the device is gone meanwhile
    const auto nomination = firstOn.find(device->spec.nodeName);
    // 0: it is on another node, as it frees quota or belongs to a victim's gang.
    nominations[nomination == firstOn.end() ? 0 : nomination->second].victims.push_back(name);
  }
  return nominations;
}

void Preemption::recordSearch(const std::string& claimUid, base::Clock::Steady::duration took, SearchResult found,
                              bool moreSoon) {
  const base::MutexLock lock(mutex_);
  const auto now = clock_.now();
  const int factor = found == SearchResult::victims ? kBackoffPerPlan : kBackoffPerFailedSearch;
  searchesPausedUntil_ = now + std::min<base::Clock::Steady::duration>(took * factor, timeouts_.maxSearchBackoff);
  const auto before = searchBackoffs_.find(claimUid);
  const auto longer = before == searchBackoffs_.end()
                          ? timeouts_.firstSearchBackoff
                          : std::min(before->second.duration * 2, timeouts_.maxSearchBackoff);
  std::erase_if(searchBackoffs_, [&](const auto& each) { return each.first == claimUid || each.second.until <= now; });
  if (found == SearchResult::victims) return;
  const auto duration = moreSoon ? longer : timeouts_.maxSearchBackoff;
  searchBackoffs_[claimUid] = {now + duration, duration, found == SearchResult::cutShort, moreSoon};
}

std::chrono::milliseconds Preemption::until(base::Clock::Steady time) const {
  return std::max(std::chrono::milliseconds(0), std::chrono::ceil<std::chrono::milliseconds>(time - clock_.now()));
}

std::chrono::milliseconds Preemption::ownBackoff(const std::string& claimUid) const {
  const auto known = searchBackoffs_.find(claimUid);
  return known == searchBackoffs_.end() ? std::chrono::milliseconds(0) : until(known->second.until);
}

std::chrono::milliseconds Preemption::searchBackoff(const std::string& claimUid) const {
  const base::MutexLock lock(mutex_);
  return std::max(ownBackoff(claimUid), until(searchesPausedUntil_));
}

std::string Preemption::noVictimsMessage(const std::string& claimUid, const std::string& whom,
                                         const std::string& parts) const {
  const base::MutexLock lock(mutex_);
  if (ownBackoff(claimUid).count() == 0) return {};
  return searchBackoffs_.at(claimUid).cut
             ? "preemption: no victims found for " + whom + " before the search timed out"
             : "preemption: evicting every preemptible claim of lower priority would still not free enough capacity "
               "for all " +
                   parts + " of " + whom;
}

std::chrono::milliseconds Preemption::delayForRateLimit(const QueueOrder& order, const std::string& queueKey) {
  const base::MutexLock lock(mutex_);
  const auto& uid = order.age.uid;
  if (const auto own = ownBackoff(uid); own.count() > 0)
    return searchBackoffs_.at(uid).moreSoon ? own : std::chrono::milliseconds(0);
  if (until(searchesPausedUntil_).count() == 0) return {};
  planQueue_.wait(order, queueKey);
  return timeouts_.maxSearchBackoff;
}

PlanQueue::NextPlan Preemption::nextPlan() {
  const base::MutexLock lock(mutex_);
  return planQueue_.next(until(searchesPausedUntil_));
}

std::unique_lock<base::Mutex> Preemption::tryLockPlanning(const std::string& claimUid) {
  std::unique_lock lock(planning_, std::try_to_lock);
  if (lock && unwritten_ && unwritten_->claimUids.front() != claimUid && clock_.now() < unwritten_->until)
    lock.unlock();
  return lock;
}

std::pair<std::vector<v1alpha::Nomination>, std::size_t> Preemption::unwritten(const AskedTogether& asked) {
  auto plan = std::exchange(unwritten_, std::nullopt);
  const bool same =
      plan && std::equal(plan->claimUids.begin(), plan->claimUids.end(), asked.claims.begin(), asked.claims.end(),
                         [](const std::string& uid, const auto& claim) { return uid == claim->metadata.uid; });
  if (!same || clock_.now() >= plan->until) return {};
  return {std::move(plan->nominations), plan->written};
}

void Preemption::leaveUnwritten(const AskedTogether& asked, std::vector<v1alpha::Nomination> nominations,
                                std::size_t written) {
  Unwritten plan{{}, std::move(nominations), written, clock_.now() + timeouts_.planWriteTimeout};
  for (const auto& claim : asked.claims) plan.claimUids.push_back(claim->metadata.uid);
  unwritten_ = std::move(plan);
}

bool Preemption::evictionStarted(const std::vector<std::string>& victims) const {
  return std::any_of(victims.begin(), victims.end(), [this](const std::string& name) {
    const auto device = stores_.devices.get({"", name});
    return device && device->status.reason == reason::kPreempted && !markedToMove(*device);
  });
}

std::chrono::milliseconds Preemption::heldUpFor(const std::vector<std::string>& victims) const {
  std::chrono::milliseconds longest{0};
  for (const auto& name : victims)
    if (const auto held = blockedByBudget(name))
      longest = std::max(longest, std::chrono::ceil<std::chrono::milliseconds>(held->until - clock_.now()));
  return longest;
}

std::string Preemption::text(std::span<const v1alpha::Nomination> nominations, const std::string& reader) const {
  std::string who, held;
  std::size_t named = 0, others = 0;
  for (const auto& name : victimsOf(nominations)) {
    const auto device = stores_.devices.get({"", name});
    if (!device || !device->spec.claimRef) continue;
    const auto& ref = *device->spec.claimRef;
    const bool theirs = ref.namespace_ != reader;
    if (const auto why = lastRefusal(name); !why.empty() && held.empty())
      held = theirs ? "a pod of another namespace may not be evicted now" : why;
    if (theirs) {
      ++others;
    } else if (++named <= kVictimsNamed) {
      const auto holder = stores_.claims.get({ref.namespace_, ref.name});
      who += (who.empty() ? "" : ", ") + ref.namespace_ + "/" + ref.name +
             (holder ? " of priority " + std::to_string(priorityOf(stores_, *holder).value) : std::string());
    }
  }
  if (named > 0) who = (named > 1 ? "claims " : "claim ") + who + (named > kVictimsNamed ? ", …" : "");
  if (others > 0)
    who += (named > 0 ? " and " : "") + std::to_string(others) +
           (others > 1 ? " claims of other namespaces" : " claim of another namespace");
  return "preempts on " + nodesOf(nominations) +
         (anyElsewhere(stores_, nominations) ? " and in the quotas of its namespace" : "") +
         ", where the freed capacity is reserved for it" + (who.empty() ? "" : ": evicts " + who) +
         (held.empty() ? "" : "; " + held);
}

std::string Preemption::textFor(const cache::Claim& preemptor, const std::string& reader) const {
  const auto key = core::keyOf(preemptor.metadata);
  return "preempted for " + (key.namespace_ == reader ? "claim " + key.str() : "a claim of another namespace") +
         " of priority " + std::to_string(priorityOf(stores_, preemptor).value);
}

cache::Store<cache::Claim>::Ptr Preemption::preemptorOf(const cache::Gpu& device, const cache::Claim& holder) const {
  const auto least = victimGangOf(stores_, device, holder).priority;
  cache::Store<cache::Claim>::Ptr first;
  int64_t highest = 0;
  for (const auto& claim : stores_.claimsPreempting(device.metadata.name)) {
    const auto priority = priorityOf(stores_, *claim);
    if (!priority.preempts || priority.value <= least) continue;
    const bool before = !first || priority.value > highest ||
                        (priority.value == highest && ageOf(claim->metadata) < ageOf(first->metadata));
    if (!before) continue;
    first = claim;
    highest = priority.value;
  }
  return first;
}

void Preemption::blockedByBudget(const std::string& device, const std::string& why) {
  const base::MutexLock lock(mutex_);
  const auto now = clock_.now();
  std::erase_if(heldUp_, [&](const auto& each) { return each.second.until + timeouts_.preemptionRetryBackoff <= now; });
  heldUp_[device] = {now + timeouts_.preemptionRetryBackoff, why};
}

std::set<std::string> Preemption::heldUpNow() const {
  const base::MutexLock lock(mutex_);
  std::set<std::string> devices;
  for (const auto& [device, held] : heldUp_)
    if (held.until > clock_.now()) devices.insert(device);
  return devices;
}

std::string Preemption::lastRefusal(const std::string& device) const {
  const base::MutexLock lock(mutex_);
  const auto known = heldUp_.find(device);
  const bool recent = known != heldUp_.end() && clock_.now() < known->second.until + timeouts_.preemptionRetryBackoff;
  return recent ? known->second.why : std::string();
}

std::optional<Preemption::HeldUp> Preemption::blockedByBudget(const std::string& device) const {
  const base::MutexLock lock(mutex_);
  const auto known = heldUp_.find(device);
  if (known == heldUp_.end() || known->second.until <= clock_.now()) return std::nullopt;
  return known->second;
}

}  // namespace egpu::reconcile

#include "controller/reconcile/pod/consumer_rounds.h"

#include <algorithm>
#include <functional>
#include <iterator>

#include "api/v1alpha/pod_claims.h"
#include "controller/reconcile/device/users.h"
#include "controller/reconcile/pod/schedulability.h"

namespace egpu::reconcile {

namespace {

/// Reduces a pod to the fields that decide which nodes suit it.
core::Pod kindOf(const core::Pod& pod) {
  core::Pod kind = pod;
  kind.metadata = {};
  for (const auto& claim : v1alpha::annotatedClaims(pod)) kind.metadata.annotations[claim] = {};
  if (std::any_of(pod.volumes.begin(), pod.volumes.end(), [](const auto& volume) { return volume.ephemeral; }))
    kind.metadata.name = pod.metadata.name;  // the claims of its ephemeral volumes are named after it
  kind.conditions = {};
  kind.phase = {};
  return kind;
}

/// Hashes the fields in which pods that share a claim mostly differ.
std::size_t hashOf(const core::Pod& kind) {
  std::string text = kind.schedulerName + " " + kind.nodeName + " " + std::to_string(kind.priority);
  const auto add = [&text](const std::string& more) { text.append(" ").append(more); };
  for (const auto& claim : v1alpha::claimNames(kind)) add(claim);
  for (const auto& volume : kind.volumes) add(volume.claimName);
  for (const auto& [key, value] : kind.nodeSelector) add(key + "=" + value);
  if (kind.requiredNodeAffinity)
    for (const auto& term : kind.requiredNodeAffinity->terms)
      for (const auto* requirements : {&term.matchExpressions, &term.matchFields})
        for (const auto& requirement : *requirements)
          for (const auto& value : requirement.values) add(value);
  return std::hash<std::string>()(text);
}

}  // namespace

void ConsumerRounds::Shared::put(const cache::Stores& stores, const core::Pod& pod, const ChosenNodes& chosen) {
  window_.reset();
  remove(pod.metadata.name);
  if (!isConsumer(stores, pod)) return;
  PodOrder order{ageOf(pod.metadata), pod.metadata.name};
  auto kind = kinds_.end();
  if (pod.nodeName.empty() && chosen.leavesToScheduler(pod)) {
    left_.emplace(order, gated(pod));
  } else {
    kind = kindFor(kindOf(pod));
    auto& members = kind->second.members;
    if (!members.empty()) first_.erase(*members.begin());
    members.insert(order);
    first_.insert(*members.begin());
  }
  positions_.emplace(pod.metadata.name, ConsumerPosition{std::move(order), kind});
}

ConsumerRounds::Kinds::iterator ConsumerRounds::Shared::kindFor(core::Pod pod) {
  const auto hash = hashOf(pod);
  const auto [begin, end] = kinds_.equal_range(hash);
  const auto known = std::find_if(begin, end, [&pod](const auto& each) { return each.second.pod == pod; });
  return known != end ? known : kinds_.emplace(hash, Kind{std::move(pod), {}});
}

void ConsumerRounds::Shared::remove(const std::string& pod) {
  const auto known = positions_.find(pod);
  if (known == positions_.end()) return;
  window_.reset();
  const auto& [order, kind] = known->second;
  if (kind == kinds_.end()) {
    left_.erase(order);
  } else {
    auto& members = kind->second.members;
    first_.erase(*members.begin());
    members.erase(order);
    if (members.empty())
      kinds_.erase(kind);
    else
      first_.insert(*members.begin());
  }
  positions_.erase(known);
}

std::pair<std::size_t, std::size_t> ConsumerRounds::Shared::next(std::size_t round) const {
  if (!inRounds()) return {0, first_.size()};
  const auto others = first_.size() - kMaxFirst;
  const auto begin = kMaxFirst + round % ((others + kMaxNext - 1) / kMaxNext) * kMaxNext;
  return {begin, std::min(begin + kMaxNext, first_.size())};
}

ConsumerRounds::Choosers ConsumerRounds::Shared::choosers(const std::string& namespace_, std::size_t round) const {
  Choosers choosers{{}, inRounds()};
  const auto [begin, end] = next(round);
  std::size_t at = 0;
  for (const auto& [age, name] : first_) {
    if (at == end) break;
    if (at < kMaxFirst || at >= begin) choosers.pods.push_back({namespace_, name});
    ++at;
  }
  for (auto it = left_.begin(); it != left_.end(); ++it)  // the first reports on the claim, gated pods lose their gates
    if (it == left_.begin() || it->second) choosers.pods.push_back({namespace_, it->first.second});
  return choosers;
}

bool ConsumerRounds::Shared::chooses(const std::string& pod, std::size_t round) {
  const auto known = positions_.find(pod);
  if (known == positions_.end() || known->second.kind == kinds_.end()) return true;
  const auto& own = known->second.order;
  if (!first_.contains(own)) return false;  // it is equal to an older pod
  std::size_t at = 0;
  for (auto it = first_.begin(); it != first_.end() && at < kMaxFirst; ++it, ++at)
    if (*it == own) return true;
  const auto& window = windowOf(round);
  return own >= window.first && own <= window.last;
}

const ConsumerRounds::Shared::Window& ConsumerRounds::Shared::windowOf(std::size_t round) {
  if (!window_ || window_->round != round) {
    const auto [begin, end] = next(round);
    const auto first = std::next(first_.begin(), static_cast<std::ptrdiff_t>(begin));
    const auto last = std::next(first, static_cast<std::ptrdiff_t>(end - begin - 1));
    window_ = Window{round, *first, *last};
  }
  return *window_;
}

bool ConsumerRounds::Shared::isBehindAnother(const PodOrder& order) const {
  return (!first_.empty() && *first_.begin() < order) || (!left_.empty() && left_.begin()->first < order);
}

ConsumerRounds::Shared* ConsumerRounds::sharedBy(const cache::Stores& stores, const cache::Claim& claim) {
  const auto key = core::keyOf(claim.metadata);
  auto known = shared_.find(key);
  if (known == shared_.end()) {
    const auto pods = stores.podsOfClaim(key);
    if (pods.size() <= kMaxPods) return nullptr;
    known = shared_.try_emplace(key).first;
    for (const auto& pod : pods) known->second.put(stores, *pod, chosen_);
  }
  known->second.claimUid = claim.metadata.uid;
  return &known->second;
}

ConsumerRounds::Choosers ConsumerRounds::choosersOf(const cache::Stores& stores, const cache::Claim& claim) {
  const auto key = core::keyOf(claim.metadata);
  {
    const base::MutexLock lock(mutex_);
    if (const auto* shared = sharedBy(stores, claim)) return shared->choosers(key.namespace_, currentRound());
  }
  Choosers all;
  for (const auto& pod : stores.podsOfClaim(key))
    if (isConsumer(stores, *pod)) all.pods.push_back(core::keyOf(pod->metadata));
  return all;
}

bool ConsumerRounds::chooses(const cache::Stores& stores, const cache::Claim& claim, const core::Pod& pod) {
  const base::MutexLock lock(mutex_);
  auto* shared = sharedBy(stores, claim);
  return shared == nullptr || shared->chooses(pod.metadata.name, currentRound());
}

bool ConsumerRounds::isOldest(const cache::Stores& stores, const cache::Claim& claim, const core::Pod& pod) {
  const PodOrder order{ageOf(pod.metadata), pod.metadata.name};
  {
    const base::MutexLock lock(mutex_);
    if (const auto* shared = sharedBy(stores, claim)) return !shared->isBehindAnother(order);
  }
  const auto pods = stores.podsOfClaim(core::keyOf(claim.metadata));
  return std::none_of(pods.begin(), pods.end(), [&](const auto& other) {
    return PodOrder{ageOf(other->metadata), other->metadata.name} < order && isConsumer(stores, *other);
  });
}

std::string ConsumerRounds::text(const core::ObjectKey& claim) const {
  const base::MutexLock lock(mutex_);
  const auto shared = shared_.find(claim);
  if (shared == shared_.end()) return {};
  auto text =
      std::to_string(shared->second.pods()) + " pods use the claim: of equal pods the oldest one chooses its node";
  if (shared->second.inRounds())
    text += ", and of pods that differ the " + std::to_string(kMaxFirst) + " oldest ones and, in turns, " +
            std::to_string(kMaxNext) + " others";
  return text;
}

void ConsumerRounds::podChanged(const cache::Stores& stores, const core::ObjectKey& pod,
                                const std::set<std::string>& claims) {
  const base::MutexLock lock(mutex_);
  if (shared_.empty()) return;
  for (const auto& claim : claims) {
    const auto known = shared_.find({pod.namespace_, claim});
    if (known == shared_.end()) continue;
    const auto now = stores.pods.get(pod);  // the event may be older than the cache
    if (now && v1alpha::usesClaim(*now, claim))
      known->second.put(stores, *now, chosen_);
    else
      known->second.remove(pod.name);
    if (known->second.pods() == 0) shared_.erase(known);
  }
}

void ConsumerRounds::forgetClaim(const std::string& claimUid) {
  const base::MutexLock lock(mutex_);
  std::erase_if(shared_, [&](const auto& each) { return each.second.claimUid == claimUid; });
}

std::size_t ConsumerRounds::claims() const {
  const base::MutexLock lock(mutex_);
  return shared_.size();
}

}  // namespace egpu::reconcile

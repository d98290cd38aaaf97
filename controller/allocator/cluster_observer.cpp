#include "controller/allocator/cluster_observer.h"

#include <algorithm>
#include <optional>
#include <utility>

namespace egpu::allocator {

RecordingPredicate::RecordingPredicate(const scheduler::NodePredicate& suits, bool note) : suits_(suits) {
  if (note && suits) noting_ = [this](std::string_view node) { return this->note(node); };
}

bool RecordingPredicate::note(std::string_view node) {
  const bool suits = suits_(node);
  const auto [known, isNew] = answers_.try_emplace(std::string(node), suits);
  changed_ = changed_ || (!isNew && known->second != suits);
  return suits;
}

PredicateTrace RecordingPredicate::trace() const {
  PredicateTrace hasListener;
  for (const auto& [node, suits] : answers_) (suits ? hasListener.suited : hasListener.refused).push_back(node);
  hasListener.lost = changed_;
  if (hasListener.refused.size() > PredicateTrace::kMax) {
    hasListener.refused.clear();
    hasListener.onlySuited = true;
  }
  if (hasListener.suited.size() > PredicateTrace::kMax) {
    hasListener.suited.clear();
    hasListener.lost = hasListener.lost || hasListener.onlySuited;
  }
  std::sort(hasListener.suited.begin(), hasListener.suited.end());
  std::sort(hasListener.refused.begin(), hasListener.refused.end());
  return hasListener;
}

void ObservedCluster::upsertNode(const scheduler::NodeInfo& node) {
  ++changes_;
  const auto before = hasListener() ? describeNode(node.name) : std::nullopt;
  Cluster::upsertNode(node);
  if (hasListener() && (!before || !(*before == node))) note(node);
}

void ObservedCluster::removeNode(std::string_view name) {
  ++changes_;
  Cluster::removeNode(name);
  if (hasListener()) note(NodeGone{std::string(name)});
}

void ObservedCluster::upsertCard(const scheduler::CardInfo& card) {
  if (!hasListener()) {
    ++changes_;
    return Cluster::upsertCard(card);
  }
  auto now = card;
  now.card = scheduler::withDecisiveAttributes(card.card);
  const auto before = describe(card.name);
  const bool same = before && *before == now.card && findCard(card.name).healthy == card.healthy;
  Cluster::upsertCard(card);
  if (same) return;
  ++changes_;
  note(std::move(now));
}

void ObservedCluster::removeCard(std::string_view name) {
  ++changes_;
  Cluster::removeCard(name);
  if (hasListener()) note(CardGone{std::string(name)});
}

bool ObservedCluster::take(scheduler::CardRef card, std::string_view deviceUid, scheduler::Amount charged,
                           std::optional<std::string_view> isolation) {
  ++changes_;
  if (!Cluster::take(card, deviceUid, charged, {}, isolation)) return false;
  if (hasListener())
    note(Took{std::string(card.name), std::string(deviceUid), charged, std::string(findCard(card.name).isolation)});
  return true;
}

bool ObservedCluster::noteMode(std::string_view card, std::string_view mode) {
  const std::string before(findCard(card).isolation);
  Cluster::noteMode(card, mode);
  const std::string now(findCard(card).isolation);
  if (now == before) return false;
  ++changes_;
  if (hasListener()) note(CardMode{std::string(card), now});
  return true;
}

void ObservedCluster::giveBack(scheduler::CardRef card, std::string_view deviceUid) {
  ++changes_;
  Cluster::giveBack(card, deviceUid);
  if (hasListener()) note(GaveBack{std::string(card.name), std::string(deviceUid)});
}

void ObservedCluster::observe(const scheduler::Request& request) {
  ++changes_;
  Cluster::observe(request);
  if (hasListener()) note(Asked{request});
}

void ObservedCluster::note(Change change) {
  if (!hasListener()) return;
  listener_->changed(std::move(change));
}

void ObservedCluster::reportHolder(HolderChanged holder) {
  if (!hasListener()) return;
  auto& known = holders_[holder.uid];
  if (known && *known == holder) return;
  known = std::make_shared<const HolderChanged>(std::move(holder));
  note(*known);
}

void ObservedCluster::recordHolder(HolderChanged holder) {
  if (!hasListener()) return;
  auto& known = holders_[holder.uid];
  known = std::make_shared<const HolderChanged>(std::move(holder));
}

void ObservedCluster::reportHolderIfUnknown(const std::string& uid, const std::string& claim) {
  if (hasListener() && !holders_.contains(uid)) reportHolder({uid, claim, {}, {}, -1});
}

void ObservedCluster::reportPod(PodChanged pod) {
  if (!hasListener()) return;
  const auto known = pods_.find(pod.pod);
  if (known == pods_.end() ? pod.claims.empty() : *known->second == pod) return;
  if (pod.claims.empty())
    pods_.erase(known);
  else
    pods_[pod.pod] = std::make_shared<const PodChanged>(pod);
  note(std::move(pod));
}

void ObservedCluster::show() {
  if (!hasListener() || !listener_->wantsAll()) return;
  reprice();
  ClaimUsers users;
  for (const auto& [uid, holder] : holders_) users.holders.push_back(holder);
  for (const auto& [name, pod] : pods_) users.pods.push_back(pod);
  listener_->all(*this, std::move(users));
}

void ObservedCluster::decided(Decided decided) {
  if (hasListener()) listener_->decided(std::move(decided));
}

}  // namespace egpu::allocator

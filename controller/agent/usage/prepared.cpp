#include "controller/agent/usage/prepared.h"

#include <algorithm>
#include <utility>

#include "api/v1alpha/pod_claims.h"

namespace egpu::agent::usage {

namespace {

constexpr std::chrono::minutes kKnownFor{10};  ///< maximum age of the list: pods that share a claim change unnoticed

}  // namespace

std::vector<cdi::Spec> Prepared::prepared() {
  std::vector<cdi::Spec> out;
  const auto entries = folder_.list();
  if (!entries) return out;
  for (const auto& entry : *entries)
    if (entry.ready && entry.spec) out.push_back(*entry.spec);
  return out;
}

std::vector<Share> Prepared::shares() {
  const auto all = prepared();
  std::vector<Share> out;
  const base::MutexLock lock(mutex_);
  std::erase_if(pods_, [&](const auto& known) {
    return std::none_of(all.begin(), all.end(), [&](const auto& spec) { return spec.deviceUid == known.first; });
  });
  for (const auto& spec : all) {
    const auto known = pods_.find(spec.deviceUid);
    for (const auto& card : spec.cards)
      out.push_back({spec.deviceUid, spec.claimNamespace, spec.claimName, card.uuid, card.core, card.memory,
                     known == pods_.end() ? Pods{} : known->second});
  }
  return out;
}

bool Prepared::knows(const std::vector<cdi::Spec>& prepared, const std::set<std::string>& strangers) {
  const base::MutexLock lock(mutex_);
  return expiriesAtList_ == expiries_ && clock_.now() - asked_ < kKnownFor &&
         std::all_of(prepared.begin(), prepared.end(),
                     [&](const auto& spec) EGPU_REQUIRES(mutex_) { return pods_.count(spec.deviceUid) > 0; }) &&
         std::includes(strangers_.begin(), strangers_.end(), strangers.begin(), strangers.end());
}

void Prepared::expire() {
  const base::MutexLock lock(mutex_);
  ++expiries_;
}

uint64_t Prepared::expiries() const {
  const base::MutexLock lock(mutex_);
  return expiries_;
}

base::Status Prepared::learn(const std::set<std::string>& strangers, std::stop_token stop) {
  const auto all = prepared();
  if (all.empty() || knows(all, strangers)) return {};
  const auto expiries = this->expiries();
  kube::ListOptions ofNode;
  ofNode.fieldSelector = "spec.nodeName=" + node_;
  ofNode.resourceVersion = "0";  // a cached list suffices: a pod is in it before its programs use a card
  const auto pods = client_.listAll<core::Pod>(ofNode, std::move(stop));
  if (!pods) return pods.status();
  std::map<std::string, Pods> known;
  for (const auto& spec : all) {
    auto& of = known[spec.deviceUid];
    for (const auto& pod : *pods)
      if (pod.metadata.namespace_ == spec.claimNamespace && pod.nodeName == node_ && !pod.finished() &&
          v1alpha::usesClaim(pod, spec.claimName))
        of.emplace(pod.metadata.uid, pod.metadata.name);
  }
  const base::MutexLock lock(mutex_);
  pods_ = std::move(known);
  strangers_ = strangers;
  expiriesAtList_ = expiries;
  asked_ = clock_.now();
  return {};
}

}  // namespace egpu::agent::usage

#include "controller/reconcile/retry/unschedulable_queue.h"

#include <algorithm>

namespace egpu::reconcile {

using std::chrono::milliseconds;

namespace {

/// Namespace of a queue key "claim/namespace/name".
std::string_view namespaceOf(std::string_view queueKey) {
  const auto begin = queueKey.find('/') + 1;
  return queueKey.substr(begin, queueKey.find('/', begin) - begin);
}

}  // namespace

std::set<UnschedulableQueue::Position>::const_iterator UnschedulableQueue::unvisited() const {
  return visited_ ? keysInOrder_.upper_bound(*visited_) : keysInOrder_.begin();
}

bool UnschedulableQueue::isBeforeOthers(const Position& at) const {
  if (current_ && current_->at < at && yieldsTo(current_->at.second, at.second)) return false;
  const auto next = unvisited();
  return next == keysInOrder_.end() || !(*next < at) || !yieldsTo(next->second, at.second);
}

bool UnschedulableQueue::yieldsTo(const std::string& other, const std::string& queueKey) const {
  const auto space = namespaceOf(other);
  const auto vain = failedAttempts_.find(space);
  return vain == failedAttempts_.end() || vain->second < kMaxFailedAttempts || space == namespaceOf(queueKey);
}

UnschedulableQueue::Admission UnschedulableQueue::add(const std::string& queueKey, const Age& age, int64_t priority,
                                                      CapacityNeeds needs) {
  const base::MutexLock lock(mutex_);
  const auto now = clock_.now();
  const Position at{{-priority, age}, queueKey};
  const auto [known, fresh] = keys_.try_emplace(queueKey);
  auto& entry = known->second;
  if (!fresh && entry.order != at.first) keysInOrder_.erase({entry.order, queueKey});  // its priority changed
  entry = {at.first, std::move(needs), false, round_, now};
  keysInOrder_.insert(at);
  // Capacity that became free after the turn was given may suit a key before this one.
  const bool has = current_ && current_->at.second == queueKey && current_->round == round_;
  if (current_ && current_->at.second == queueKey) current_->begun = true;
  if (!inRound_ || has || isBeforeOthers(at)) {
    yieldsSince_.erase(queueKey);
    const bool isFirst = keysInOrder_.begin()->second == queueKey;
    return {true, isFirst ? std::nullopt : std::optional(releases_)};
  }
  const auto since = yieldsSince_.try_emplace(queueKey, now).first;
  if (now - since->second >= timeouts_.queueYieldTimeout) {
    yieldsSince_.erase(since);
    return {true};
  }
  entry.yields = true;
  return {};
}

void UnschedulableQueue::remove(const std::string& queueKey) {
  const base::MutexLock lock(mutex_);
  if (current_ && current_->at.second == queueKey) current_->begun = true;
  const auto known = keys_.find(queueKey);
  if (known == keys_.end()) return;
  keysInOrder_.erase({known->second.order, queueKey});
  keys_.erase(known);
}

void UnschedulableQueue::grew(uint64_t releases) {
  const base::MutexLock lock(mutex_);
  releases_ = std::max(releases_, releases);
  ++round_;
  beginRound();
}

void UnschedulableQueue::beginRound() {
  inRound_ = true;
  passedOver_ = false;
  visited_.reset();
  repeatAt_.reset();
}

bool UnschedulableQueue::selectNext(const std::function<bool(const CapacityNeeds&)>& mayFit, NextKeys& result) {
  const auto now = clock_.now();
  const bool all = keysInOrder_.size() <= kMaxEvaluations;
  std::size_t considered = 0;
  for (auto it = unvisited(); it != keysInOrder_.end(); ++it) {
    if (++considered > kKeysAtOnce) {
      result.again = milliseconds(0);
      return false;
    }
    visited_ = *it;
    auto& entry = keys_.at(it->second);
    if (!entry.yields && !all) {
      const auto had = lastAttempts_.find(it->second);
      if (had != lastAttempts_.end() && now - had->second < timeouts_.queueAttemptBackoff) {
        passedOver_ = true;
        continue;
      }
      if (!mayFit(entry.needs)) continue;
    }
    entry.yields = false;
    result.keys.push_back(it->second);
    if (late_.contains(namespaceOf(it->second))) continue;
    current_ = CurrentKey{*it, now, round_};
    result.again = timeouts_.queueAttemptTimeout;
    return true;
  }
  inRound_ = false;
  yieldsSince_.clear();
  late_.clear();
  failedAttempts_.clear();
  std::erase_if(lastAttempts_,
                [this, now](const auto& had) { return now - had.second >= timeouts_.queueAttemptBackoff; });
  return false;
}

void UnschedulableQueue::selectForEvaluation(NextKeys& result) {
  const auto now = clock_.now();
  if (nextEvaluations_ && now < *nextEvaluations_) {
    result.again = std::chrono::ceil<milliseconds>(*nextEvaluations_ - now);
    return;
  }
  std::vector<std::pair<Steady, const std::string*>> waits;
  for (const auto& [key, entry] : keys_)
    if (entry.round < round_) waits.emplace_back(entry.evaluatedAt, &key);
  const bool first = !nextEvaluations_;
  nextEvaluations_.reset();
  if (waits.empty()) return;
  nextEvaluations_ = now + timeouts_.explainInterval;
  result.again = timeouts_.explainInterval;
  if (first) return;
  const auto end = waits.begin() + static_cast<std::ptrdiff_t>(std::min(waits.size(), kMaxEvaluations));
  std::partial_sort(waits.begin(), end, waits.end());
  for (auto it = waits.begin(); it != end; ++it) result.keys.push_back(*it->second);
}

UnschedulableQueue::NextKeys UnschedulableQueue::next(const std::function<bool(const CapacityNeeds&)>& mayFit) {
  const base::MutexLock lock(mutex_);
  NextKeys result;
  const auto now = clock_.now();
  if (current_) {
    const auto left = current_->since + timeouts_.queueAttemptTimeout - now;
    if (left.count() > 0) {
      result.again = std::chrono::ceil<milliseconds>(left);
      return result;
    }
    late_.emplace(namespaceOf(current_->at.second));
    current_.reset();
  }
  if (!inRound_ && repeatAt_ && now >= *repeatAt_) beginRound();
  if (inRound_) {
    if (selectNext(mayFit, result) || result.again) return result;
    if (passedOver_) repeatAt_ = now + timeouts_.queueAttemptBackoff;
  }
  selectForEvaluation(result);
  if (repeatAt_) {
    const auto until = std::chrono::ceil<milliseconds>(*repeatAt_ - now);
    result.again = result.again ? std::min(*result.again, until) : until;
  }
  return result;
}

bool UnschedulableQueue::decided(const std::string& queueKey, DecisionResult found) {
  const base::MutexLock lock(mutex_);
  // A step that began before the turn was given may have decided before capacity was freed. The key is stepped once
  // more.
  if (!current_ || current_->at.second != queueKey || !current_->begun) return false;
  lastAttempts_[queueKey] = clock_.now();
  const std::string space(namespaceOf(queueKey));
  if (found == DecisionResult::nothing) ++failedAttempts_[space];
  if (found == DecisionResult::capacity) failedAttempts_.erase(space);
  current_.reset();
  return true;
}

bool UnschedulableQueue::isCurrent(const std::string& queueKey) const {
  const base::MutexLock lock(mutex_);
  return current_ && current_->at.second == queueKey;
}

std::size_t UnschedulableQueue::size() const {
  const base::MutexLock lock(mutex_);
  return keys_.size();
}

bool UnschedulableQueue::mayExplain(const std::string& claimUid) {
  const base::MutexLock lock(mutex_);
  const auto now = clock_.now();
  const auto [it, fresh] = explained_.try_emplace(claimUid, now);
  if (fresh) return true;
  if (now - it->second < timeouts_.explainInterval) return false;
  it->second = now;
  return true;
}

void UnschedulableQueue::forgetClaim(const std::string& claimUid) {
  const base::MutexLock lock(mutex_);
  explained_.erase(claimUid);
}

std::size_t UnschedulableQueue::claims() const {
  const base::MutexLock lock(mutex_);
  return explained_.size();
}

}  // namespace egpu::reconcile

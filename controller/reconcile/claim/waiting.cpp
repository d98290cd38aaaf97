#include "controller/reconcile/claim/waiting.h"

#include <algorithm>

namespace egpu::reconcile {

namespace {
constexpr std::chrono::milliseconds kLongestRejection{3'600'000};
constexpr int kChoicesAtOnce = 3;
constexpr std::chrono::milliseconds kBetweenChoices{1'000};
constexpr std::chrono::milliseconds kLongestBetweenChoices{300'000};
}  // namespace

void Waiting::forRoom(const std::string& queueKey, const Age& age) {
  std::lock_guard lock(mutex_);
  const auto [known, fresh] = room_.try_emplace(queueKey, age);
  if (!fresh && known->second == age) return;
  if (!fresh) roomInOrder_.erase({known->second, queueKey});  // made anew under its name
  known->second = age;
  roomInOrder_.emplace(age, queueKey);
}
void Waiting::satisfied(const std::string& queueKey) {
  std::lock_guard lock(mutex_);
  const auto known = room_.find(queueKey);
  if (known == room_.end()) return;
  roomInOrder_.erase({known->second, queueKey});
  room_.erase(known);
}
std::vector<std::string> Waiting::all() const {
  std::lock_guard lock(mutex_);
  std::vector<std::string> keys;
  keys.reserve(roomInOrder_.size());
  for (const auto& [age, key] : roomInOrder_) keys.push_back(key);
  return keys;
}
std::size_t Waiting::claims() const {
  std::lock_guard lock(mutex_);
  return rejected_.size() + explained_.size() + refused_.size() + serverRefused_.size() + choices_.size() +
         unplaced_.size();
}
std::size_t Waiting::size() const {
  std::lock_guard lock(mutex_);
  return room_.size();
}

void Waiting::rejectNode(const std::string& claimUid, const std::string& node, const std::string& why,
                         std::chrono::milliseconds howLong) {
  std::lock_guard lock(mutex_);
  auto& nodes = rejected_[claimUid];
  auto& rejection = nodes[node];
  if (clock_.now() < rejection.until) return;  // the same once more
  const auto longer = std::min(howLong * (int64_t{1} << std::min(rejection.times, 12)), kLongestRejection);
  rejection = {clock_.now() + longer, why, rejection.times + 1};
  if (nodes.size() <= kNodesRejected) return;
  nodes.erase(std::min_element(nodes.begin(), nodes.end(),
                               [](const auto& a, const auto& b) { return a.second.until < b.second.until; }));
}
void Waiting::nodeChanged(std::string_view node) {
  std::lock_guard lock(mutex_);
  const auto now = clock_.now();
  for (auto& [claim, nodes] : rejected_)
    if (auto it = nodes.find(node); it != nodes.end()) it->second.until = std::min(it->second.until, now);
}
bool Waiting::rejected(const std::string& claimUid, std::string_view node) const {
  std::lock_guard lock(mutex_);
  auto claim = rejected_.find(claimUid);
  if (claim == rejected_.end()) return false;
  auto it = claim->second.find(node);
  return it != claim->second.end() && clock_.now() < it->second.until;
}
bool Waiting::anyRejected(const std::string& claimUid) const { return untilNextNode(claimUid).count() > 0; }
std::string Waiting::rejections(const std::string& claimUid) const {
  std::lock_guard lock(mutex_);
  auto claim = rejected_.find(claimUid);
  if (claim == rejected_.end()) return {};
  std::string text;
  std::size_t more = 0;
  for (const auto& [node, rejection] : claim->second) {
    if (clock_.now() >= rejection.until) continue;
    if (!text.empty()) {
      ++more;
      continue;
    }
    text = "node " + node + " is not tried for a while" + (rejection.why.empty() ? "" : ": " + rejection.why);
  }
  return more == 0 ? text : text + " (and " + std::to_string(more) + " more)";
}
std::chrono::milliseconds Waiting::untilNextNode(const std::string& claimUid) const {
  std::lock_guard lock(mutex_);
  auto claim = rejected_.find(claimUid);
  if (claim == rejected_.end()) return {};
  const auto now = clock_.now();
  std::chrono::milliseconds least{0};
  for (const auto& [node, rejection] : claim->second) {
    if (now >= rejection.until) continue;
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(rejection.until - now);
    if (least.count() == 0 || left < least) least = left;
  }
  return least;
}
void Waiting::forgetClaim(const std::string& claimUid) {
  std::lock_guard lock(mutex_);
  rejected_.erase(claimUid);
  explained_.erase(claimUid);
  refused_.erase(claimUid);
  serverRefused_.erase(claimUid);
  refusedOn_.erase(claimUid);
  choices_.erase(claimUid);
  unplaced_.erase(claimUid);
}
void Waiting::choiceFailed(const std::string& claimUid) {
  std::lock_guard lock(mutex_);
  auto& choices = choices_[claimUid];
  ++choices.failed;
  choices.last = clock_.now();
}
std::chrono::milliseconds Waiting::untilNextChoice(const std::string& claimUid) const {
  std::lock_guard lock(mutex_);
  const auto it = choices_.find(claimUid);
  if (it == choices_.end() || it->second.failed <= kChoicesAtOnce) return {};
  const int more = std::min(it->second.failed - kChoicesAtOnce - 1, 12);
  const auto wait = std::min(kBetweenChoices * (int64_t{1} << more), kLongestBetweenChoices);
  const auto passed = std::chrono::duration_cast<std::chrono::milliseconds>(clock_.now() - it->second.last);
  return passed < wait ? wait - passed : std::chrono::milliseconds(0);
}
std::chrono::milliseconds Waiting::unplacedFor(const std::string& claimUid, const std::string& device) {
  std::lock_guard lock(mutex_);
  const auto now = clock_.now();
  auto& unplaced = unplaced_[claimUid];
  if (unplaced.device != device) unplaced = {device, now};
  return std::chrono::duration_cast<std::chrono::milliseconds>(now - unplaced.since);
}
void Waiting::notUnplaced(const std::string& claimUid) {
  std::lock_guard lock(mutex_);
  unplaced_.erase(claimUid);
}
void Waiting::refusedOn(const std::string& claimUid, const std::string& node) {
  std::lock_guard lock(mutex_);
  auto& nodes = refusedOn_[claimUid];
  if (nodes.size() >= kNodesRejected) nodes.clear();
  nodes.insert(node);
}
bool Waiting::wasRefusedOn(const std::string& claimUid, std::string_view node) const {
  std::lock_guard lock(mutex_);
  const auto it = refusedOn_.find(claimUid);
  return it != refusedOn_.end() && it->second.find(node) != it->second.end();
}
bool Waiting::anyRefusedNode(const std::string& claimUid) const {
  std::lock_guard lock(mutex_);
  return refusedOn_.count(claimUid) != 0;
}
void Waiting::forgetRefusedNodes(const std::string& claimUid) {
  std::lock_guard lock(mutex_);
  refusedOn_.erase(claimUid);
}
int Waiting::serverRefused(const std::string& claimUid) {
  std::lock_guard lock(mutex_);
  return ++serverRefused_[claimUid];
}

bool Waiting::mayExplain(const std::string& claimUid, std::chrono::milliseconds every) {
  std::lock_guard lock(mutex_);
  const auto now = clock_.now();
  auto [it, fresh] = explained_.try_emplace(claimUid, now);
  if (fresh) return true;
  if (now - it->second < every) return false;
  it->second = now;
  return true;
}

void Waiting::refused(const std::string& claimUid, const std::string& provisioner, const std::string& message,
                      std::chrono::milliseconds howLong) {
  std::lock_guard lock(mutex_);
  refused_[claimUid] = {provisioner, message, clock_.now() + howLong};
}
std::string Waiting::refusal(const std::string& claimUid) const {
  std::lock_guard lock(mutex_);
  auto it = refused_.find(claimUid);
  if (it == refused_.end() || clock_.now() >= it->second.until) return {};
  return it->second.message.empty() ? "refused by the provisioner" : it->second.message;
}
std::chrono::milliseconds Waiting::untilRefusalEnds(const std::string& claimUid) const {
  std::lock_guard lock(mutex_);
  auto it = refused_.find(claimUid);
  const auto now = clock_.now();
  if (it == refused_.end() || now >= it->second.until) return {};
  return std::chrono::ceil<std::chrono::milliseconds>(it->second.until - now);
}
void Waiting::pluginChanged(const std::string& provisioner) {
  std::lock_guard lock(mutex_);
  for (auto it = refused_.begin(); it != refused_.end();)
    it = it->second.provisioner == provisioner ? refused_.erase(it) : std::next(it);
}

}  // namespace egpu::reconcile

#include "provisioners/nvidia/watch.h"

#include <algorithm>
#include <array>
#include <utility>

#include "provisioners/nvidia/xids.h"

namespace egpu::nvidia {
namespace {

constexpr uint64_t kMaxExactCount = 100;   // messages round larger counts down to steps that double
constexpr int kMaxEventsAtOnce = 100'000;  // bounds a check, as programs can cause any number of events

/// Returns the driver's version; empty = unknown.
std::string driverOf(const std::vector<NvmlCard>& cards) {
  for (const NvmlCard& card : cards)
    for (const auto& [name, value] : card.attributes)
      if (name == "driverVersion") return value;
  return {};
}

/// Returns the message of a card's XIDs. Each further XID changes it; above kMaxExactCount it changes rarely, so that a
/// card with a flood of errors does not cause a write of its condition at each check.
std::string messageOf(unsigned long long xid, uint64_t count) {
  uint64_t reported = count;
  if (count > kMaxExactCount)
    for (reported = kMaxExactCount; reported <= count / 2;) reported *= 2;
  return illnessOf(xid) + (count > 1 ? "; errors so far: " + std::to_string(reported) : "");
}

}  // namespace

Watch& Watch::shared() {
  static Watch watch;
  return watch;
}

Watch::~Watch() { closeLocked(); }

void Watch::follow(const std::vector<NvmlCard>& cards) {
  std::vector<std::string> uuids;
  uuids.reserve(cards.size());
  for (const NvmlCard& card : cards) uuids.push_back(card.uuid);
  std::sort(uuids.begin(), uuids.end());
  const std::lock_guard lock(mutex_);
  if (nvml_ && uuids == uuids_) return;
  if (nvml_) drainLocked();
  closeLocked();
  if (!uuids.empty()) openLocked(uuids);
}

bool Watch::release() {
  const std::lock_guard lock(mutex_);
  const bool held = nvml_ != nullptr;
  drainLocked();
  closeLocked();
  return held;
}

void Watch::forget() {
  const std::lock_guard lock(mutex_);
  seen_.clear();
  asked_.clear();
  maxLinks_.clear();
}

void Watch::openLocked(const std::vector<std::string>& uuids) {
  std::string why;
  bool absent = false;
  nvml_ = Library::open(why, absent);
  if (!nvml_) return;
  uuids_ = uuids;
  if (Library::call(nvml_->nvmlEventSetCreate, &set_) != kSuccess) set_ = nullptr;
  unsigned count = 0;  // exceeds the number of uuids if a card is lost
  Library::call(nvml_->nvmlDeviceGetCount_v2, &count);
  for (unsigned i = 0; set_ && i < std::min(count, kMaxCards); ++i) {
    Device device = nullptr;
    std::array<char, kTextSize + 1> uuid{};
    if (Library::call(nvml_->nvmlDeviceGetHandleByIndex_v2, i, &device) != kSuccess ||
        Library::call(nvml_->nvmlDeviceGetUUID, device, uuid.data(), kTextSize) != kSuccess)
      continue;
    // Not every card supports events.
    if (Library::call(nvml_->nvmlDeviceRegisterEvents, device, kXidEvent, set_) == kSuccess)
      watched_[device] = uuid.data();
  }
}

void Watch::closeLocked() {
  if (nvml_ && set_) Library::call(nvml_->nvmlEventSetFree, set_);
  set_ = nullptr;
  nvml_.reset();
  uuids_.clear();
  watched_.clear();
}

void Watch::drainLocked() {
  for (int i = 0; set_ && i < kMaxEventsAtOnce; ++i) {
    EventData event{};
    const Return answer = Library::call(nvml_->nvmlEventSetWait_v2, set_, &event, 0U);
    if (answer == kTimeout || answer == kFunctionNotFound) return;
    // The event set has become unusable; the next check creates a new one.
    if (answer != kSuccess) return closeLocked();
    const auto card = watched_.find(event.device);
    if (card == watched_.end() || event.type != kXidEvent || !withdraws(event.data)) continue;
    Seen& seen = seen_[card->second];
    if (seen.count == 0 || actionOf(event.data) >= actionOf(seen.xid)) seen.xid = event.data;
    ++seen.count;
  }
}

/// Forgets observations that a reset has made obsolete.
void Watch::forgetLocked(const NodeCards& node) {
  const auto& cards = node.cards;
  const auto absent = [&](const std::string& uuid) {
    return std::none_of(cards.begin(), cards.end(), [&](const NvmlCard& card) { return card.uuid == uuid; });
  };
  const auto lost = [&](const std::string& uuid) {
    return std::any_of(node.lost.begin(), node.lost.end(), [&](const LostCard& card) { return card.uuid == uuid; });
  };
  if (auto driver = driverOf(cards); !driver.empty() && driver != driver_) {
    if (!driver_.empty()) seen_.clear();
    driver_ = std::move(driver);
  }
  for (const NvmlCard& card : cards) {
    if (card.recoveryAction > kRecoveryNone) asked_.insert(card.uuid);
    if (card.recoveryAction == kRecoveryNone && asked_.erase(card.uuid) > 0) seen_.erase(card.uuid);
  }
  std::erase_if(seen_, [&](const auto& entry) { return absent(entry.first) && !lost(entry.first); });
  std::erase_if(maxLinks_, [&](const auto& entry) { return absent(entry.first); });
}

void Watch::judge(NodeCards& node) {
  const std::lock_guard lock(mutex_);
  forgetLocked(node);
  drainLocked();
  judgeLinksLocked(node.cards);
  for (NvmlCard& card : node.cards) {
    const auto seen = seen_.find(card.uuid);
    if (seen == seen_.end()) continue;
    // The driver itself reports its recovery action.
    if (actionOf(seen->second.xid) == Action::askDriver && card.recoveryAction >= 0) {
      seen_.erase(seen);
      continue;
    }
    auto& message = card.illness.empty() ? card.illness : card.event;
    if (card.recoveryAction <= int64_t{kRecoveryNone}) message = messageOf(seen->second.xid, seen->second.count);
  }
  for (LostCard& card : node.lost)
    if (const auto seen = seen_.find(card.uuid); seen != seen_.end())
      card.event = messageOf(seen->second.xid, seen->second.count);
}

/// Reports links that are down: links that were active before, and links to switches that other cards of the model
/// have. Links to a missing card do not count, and a card in MIG mode has no links.
void Watch::judgeLinksLocked(std::vector<NvmlCard>& cards) {
  std::map<std::string, int64_t> toSwitch;
  for (const NvmlCard& card : cards)
    if (!card.mig) toSwitch[card.model] = std::max(toSwitch[card.model], card.switchLinks);
  for (NvmlCard& card : cards) {
    auto& active = maxLinks_[card.uuid];
    if (card.mig) active.clear();
    std::map<std::string, int64_t> now;
    for (const Link& link : card.links)
      if (link.type == "nvlink") now[link.peer] = link.count;
    int64_t down = card.mig ? 0 : toSwitch[card.model] - card.switchLinks;
    for (const NvmlCard& peer : cards) {
      auto& known = active[peer.uuid];
      known = peer.mig ? 0 : std::max(known, now[peer.uuid]);
      down += known - now[peer.uuid];
    }
    if (down > 0 && card.illness.empty())
      card.illness =
          "NvlinkDown: " + std::to_string(down) +
          " of its NVLinks are down; see nvidia-smi nvlink -s, the kernel's log and, where there are switches, "
          "the fabric manager";
  }
}

}  // namespace egpu::nvidia

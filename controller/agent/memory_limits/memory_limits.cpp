#include "controller/agent/memory_limits/memory_limits.h"

#include <algorithm>
#include <utility>

#include "api/v1alpha/keys.h"
#include "api/v1alpha/size.h"
#include "controller/agent/health/foreign_use.h"
#include "controller/base/log.h"
#include "controller/base/printable.h"
#include "controller/base/text.h"
#include "provisioners/gpushare/driver_limits/container.h"

namespace egpu::agent::memory_limits {

namespace keys = v1alpha::keys;
namespace log = base::log;

namespace {

using base::Code;
using base::MutexLock;
using base::Result;
using base::Status;

constexpr std::size_t kMaxAttribute = 253;  ///< length of an attribute of a card

bool isClaimOf(const Gpu& device, const cdi::Spec& spec) {
  return device.metadata.uid == spec.deviceUid && device.spec.claimRef.has_value();
}

/// The granted memory, and as guarantee the charged memory of a class that overcommits it.
driver_limits::Limits limitsOf(const std::vector<v1alpha::DeviceCard>& cards) {
  driver_limits::Limits out;
  for (const auto& card : cards) {
    const auto hard = static_cast<uint64_t>(std::max<int64_t>(0, card.memory));
    const bool isOvercommitted = card.chargedMemory > 0 && card.chargedMemory < card.memory;
    out[card.uuid] = {hard, isOvercommitted ? static_cast<uint64_t>(card.chargedMemory) : 0};
  }
  return out;
}

/// True if a recorded container has ended. hostRoot: the host's root folder in this process.
bool hasEnded(const driver_limits::Devices& devices, const std::string& hostRoot) {
  const auto isEnded = [&](const auto& container) {
    return !driver_limits::Cgroups::isInUse(hostRoot + container.second.cgroup);
  };
  return std::any_of(devices.begin(), devices.end(), [&](const auto& device) {
    return std::any_of(device.second.containers.begin(), device.second.containers.end(), isEnded);
  });
}

bool isLimited(const Gpu& device) { return device.status.isolation && device.status.isolation->mode == kDriverMode; }

}  // namespace

MemoryLimits::MemoryLimits(sharing::HostPrograms& programs, cdi::Folder& folder, kube::EventSink& events,
                           base::Clock& clock, FindDevice device, std::function<void()> probed,
                           MemoryLimitsOptions options)
    : folder_(folder),
      events_(events),
      clock_(clock),
      device_(std::move(device)),
      probed_(std::move(probed)),
      options_(std::move(options)),
      program_(programs, options_.program) {}

MemoryLimits::~MemoryLimits() { stop(); }

void MemoryLimits::start() {
  thread_ = std::jthread([this](const std::stop_token& stop) {
    do round();
    while (clock_.sleepFor(options_.interval, stop));
  });
}

void MemoryLimits::stop() {
  thread_.request_stop();
  if (thread_.joinable()) thread_.join();
}

std::string MemoryLimits::supportOn(const v1alpha::Card& card) {
  const auto driver = card.attributes.find(std::string_view("driverVersion"));
  if (driver == card.attributes.end()) return {};  // NVML does not know the card
  const MutexLock lock(mutex_);
  auto& support = support_[card.uuid];
  const auto migMode = card.attributes.find(std::string_view("migMode"));
  const auto state = driver->second + (migMode == card.attributes.end() ? "" : " " + migMode->second);
  if (std::exchange(support.driver, state) != state) support.until = {};  // probed again; until then the last answer
  return support.answer;
}

/// Probes new cards, cards whose driver or MIG mode changed, and from time to time cards without limits.
void MemoryLimits::probe() {
  std::set<std::string> cards;
  std::map<std::string, std::string> drivers;
  const auto now = clock_.now();
  {
    const MutexLock lock(mutex_);
    for (const auto& [uuid, support] : support_)
      if (support.until <= now) cards.insert(uuid), drivers[uuid] = support.driver;
  }
  if (cards.empty()) return;
  const auto answers = program_.probe(cards);
  const MutexLock lock(mutex_);
  for (const auto& uuid : cards) {
    auto& support = support_[uuid];
    if (support.driver != drivers[uuid]) continue;  // it has changed meanwhile, so the next round probes again
    std::string answer;
    if (!answers)
      answer = answers.status().message();
    else if (const auto found = answers->find(uuid); found != answers->end())
      answer = found->second;
    if (answer.empty()) answer = "the card was not probed";
    support.answer = base::shortened(base::printable(answer), kMaxAttribute);
    const bool isAvailable = answer == keys::kMemoryLimitsAvailable;
    support.until = isAvailable ? base::Clock::Steady::max() : now + options_.probeInterval;
    if (!isAvailable) log::debug("a card has no memory limits", {{"card", uuid}, {"why", support.answer}});
  }
  if (probed_) probed_();
}

Status MemoryLimits::requireFor(const Gpu& device) {
  if (!isLimited(device)) return Status::okay();
  if (const auto path = program_.install(); !path) return path.status();
  const MutexLock writing(writing_);
  const MutexLock lock(mutex_);
  const auto& uid = device.metadata.uid;
  const auto wrong =
      program_.records().writeAmounts(uid, {limitsOf(v1alpha::cardsInForce(device)), containersOf(uid, 1)});
  return wrong.empty() ? Status::okay() : Status(Code::unavailable, "memory limits: " + wrong);
}

void MemoryLimits::expect(const std::string& deviceUid, std::size_t containers) {
  const MutexLock lock(mutex_);
  expected_[deviceUid] = std::max<std::size_t>(1, containers);
}

uint64_t MemoryLimits::containersOf(const std::string& deviceUid, uint64_t otherwise) const {
  const auto known = expected_.find(deviceUid);
  return known == expected_.end() ? otherwise : known->second;
}

Result<std::vector<core::Hook>> MemoryLimits::hooksFor(const Gpu& device) const {
  if (!isLimited(device)) return std::vector<core::Hook>{};
  return program_.hooksFor(device.metadata.uid);
}

std::vector<usage::Measured> MemoryLimits::measured() {
  const MutexLock lock(mutex_);
  return measured_;
}

void MemoryLimits::round() {
  probe();
  bool isChanged = false;
  {
    const MutexLock writing(writing_);
    std::vector<std::string> unprepared;
    {
      const MutexLock lock(mutex_);
      isChanged = update(unprepared);
    }
    if (!unprepared.empty()) note(program_.release(unprepared).status());
  }
  if (isChanged) apply();
  measure();
}

/// Compares the records with the prepared devices and their amounts in force. Returns true if limits must be applied.
/// Stores the recorded devices that are no longer prepared.
bool MemoryLimits::update(std::vector<std::string>& unprepared) {
  std::vector<std::string> unread;
  const auto known = program_.records().read(unread);
  const auto entries = folder_.list();  // after the records, because each record has an entry from the beginning
  if (!entries) return false;
  bool isChanged = false;
  devices_.clear();
  std::set<std::string> prepared;
  for (const auto& entry : *entries) {
    prepared.insert(entry.deviceUid);
    if (!entry.ready || !entry.spec || !program_.hasHooks(entry.spec->edits)) continue;
    devices_[entry.deviceUid] = entry.spec->device;
    isChanged = record(*entry.spec, known) || isChanged;
  }
  std::erase_if(expected_, [&](const auto& each) { return prepared.count(each.first) == 0; });
  const auto now = clock_.now();
  if (now >= nextEnded_) {
    for (const auto& [uid, device] : known)
      if (prepared.count(uid) == 0) unprepared.push_back(uid);
    // A container that runs may name another copy of the program in its hooks.
    if (!unprepared.empty() && prepared.empty()) program_.removeOthers();
    const bool mustCorrect = hasEnded(known, options_.hostRoot);
    if (!unprepared.empty() || mustCorrect) nextEnded_ = now + options_.endedInterval;
    isChanged = isChanged || mustCorrect;
  }
  hasContainers_ =
      std::any_of(known.begin(), known.end(), [](const auto& device) { return !device.second.containers.empty(); });
  return isChanged || (hasContainers_ && now >= nextApply_);
}

/// Records the amounts in force of a device. Returns true if they have changed.
bool MemoryLimits::record(const cdi::Spec& spec, const driver_limits::Devices& known) {
  const auto object = device_(spec.device);
  const bool isKnown = object && isClaimOf(*object, spec);
  const auto recorded = known.find(spec.deviceUid);
  const bool isRecorded = recorded != known.end() && !recorded->second.amounts.cards.empty();
  const auto before = isRecorded ? recorded->second.amounts : driver_limits::DeviceAmounts{limitsOf(spec.cards), 1};
  driver_limits::DeviceAmounts now = before;  // the last amounts stay until the object is known
  if (isKnown) now.cards = limitsOf(v1alpha::cardsInForce(*object));
  now.containers = containersOf(spec.deviceUid, before.containers);
  if (isRecorded && now == before) return false;
  const auto wrong = program_.records().writeAmounts(spec.deviceUid, now);
  if (!wrong.empty()) note(Status(Code::unavailable, wrong));
  return wrong.empty();
}

void MemoryLimits::apply() {
  nextApply_ = clock_.now() + options_.applyInterval;
  const auto problems = program_.apply();
  note(problems.status());
  if (problems)
    report(*problems);
  else
    nextApply_ = clock_.now() + options_.endedInterval;
}

/// Logs an error when it changes.
void MemoryLimits::note(const Status& status) {
  const auto error = status.ok() ? std::string() : status.message();
  if (std::exchange(error_, error) == error || error.empty()) return;
  log::warn("memory limits of containers can't be updated; the last ones stay in force", {{"why", error}});
}

void MemoryLimits::report(const std::vector<Problem>& problems) {
  std::map<std::string, std::string> names;
  {
    const MutexLock lock(mutex_);
    names = devices_;
  }
  const auto now = clock_.now();
  std::erase_if(reported_, [&](const auto& each) { return names.count(each.first) == 0; });
  for (const auto& [uid, text] : problems) {
    const auto last = reported_.find(uid);
    if (last != reported_.end() && now - last->second < options_.repeatEvent) continue;
    log::warn("a memory limit is not in force as it should be", {{"device", uid}, {"why", text}});
    reported_[uid] = now;
    const auto name = names.find(uid);
    const auto object = name == names.end() ? nullptr : device_(name->second);
    if (!object || object->metadata.uid != uid || !object->spec.claimRef) continue;
    const auto& claim = *object->spec.claimRef;
    const auto& kind = core::kindOf<v1alpha::ElasticGPUClaim>;
    events_.event({kind.apiVersion(), std::string(kind.kind), claim.namespace_, claim.name, claim.uid, {}}, "Warning",
                  keys::reason::kMemoryLimitFailed, text);
  }
}

void MemoryLimits::measure() {
  const auto now = clock_.now();
  if (now < nextUsage_) return;
  nextUsage_ = now + options_.usageInterval;
  {
    const MutexLock lock(mutex_);
    if (!hasContainers_) return measured_.clear();
  }
  const auto used = program_.usage();
  note(used.status());
  std::vector<usage::Measured> all;
  if (used)
    for (const auto& each : *used)
      all.push_back({each.device, health::podOf(each.cgroup), each.card, static_cast<int64_t>(each.used)});
  const MutexLock lock(mutex_);
  measured_ = std::move(all);
}

}  // namespace egpu::agent::memory_limits

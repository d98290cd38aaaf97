#include "controller/reconcile/card/auditor.h"

#include <algorithm>

#include "api/v1alpha/keys.h"
#include "api/v1alpha/quantity.h"
#include "api/v1alpha/size.h"
#include "controller/base/log.h"
#include "controller/base/timestamp.h"
#include "controller/reconcile/claim/conditions.h"
#include "controller/reconcile/queue_key.h"
#include "controller/reconcile/resize/whole_cards.h"

namespace egpu::reconcile {

namespace phase = v1alpha::keys::phase;

namespace keys = v1alpha::keys;
using std::chrono::milliseconds;

namespace {
constexpr std::string_view kNodeGone = "NodeGone";
constexpr std::string_view kNotOffered = "NotOffered";
constexpr std::string_view kTerminating = "Terminating";
constexpr std::string_view kFull = "Full";
constexpr std::string_view kAvailable = "Available";
constexpr int kNominatedDelays =
    5;  ///< summaryDelays between two checks of a nominated card: each reads all nominations
}  // namespace

Outcome Auditor::step(const std::string& name, std::stop_token stop) {
  auto card = stores_.cards.get({"", name});
  if (!card) {
    const base::MutexLock lock(mutex_);
    wrongSince_.erase(name);
    reported_.erase(name);
    return Outcome::done();
  }
  auto swept = sweeper_.sweepCard(*card, stop);
  if (swept.kind != Outcome::Kind::done) return swept;
  bool changed = false;
  auto checked = updateHardware(*card, &changed, stop);
  if (checked.kind != Outcome::Kind::done || changed) return checked;
  card = stores_.cards.get({"", name});
  if (!card) return Outcome::done();
  checkLedger(*card);
  return summary(name, stop);
}

Outcome Auditor::updateHardware(const cache::Gpu& card, bool* changed, std::stop_token stop) {
  if (card.metadata.deleting()) return Outcome::done();
  const auto& node = card.spec.card->nodeName;
  bool there = stores_.nodes.get({"", node}) != nullptr;
  const bool failed = card.status.phase == phase::kFailed && card.status.reason == kNodeGone;
  if (!there && card.status.phase != phase::kFailed) {
    auto now = writer_.read<core::Node>({"", node}, {}, stop);  // the cache may be late
    if (!now.ok() && now.status().code() != base::Code::notFound) return Outcome::retry(now.status());
    there = now.ok();
  }
  base::Result<cache::Gpu> written = card;
  if (!there && card.status.phase != phase::kFailed) {
    written = binder_.setPhase(card, phase::kFailed, kNodeGone, "node " + node + " is gone", stop);
    *changed = true;
  } else if (there && failed) {
    written = binder_.setPhase(card, phase::kAvailable, "", "", stop);
    *changed = true;
  }
  if (written.ok() || written.status().code() == base::Code::notFound) return Outcome::done();
  return written.status().code() == base::Code::conflict ? Outcome::requeueNow() : Outcome::retry(written.status());
}

void Auditor::report(const cache::Gpu& card, std::set<Drift> found) {
  std::vector<Drift> fresh;
  {
    const base::MutexLock lock(mutex_);
    const auto known = reported_.find(card.metadata.name);
    for (const auto& drift : found)
      if (known == reported_.end() || known->second.count(drift) == 0) fresh.push_back(drift);
    // Drift that is repaired is forgotten, so that it is reported again if it recurs.
    if (found.empty())
      reported_.erase(card.metadata.name);
    else
      reported_[card.metadata.name] = std::move(found);
  }
  for (const auto& drift : fresh) report(card, drift);
}

void Auditor::report(const cache::Gpu& card, const Drift& drift) {
  {
    const base::MutexLock lock(mutex_);
    ++drift_[drift.cause];
  }
  metrics_.add("elasticgpu_ledger_drift_total", 1, {{"cause", drift.cause}});
  base::log::warn("ledger drift", {{"card", card.metadata.name}, {"cause", drift.cause}, {"detail", drift.detail}});
  events_.event(kube::referenceTo(card), "Warning", "LedgerDrift", drift.cause + ": " + drift.detail);
}

Outcome Auditor::assumed(std::stop_token stop) {
  const auto now = clock_.now();
  const auto all = cluster_.assumptions();
  std::vector<const allocator::AssumedDecision*> old;
  auto oldest = now;
  {
    const base::MutexLock lock(mutex_);
    std::map<uint64_t, base::Clock::Steady> since;
    for (const auto& decision : all) {
      const auto known = assumedSince_.find(decision.number);
      const auto at = known == assumedSince_.end() ? now : known->second;
      since.emplace(decision.number, at);
      if (now - at >= timeouts_.assumedTimeout)
        old.push_back(&decision);
      else
        oldest = std::min(oldest, at);
    }
    assumedSince_ = std::move(since);
  }
  bool asked = true;
  for (const auto* decision : old) asked = repair(*decision, stop) && asked;
  if (!asked) return Outcome::retry({base::Code::unavailable, "a decision that counts could not be checked"});
  if (all.size() == old.size()) return Outcome::done();
  return Outcome::after(timeouts_.assumedTimeout - std::chrono::duration_cast<milliseconds>(now - oldest));
}

bool Auditor::repair(const allocator::AssumedDecision& decision, std::stop_token stop) {
  // If this read finds the device, the device counts by itself.
  const auto device = writer_.read<cache::Gpu>({"", std::string(keys::kDevicePrefix) + decision.claimUid}, {}, stop);
  if (!device.ok() && device.status().code() != base::Code::notFound) return false;
  if (!cluster_.forgetDecision(decision.claimUid, decision.number)) return true;
  const Drift drift{"assumedTooLong", "capacity decided for claim " + decision.claim +
                                          (device.ok() ? " was still reserved in addition to its device"
                                                       : " was reserved for over a minute without a device")};
  for (const auto& name : decision.cards)
    if (const auto card = stores_.cards.get({"", name})) report(*card, drift);
  return true;
}

/// True if the entry agrees with the device. During a resize the entry is raised first, and lowered only once the
/// target is in force.
bool Auditor::agrees(const cache::Gpu& device, const v1alpha::DeviceCard& share, const v1alpha::LedgerEntry& entry) {
  if (share.slots != entry.slots) return false;
  if (share.chargedCore == entry.core && share.chargedMemory == entry.memory) return true;
  if (!device.spec.target) return false;
  const bool raised = entry.resize == v1alpha::targetNumber(device);
  return raised ? entry.core >= share.chargedCore && entry.memory >= share.chargedMemory : v1alpha::isResizing(device);
}

void Auditor::checkLedger(const cache::Gpu& card) {
  const auto& name = card.metadata.name;
  const auto audit = cluster_.allocationMap().audit(name);
  if (!audit.known) return;
  std::set<Drift> found;
  // Σ entries + free = capacity, with the scheduler's value of free. Decisions under way may only make that value
  // smaller.
  if (audit.ledgerCore > audit.core || overdrawnMemory(stores_, card) > 0)
    found.insert({"overCommitted", v1alpha::formatMilliCards(audit.ledgerCore) + " and " +
                                       v1alpha::formatBytes(audit.ledgerMemory) + " charged of " +
                                       v1alpha::formatMilliCards(audit.core) + " and " +
                                       v1alpha::formatBytes(audit.memory)});
  if (audit.ledgerCore > audit.usedCore || audit.ledgerMemory > audit.usedMemory)
    found.insert({"schedulerBehind", "the scheduler counts less as used than the ledger"});
  for (const auto& device : audit.deviceWithoutEntry) {
    found.insert({"entryMissing", "device " + device + " uses the card but has no entry"});
    enqueue_(deviceKey(device));  // its step puts the entry back
  }
  for (const auto& device : stores_.devicesOnCard(name)) {
    if (!committed(*device)) continue;
    auto entry = card.spec.allocations.find(device->metadata.uid);
    if (entry == card.spec.allocations.end()) continue;
    for (std::size_t i = 0; i < device->spec.cards.size(); ++i) {
      const auto share = v1alpha::cardCharged(*device, i);
      if (share.name != name) continue;
      // R2 of a dead leader, after R5 of the same number: the claim's step lowers the entry again.
      const bool more = entry->second.core > share.chargedCore || entry->second.memory > share.chargedMemory;
      if (more && !v1alpha::isResizing(*device) && device->spec.claimRef)
        enqueue_(claimKey({device->spec.claimRef->namespace_, device->spec.claimRef->name}));
      if (agrees(*device, share, entry->second)) continue;
      found.insert(
          {"amountDiffers", "the entry of device " + device->metadata.name + " differs from the device's amounts"});
      enqueue_(deviceKey(device->metadata.name));
    }
  }
  report(card, std::move(found));
}

/// Message of a card that is being deleted. The card stays until the last claim has left it.
std::string Auditor::deletionMessage(const cache::Gpu& card) const {
  constexpr std::size_t kMaxNamed = 4;
  const auto& entries = card.spec.allocations;
  const auto& node = card.spec.card->nodeName;
  std::string text = "is being deleted";
  if (!stores_.nodes.get({"", node})) text += "; node " + node + " is gone";
  if (entries.empty()) return text;
  text += entries.size() == 1 ? "; waits for claim " : "; waits for claims ";
  std::size_t named = 0;
  for (const auto& [uid, entry] : entries) {
    if (named == kMaxNamed) break;
    text += (named++ == 0 ? "" : ", ") + (entry.claim.empty() ? "of device " + entry.device : entry.claim);
  }
  if (named < entries.size()) text += " and " + std::to_string(entries.size() - named) + " more";
  return text + " to leave it";
}

// Sets the phase of a card: Terminating while it is being deleted; otherwise, unless the card failed, Unhealthy,
// Tainted, Full or Available. Reason and message explain why the card takes no claims.
void Auditor::judge(const cache::Gpu& card, const v1alpha::AllocatedSummary& sum,
                    v1alpha::ElasticGPUStatus& after) const {
  constexpr std::string_view kUnhealthy = "Unhealthy", kTainted = keys::reason::kTainted;
  if (card.metadata.deleting()) {
    after.phase = kTerminating;
    after.reason = kDeleting;
    after.message = deletionMessage(card);
    return;
  }
  const auto& was = after.phase;
  if (!was.empty() && was != kUnhealthy && was != kTainted && was != kFull && was != kAvailable) return;
  const bool ours = was == kUnhealthy || was == kTainted || after.reason == kNotOffered ||
                    after.reason == keys::reason::kCardTooSmall;
  if (const auto trouble = stores_.troubleOf(card)) {
    after.phase = cache::troubleOf(card) ? kUnhealthy : kTainted;
    after.reason = trouble.reason;
    after.message = trouble.message;
    return;
  }
  const bool full = sum.core >= card.spec.card->core || sum.memory >= card.spec.card->memory;
  after.phase = full ? kFull : kAvailable;
  if (const auto why = cluster_.allocationMap().quarantineReason(card.metadata.name); !why.empty()) {
    after.reason = kNotOffered;
    after.message = why;
  } else if (const int64_t missing = overdrawnMemory(stores_, card); missing > 0) {
    after.reason = keys::reason::kCardTooSmall;
    after.message = overdrawnText(card, missing);
  } else if (ours) {
    after.reason.clear();
    after.message.clear();
  }
}

void Auditor::judgeShares(const cache::Gpu& card, v1alpha::ElasticGPUStatus& after) const {
  constexpr std::string_view kSharesFit = "SharesFit";
  const int64_t missing = overdrawnMemory(stores_, card);
  if (missing == 0) {
    std::erase_if(after.conditions, [&](const auto& condition) { return condition.type == kSharesFit; });
    return;
  }
  core::Condition condition;
  condition.type = kSharesFit;
  condition.status = "False";
  condition.reason = keys::reason::kCardTooSmall;
  condition.message = overdrawnText(card, missing);
  condition.observedGeneration = card.metadata.generation;
  setCondition(after.conditions, std::move(condition), base::rfc3339(clock_.wall()));
}

/// True if only the amounts are outdated, and a preemptor is about to take the released capacity.
bool Auditor::awaitsPreemptor(const cache::Gpu& card, const v1alpha::ElasticGPUStatus& after) const {
  auto compared = after;
  compared.allocated = card.status.allocated;
  if (after.phase == kAvailable && card.status.phase == kFull) compared.phase = kFull;
  return compared == card.status && cluster_.queries().isNominated(card.metadata.name, card.spec.card->nodeName);
}

Outcome Auditor::summary(const std::string& name, std::stop_token stop) {
  if (options_.summaryDelay < milliseconds(0)) return Outcome::done();
  auto card = stores_.cards.get({"", name});
  if (!card) return Outcome::done();
  auto after = card->status;
  v1alpha::AllocatedSummary sum;
  for (const auto& [uid, entry] : card->spec.allocations) {
    sum.core += entry.core;
    sum.memory += entry.memory;
    if (entry.core > 0 || entry.memory > 0) ++sum.claims;  // admin access holds nothing
  }
  sum.coreText = v1alpha::formatMilliCards(sum.core);
  sum.memoryText = v1alpha::formatBytes(sum.memory) + "/" + v1alpha::formatBytes(card->spec.card->memory);
  after.allocated = sum;
  judge(*card, sum, after);
  judgeShares(*card, after);
  {
    const base::MutexLock lock(mutex_);
    if (after == card->status) {
      wrongSince_.erase(name);
      return Outcome::done();
    }
    const auto [it, fresh] = wrongSince_.try_emplace(name, clock_.now());
    const auto passed = std::chrono::duration_cast<milliseconds>(clock_.now() - it->second);
    if (passed < options_.summaryDelay) return Outcome::after(options_.summaryDelay - passed);
    if (const auto left = options_.longestSummaryDelay - passed; left > milliseconds(0) && binding_())
      return Outcome::after(std::min(options_.summaryDelay, left));
    if (const auto left = timeouts_.nominationReportDelay - passed;
        left > milliseconds(0) && awaitsPreemptor(*card, after))
      return Outcome::after(std::min(kNominatedDelays * options_.summaryDelay, left));
    wrongSince_.erase(it);
  }
  const auto body = codec::patch::gpuStatus(card->metadata.uid, card->metadata.resourceVersion, card->status, after);
  auto written = writer_.patch(*card, body, "status", stop);
  if (written.ok() || written.status().code() == base::Code::notFound) return Outcome::done();
  return written.status().code() == base::Code::conflict ? Outcome::requeueNow() : Outcome::retry(written.status());
}

std::map<std::string, int64_t> Auditor::drift() const {
  const base::MutexLock lock(mutex_);
  return drift_;
}

}  // namespace egpu::reconcile

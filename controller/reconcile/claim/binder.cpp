#include "controller/reconcile/claim/binder.h"

#include <algorithm>

#include "api/v1alpha/keys.h"
#include "api/v1alpha/quantity.h"
#include "api/v1alpha/size.h"
#include "api/v1alpha/validation.h"
#include "controller/base/printable.h"
#include "controller/base/text.h"
#include "controller/reconcile/claim/conditions.h"
#include "controller/scheduler/mig/placement.h"

namespace egpu::reconcile {

namespace phase = v1alpha::keys::phase;

namespace keys = v1alpha::keys;

std::string deviceNameFor(const cache::Claim& claim) { return std::string(keys::kDevicePrefix) + claim.metadata.uid; }

bool committed(const cache::Gpu& device) { return phase::committed(device.status.phase); }

bool belongsTo(const cache::Gpu& device, const cache::Claim& claim) {
  return device.spec.claimRef && device.spec.claimRef->uid == claim.metadata.uid;
}

namespace {

v1alpha::ClaimRef refTo(const cache::Claim& claim) {
  return {claim.metadata.namespace_, claim.metadata.name, claim.metadata.uid};
}

/// "10", "0.5": milli-cards as percent.
std::string percent(int64_t milli) {
  auto text = std::to_string(milli / 10);
  if (milli % 10 != 0) text += "." + std::to_string(milli % 10);
  return text;
}

/// Granted amounts, for the columns of `kubectl get`. They are added to writes that happen anyway.
std::optional<v1alpha::AllocatedSummary> summaryOf(const cache::Gpu& device, bool bound) {
  if (device.spec.cards.empty()) return std::nullopt;
  v1alpha::AllocatedSummary sum;
  for (const auto& card : v1alpha::cardsInForce(device)) {
    sum.core += card.core;
    sum.memory += card.memory;
  }
  sum.claims = bound ? 1 : 0;
  if (device.spec.adminAccess) return sum;
  sum.coreText = v1alpha::formatMilliCards(sum.core);
  sum.memoryText = v1alpha::formatBytes(sum.memory);
  return sum;
}

/// Granted amounts by resource, for people.
v1alpha::StringMap capacityOf(const std::string& provisioner, const scheduler::MigInstances& instances, int64_t core,
                              int64_t memory, std::size_t cards) {
  v1alpha::StringMap capacity;
  const auto unit = provisioner + "/";
  if (!instances.profile.empty())
    capacity[unit + std::string(keys::kMigPrefix) + scheduler::mig::keyOf(instances.profile)] =
        std::to_string(instances.instances);
  if (cards > 1) capacity[unit + std::string(keys::kGpu)] = std::to_string(cards);
  if (core > 0) capacity[unit + std::string(keys::kGpuCore)] = percent(core);
  if (memory > 0) capacity[unit + std::string(keys::kGpuMemory)] = v1alpha::formatBytes(memory);
  return capacity;
}

/// None for kinds that need more than cards. remoteIntent() makes remote devices.
core::HeapOptional<v1alpha::Source> sourceOf(std::string_view kind, const std::vector<v1alpha::DeviceCard>& cards,
                                             const std::string& profile) {
  v1alpha::Source source;
  if (kind == "physicalGPU")
    source.kind = v1alpha::SourceKind::physicalGPU;
  else if (kind == "gpuShare")
    source.kind = v1alpha::SourceKind::gpuShare;
  else if (kind == "qGPU")
    source.kind = v1alpha::SourceKind::qGPU;
  else if (kind == "mig" && !profile.empty())
    source.kind = v1alpha::SourceKind::mig;
  else
    return std::nullopt;
  source.profile = profile;
  for (const auto& card : cards) source.gpuNames.push_back(card.name);
  if (source.kind != v1alpha::SourceKind::physicalGPU) source.gpuNames.resize(1);  // the other cards are in spec.cards
  return source;
}

/// True if all cards of the device have this value of the attribute.
bool allHave(const cache::Stores& stores, const std::vector<v1alpha::DeviceCard>& shares, std::string_view attribute,
             std::string_view value) {
  return std::all_of(shares.begin(), shares.end(), [&](const auto& share) {
    const auto card = stores.cards.get({"", share.name});
    if (!card) return false;
    const auto found = card->spec.card->attributes.find(attribute);
    return found != card->spec.card->attributes.end() && found->second == value;
  });
}

/// Returns the mode of `isolation: auto` on the cards of the decision: the weakest one that the scheduler chose for
/// them, because a device has one mode. For whole cards, which have none, the strongest mode that all cards offer.
std::string autoModeOf(const scheduler::Decision& decision, bool hasMemoryLimits, bool hasLimiter) {
  const auto chosen = [&](std::string_view mode) {
    return std::any_of(decision.placements.begin(), decision.placements.end(),
                       [mode](const auto& placement) { return placement.isolation == mode; });
  };
  const bool isShare = chosen("driver") || chosen("limiter");
  if (hasMemoryLimits && !(isShare && (chosen("limiter") || chosen("")))) return "driver";
  return hasLimiter && !(isShare && chosen("")) ? "limiter" : "none";
}

}  // namespace

cache::Gpu Binder::intent(const cache::Claim& claim, const cache::Class& cls,
                          const scheduler::Decision& decision) const {
  cache::Gpu device;
  device.metadata.name = deviceNameFor(claim);
  device.metadata.labels[std::string(keys::kRoleLabel)] = std::string(keys::kRoleDevice);
  device.metadata.labels[std::string(keys::kNodeLabel)] = v1alpha::labelValueOf(decision.node);
  device.metadata.finalizers = {std::string(keys::kDeviceFinalizer)};
  auto& spec = device.spec;
  int64_t core = 0, memory = 0;
  const auto instances = decision.placements.empty() ? scheduler::MigInstances{} : decision.placements.front().mig;
  for (const auto& placement : decision.placements) {
    v1alpha::DeviceCard card;
    card.name = placement.card;
    card.uuid = placement.uuid;
    card.core = placement.granted.core;
    card.memory = placement.granted.memory;
    card.chargedCore = placement.charged.core;
    card.chargedMemory = placement.charged.memory;
    card.slots = placement.charged.slots;
    core += card.core;
    memory += card.memory;
    spec.cards.push_back(std::move(card));
  }
  if (auto* plugin = provisioning_.find(cls.provisioner, nullptr))
    spec.source = sourceOf(plugin->description().source, spec.cards, instances.profile);
  spec.capacity = capacityOf(cls.provisioner, instances, core, memory, spec.cards.size());
  spec.nodeName = decision.node;
  spec.provisioner = cls.provisioner;
  spec.parameters = cls.parameters;
  // The plugin runs beside this process and does not know the node.
  const bool hasLimiter = allHave(stores_, spec.cards, keys::kLimiterAttribute, keys::kLimiterAvailable);
  auto isolation = scheduler::isolationOf(cls);
  if (isolation == "auto")
    spec.parameters["isolation"] = isolation = autoModeOf(
        decision, allHave(stores_, spec.cards, keys::kMemoryLimitsAttribute, keys::kMemoryLimitsAvailable), hasLimiter);
  if (isolation == "driver" && hasLimiter && core > 0)
    spec.parameters[std::string(keys::kComputeParameter)] = keys::kComputeLimiter;
  spec.className = cls.metadata.name;
  spec.reclaimPolicy = cls.reclaimPolicy;
  if (decision.alternative < claim.spec.firstAvailable.size())
    spec.alternative = claim.spec.firstAvailable[decision.alternative].name;
  spec.adminAccess = claim.spec.adminAccess;
  core::NodeSelectorRequirement here{"metadata.name", "In", {decision.node}};
  core::NodeSelectorTerm term;
  term.matchFields.push_back(std::move(here));
  spec.nodeAffinityRequired.emplace();
  spec.nodeAffinityRequired->terms.push_back(std::move(term));
  spec.claimRef = refTo(claim);
  return device;
}

base::Result<cache::Gpu> Binder::writeIntent(const cache::Claim& claim, const cache::Gpu& device,
                                             std::stop_token stop) {
  auto written = writer_.create(device, stop);
  if (written.ok()) return written;
  const auto code = written.status().code();
  if (code == base::Code::alreadyExists || code == base::Code::unknownOutcome || code == base::Code::deadline) {
    auto there = writer_.read<cache::Gpu>({"", device.metadata.name}, {}, stop);
    if (there.ok()) {  // crash after W1, or another pod's choice: adopt the device
      cluster_.confirm(claim.metadata.uid, *there);
      return there;
    }
    if (there.status().code() != base::Code::notFound) return written.status();  // still unknown: the assumption stays
  }
  cluster_.forget(claim.metadata.uid);
  return written.status();
}

base::Result<cache::Gpu> Binder::writeClaimRef(const cache::Gpu& device, const cache::Claim& claim,
                                               std::stop_token stop) {
  const auto body = codec::patch::claimRef(device.metadata.uid, device.metadata.resourceVersion, refTo(claim));
  return writer_.patch(device, body, {}, stop);
}

namespace {

/// Amounts that the entry on the card at that place must have. During a resize no amount goes down, because the plugin
/// may have granted an earlier target.
v1alpha::LedgerEntry amountsFor(const cache::Gpu& device, std::size_t place, const v1alpha::LedgerEntry* have,
                                bool lower) {
  const auto share = v1alpha::cardCharged(device, place);
  v1alpha::LedgerEntry entry;
  entry.core = share.chargedCore;
  entry.memory = share.chargedMemory;
  entry.slots = share.slots;
  entry.resize = v1alpha::targetNumber(device);
  if (have == nullptr || (lower && !v1alpha::isResizing(device))) return entry;
  entry.core = std::max(entry.core, have->core);
  entry.memory = std::max(entry.memory, have->memory);
  return entry;
}

/// Amounts for an entry that a card lost while its device is resized. The resize step raises it.
v1alpha::LedgerEntry amountsBefore(const cache::Gpu& device, std::size_t place) {
  const auto& share = v1alpha::cardsInForce(device)[place];
  v1alpha::LedgerEntry entry;
  entry.core = share.chargedCore;
  entry.memory = share.chargedMemory;
  entry.slots = share.slots;
  entry.resize = v1alpha::numberInForce(device);
  return entry;
}

/// Isolation mode of the device's share of the card; empty if it is no share: the whole card, or admin access.
std::string modeOn(const cache::Gpu& card, const cache::Gpu& device, const v1alpha::LedgerEntry& entry) {
  if (!entry.slots.empty()) return "mig";
  const bool whole = entry.core >= card.spec.card->core && entry.memory >= card.spec.card->memory;
  if (whole || (entry.core == 0 && entry.memory == 0)) return {};
  const auto mode = device.spec.parameters.find(std::string_view("isolation"));
  if (mode == device.spec.parameters.end() || mode->second.empty()) return "none";
  return v1alpha::isDnsLabel(mode->second) ? mode->second : std::string();  // its values are the provisioner's
}

}  // namespace

base::Status Binder::writeEntries(const cache::Gpu& device, std::stop_token stop) {
  for (std::size_t i = 0; i < device.spec.cards.size(); ++i)
    if (auto status = writeEntry(device, i, EntryChange::any, stop); !status.ok()) return status;
  return {};
}

base::Result<bool> Binder::writeSomeEntries(const cache::Gpu& device, std::stop_token stop) {
  int left = kEntriesAtOnce;
  for (std::size_t i = 0; i < device.spec.cards.size(); ++i) {
    const auto card = stores_.cards.get({"", device.spec.cards[i].name});
    const bool hasEntry = card && card->spec.allocations.contains(device.metadata.uid);
    if (!hasEntry && left-- == 0) return false;
    if (auto status = writeEntry(device, i, EntryChange::any, stop); !status.ok()) return status;
  }
  return true;
}

base::Status Binder::restoreEntries(const cache::Gpu& device, bool lower, std::stop_token stop) {
  const bool changed = lower || !device.spec.target;  // a device that was never resized had no larger entry
  const auto there = v1alpha::isResizing(device) ? EntryChange::none : changed ? EntryChange::any : EntryChange::growth;
  for (std::size_t i = 0; i < device.spec.cards.size(); ++i)
    if (auto status = writeEntry(device, i, there, stop); !status.ok()) return status;
  return {};
}

base::Result<cache::Store<cache::Gpu>::Ptr> Binder::cardFor(const cache::Gpu& device, const std::string& name,
                                                            std::stop_token stop) {
  auto card = stores_.cards.get({"", name});
  if (!card) {
    auto now = writer_.read<cache::Gpu>({"", name}, {}, stop);
    if (now.status().code() == base::Code::notFound || (now.ok() && !now->isCard()))
      return base::Status(base::Code::invalid, "card " + name + " is gone");
    if (!now.ok()) return now.status();
    card = std::make_shared<const cache::Gpu>(*now);
  }
  if (card->metadata.deleting() && !committed(device))
    return base::Status(base::Code::invalid, "card " + name + " is being deleted");
  return card;
}

base::Status Binder::writeEntry(const cache::Gpu& device, std::size_t place, EntryChange there, std::stop_token stop) {
  const auto& name = device.spec.cards[place].name;
  const auto card = cardFor(device, name, stop);
  if (!card.ok()) return card.status();
  const auto& uid = device.metadata.uid;
  const auto known = (*card)->spec.allocations.find(uid);
  const auto* have = known == (*card)->spec.allocations.end() ? nullptr : &known->second;
  if (have != nullptr && there == EntryChange::none) return {};
  auto entry = there == EntryChange::none ? amountsBefore(device, place)
                                          : amountsFor(device, place, have, there == EntryChange::any);
  entry.device = device.metadata.name;
  if (device.spec.claimRef) entry.claim = device.spec.claimRef->namespace_ + "/" + device.spec.claimRef->name;
  if (entry.claim.empty() && have != nullptr) entry.claim = have->claim;
  if (have != nullptr && *have == entry) return {};
  if (have != nullptr && have->resize > entry.resize) return refreshStale(device, *have, stop);
  if (entry.claim.empty()) entry.claim = "unclaimed/" + device.metadata.name;
  // A change of an entry keeps the card's mode.
  const bool isRecorded = have != nullptr && !(*card)->spec.mode.empty();
  const auto mode = isRecorded ? std::string() : modeOn(**card, device, entry);
  const auto body = codec::patch::ledgerEntry((*card)->metadata.uid, uid, entry, mode);
  const auto written = writer_.patch(**card, body, {}, stop);
  if (written.ok()) return {};
  if (written.status().code() == base::Code::notFound) return {base::Code::invalid, "card " + name + " is gone"};
  if (written.status().code() != base::Code::invalid) return written.status();
  auto now = writer_.read<cache::Gpu>({"", name}, (*card)->metadata.uid, stop);  // for the next decision
  if (!now.ok()) return written.status();
  const auto is = now->spec.allocations.find(uid);
  if (is != now->spec.allocations.end() && is->second.resize > entry.resize)
    return refreshStale(device, is->second, stop);
  const bool more = is != now->spec.allocations.end() && is->second.resize < entry.resize &&
                    (is->second.core > entry.core || is->second.memory > entry.memory);
  return more ? base::Status(base::Code::conflict, "the entry on card " + name + " changed") : written.status();
}

base::Status Binder::refreshStale(const cache::Gpu& device, const v1alpha::LedgerEntry& entry, std::stop_token stop) {
  const auto now = writer_.read<cache::Gpu>({"", device.metadata.name}, device.metadata.uid, stop);
  return {base::Code::conflict,
          "device " + device.metadata.name + " is already at resize " + std::to_string(entry.resize)};
}

base::Result<cache::Gpu> Binder::writeTarget(const cache::Gpu& device, const v1alpha::DeviceSize& target,
                                             std::stop_token stop) {
  const auto& meta = device.metadata;
  const auto body = codec::patch::deviceTarget(meta.uid, meta.resourceVersion, device.spec.target, target);
  return writer_.patch(device, body, {}, stop);
}

base::Result<cache::Gpu> Binder::commitTarget(const cache::Gpu& device,
                                              const std::optional<v1alpha::Isolation>& isolation,
                                              std::stop_token stop) {
  auto now = device;
  now.status.inForce = device.spec.target;
  if (isolation) now.status.isolation = *isolation;
  now.status.allocated = summaryOf(now, true);
  return setStatus(device, now.status, stop);
}

base::Result<cache::Gpu> Binder::writeSource(const cache::Gpu& device, const plugin::SourceValues& values,
                                             std::stop_token stop) {
  if (!device.spec.source) return device;
  auto after = *device.spec.source;
  if (after.kind == v1alpha::SourceKind::qGPU) {
    if (after.deviceName.empty()) after.deviceName = values.deviceName;
    if (after.paths.empty()) after.paths = values.paths;
  }
  if (after.kind == v1alpha::SourceKind::remote && after.endpoint.empty()) after.endpoint = values.endpoint;
  if (after == *device.spec.source) return device;
  const auto& meta = device.metadata;
  return writer_.patch(device, codec::patch::deviceSource(meta.uid, meta.resourceVersion, after), {}, stop);
}

base::Result<cache::Gpu> Binder::commitDevice(const cache::Gpu& device,
                                              const std::optional<v1alpha::Isolation>& isolation,
                                              std::stop_token stop) {
  auto after = device.status;
  after.isolation.reset();
  if (isolation) after.isolation = *isolation;
  return setPhase(device, std::move(after), phase::kBound, "", "", stop);
}

base::Result<cache::Gpu> Binder::setPhase(const cache::Gpu& device, std::string_view phase, std::string_view reason,
                                          const std::string& message, std::stop_token stop) {
  return setPhase(device, device.status, phase, reason, message, stop);
}

base::Result<cache::Gpu> Binder::setPhase(const cache::Gpu& device, v1alpha::ElasticGPUStatus after,
                                          std::string_view phase, std::string_view reason, const std::string& message,
                                          std::stop_token stop) {
  after.phase = std::string(phase);
  after.reason = std::string(reason);
  after.message = base::shortened(base::printable(message), kMaxMessageLength);
  if (device.isDevice() && phase::committed(phase) && phase != device.status.phase)
    after.allocated = summaryOf(device, phase == phase::kBound);
  std::erase_if(after.conditions, [&](const auto& condition) {
    // The conditions of a claim's device; those of a card belong to its agent.
    return condition.type == kHeld || (condition.type == kHealthy && device.isDevice() && phase != phase::kBound);
  });
  // No claim's programs can have lost a device that is not Bound. The agent of a deleted node can't end its report.
  if (device.isDevice() && phase != phase::kBound) after.accessLost = {};
  return setStatus(device, after, stop);
}

base::Result<cache::Gpu> Binder::setHeld(const cache::Gpu& device, std::string_view reason, const std::string& message,
                                         const std::string& now, std::stop_token stop) {
  auto after = device.status;
  after.reason = std::string(keys::reason::kInUse);
  after.message = base::shortened(base::printable(message), kMaxMessageLength);
  core::Condition held;
  held.type = std::string(kHeld);
  held.status = "True";
  held.reason = std::string(reason);
  held.message = message;
  held.observedGeneration = device.metadata.generation;
  setCondition(after.conditions, std::move(held), now);
  return setStatus(device, after, stop);
}

base::Result<cache::Gpu> Binder::setStatus(const cache::Gpu& device, const v1alpha::ElasticGPUStatus& after,
                                           std::stop_token stop) {
  if (after == device.status) return device;
  const auto body = codec::patch::gpuStatus(device.metadata.uid, device.metadata.resourceVersion, device.status, after);
  return writer_.patch(device, body, "status", stop);
}

base::Result<cache::Claim> Binder::commitClaim(const cache::Claim& claim, const cache::Gpu& device,
                                               std::stop_token stop) {
  auto finalizers = claim.metadata.finalizers;
  if (!claim.metadata.hasFinalizer(keys::kClaimFinalizer)) finalizers.emplace_back(keys::kClaimFinalizer);
  std::optional<std::string> name;
  if (claim.spec.elasticGPUName.empty()) name = device.metadata.name;
  if (!name && finalizers.size() == claim.metadata.finalizers.size()) return claim;
  const auto body = codec::patch::claimBind(claim.metadata.uid, claim.metadata.resourceVersion, finalizers, name);
  return writer_.patch(claim, body, {}, stop);
}

base::Status Binder::rollBack(const cache::Gpu& device, std::stop_token stop) {
  if (device.metadata.deleting()) return {};
  return writer_.remove(device, stop);
}

}  // namespace egpu::reconcile

#include "controller/reconcile/claim/binder.h"

#include <algorithm>

#include "api/v1alpha/keys.h"
#include "api/v1alpha/quantity.h"
#include "api/v1alpha/validation.h"
#include "controller/base/printable.h"
#include "controller/base/text.h"
#include "controller/reconcile/claim/conditions.h"

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

/// What people see in a device's row: what it grants. It rides on writes that happen anyway.
std::optional<v1alpha::AllocatedSummary> summaryOf(const cache::Gpu& device, bool bound) {
  if (device.spec.cards.empty()) return std::nullopt;
  v1alpha::AllocatedSummary sum;
  for (const auto& card : device.spec.cards) {
    sum.core += card.core;
    sum.memory += card.memory;
  }
  sum.claims = bound ? 1 : 0;
  if (device.spec.adminAccess) return sum;
  sum.coreText = v1alpha::formatMilliCards(sum.core);
  sum.memoryText = v1alpha::formatBytes(sum.memory);
  return sum;
}

v1alpha::SourceKind sourceKind(std::string_view name) {
  if (name == "physicalGPU") return v1alpha::SourceKind::physicalGPU;
  if (name == "gpuShare") return v1alpha::SourceKind::gpuShare;
  if (name == "qGPU") return v1alpha::SourceKind::qGPU;
  return v1alpha::SourceKind::none;  // mig and remote need more than cards: their provisioners' classes make them
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
  for (const auto& placement : decision.placements) {
    v1alpha::DeviceCard card;
    card.name = placement.card;
    card.uuid = placement.uuid;
    card.core = placement.granted.core;
    card.memory = placement.granted.memory;
    card.chargedCore = placement.charged.core;
    card.chargedMemory = placement.charged.memory;
    core += card.core;
    memory += card.memory;
    spec.source.gpuNames.push_back(card.name);
    spec.cards.push_back(std::move(card));
  }
  if (auto* plugin = provisioning_.find(cls.provisioner, nullptr))
    spec.source.kind = sourceKind(plugin->description().source);
  if (spec.source.kind == v1alpha::SourceKind::none) spec.source.gpuNames.clear();
  if (spec.source.kind == v1alpha::SourceKind::gpuShare || spec.source.kind == v1alpha::SourceKind::qGPU)
    spec.source.gpuNames.resize(1);  // the rest stands in spec.cards
  const auto unit = cls.provisioner + "/";
  if (spec.cards.size() > 1) spec.capacity[unit + std::string(keys::kGpu)] = std::to_string(spec.cards.size());
  if (core > 0) spec.capacity[unit + std::string(keys::kGpuCore)] = percent(core);
  if (memory > 0) spec.capacity[unit + std::string(keys::kGpuMemory)] = v1alpha::formatBytes(memory);
  spec.nodeName = decision.node;
  spec.provisioner = cls.provisioner;
  spec.parameters = cls.parameters;
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

base::Result<cache::Gpu> Binder::writeIntent(const cache::Claim& claim, const cache::Class& cls,
                                             const scheduler::Decision& decision, std::stop_token stop) {
  const auto device = intent(claim, cls, decision);
  auto written = writer_.create(device, stop);
  if (written.ok()) return written;
  const auto code = written.status().code();
  if (code == base::Code::alreadyExists || code == base::Code::unknownOutcome || code == base::Code::deadline) {
    auto there = writer_.read<cache::Gpu>({"", device.metadata.name}, {}, stop);
    if (there.ok()) {  // W1 crash, or another pod's choice: adopt what it says
      cluster_.adopted(claim.metadata.uid, *there);
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

base::Status Binder::writeEntries(const cache::Gpu& device, std::stop_token stop) {
  v1alpha::LedgerEntry entry;
  entry.device = device.metadata.name;
  if (device.spec.claimRef) entry.claim = device.spec.claimRef->namespace_ + "/" + device.spec.claimRef->name;
  for (const auto& share : device.spec.cards) {
    auto card = stores_.cards.get({"", share.name});
    if (!card) {
      auto now = writer_.read<cache::Gpu>({"", share.name}, {}, stop);
      if (now.status().code() == base::Code::notFound || (now.ok() && !now->isCard()))
        return {base::Code::invalid, "card " + share.name + " is gone"};
      if (!now.ok()) return now.status();
      card = std::make_shared<const cache::Gpu>(*now);
    }
    if (card->metadata.deleting() && !committed(device))
      return {base::Code::invalid, "card " + share.name + " is being deleted"};
    entry.core = share.chargedCore;
    entry.memory = share.chargedMemory;
    auto have = card->spec.allocations.find(device.metadata.uid);
    if (have != card->spec.allocations.end()) {
      if (entry.claim.empty()) entry.claim = have->second.claim;
      if (have->second == entry) continue;
    }
    if (entry.claim.empty()) entry.claim = "unclaimed/" + device.metadata.name;
    const auto body = codec::patch::ledgerEntry(card->metadata.uid, device.metadata.uid, entry);
    auto written = writer_.patch(*card, body, {}, stop);
    if (written.ok()) continue;
    const auto code = written.status().code();
    if (code == base::Code::invalid) {
      auto now =
          writer_.read<cache::Gpu>({"", share.name}, card->metadata.uid, stop);  // so that the next decision knows
      return written.status();
    }
    if (code == base::Code::notFound) return {base::Code::invalid, "card " + share.name + " is gone"};
    return written.status();
  }
  return {};
}

base::Result<cache::Gpu> Binder::commitDevice(const cache::Gpu& device, std::stop_token stop) {
  return setPhase(device, phase::kBound, "", "", stop);
}

base::Result<cache::Gpu> Binder::setPhase(const cache::Gpu& device, std::string_view phase, std::string_view reason,
                                          const std::string& message, std::stop_token stop) {
  auto after = device.status;
  after.phase = std::string(phase);
  after.reason = std::string(reason);
  after.message = base::shortened(base::printable(message), kLongestMessage);
  if (device.isDevice() && phase::committed(phase)) after.allocated = summaryOf(device, phase == phase::kBound);
  after.conditions.erase(std::remove_if(after.conditions.begin(), after.conditions.end(),
                                        [](const auto& condition) { return condition.type == kHeld; }),
                         after.conditions.end());
  return setStatus(device, after, stop);
}

base::Result<cache::Gpu> Binder::setHeld(const cache::Gpu& device, std::string_view reason, const std::string& message,
                                         const std::string& now, std::stop_token stop) {
  auto after = device.status;
  after.reason = std::string(keys::reason::kInUse);
  after.message = base::shortened(base::printable(message), kLongestMessage);
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

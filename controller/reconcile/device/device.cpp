#include "controller/reconcile/device/device.h"

#include <algorithm>
#include <set>

#include "api/v1alpha/keys.h"
#include "controller/base/log.h"
#include "controller/reconcile/card/ledger_release.h"
#include "controller/reconcile/device/lost_cards.h"

namespace egpu::reconcile {

namespace phase = v1alpha::keys::phase;

namespace keys = v1alpha::keys;

namespace {
std::set<std::string> parts(std::string_view text) {
  std::set<std::string> all;
  for (std::size_t from = 0; from < text.size();) {
    const auto end = std::min(text.find(',', from), text.size());
    if (end > from) all.emplace(text.substr(from, end - from));
    from = end + 1;
  }
  return all;
}

/// True if the device keeps its ledger entries. The scheduler takes no claims on a card that lacks the entry of a
/// committed device.
bool retainsEntries(const cache::Gpu& device) {
  if (device.metadata.deleting()) return false;
  return device.status.phase == phase::kBound ||
         (device.status.phase == phase::kReleased && device.spec.reclaimPolicy != "Delete");
}

/// Returns the claim that the device's entries were written for, "namespace/name"; empty if no card has one.
std::string claimInLedger(const cache::Stores& stores, const cache::Gpu& device) {
  for (const auto& share : device.spec.cards) {
    const auto card = stores.cards.get({"", share.name});
    if (!card) continue;
    const auto entry = card->spec.allocations.find(device.metadata.uid);
    if (entry != card->spec.allocations.end() && !entry->second.claim.empty()) return entry->second.claim;
  }
  return {};
}

/// Returns the uid of a claim that is gone: from annotation elasticgpu.io/held-for, else from the device's name.
std::string uidOfGoneClaim(const cache::Gpu& device) {
  const auto noted = device.metadata.annotation(keys::kHeldForAnnotation);
  if (const auto end = noted.find(':'); end != std::string_view::npos) return std::string(noted.substr(0, end));
  const std::string_view name = device.metadata.name;
  if (name.substr(0, keys::kDevicePrefix.size()) == keys::kDevicePrefix)
    return std::string(name.substr(keys::kDevicePrefix.size()));
  return device.metadata.uid;  // no claim has this uid
}
}  // namespace

Outcome DeviceSync::step(const std::string& name, std::stop_token stop) {
  auto device = stores_.devices.get({"", name});
  if (!device) return Outcome::done();
  const auto& ref = device->spec.claimRef;
  if (!ref || ref->reserves()) return device->metadata.deleting() ? undo(*device, stop) : unclaimed(*device, stop);
  base::Status error;
  const auto claim = claimOf(*device, stop, &error);
  switch (claim) {
    case ClaimState::unknown:
      return Outcome::retry(error);
    case ClaimState::live:
      return device->metadata.deleting() ? deleting(*device, stop) : claimed(*device, stop);
    case ClaimState::leaving:
      // The claim's step releases and deletes the device; only the undo remains here. A (D2) device of a leaving claim
      // waits for that step.
      if (device->metadata.deleting())
        return device->status.phase == phase::kBound ? Outcome::done() : undo(*device, stop);
      return retainsEntries(*device) ? restoreEntries(*device, false, stop) : Outcome::done();
    case ClaimState::gone:
      return orphaned(*device, stop);
  }
  return Outcome::done();
}

DeviceSync::ClaimState DeviceSync::claimOf(const cache::Gpu& device, std::stop_token stop, base::Status* error) {
  const auto& ref = *device.spec.claimRef;
  const core::ObjectKey key{ref.namespace_, ref.name};
  if (auto cached = stores_.claims.get(key); cached && cached->metadata.uid == ref.uid)
    return cached->metadata.deleting() ? ClaimState::leaving : ClaimState::live;
  auto now = writer_.read<cache::Claim>(key, ref.uid, stop);
  if (!now.ok()) {
    if (now.status().code() == base::Code::notFound) return ClaimState::gone;
    *error = now.status();
    return ClaimState::unknown;
  }
  if (now->metadata.uid != ref.uid) return ClaimState::gone;
  return now->metadata.deleting() ? ClaimState::leaving : ClaimState::live;
}

Outcome DeviceSync::claimed(const cache::Gpu& device, std::stop_token stop) {
  if (retainsEntries(device)) return restoreEntries(device, false, stop);
  return Outcome::done();  // (D1) or Failed: the claim's step continues
}

Outcome DeviceSync::restoreEntries(const cache::Gpu& device, bool lower, std::stop_token stop) {
  for (const auto& share : device.spec.cards) {
    auto card = stores_.cards.get({"", share.name});
    // If a card is gone, being deleted or on another node, the claim's step reports Lost. An entry on another node's
    // card would occupy that card for nothing.
    if (!card || card->metadata.deleting() || card->spec.card->nodeName != device.spec.nodeName) return Outcome::done();
  }
  const auto status = binder_.restoreEntries(device, lower, stop);
  if (status.ok() || status.code() == base::Code::conflict)
    return status.ok() ? Outcome::done() : Outcome::requeueNow();
  if (status.code() == base::Code::invalid) {
    // Two committed devices share a card that shrank or was edited by hand. The controller must not decide which of
    // them loses its cards.
    base::log::error("the ledger can't take back the entry of a committed device",
                     {{"device", device.metadata.name}, {"why", status.message()}});
    events_.event(kube::referenceTo(device), "Warning", "LedgerDrift", status.message());
    return Outcome::done();
  }
  return Outcome::retry(status);
}

/// Reports the lost cards of a device without a claim; otherwise the claim's step reports them.
Outcome DeviceSync::noteLostCards(const cache::Gpu& device, std::stop_token stop) {
  const auto lost = lostCards(stores_, device);
  const auto current = stores_.devices.get({"", device.metadata.name});
  if (!current || current->metadata.uid != device.metadata.uid) return Outcome::done();
  const auto& status = current->status;
  if (lost.empty() && status.reason != keys::reason::kCardGone) return Outcome::done();
  const auto reason = lost.empty() ? std::string_view() : keys::reason::kCardGone;
  return Outcome::afterWrite(binder_.setPhase(*current, status.phase, reason, lost, stop).status());
}

base::Result<std::vector<std::string>> DeviceSync::holders(const cache::Gpu& device,
                                                           const ResourceClaimBridge::Released& resourceClaim,
                                                           std::stop_token stop) {
  const bool reserved = resourceClaim.state == ResourceClaimBridge::Release::inUse;
  const core::ObjectKey key{device.spec.claimRef->namespace_, device.spec.claimRef->name};
  std::vector<std::string> names;
  const auto prefix = device.spec.claimRef->uid + ":";  // records for an earlier claim do not count
  const auto known = device.metadata.annotation(keys::kHeldForAnnotation);
  const bool first = known.substr(0, prefix.size()) != prefix;
  const std::set<std::string> held = first ? std::set<std::string>() : parts(known.substr(prefix.size()));
  const auto holds = [&](const core::Pod& pod) {
    const auto& node = device.spec.nodeName;
    return (node.empty() || pod.nodeName == node) && (first || held.count(pod.metadata.uid) != 0);
  };
  if (!first) {
    for (const auto& pod : users_.known(key))
      if (holds(*pod)) names.push_back(pod->metadata.name);
    if (reserved || !names.empty()) return names;
  }
  auto pods = users_.readPods(key, device.spec.nodeName, stop);
  if (!pods.ok()) return pods.status();
  std::set<std::string> recorded(resourceClaim.pods.begin(),
                                 resourceClaim.pods.end());  // pods that may get a node just now
  for (const auto& pod : *pods) {
    if (!holds(pod)) continue;
    names.push_back(pod.metadata.name);
    recorded.insert(pod.metadata.uid);
  }
  if (!first || (names.empty() && !reserved)) return names;
  auto record = prefix;
  for (const auto& uid : recorded) record += uid + ",";
  const auto body = codec::patch::annotations(device.metadata.uid, {{std::string(keys::kHeldForAnnotation), record}});
  auto written = writer_.patch(device, body, {}, stop);
  if (!written.ok()) return written.status();
  return names;
}

std::optional<Outcome> DeviceSync::heldForPods(const cache::Gpu& device, std::stop_token stop) {
  const auto& ref = *device.spec.claimRef;
  const core::ObjectKey key{ref.namespace_, ref.name};
  const auto released = resourceClaim_.release(key, ref.uid, device.metadata.name, stop);
  if (released.state == ResourceClaimBridge::Release::failed) return Outcome::retry(released.error);
  const bool reserved = released.state == ResourceClaimBridge::Release::inUse;
  const auto pods = holders(device, released, stop);
  if (!pods.ok()) return Outcome::afterWrite(pods.status());
  if (!reserved && pods->empty()) return std::nullopt;
  const auto now = stores_.devices.get({"", device.metadata.name});
  if (!now || now->metadata.uid != device.metadata.uid) return Outcome::requeueNow();
  const auto who = pods->empty() ? "its ResourceClaim to be no longer reserved"
                                 : "pod " + pods->front() + (pods->size() > 1 ? " and others" : "") + " to end";
  const auto marked = users_.hold(*now, keys::reason::kClaimGone, who, stop);
  if (!marked.ok()) return Outcome::afterWrite(marked);
  return retainsEntries(*now) ? restoreEntries(*now, false, stop) : Outcome::done();
}

Outcome DeviceSync::orphaned(const cache::Gpu& device, std::stop_token stop) {
  const auto& phase = device.status.phase;
  // Released, or deleted before it was committed: the release was decided before, and its users had ended by then.
  if (phase != phase::kReleased && (committed(device) || !device.metadata.deleting()))
    if (auto held = heldForPods(device, stop)) return *held;
  if (phase == phase::kBound) {  // (D2) → (D3)
    auto released = binder_.setPhase(device, phase::kReleased, "", "", stop);
    return released.ok() ? Outcome::requeueNow() : Outcome::afterWrite(released.status());
  }
  if (device.metadata.deleting()) return undo(device, stop);
  if (phase == phase::kAvailable) {  // the claimRef was an intent that failed
    const auto body = codec::patch::claimRef(device.metadata.uid, device.metadata.resourceVersion, std::nullopt);
    return Outcome::afterWrite(writer_.patch(device, body, {}, stop).status());
  }
  if (phase == phase::kReleased && retainsEntries(device)) {  // Retain
    auto outcome = restoreEntries(device, true, stop);
    return outcome.isDone() ? noteLostCards(device, stop) : outcome;
  }
  return Outcome::afterWrite(binder_.rollBack(device, stop));  // (D1), Failed, or Released and Delete
}

Outcome DeviceSync::deleting(const cache::Gpu& device, std::stop_token stop) {
  // A user deleted it under a live claim: a Bound device is held until the claim goes, as a volume is. An uncommitted
  // or Failed device is rolled back.
  if (device.status.phase == phase::kBound) {
    if (device.status.reason == keys::reason::kCardGone) return Outcome::done();  // the claim's step decides
    const auto& ref = *device.spec.claimRef;
    const auto text = "is being deleted; waits for its claim " + ref.namespace_ + "/" + ref.name + " to be deleted";
    if (device.status.reason != keys::reason::kInUse)
      events_.event(kube::referenceTo(device), "Normal", keys::reason::kInUse, text);
    return Outcome::afterWrite(binder_.setPhase(device, phase::kBound, keys::reason::kInUse, text, stop).status());
  }
  if (device.status.phase == phase::kReleased) return Outcome::done();
  if (device.status.phase == phase::kAvailable) {
    const auto body = codec::patch::claimRef(device.metadata.uid, device.metadata.resourceVersion, std::nullopt);
    auto cleared = writer_.patch(device, body, {}, stop);
    return cleared.ok() ? Outcome::requeueNow() : Outcome::afterWrite(cleared.status());
  }
  return undo(device, stop);
}

Outcome DeviceSync::undo(const cache::Gpu& device, std::stop_token stop) {
  if (!device.metadata.hasFinalizer(keys::kDeviceFinalizer)) return Outcome::done();
  const auto reply = provisioning_.deprovision(device);
  if (!reply) return Outcome::after(provisioning_.delay(device));
  if (reply->outcome == plugin::ReplyCode::inProgress) return Outcome::after(timeouts_.backgroundCallInterval);
  if (!reply->ok()) {
    const auto text = device.spec.provisioner + ": deprovision: " + std::string(plugin::toString(reply->outcome)) +
                      (reply->message.empty() ? "" : ": " + reply->message);
    auto noted = binder_.setPhase(device, device.status.phase.empty() ? phase::kPending : device.status.phase,
                                  keys::reason::kProvisionerUnavailable, text, stop);
    return Outcome::retry({base::Code::unavailable, text});
  }
  for (const auto& share : device.spec.cards) {
    auto card = stores_.cards.get({"", share.name});
    if (!card || card->spec.allocations.count(device.metadata.uid) == 0) continue;  // a late entry is garbage (S1)
    const auto released = releaseEntry(writer_, *card, device.metadata.uid, stop);
    if (!released.ok() && released.code() != base::Code::notFound) return Outcome::retry(released);
  }
  auto rest = device.metadata.finalizers;
  rest.erase(std::remove(rest.begin(), rest.end(), keys::kDeviceFinalizer), rest.end());
  auto current = stores_.devices.get({"", device.metadata.name});
  const auto& version = current && current->metadata.uid == device.metadata.uid ? current->metadata.resourceVersion
                                                                                : device.metadata.resourceVersion;
  const auto body = codec::patch::finalizers(device.metadata.uid, version, rest);
  return Outcome::afterWrite(writer_.patch(device, body, {}, stop).status());
}

std::optional<Outcome> DeviceSync::putClaimRefBack(const cache::Gpu& device, std::stop_token stop) {
  const auto owner = claimInLedger(stores_, device);
  const auto slash = owner.find('/');
  if (slash == std::string::npos) return std::nullopt;
  v1alpha::ClaimRef ref{owner.substr(0, slash), owner.substr(slash + 1), uidOfGoneClaim(device)};
  const auto claim = writer_.read<cache::Claim>({ref.namespace_, ref.name}, {}, stop);
  if (!claim.ok() && claim.status().code() != base::Code::notFound) return Outcome::retry(claim.status());
  const auto& name = device.metadata.name;
  if (claim.ok() && (claim->spec.elasticGPUName == name || claim->status.elasticGPUName == name))
    ref.uid = claim->metadata.uid;
  const auto body = codec::patch::claimRef(device.metadata.uid, device.metadata.resourceVersion, ref);
  const auto written = writer_.patch(device, body, {}, stop);
  if (!written.ok()) return Outcome::afterWrite(written.status());
  const auto text = "spec.claimRef was removed from a Bound device and is restored: delete claim " + owner + " instead";
  events_.event(kube::referenceTo(device), "Warning", keys::reason::kInUse, text);
  base::log::warn("a Bound device lost its claimRef", {{"device", name}, {"claim", owner}});
  return Outcome::requeueNow();
}

Outcome DeviceSync::unclaimed(const cache::Gpu& device, std::stop_token stop) {
  if (!device.metadata.hasFinalizer(keys::kDeviceFinalizer)) {  // (D6): made by hand
    auto all = device.metadata.finalizers;
    all.emplace_back(keys::kDeviceFinalizer);
    const auto body = codec::patch::finalizers(device.metadata.uid, device.metadata.resourceVersion, all);
    auto written = writer_.patch(device, body, {}, stop);
    return written.ok() ? Outcome::requeueNow() : Outcome::afterWrite(written.status());
  }
  if (device.status.phase == phase::kBound)
    if (const auto back = putClaimRefBack(device, stop)) return *back;
  const auto entries = binder_.writeEntries(device, stop);
  if (entries.code() == base::Code::invalid) {
    if (committed(device)) {
      auto outcome = restoreEntries(device, false, stop);
      return outcome.isDone() ? noteLostCards(device, stop) : outcome;
    }
    auto failed = binder_.setPhase(device, phase::kFailed, keys::reason::kNoFit, entries.message(), stop);
    return Outcome::afterWrite(failed.status());
  }
  if (!entries.ok()) return entries.code() == base::Code::conflict ? Outcome::requeueNow() : Outcome::retry(entries);
  if (device.status.phase == phase::kAvailable) return noteLostCards(device, stop);
  // (D3) → (D4): its claimRef was cleared. In phase Pending or "": (D6).
  return Outcome::afterWrite(binder_.setPhase(device, phase::kAvailable, "", "", stop).status());
}

}  // namespace egpu::reconcile

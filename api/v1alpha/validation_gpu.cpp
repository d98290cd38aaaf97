// Validation rules of cards and devices, in particular of the ledger.
#include <algorithm>

#include "api/v1alpha/validation.h"
#include "api/v1alpha/validation_rules.h"

namespace egpu::v1alpha {

namespace {

using Ledger = SortedMap<LedgerEntry>;

std::string decimal(__int128 number) {
  if (number < 0) return "-" + decimal(-number);
  const std::string last(1, static_cast<char>('0' + static_cast<int>(number % 10)));
  return number < 10 ? last : decimal(number / 10) + last;
}

/// True if every entry existed in `before` with at least the same `amount`.
bool nothingGrew(const Ledger& before, const Ledger& after, int64_t LedgerEntry::*amount) {
  return std::all_of(after.begin(), after.end(), [&](const auto& entry) {
    const auto old = before.find(entry.first);
    return old != before.end() && entry.second.*amount <= old->second.*amount;
  });
}

/// Checks one resource of the ledger. A write in which no entry grows is accepted even if the card's capacity was
/// reduced below its charges.
void checkLedger(const ElasticGPU* before, const ElasticGPU& after, int64_t LedgerEntry::*amount, int64_t capacity,
                 std::string_view unit, std::string_view field, FieldErrors& errors) {
  __int128 charged = 0;
  for (const auto& [uid, entry] : after.spec.allocations) charged += entry.*amount;
  if (charged <= capacity) return;
  if (before && !before->spec.allocations.empty() &&
      nothingGrew(before->spec.allocations, after.spec.allocations, amount))
    return;
  errors.push_back({"spec.allocations", "the ledger over-commits the card: " + decimal(charged) + " " +
                                            std::string(unit) + " charged, " + std::string(field) + " is " +
                                            std::to_string(capacity) + ", " + decimal(charged - capacity) +
                                            " too many"});
}

/// Checks that no two entries have a slot in common.
void checkSlots(const Ledger& ledger, FieldErrors& errors) {
  Slots used;
  for (const auto& [uid, entry] : ledger) {
    if (entry.slots.overlaps(used)) {
      errors.push_back({"spec.allocations", "two entries of the ledger have a slot of the card in common"});
      return;
    }
    used = used.with(entry.slots);
  }
}

/// Checks that new entries of a card in MIG mode have slots; without slots an overlap cannot be found. An entry of zero
/// is one with admin access. Earlier entries stay, because a card can be switched while it has entries.
void checkNewEntries(const ElasticGPU& before, const ElasticGPU& after, FieldErrors& errors) {
  if (after.spec.card->mig.empty()) return;
  for (const auto& [uid, entry] : after.spec.allocations) {
    const bool known = before.spec.allocations.contains(uid);
    if (known || !entry.slots.empty() || (entry.core == 0 && entry.memory == 0)) continue;
    errors.push_back({"spec.allocations",
                      "the card is in MIG mode, and an entry has no slots; add the line slots: [SLOT] to spec.cards "
                      "of its device"});
    return;
  }
}

void checkProfiles(const std::vector<MigProfile>& profiles, FieldErrors& errors) {
  for (std::size_t i = 0; i < profiles.size(); ++i) {
    const MigProfile& profile = profiles[i];
    const std::string field = "spec.card.mig[" + std::to_string(i) + "]";
    if (profile.name.empty()) errors.push_back({field + ".profile", "is missing"});
    if (profile.memory < 1) errors.push_back({field + ".memory", "must be 1 or more"});
    if (profile.compute < 1 || profile.compute > MigProfile::kComputeSlices)
      errors.push_back({field + ".compute", "must be 1 to 7"});
    if (profile.size < 1 || profile.size > int64_t{Slots::kMemory})
      errors.push_back({field + ".size", "must be 1 to 8"});
  }
}

bool sameTextButForCase(std::string_view lower, std::string_view text) {
  return lower.size() == text.size() && std::equal(lower.begin(), lower.end(), text.begin(), [](char a, char b) {
           return a == (b >= 'A' && b <= 'Z' ? static_cast<char>(b - 'A' + 'a') : b);
         });
}

void checkCard(const ElasticGPU* before, const ElasticGPU& after, FieldErrors& errors) {
  const Card& card = *after.spec.card;
  if (!sameTextButForCase(after.metadata.name, card.uuid))
    errors.push_back({"spec.card.uuid",
                      "the name of a card must be its uuid in lower case, so that no hardware is published twice"});
  if (after.spec.claimRef) errors.push_back({"spec.claimRef", "only a device can have a claimRef"});
  if (!after.spec.mode.empty() && !isDnsLabel(after.spec.mode))
    errors.push_back({"spec.mode", "must be a DNS label: lower-case letters, digits and '-'"});
  checkLedger(before, after, &LedgerEntry::core, card.core, "milli-cards of core", "spec.card.core", errors);
  checkLedger(before, after, &LedgerEntry::memory, card.memory, "bytes of memory", "spec.card.memory", errors);
  checkSlots(after.spec.allocations, errors);
  checkProfiles(card.mig, errors);
  for (const auto& [uid, entry] : after.spec.allocations) {
    if (uid.empty() || uid.size() > 63)
      errors.push_back({"spec.allocations", "keys must be device uids of 1 to 63 characters"});
    if (entry.core < 0 || entry.memory < 0)
      errors.push_back({"spec.allocations[" + uid + "]", "amounts must not be negative"});
  }
}

void checkShares(const std::vector<DeviceCard>& cards, bool observes, const std::string& of, FieldErrors& errors) {
  for (std::size_t i = 0; i < cards.size(); ++i) {
    const DeviceCard& card = cards[i];
    const std::string field = of + "[" + std::to_string(i) + "]";
    if (card.chargedCore > card.core)
      errors.push_back({field + ".chargedCore", "must not exceed the granted amount of " + std::to_string(card.core)});
    if (card.chargedMemory > card.memory)
      errors.push_back(
          {field + ".chargedMemory", "must not exceed the granted amount of " + std::to_string(card.memory)});
    if (observes && (card.core > 0 || card.memory > 0))
      errors.push_back({field, "with adminAccess, core and memory must be 0"});
    if (card.core < 0 || card.memory < 0 || card.chargedCore < 0 || card.chargedMemory < 0)
      errors.push_back({field, "amounts must not be negative"});
  }
}

void checkDevice(const ElasticGPU& device, FieldErrors& errors) {
  if (!device.spec.allocations.empty()) errors.push_back({"spec.allocations", "only a card can have allocations"});
  if (!device.spec.mode.empty()) errors.push_back({"spec.mode", "only a card can have a mode"});
  const bool observes = device.spec.adminAccess;
  checkShares(device.spec.cards, observes, "spec.cards", errors);
  if (device.spec.target) checkShares(device.spec.target->cards, observes, "spec.target.cards", errors);
  if (device.status.inForce) checkShares(device.status.inForce->cards, observes, "status.inForce.cards", errors);
}

/// Message for a device of upstream's types, which name cards without amounts.
std::string missingCards(const Source& source) {
  const bool whole = source.kind == SourceKind::physicalGPU;
  return "a device states its amounts of each card; add the line cards: [{name: " +
         (source.gpuNames.empty() ? std::string("GPU") : source.gpuNames.front()) +
         ", core: " + (whole ? "1000" : "MILLI-CARDS") + ", memory: BYTES}]";
}

/// Checks a new device of MIG instances. Its cards cannot change later.
void checkInstances(const ElasticGPUSpec& spec, FieldErrors& errors) {
  if (spec.adminAccess) return;
  for (const DeviceCard& card : spec.cards) {
    if (!card.slots.empty()) continue;
    errors.push_back({"spec.cards",
                      "MIG instances have slots on their card; add the line slots: [SLOT], with 0 to 7 for memory "
                      "slots and 8 for the media engines"});
    return;
  }
}

void checkRemote(const ElasticGPUSpec& spec, FieldErrors& errors) {
  if (!spec.cards.empty())
    errors.push_back({"spec.cards", "a remote device uses no card of the cluster; remove cards"});
  if (spec.source->endpoint.empty() && spec.provisioner.empty())
    errors.push_back({"spec.remote",
                      "a remote device needs an address; add the line endpoint: HOST:PORT, or name the provisioner "
                      "that fills it in"});
}

FieldErrors check(const ElasticGPU* before, const ElasticGPU& after) {
  FieldErrors errors;
  const auto& spec = after.spec;
  const bool device = !spec.cards.empty() || (spec.source && spec.source->kind == SourceKind::remote);
  if (spec.card.has_value() == device)
    errors.push_back({"spec", "set either card (hardware), or cards or remote (a device), not both"});
  if (!spec.card && !device && spec.source) errors.push_back({"spec", missingCards(*spec.source)});
  if (spec.source && spec.source->kind == SourceKind::remote && !spec.source->ambiguous) checkRemote(spec, errors);
  if (!before && spec.source && spec.source->kind == SourceKind::mig && !spec.source->ambiguous)
    checkInstances(spec, errors);
  if (spec.source && spec.source->ambiguous)
    errors.push_back({"spec", "at most one of physicalGPU, gpuShare, qGPU, mig and remote can be set"});
  if (!spec.reclaimPolicy.empty() && spec.reclaimPolicy != "Retain" && spec.reclaimPolicy != "Delete")
    errors.push_back({"spec.reclaimPolicy", "must be Retain or Delete"});
  for (const auto& [resource, text] : spec.capacity) {
    const auto quantity = rules::quantityOf(text);
    if (!quantity || quantity->negative())
      errors.push_back({"spec.capacity[" + resource + "]", "must be a quantity of zero or more, such as 10 or 4Gi"});
  }
  const auto sameCard = [](const DeviceCard& a, const DeviceCard& b) { return a.name == b.name; };
  if (spec.target && (spec.target->cards.empty() || !std::equal(spec.target->cards.begin(), spec.target->cards.end(),
                                                                spec.cards.begin(), spec.cards.end(), sameCard)))
    errors.push_back(
        {"spec.target", "only a device can have a target, which must list the cards of spec.cards in the same order"});
  if (spec.card) {
    checkCard(before, after, errors);
  } else {
    checkDevice(after, errors);
  }
  return errors;
}

std::string_view fieldOf(SourceKind kind) {
  switch (kind) {
    case SourceKind::physicalGPU:
      return "physicalGPU";
    case SourceKind::gpuShare:
      return "gpuShare";
    case SourceKind::qGPU:
      return "qGPU";
    case SourceKind::mig:
      return "mig";
    case SourceKind::remote:
      return "remote";
  }
  return "";
}

/// Checks that the source is unchanged. Details that the provisioner determines (device and paths of a qGPU, instances
/// of a MIG device, endpoint of a remote one) can be filled in.
void checkSourceUpdate(const HeapOptional<Source>& before, const HeapOptional<Source>& after, FieldErrors& errors) {
  if (!before && !after) return;
  if (!before || !after || before->kind != after->kind || before->ambiguous != after->ambiguous) {
    errors.push_back({"spec", "the kind of source (physicalGPU, gpuShare, qGPU, mig, remote) is immutable"});
    return;
  }
  const std::string field = "spec." + std::string(fieldOf(after->kind));
  const bool hasEndpoint = !before->endpoint.empty() && before->endpoint != after->endpoint;
  if (before->gpuNames != after->gpuNames || before->profile != after->profile || hasEndpoint)
    errors.push_back({field, "the source is immutable"});
  if (!before->deviceName.empty() && before->deviceName != after->deviceName)
    errors.push_back({field + ".deviceName", "deviceName is immutable once set"});
}

void checkEntryUpdate(const std::string& uid, const LedgerEntry& before, const LedgerEntry& after,
                      FieldErrors& errors) {
  const std::string field = "spec.allocations[" + uid + "]";
  if (before.device != after.device) errors.push_back({field, "the device of an entry is immutable"});
  if (after.resize < before.resize)
    errors.push_back({field + ".resize", "must not be lower than in the current entry, which a later resize wrote"});
  if (after.resize != before.resize && (after.core < before.core || after.memory < before.memory))
    errors.push_back({field + ".resize", "a new resize must not start below the current amounts"});
  if (after.slots != before.slots) errors.push_back({field + ".slots", "slots of an entry are immutable"});
}

void checkCardUpdate(const ElasticGPU& before, const ElasticGPU& after, FieldErrors& errors) {
  if (before.spec.card->uuid != after.spec.card->uuid) errors.push_back({"spec.card.uuid", "uuid is immutable"});
  if (before.spec.card->nodeName != after.spec.card->nodeName &&
      (!before.spec.allocations.empty() || !after.spec.allocations.empty()))
    errors.push_back({"spec.card.nodeName", "nodeName is immutable while the card has ledger entries"});
  checkNewEntries(before, after, errors);
  const auto stays = [&](const auto& entry) {
    const auto now = after.spec.allocations.find(entry.first);
    return now != after.spec.allocations.end() && (now->second.core > 0 || now->second.memory > 0);
  };
  if (!before.spec.mode.empty() && before.spec.mode != after.spec.mode &&
      std::any_of(before.spec.allocations.begin(), before.spec.allocations.end(), stays))
    errors.push_back(
        {"spec.mode", "shares of a card have one isolation mode, which cannot change while the card has entries"});
}

void checkDeviceUpdate(const ElasticGPUSpec& before, const ElasticGPUSpec& after, FieldErrors& errors) {
  const auto immutable = [&](bool same, std::string_view field, std::string_view message) {
    if (!same) errors.push_back({"spec." + std::string(field), std::string(message)});
  };
  immutable(before.cards == after.cards, "cards", "cards of a device are immutable");
  immutable(before.capacity == after.capacity, "capacity", "capacity of a device is immutable");
  immutable(before.nodeName == after.nodeName, "nodeName", "nodeName of a device is immutable");
  immutable(before.provisioner == after.provisioner, "provisioner", "provisioner of a device is immutable");
  immutable(before.parameters == after.parameters, "parameters", "parameters of a device are immutable");
  immutable(before.className == after.className, "egpuClassName", "the class of a device is immutable");
  immutable(before.reclaimPolicy == after.reclaimPolicy, "reclaimPolicy", "reclaimPolicy of a device is immutable");
  immutable(before.alternative == after.alternative, "alternative", "alternative of a device is immutable");
  immutable(before.adminAccess == after.adminAccess, "adminAccess", "adminAccess of a device is immutable");
  immutable(before.nodeAffinityRequired == after.nodeAffinityRequired, "nodeAffinity",
            "nodeAffinity of a device is immutable");
  if (before.target && !after.target) errors.push_back({"spec.target", "a target can be changed but not removed"});
  if (before.target && after.target && before.target != after.target && after.target->number <= before.target->number)
    errors.push_back({"spec.target.number", "a changed target must have a higher number"});
  // A reference without uid clears the claim and reserves the device in one write. The uid of that claim can be filled
  // in later.
  const auto follows = [](const ClaimRef& was, const ClaimRef& is) {
    return is == was || is.reserves() || (was.reserves() && is.namespace_ == was.namespace_ && is.name == was.name);
  };
  if (before.claimRef && after.claimRef && !follows(*before.claimRef, *after.claimRef))
    errors.push_back({"spec.claimRef",
                      "claimRef cannot be changed to another claim; clear it, or set namespace and name without uid"});
}

}  // namespace

FieldErrors validate(const ElasticGPU& object) { return check(nullptr, object); }

FieldErrors validateUpdate(const ElasticGPU& before, const ElasticGPU& after) {
  FieldErrors errors = check(&before, after);
  checkSourceUpdate(before.spec.source, after.spec.source, errors);
  for (const auto& [uid, entry] : after.spec.allocations)
    if (const auto old = before.spec.allocations.find(uid); old != before.spec.allocations.end())
      checkEntryUpdate(uid, old->second, entry, errors);
  if (before.status.inForce && !after.status.inForce)
    errors.push_back({"status.inForce", "inForce can be changed but not removed"});
  if (before.status.inForce && after.status.inForce && after.status.inForce->number < before.status.inForce->number)
    errors.push_back({"status.inForce.number", "inForce must not return to an earlier target"});
  if (before.isCard() != after.isCard()) {
    errors.push_back({"spec.card", "a card cannot become a device, and a device cannot become a card"});
  } else if (after.isCard()) {
    checkCardUpdate(before, after, errors);
  } else {
    checkDeviceUpdate(before.spec, after.spec, errors);
  }
  return errors;
}

}  // namespace egpu::v1alpha

#include "provisioners/mig/stage.h"

#include <algorithm>
#include <optional>

#include "provisioners/mig/card_in_mig_mode.h"
#include "provisioners/nvidia/container/container.h"

namespace egpu::mig {

using nvidia::Instance;
using nvidia::InstanceRecord;
using nvidia::kSuccess;
using nvidia::Profile;
using nvidia::Return;
using sdk::Status;

namespace {

constexpr unsigned kAllSlots = (nvidia::kMediaSlot << 1) - 1;

bool isComplete(const InstanceRecord& record) {
  return std::all_of(record.parts.begin(), record.parts.end(),
                     [](const auto& part) { return part.computeInstance >= 0 && !part.uuid.empty(); });
}

unsigned slotsOf(const InstanceRecord& record, const InstanceRecord::Part& part) {
  return (((1u << record.size) - 1) << part.start) | (record.media ? nvidia::kMediaSlot : 0);
}

std::string inWords(const Instance& instance) { return "GPU instance " + std::to_string(instance.id); }

/// The work of one stage or unstage. Requires the card's lock.
class Work {
 public:
  Work(CardInMigMode& card, InstanceRecord& record) : card_(card), record_(record), boot_(nvidia::bootId()) {}

  /// (S1): returns unavailable if an instance or a record of another device occupies the device's slots. `current`: the
  /// record was read and is of this boot; otherwise no instance is the device's.
  Status checkFree(bool current) const;
  /// (S3) to (S6) for all parts.
  Status create();
  /// (D1).
  Status destroy();

 private:
  Status createPart(InstanceRecord::Part& part);
  Status makeGpuInstance(InstanceRecord::Part& part);
  Status whyNotCreated(const InstanceRecord::Part& part, Return answer) const;
  /// Returns the instance that exists for this part, or null.
  const Instance* find(const InstanceRecord::Part& part) const;
  Status refuse(const Instance& occupant, unsigned slots) const;

  CardInMigMode& card_;
  InstanceRecord& record_;
  const std::string boot_;
};

const Instance* Work::find(const InstanceRecord::Part& part) const {
  for (const Instance& instance : card_.instances())
    if (nvidia::partOf(record_, instance, boot_) == &part) return &instance;
  return nullptr;
}

Status Work::refuse(const Instance& occupant, unsigned slots) const {
  return sdk::unavailable("card " + card_.uuid() + ": slots " + nvidia::slotsText(slots) + " are occupied by " +
                          inWords(occupant) + ", which was not created here; end its programs and run " +
                          nvidia::removalOf(card_.uuid(), occupant));
}

Status Work::checkFree(bool current) const {
  std::vector<InstanceRecord> records;
  if (Status status = nvidia::readRecords(card_.uuid(), records); status.code != EGPU_OK) return status;
  unsigned mine = 0;
  for (const auto& part : record_.parts) mine |= slotsOf(record_, part);
  for (const InstanceRecord& other : records) {
    if (other.key == record_.key || other.boot != boot_) continue;
    for (const auto& part : other.parts)
      if (const unsigned both = slotsOf(other, part) & mine; both != 0)
        return sdk::unavailable("card " + card_.uuid() + ": slots " + nvidia::slotsText(both) +
                                " still have an instance of device " + other.device + " (claim " + other.claim +
                                "); it is destroyed when the pods of that claim have ended");
  }
  for (const Instance& instance : card_.instances())
    if (const unsigned both = card_.slotsOf(instance) & mine;
        both != 0 && !(current && nvidia::partOf(record_, instance, boot_) != nullptr))
      return refuse(instance, both);
  return sdk::ok();
}

Status Work::whyNotCreated(const InstanceRecord::Part& part, Return answer) const {
  std::string what = "card " + card_.uuid() + ": an instance of " + record_.profile + " on slots " +
                     nvidia::slotsText(slotsOf(record_, part)) + " can't be created: " + nvidia::inWords(answer);
  if (answer == nvidia::kNoPermission)
    what += "; the agent must be able to give the plugin access to /dev/nvidia-caps/nvidia-cap1";
  if (answer == nvidia::kInsufficientResources) {
    std::string others;
    for (const Instance& instance : card_.instances())
      others +=
          (others.empty() ? "" : "; ") + inWords(instance) + " on slots " + nvidia::slotsText(card_.slotsOf(instance));
    what += "; its instances are: " + (others.empty() ? std::string("none") : others);
  }
  return sdk::unavailable(what);
}

/// (S3) and (S4).
Status Work::makeGpuInstance(InstanceRecord::Part& part) {
  if (part.gpuInstance >= 0) {  // it was destroyed without this plugin, as by a reset of the card
    part = {part.start, -1, -1, {}};
    if (Status status = nvidia::writeRecord(record_); status.code != EGPU_OK) return status;
  }
  if (!find(part)) {
    const Profile* profile = card_.profile(record_.profile);
    unsigned id = 0;
    if (const Return answer = card_.createGpuInstance(*profile, part.start, id); answer != kSuccess)
      return whyNotCreated(part, answer);
    if (Status status = card_.read(); status.code != EGPU_OK) return status;
  }
  const Instance* made = find(part);
  if (!made)
    return sdk::unavailable("card " + card_.uuid() + ": the driver does not list the instance on slot " +
                            std::to_string(part.start) + " that it has created");
  part.gpuInstance = static_cast<int>(made->id);
  return nvidia::writeRecord(record_);
}

Status Work::createPart(InstanceRecord::Part& part) {
  const bool known = part.gpuInstance >= 0 && find(part) != nullptr;
  if (!known)
    if (Status status = makeGpuInstance(part); status.code != EGPU_OK) return status;
  if (find(part)->parts.empty()) {
    part.computeInstance = -1, part.uuid.clear();
    if (const Return answer = card_.createComputeInstance(*find(part)); answer != kSuccess)
      return whyNotCreated(part, answer);
    if (Status status = card_.read(); status.code != EGPU_OK) return status;
  }
  const Instance* made = find(part);
  if (!made || made->parts.size() != 1 || made->uuid.empty())
    return sdk::unavailable("card " + card_.uuid() + ": GPU instance " + std::to_string(part.gpuInstance) +
                            " does not have one compute instance with a uuid; destroy the others, which were not "
                            "created here: nvidia-smi mig -lci");
  if (part.uuid == made->uuid) return sdk::noChange();
  part.computeInstance = static_cast<int>(made->parts.front().id);
  part.uuid = made->uuid;
  return nvidia::writeRecord(record_);
}

Status Work::create() {
  Status out = sdk::noChange();
  for (auto& part : record_.parts) {
    Status status = createPart(part);
    if (status.code == EGPU_OK) out = sdk::ok();
    if (status.code != EGPU_OK && status.code != EGPU_NO_CHANGE) return status;
  }
  return out;
}

Status Work::destroy() {
  for (const Instance& instance : card_.instances()) {
    if (nvidia::partOf(record_, instance, boot_) == nullptr) continue;
    const Return answer = card_.destroy(instance);
    if (answer == kSuccess) continue;
    const std::string processes = card_.processesIn(instance);
    return sdk::unavailable("card " + card_.uuid() + ": " + inWords(instance) + " of device " + record_.device +
                            " can't be destroyed: " + nvidia::inWords(answer) +
                            (processes.empty() ? "" : "; end the processes " + processes));
  }
  return sdk::ok();
}

/// Returns a record of the device without ids.
Status newRecord(const sdk::Device& device, const sdk::Card& card, const Profile& profile, InstanceRecord& out) {
  const auto starts = nvidia::startsOf(profile, card.migSlots);
  if (!starts)
    return sdk::invalid("card " + card.uuid + ": slots " + nvidia::slotsText(card.migSlots) +
                        " are not those of instances of profile " + profile.name);
  out = {device.key,   device.device, device.claim, card.uuid,     nvidia::bootId(),
         profile.name, profile.id,    profile.size, profile.media, {}};
  for (const unsigned start : *starts) out.parts.push_back({start, -1, -1, {}});
  return sdk::ok();
}

bool sameContent(const InstanceRecord& a, const InstanceRecord& b) {
  return a.card == b.card && a.profile == b.profile &&
         std::equal(a.parts.begin(), a.parts.end(), b.parts.begin(), b.parts.end(),
                    [](const auto& x, const auto& y) { return x.start == y.start; });
}

std::string names(const std::vector<Profile>& profiles) {
  std::string out;
  for (const Profile& profile : profiles) out += (out.empty() ? "" : ", ") + profile.name;
  return out;
}

Status checkMode(const CardInMigMode& card) {
  bool isInMigMode = false;
  if (Status status = card.readMode(isInMigMode); status.code != EGPU_OK || isInMigMode) return status;
  return sdk::unavailable("card " + card.uuid() + " is not in MIG mode; once no program uses it, run nvidia-smi -i " +
                          card.uuid() + " -mig 1");
}

/// Stages the device; the card is here, and its lock held.
Status stageHere(const sdk::Device& device, const sdk::Card& share, CardInMigMode& card) {
  if (Status status = checkMode(card); status.code != EGPU_OK) return status;
  if (Status status = card.read(); status.code != EGPU_OK) return status;
  const Profile* profile = card.profile(share.migProfile);
  if (!profile)
    return sdk::invalid("card " + share.uuid + " has no profile " + share.migProfile + "; it has " +
                        names(card.profiles()));
  InstanceRecord wanted;
  if (Status status = newRecord(device, share, *profile, wanted); status.code != EGPU_OK) return status;
  std::optional<InstanceRecord> known;
  if (Status status = nvidia::readRecord(device.key, known); status.code != EGPU_OK) return status;
  if (known && !sameContent(*known, wanted)) return sdk::exists("key " + device.key + " is staged with other content");
  const bool current = known && known->boot == wanted.boot;  // otherwise the ids are void
  InstanceRecord record = current ? *known : wanted;
  const bool completed = isComplete(record);
  Work work(card, record);
  Status status = work.checkFree(current);
  // Without a record of this boot, the instances on these slots are not the device's, and must not be undone.
  if (status.code != EGPU_OK && !current) return status;
  if (status.code == EGPU_OK && !current) {
    status = nvidia::writeRecord(record);
    if (status.code != EGPU_OK) return nvidia::removeRecord(device.key), status;
  }
  if (status.code == EGPU_OK) status = work.create();
  if (status.code == EGPU_OK || status.code == EGPU_NO_CHANGE || completed) return status;
  // If this fails, too, the record stays, and with it the knowledge of what to destroy.
  if (card.read().code == EGPU_OK && work.destroy().code == EGPU_OK) nvidia::removeRecord(device.key);
  return status;
}

}  // namespace

const sdk::Card* cardOf(const sdk::Device& device, Status& status) {
  const sdk::Card& card = device.cards.front();
  if (device.cards.size() > 1)
    status =
        sdk::invalid("MIG instances are parts of one card, and this device has " + std::to_string(device.cards.size()));
  else if (card.migProfile.empty() || (card.migSlots & (nvidia::kMediaSlot - 1)) == 0 || card.migSlots > kAllSlots)
    status =
        sdk::invalid("card " + card.uuid +
                     ": this provisioner gives MIG instances, and the device has no profile and slots of them; its "
                     "claim must request elasticgpu.io/mig-<profile>");
  else
    return &card;
  return nullptr;
}

Status stage(sdk::Call& call, const sdk::Device& device) {
  Status status;
  const sdk::Card* share = cardOf(device, status);
  if (!share) return status;
  CardInMigMode card;
  Presence presence = Presence::elsewhere;
  if (status = card.find(share->uuid, presence); status.code != EGPU_OK) return status;
  if (presence == Presence::elsewhere) return sdk::noChange();
  status = nvidia::stageCards(device);
  if (status.code != EGPU_OK && status.code != EGPU_NO_CHANGE) return status;
  const nvidia::CardLock lock(share->uuid, call);
  return lock.status().code == EGPU_OK ? stageHere(device, *share, card) : lock.status();
}

Status unstage(sdk::Call& call) {
  std::optional<InstanceRecord> record;
  if (Status status = nvidia::readRecord(call.key(), record); status.code != EGPU_OK) return status;
  if (!record) {
    Status status = nvidia::removeRecord(call.key());  // a draft may be there
    return status.code == EGPU_OK ? sdk::noChange() : status;
  }
  const nvidia::CardLock lock(record->card, call);
  if (lock.status().code != EGPU_OK) return lock.status();
  // Another process may have changed it before.
  if (Status status = nvidia::readRecord(call.key(), record); status.code != EGPU_OK) return status;
  if (!record) return sdk::noChange();
  CardInMigMode card;
  Presence presence = Presence::elsewhere;
  if (Status status = card.find(record->card, presence); status.code != EGPU_OK) return status;
  // No instance of an earlier boot exists, and none of a card that is not in MIG mode or was removed.
  bool mayExist = record->boot == nvidia::bootId() && presence == Presence::here;
  if (mayExist)
    if (Status status = card.readMode(mayExist); status.code != EGPU_OK) return status;
  if (mayExist) {
    if (Status status = card.read(); status.code != EGPU_OK) return status;
    if (Status status = Work(card, *record).destroy(); status.code != EGPU_OK) return status;
  }
  return nvidia::removeRecord(call.key());
}

Status readStaged(const sdk::Device& device, InstanceRecord& record, bool& elsewhere) {
  Status status;
  const sdk::Card* share = cardOf(device, status);
  if (!share) return status;
  CardInMigMode card;
  Presence presence = Presence::elsewhere;
  if (status = card.find(share->uuid, presence); status.code != EGPU_OK) return status;
  elsewhere = presence == Presence::elsewhere;
  if (elsewhere) return sdk::ok();
  std::optional<InstanceRecord> known;
  if (status = nvidia::readRecord(device.key, known); status.code != EGPU_OK) return status;
  if (!known) return sdk::unavailable("the instances of device " + device.device + " are not created yet");
  const std::string boot = nvidia::bootId();
  bool complete = false;
  if (status = card.readMode(complete); status.code != EGPU_OK) return status;
  complete = complete && known->boot == boot && known->card == share->uuid && isComplete(*known);
  if (complete)
    if (status = card.read(); status.code != EGPU_OK) return status;
  const auto& instances = card.instances();
  for (const auto& part : known->parts)
    complete = complete && std::any_of(instances.begin(), instances.end(), [&](const Instance& instance) {
                 return nvidia::partOf(*known, instance, boot) == &part;
               });
  if (!complete)
    return sdk::unavailable("the instances of device " + device.device + " are not complete on this machine");
  record = std::move(*known);
  return sdk::ok();
}

}  // namespace egpu::mig

#include "controller/agent/limiter/limiter.h"

#include <algorithm>
#include <cstring>
#include <fstream>
#include <optional>
#include <utility>

#include "api/v1alpha/keys.h"
#include "api/v1alpha/size.h"
#include "controller/agent/health/foreign_use.h"
#include "controller/base/log.h"
#include "controller/base/printable.h"
#include "controller/base/text.h"
#include "controller/codec/patch.h"

namespace egpu::agent::limiter {

namespace keys = v1alpha::keys;
namespace log = base::log;

namespace {

bool isClaimOf(const Gpu& device, const cdi::Spec& spec) {
  return device.metadata.uid == spec.deviceUid && device.spec.claimRef.has_value();
}

/// Pods of each device, by its uid, and devices of each pod.
struct PodDevices {
  std::map<std::string, std::set<std::string>> devices;  ///< by uid of the pod
  std::set<std::pair<std::string, std::string>> shares;  ///< uid of the pod, and uuid of the card in lower case
};

PodDevices podDevicesOf(const std::vector<usage::Share>& shares) {
  PodDevices out;
  for (const auto& share : shares)
    for (const auto& [pod, name] : share.pods) {
      out.devices[pod].insert(share.deviceUid);
      out.shares.emplace(pod, base::lowered(share.card));
    }
  return out;
}

/// Percent of the card's time that the processes used, at most 100; -1 = unknown.
int64_t percentOn(const std::string& card, const std::vector<PodProcess>& processes) {
  constexpr int64_t kMost = 100;
  int64_t sum = 0;
  for (const auto& each : processes) {
    if (base::lowered(each.process.uuid) != base::lowered(card)) continue;
    if (each.process.smPercent < 0) return -1;
    sum += each.process.smPercent;
  }
  return std::min(sum, kMost);
}

bool same(const egpu_limiter_card& a, const egpu_limiter_card& b) {
  return a.memory == b.memory && a.cores == b.cores && a.factor == b.factor;
}

}  // namespace

bool hasLimiter(const core::ContainerEdits& edits) {
  const std::string file = std::string(EGPU_LIMITER_FOLDER) + "/usage";
  return std::any_of(edits.mounts.begin(), edits.mounts.end(),
                     [&](const auto& mount) { return mount.containerPath == file; });
}

Limiter::Limiter(kube::Client& client, plugin::Registry& plugins, kube::EventSink& events, cdi::Folder& folder,
                 usage::Prepared& prepared, const cache::Store<Gpu>& cards, FindDevice device, base::Clock& clock,
                 LimiterOptions options)
    : client_(client.brief()),
      plugins_(plugins),
      events_(events),
      folder_(folder),
      prepared_(prepared),
      cards_(cards),
      device_(std::move(device)),
      clock_(clock),
      options_(std::move(options)),
      host_(options_.proc) {}

Limiter::~Limiter() { stop(); }

void Limiter::start() {
  thread_ = std::jthread([this](const std::stop_token& stop) {
    do round(stop);
    while (clock_.sleepFor(options_.interval, stop));
  });
}

void Limiter::stop() {
  thread_.request_stop();
  if (thread_.joinable()) thread_.join();
}

std::vector<cdi::Spec> Limiter::limitedDevices() {
  std::vector<cdi::Spec> out;
  const auto entries = folder_.list();
  if (!entries) return out;
  for (const auto& entry : *entries)
    if (entry.ready && entry.spec && hasLimiter(entry.spec->edits)) out.push_back(*entry.spec);
  return out;
}

void Limiter::round(const std::stop_token& stop) {
  const auto specs = limitedDevices();
  std::erase_if(devices_, [&](const auto& known) {
    return std::none_of(specs.begin(), specs.end(), [&](const auto& spec) { return spec.deviceUid == known.first; });
  });
  if (!specs.empty()) {
    readFiles(specs);
    host_.beginRound();
    auto all = processes(specs, stop);
    for (const auto& spec : specs) {
      auto& device = *devices_.at(spec.deviceUid);
      if (!device.isReadable) continue;
      freeEnded(spec, device);
      const auto* found = all ? &(*all)[spec.deviceUid] : nullptr;
      setLimits(spec, device, found);
      if (found == nullptr) continue;
      const auto bypass = findBypass(grantedTo(spec), *found, [this](int64_t pid) { return nameOf(pid); });
      device.suspicion.observe(bypass, found->empty());
      report(spec, device);
    }
  }
  publish(specs, stop);
}

void Limiter::readFiles(const std::vector<cdi::Spec>& specs) {
  for (const auto& spec : specs) {
    auto& device = devices_[spec.deviceUid];
    if (!device) device = std::make_unique<DeviceState>(options_.state + "/limiter/devices/" + spec.deviceUid);
    const auto status = device->files.read();
    device->isReadable = status.ok();
    note(spec, device->readError, status);
  }
}

/// Logs an error of the files when it changes.
void Limiter::note(const cdi::Spec& spec, std::string& last, const base::Status& status) {
  const auto error = status.ok() ? std::string() : status.message();
  if (std::exchange(last, error) == error) return;
  if (!error.empty())
    log::warn("the limits of containers can't be updated; the last ones stay in force",
              {{"device", spec.device}, {"why", error}});
}

void Limiter::freeEnded(const cdi::Spec& spec, DeviceState& device) {
  std::vector<uint32_t> ended;
  const auto& usage = device.files.usage();
  for (uint32_t i = 0; i < EGPU_LIMITER_SLOTS; ++i)
    if (usage.slot[i].owner != 0 && !host_.hasOwner(usage.slot[i])) ended.push_back(i);
  if (!ended.empty()) note(spec, device.writeError, device.files.freeSlots(ended));
}

std::optional<std::map<std::string, std::vector<PodProcess>>> Limiter::processes(const std::vector<cdi::Spec>& specs,
                                                                                 const std::stop_token& stop) {
  std::vector<plugin::CardProcess> all;
  std::set<std::string> asked;
  for (const auto& spec : specs) {
    if (!asked.insert(spec.provisioner).second) continue;
    auto* plugin = plugins_.find(spec.provisioner, nullptr);
    if (plugin == nullptr) return std::nullopt;
    auto reply = plugin->processes();
    if (reply.reply.outcome != plugin::ReplyCode::ok) return std::nullopt;
    all.insert(all.end(), reply.processes.begin(), reply.processes.end());
  }
  const auto users = podDevicesOf(prepared_.shares());
  std::map<std::string, std::vector<PodProcess>> out;
  std::set<std::string> strangers;
  for (const auto& process : all) {
    const auto pod = health::podOfProcess(options_.proc, process.pid);
    if (!pod || pod->empty()) continue;
    if (users.shares.count({*pod, base::lowered(process.uuid)}) == 0) strangers.insert(*pod);
    const auto known = users.devices.find(*pod);
    if (known == users.devices.end()) continue;
    std::vector<std::string> its, withSlot;
    bool isUnknown = false;
    for (const auto& uid : known->second) {
      const auto device = devices_.find(uid);
      if (device == devices_.end()) continue;
      its.push_back(uid);
      if (!device->second->isReadable)
        isUnknown = true;
      else if (host_.hasSlot(static_cast<uint64_t>(process.pid), device->second->files.usage()))
        withSlot.push_back(uid);
    }
    // Containers of a pod can have devices on the same card. Each process counts for the device that limits it.
    const bool hasSlot = isUnknown || !withSlot.empty();
    for (const auto& uid : withSlot.empty() ? its : withSlot) out[uid].push_back({process, *pod, hasSlot});
  }
  // Finds the pods of devices that were prepared just now.
  if (clock_.now() >= learnAfter_ && !prepared_.learn(strangers, stop).ok())
    learnAfter_ = clock_.now() + options_.learnBackoff;
  return out;
}

/// Returns the amounts in force; those at the time of the preparation while the API has not shown the device.
std::vector<v1alpha::DeviceCard> Limiter::grantedTo(const cdi::Spec& spec) const {
  const auto object = device_(spec.device);
  return object && isClaimOf(*object, spec) ? v1alpha::cardsInForce(*object) : spec.cards;
}

/// Puts the amounts in force into the files, with the factors of GPU time. processes: null = unknown.
void Limiter::setLimits(const cdi::Spec& spec, DeviceState& device, const std::vector<PodProcess>* processes) {
  const auto object = device_(spec.device);
  const bool isKnown = object && isClaimOf(*object, spec);  // otherwise the last amounts stay
  const auto shares = grantedTo(spec);
  const auto& bank = device.files.limits();
  std::vector<egpu_limiter_card> cards(bank.card, bank.card + std::min(bank.cards, EGPU_LIMITER_CARDS));
  bool changed = false;
  const auto now = clock_.now();
  for (std::size_t i = 0; i < cards.size(); ++i) {
    auto& card = cards[i];
    const auto before = card;
    const auto isIt = [&](const v1alpha::DeviceCard& share) {
      const auto uuid = uuidOf(share.uuid);
      return uuid && std::memcmp(uuid->data(), card.uuid, sizeof card.uuid) == 0;
    };
    const auto share = std::find_if(shares.begin(), shares.end(), isIt);
    if (share == shares.end()) continue;
    if (isKnown) {
      card.memory = static_cast<uint64_t>(std::max<int64_t>(0, share->memory));
      card.cores = static_cast<uint32_t>(std::clamp<int64_t>(share->core, 0, EGPU_LIMITER_WHOLE));
    }
    card.factor = device.factors.next(share->uuid, card.factor, now, device.files.usage().bucket[i].spent,
                                      processes == nullptr ? -1 : percentOn(share->uuid, *processes));
    changed = changed || !same(before, card);
  }
  if (changed) note(spec, device.writeError, device.files.limit(cards));
}

std::string Limiter::nameOf(int64_t pid) const {
  std::ifstream file(options_.proc + "/" + std::to_string(pid) + "/comm");
  std::string name;
  std::getline(file, name);
  return base::printable(name);
}

/// Sends an event about the claim when a bypass begins.
void Limiter::report(const cdi::Spec& spec, DeviceState& device) {
  const auto& bypass = device.suspicion.reported();
  const std::string message = bypass ? bypass->message : "";
  if (message == device.reported) return;
  const auto object = device_(spec.device);
  if (!message.empty()) {
    if (!object || !isClaimOf(*object, spec)) return;  // the next round has it
    const auto& claim = *object->spec.claimRef;
    const auto& kind = core::kindOf<v1alpha::ElasticGPUClaim>;
    log::warn("a container evades its limits", {{"claim", claim.namespace_ + "/" + claim.name}, {"why", message}});
    events_.event({kind.apiVersion(), std::string(kind.kind), claim.namespace_, claim.name, claim.uid, {}}, "Warning",
                  keys::reason::kIsolationBypassed, message);
  }
  device.reported = message;
}

/// Makes status.bypassed of each card the reported bypasses.
void Limiter::publish(const std::vector<cdi::Spec>& specs, const std::stop_token& stop) {
  std::map<std::string, decltype(v1alpha::ElasticGPUStatus::bypassed)> wanted;  // by uuid of the card
  for (const auto& spec : specs)
    if (const auto& bypass = devices_.at(spec.deviceUid)->suspicion.reported())
      wanted[base::lowered(bypass->card)][spec.deviceUid] = {bypass->pod, bypass->message};
  cards_.forEach([&](const auto& card) {
    if (!card->isCard() || card->spec.card->nodeName != options_.node) return;
    const auto& want = wanted[base::lowered(card->spec.card->uuid)];
    if (card->status.bypassed == want) return;
    auto& last = written_[card->metadata.name];
    if (last != base::Clock::Steady{} && clock_.now() - last < options_.rewriteInterval) return;
    last = clock_.now();
    auto after = card->status;
    after.bypassed = want;
    const auto body = codec::patch::gpuStatus(card->metadata.uid, {}, card->status, after);
    const auto done = client_.patch<Gpu>({"", card->metadata.name}, kube::PatchType::merge, body, "status", stop);
    if (!done.ok()) log::warn("status.bypassed of a card can't be written", {{"why", done.status().str()}});
  });
}

}  // namespace egpu::agent::limiter

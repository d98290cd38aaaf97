#include "controller/reconcile/device/provisioning.h"

#include <algorithm>

#include "api/v1alpha/parameters.h"
#include "api/v1alpha/size.h"
#include "controller/base/backoff.h"
#include "controller/base/log.h"

namespace egpu::reconcile {
namespace {

using std::chrono::milliseconds;

plugin::Reply missing(const std::string& why) { return {plugin::ReplyCode::unavailable, why}; }

}  // namespace

/// A concurrent call of a plugin, held for the lifetime of this object.
class Provisioning::CallSlot {
 public:
  CallSlot(Provisioning& owner, std::string_view plugin) : owner_(owner), plugin_(plugin) {
    const base::MutexLock lock(owner_.mutex_);
    auto& calls = owner_.calls_[plugin_];
    held_ = calls.taken < owner_.maxCalls_;
    ++(held_ ? calls.taken : calls.refused);
    if (held_) calls.refused = 0;
  }
  ~CallSlot() {
    if (!held_) return;
    const base::MutexLock lock(owner_.mutex_);
    --owner_.calls_[plugin_].taken;
  }
  CallSlot(const CallSlot&) = delete;
  CallSlot& operator=(const CallSlot&) = delete;
  explicit operator bool() const { return held_; }

 private:
  Provisioning& owner_;
  const std::string plugin_;
  bool held_ = false;
};

/// Registers a claim while its provision call is under way.
class Provisioning::UnderWay {
 public:
  UnderWay(Provisioning& owner, const cache::Gpu& device) : owner_(owner), plugin_(device.spec.provisioner) {
    if (device.spec.claimRef) claim_ = {device.spec.claimRef->namespace_, device.spec.claimRef->name};
    {
      const base::MutexLock lock(owner_.mutex_);
      owner_.calls_[plugin_].claims[claim_] = owner_.clock_.now();
    }
    if (owner_.begins_) owner_.begins_(plugin_);
  }
  ~UnderWay() {
    const base::MutexLock lock(owner_.mutex_);
    owner_.calls_[plugin_].claims.erase(claim_);
  }
  UnderWay(const UnderWay&) = delete;
  UnderWay& operator=(const UnderWay&) = delete;

 private:
  Provisioning& owner_;
  const std::string plugin_;
  core::ObjectKey claim_;
};

std::vector<std::pair<core::ObjectKey, base::Clock::Steady>> Provisioning::underWay(
    std::string_view provisioner) const {
  const base::MutexLock lock(mutex_);
  const auto it = calls_.find(provisioner);
  if (it == calls_.end()) return {};
  return {it->second.claims.begin(), it->second.claims.end()};
}

std::optional<plugin::Reply> Provisioning::provision(const cache::Gpu& device) {
  if (device.spec.provisioner.empty()) return plugin::Reply{};
  std::string why;
  auto* plugin = registry_.find(device.spec.provisioner, &why);
  if (plugin == nullptr) return missing(why);
  const FailureKey key{device.metadata.uid, CallKind::provision};
  if (!mayCall(key)) return std::nullopt;
  const auto request = requestFor(device, v1alpha::cardsInForce(device));
  CallSlot slot(*this, device.spec.provisioner);
  if (!slot) return std::nullopt;
  const UnderWay underWay(*this, device);
  auto reply = plugin->provision(request);
  if (cutShort(reply)) return std::nullopt;
  judge(device.spec.provisioner, reply);
  note(key, device.spec.provisioner, reply);
  return reply;
}

plugin::DeviceRequest Provisioning::requestFor(const cache::Gpu& device,
                                               const std::vector<v1alpha::DeviceCard>& cards) const {
  plugin::DeviceRequest request;
  request.key = device.metadata.uid;
  request.device = device.metadata.name;
  if (device.spec.claimRef) request.claim = device.spec.claimRef->namespace_ + "/" + device.spec.claimRef->name;
  request.node = device.spec.nodeName;
  request.parameters = device.spec.parameters;
  request.source = plugin::sourceOf(device);
  if (device.spec.cards.empty()) request.capacity = device.spec.capacity;
  for (const auto& share : cards) {
    auto& card = request.cards.emplace_back(shareOf(share.name, share.uuid, share.core, share.memory));
    card.migProfile = plugin::migProfileOf(device);
    card.slots = share.slots;
  }
  return request;
}

std::string Provisioning::cannotResize(const cache::Gpu& device) const {
  const auto& name = device.spec.provisioner;
  if (name.empty()) return {};
  const auto* plugin = registry_.find(name, nullptr);
  return plugin == nullptr || plugin->description().resizes ? std::string() : name + " can't resize devices";
}

std::optional<plugin::Reply> Provisioning::resize(const cache::Gpu& device) {
  if (device.spec.provisioner.empty()) return plugin::Reply{};
  std::string why;
  auto* plugin = registry_.find(device.spec.provisioner, &why);
  if (plugin == nullptr) return missing(why);
  const FailureKey key{device.metadata.uid, CallKind::resize};
  if (!mayCall(key)) return std::nullopt;
  auto request = requestFor(device, v1alpha::cardsWanted(device));
  request.resizeNumber = v1alpha::targetNumber(device);
  CallSlot slot(*this, device.spec.provisioner);
  if (!slot) return std::nullopt;
  auto reply = plugin->resize(request);
  if (cutShort(reply)) return std::nullopt;
  using plugin::ReplyCode;
  const bool refused = reply.outcome == ReplyCode::invalid || reply.outcome == ReplyCode::exists ||
                       reply.outcome == ReplyCode::reschedule;
  if (!refused) note(key, device.spec.provisioner, reply);  // else the next call restores the amounts in force
  return reply;
}

plugin::CardShare Provisioning::shareOf(const std::string& card, const std::string& uuid, int64_t core,
                                        int64_t memory) const {
  plugin::CardShare share{uuid, {}, 0, core, memory, 0};
  if (const auto known = stores_.cards.get({"", card})) {
    share.model = known->spec.card->model;
    share.index = known->spec.card->index;
    share.cardMemory = known->spec.card->memory;
    share.pciAddress = known->spec.card->topology.pcie;
  }
  return share;
}

bool Provisioning::prefers(std::string_view provisioner) {
  auto* plugin = registry_.find(provisioner, nullptr);
  if (plugin == nullptr || !plugin->description().prefers) return false;
  const base::MutexLock lock(mutex_);
  const auto calls = calls_.find(provisioner);
  return calls == calls_.end() || clock_.now() >= calls->second.preferAgain;
}

std::optional<plugin::PreferReply> Provisioning::prefer(const cache::Class& cls, const core::ObjectKey& claim,
                                                        const std::vector<scheduler::Decision>& places) {
  std::string why;
  auto* plugin = registry_.find(cls.provisioner, &why);
  if (plugin == nullptr) return plugin::PreferReply{missing(why), {}, {}};
  plugin::Wish wish{claim.str(), {}, cls.parameters};
  for (const auto& place : places) {
    auto& candidate = wish.candidates.emplace_back(plugin::Candidate{place.node, {}});
    for (const auto& on : place.placements) {
      auto& card = candidate.cards.emplace_back(shareOf(on.card, on.uuid, on.granted.core, on.granted.memory));
      card.migProfile = on.mig.profile;
      card.slots = on.granted.slots;
    }
  }
  CallSlot slot(*this, cls.provisioner);
  if (!slot) return std::nullopt;
  auto answer = plugin->prefer(wish);
  if (answer.reply.ok() || registry_.closing()) return answer;
  base::log::warn("plugin's preference failed, the usual order stands",
                  {{"plugin", cls.provisioner},
                   {"outcome", std::string(plugin::toString(answer.reply.outcome))},
                   {"why", answer.reply.message}});
  const base::MutexLock lock(mutex_);
  calls_[cls.provisioner].preferAgain = clock_.now() + timeouts_.preferBackoff;
  return answer;
}

bool Provisioning::mayCall(const FailureKey& key) const {
  const base::MutexLock lock(mutex_);
  const auto it = failed_.find(key);
  return it == failed_.end() || clock_.now() >= it->second.again;
}

void Provisioning::note(const FailureKey& key, const std::string& provisioner, plugin::Reply& reply) {
  const base::MutexLock lock(mutex_);
  if (reply.ok()) {
    failed_.erase(key);
    return;
  }
  const auto now = clock_.now();
  if (failed_.size() >= kRemembered) failed_.clear();
  auto& failure = failed_[key];
  failure.provisioner = provisioner;
  failure.wait = base::nextBackoff(reply.outcome == plugin::ReplyCode::inProgress ? milliseconds(0) : failure.wait,
                                   timeouts_.firstCallBackoff, timeouts_.maxCallBackoff);
  failure.again = now + failure.wait;
  if (failure.outcome == reply.outcome && now - failure.reportedAt < timeouts_.callFailureReportInterval) {
    reply.message = failure.message;
    return;
  }
  failure.outcome = reply.outcome;
  failure.message = reply.message;
  failure.reportedAt = now;
}

void Provisioning::pluginChanged(const std::string& provisioner) {
  const base::MutexLock lock(mutex_);
  for (auto& [key, failure] : failed_)
    if (failure.provisioner == provisioner) failure.again = {};
}

/// True if the failure is due to the shutdown. It is not reported: the next process asks again, with the same key.
bool Provisioning::cutShort(const plugin::Reply& reply) const { return !reply.ok() && registry_.closing(); }

void Provisioning::judge(const std::string& provisioner, const plugin::Reply& reply) {
  using plugin::ReplyCode;
  const bool bad =
      reply.outcome == ReplyCode::timeout || reply.outcome == ReplyCode::crashed || reply.outcome == ReplyCode::garbage;
  {
    const base::MutexLock lock(mutex_);
    auto& lastFault = calls_[provisioner].lastFault;
    if (bad != lastFault.empty()) return;  // unchanged
    lastFault = bad ? "provision: " + std::string(plugin::toString(reply.outcome)) +
                          (reply.message.empty() ? "" : ": " + reply.message)
                    : std::string();
  }
  if (onFault_) onFault_(provisioner);
}

std::string Provisioning::lastFault(std::string_view provisioner) const {
  const base::MutexLock lock(mutex_);
  const auto it = calls_.find(provisioner);
  return it == calls_.end() ? std::string() : it->second.lastFault;
}

std::optional<plugin::Reply> Provisioning::deprovision(const cache::Gpu& device) {
  if (device.spec.provisioner.empty()) return plugin::Reply{};
  const FailureKey key{device.metadata.uid, CallKind::deprovision};
  if (!mayCall(key)) return std::nullopt;
  auto reply = deprovisionKey(device.spec.provisioner, device.metadata.uid);
  if (reply) note(key, device.spec.provisioner, *reply);
  if (reply && reply->ok()) {
    const base::MutexLock lock(mutex_);
    if (undone_.size() >= kRemembered) undone_.clear();
    undone_.insert(device.metadata.uid);
  }
  return reply;
}

milliseconds Provisioning::delay(const cache::Gpu& device) const {
  const base::MutexLock lock(mutex_);
  const auto calls = calls_.find(device.spec.provisioner);
  const int refused = calls == calls_.end() ? 0 : calls->second.refused;
  auto longest = timeouts_.busyPluginInterval * (1 + std::min(refused / 50, 19));
  const auto now = clock_.now();
  for (const auto call : kCallKinds)
    if (const auto it = failed_.find({device.metadata.uid, call}); it != failed_.end() && it->second.again > now)
      longest = std::max(longest, std::chrono::ceil<milliseconds>(it->second.again - now));
  return longest;
}

bool Provisioning::takeUndone(const std::string& uid) {
  const base::MutexLock lock(mutex_);
  for (const auto call : kCallKinds) failed_.erase({uid, call});
  return undone_.erase(uid) > 0;
}

std::optional<plugin::Reply> Provisioning::deprovisionKey(std::string_view provisioner, const std::string& key) {
  std::string why;
  auto* plugin = registry_.find(provisioner, &why);
  if (plugin == nullptr) return missing(why);
  CallSlot slot(*this, provisioner);
  if (!slot) return std::nullopt;
  auto reply = plugin->deprovision(key);
  if (cutShort(reply)) return std::nullopt;
  return reply;
}

std::optional<plugin::ListReply> Provisioning::list(std::string_view provisioner) {
  std::string why;
  auto* plugin = registry_.find(provisioner, &why);
  if (plugin == nullptr) return plugin::ListReply{missing(why), {}};
  CallSlot slot(*this, provisioner);
  if (!slot) return std::nullopt;
  auto listing = plugin->list();
  if (cutShort(listing.reply)) return std::nullopt;
  return listing;
}

std::string Provisioning::coreParameters() {
  std::string text;
  for (const auto& name : v1alpha::kCoreParameters) text += (text.empty() ? "" : ", ") + std::string(name);
  return text;
}

std::optional<plugin::Reply> Provisioning::validate(const cache::Class& cls) {
  std::string why;
  auto* plugin = registry_.find(cls.provisioner, &why);
  if (plugin == nullptr) return missing(why);
  CallSlot slot(*this, cls.provisioner);
  if (!slot) return std::nullopt;
  auto reply = plugin->validate(cls.parameters);
  if (cutShort(reply)) return std::nullopt;
  return reply;
}

}  // namespace egpu::reconcile

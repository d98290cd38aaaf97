#include "controller/agent/sharing/access_losses.h"

#include <algorithm>
#include <utility>

#include "controller/agent/health/foreign_use.h"
#include "controller/agent/sharing/mps_processes.h"
#include "controller/base/log.h"
#include "controller/base/text.h"
#include "controller/base/timestamp.h"
#include "controller/codec/patch.h"

namespace egpu::agent::sharing {

namespace {

using base::MutexLock;
using base::Status;

}  // namespace

void AccessLosses::begin(const std::string& card, const std::vector<std::string>& deviceUids, std::string_view reason,
                         const std::string& message) {
  const v1alpha::AccessLoss loss{std::string(reason), message, base::rfc3339(clock_.wall())};
  const MutexLock lock(mutex_);
  for (const auto& uid : deviceUids) begun_[base::lowered(card)][uid] = loss;
  prepared_.expire();  // the pods that use the devices now decide whether the loss has ended
}

void AccessLosses::setBlocked(const std::string& card, bool isBlocked) {
  const MutexLock lock(mutex_);
  if (isBlocked)
    blocked_.insert(base::lowered(card));
  else
    blocked_.erase(base::lowered(card));
}

cache::Store<v1alpha::ElasticGPU>::Ptr AccessLosses::objectOf(const std::string& card) const {
  auto object = cards_.get({"", base::lowered(card)});
  return object && object->isCard() ? object : nullptr;
}

Status AccessLosses::publish(const std::string& card, const std::stop_token& stop) {
  const auto object = objectOf(card);
  Losses begun;
  {
    const MutexLock lock(mutex_);
    if (const auto known = begun_.find(base::lowered(card)); known != begun_.end()) begun = known->second;
  }
  if (!object) return begun.empty() ? Status::okay() : Status{base::Code::unavailable, "the card has no object yet"};
  auto after = object->status;
  for (const auto& [uid, loss] : begun) after.accessLost[uid] = loss;
  if (after.accessLost.empty()) return Status::okay();
  removeEnded(card, after.accessLost, stop);
  if (!(after.accessLost == object->status.accessLost)) {
    // With the resourceVersion, the end of an earlier loss does not remove one that has begun meanwhile.
    const auto& meta = object->metadata;
    const auto body = codec::patch::gpuStatus(meta.uid, meta.resourceVersion, object->status, after);
    const auto done = client_.patch<v1alpha::ElasticGPU>({"", meta.name}, kube::PatchType::merge, body, "status", stop);
    if (!done.ok()) return done.status();
  }
  const MutexLock lock(mutex_);
  const auto pending = begun_.find(base::lowered(card));
  if (pending == begun_.end()) return Status::okay();
  for (const auto& [uid, loss] : begun)
    if (const auto now = pending->second.find(uid); now != pending->second.end() && now->second == loss)
      pending->second.erase(now);
  if (pending->second.empty()) begun_.erase(pending);
  return Status::okay();
}

void AccessLosses::publishAll(const std::stop_token& stop) {
  std::set<std::string> cards;
  cards_.forEach([&](const auto& object) {
    if (object->isCard() && !object->status.accessLost.empty()) cards.insert(object->metadata.name);
  });
  {
    const MutexLock lock(mutex_);
    for (const auto& [card, losses] : begun_) cards.insert(card);
  }
  for (const auto& card : cards)
    if (const auto s = publish(card, stop); !s.ok() && s.code() != base::Code::conflict)
      base::log::warn("status.accessLost of a card can't be written", {{"card", card}, {"why", s.str()}});
}

/// If the pods of a device are not known, its loss stays.
void AccessLosses::removeEnded(const std::string& card, Losses& losses, const std::stop_token& stop) {
  const bool isKnown = prepared_.learn({}, stop).ok();
  std::map<std::string, Pods> podsOf;  // by device uid
  Pods all;
  for (const auto& share : prepared_.shares()) {
    if (base::lowered(share.card) != base::lowered(card)) continue;
    auto& its = podsOf[share.deviceUid];
    for (const auto& [pod, name] : share.pods) its.insert(pod), all.insert(pod);
  }
  bool isBlocked = false;
  {
    const MutexLock lock(mutex_);
    isBlocked = blocked_.count(base::lowered(card)) != 0;
  }
  const auto begins = beginsOf(card, losses);
  int64_t latest = 0;
  for (const auto& [uid, second] : begins) latest = std::max(latest, second);
  const auto oldest = isKnown && !isBlocked ? oldestClients(all, latest) : std::map<std::string, int64_t>();
  std::vector<std::string> ended;
  for (const auto& [uid, loss] : losses) {
    const auto pods = podsOf.find(uid);
    const auto since = begins.at(uid);
    const auto hasClient = [&](const std::string& pod) {
      const auto client = oldest.find(pod);
      return client != oldest.end() && client->second < since;
    };
    const bool isLost = pods != podsOf.end() &&
                        (!isKnown || isBlocked || std::any_of(pods->second.begin(), pods->second.end(), hasClient));
    if (!isLost) ended.push_back(uid);
  }
  for (const auto& uid : ended) losses.erase(uid);
}

/// Returns the begins of the card's losses by device uid, in seconds since the boot. Forgets other losses of the card.
std::map<std::string, int64_t> AccessLosses::beginsOf(const std::string& card, const Losses& losses) {
  const auto boot = bootSecondsOf(proc_);
  std::map<std::string, int64_t> out;
  std::map<std::string, Begin> now;
  const MutexLock lock(mutex_);
  auto& known = begins_[base::lowered(card)];
  for (const auto& [uid, loss] : losses) {
    const auto before = known.find(uid);
    const bool isKnown = before != known.end() && before->second.since == loss.since;
    now[uid] = isKnown ? before->second : Begin{loss.since, base::unixSeconds(loss.since) - boot};
    out[uid] = now[uid].second;
  }
  known = std::move(now);
  if (known.empty()) begins_.erase(base::lowered(card));
  return out;
}

/// Returns for each of the pods the start of its oldest process that has loaded the driver's library, in seconds since
/// the boot. Pods without such a process that began before `latest` are missing. Reads the maps of few processes,
/// because these files are long.
std::map<std::string, int64_t> AccessLosses::oldestClients(const Pods& pods, int64_t latest) const {
  std::map<std::string, int64_t> out;
  if (pods.empty()) return out;
  for (const auto pid : pidsIn(proc_)) {
    const auto pod = health::podOfProcess(proc_, pid);
    if (!pod || pods.count(*pod) == 0) continue;
    const auto start = startSecondsOf(proc_, pid);
    const auto known = out.find(*pod);
    if (start == 0 || start >= latest || (known != out.end() && known->second <= start)) continue;
    if (hasLoadedDriver(proc_, pid)) out[*pod] = start;
  }
  return out;
}

}  // namespace egpu::agent::sharing

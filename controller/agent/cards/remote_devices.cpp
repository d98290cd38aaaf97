#include "controller/agent/cards/remote_devices.h"

#include <set>
#include <utility>

#include "controller/agent/health/health.h"
#include "controller/base/log.h"
#include "controller/base/timestamp.h"
#include "controller/codec/patch.h"

namespace egpu::agent::cards {

namespace {

using base::Code;
using base::Status;

/// Returns the loss of the device that the plugin reports; nullopt = none.
std::optional<v1alpha::AccessLoss> lossOf(const PluginReport& report, const std::string& uid) {
  for (const auto& each : report.health.cards) {
    if (each.healthy || each.uuid != uid) continue;
    auto illness = health::illness(each.message);
    return v1alpha::AccessLoss{std::move(illness.reason), std::move(illness.message), {}};
  }
  return std::nullopt;
}

bool isSame(const std::optional<v1alpha::AccessLoss>& a, const std::optional<v1alpha::AccessLoss>& b) {
  return a.has_value() == b.has_value() && (!a || (a->reason == b->reason && a->message == b->message));
}

}  // namespace

bool RemoteDevices::isDevice(const std::string& uid) const {
  if (!cdi::isUid(uid)) return false;
  const auto entry = folder_.find(uid);
  return entry && *entry && (*entry)->spec && (*entry)->spec->cards.empty();
}

Status RemoteDevices::publish(const Answers& answers, const std::stop_token& stop) {
  const auto entries = folder_.list();
  if (!entries) return entries.status();
  Status first;
  std::set<std::string> prepared;
  for (const auto& entry : *entries) {
    if (!entry.spec) {
      prepared.insert(entry.deviceUid);  // its report stays
      continue;
    }
    if (!entry.spec->cards.empty()) continue;
    prepared.insert(entry.deviceUid);
    auto& reported = reported_[entry.deviceUid];
    reported.name = entry.spec->device;
    const auto answer = answers.find(entry.spec->provisioner);
    if (answer == answers.end() || !answer->second.health.reply.ok()) continue;
    const auto status = write(entry.deviceUid, reported, lossOf(answer->second, entry.deviceUid), stop);
    if (first.ok()) first = status;
  }
  for (auto it = reported_.begin(); it != reported_.end();) {
    if (prepared.count(it->first) == 0) {
      const auto status = write(it->first, it->second, std::nullopt, stop);
      if (first.ok()) first = status;
      if (status.ok()) {
        it = reported_.erase(it);
        continue;
      }
    }
    ++it;
  }
  return first;
}

Status RemoteDevices::write(const std::string& uid, Reported& reported, std::optional<v1alpha::AccessLoss> loss,
                            const std::stop_token& stop) {
  if (reported.isRead && isSame(reported.loss, loss)) return Status::okay();
  const auto device = client_.get<Device>({"", reported.name}, stop);
  const bool isGone = device.status().code() == Code::notFound || (device && device->metadata.uid != uid);
  if (!device && !isGone) return device.status();
  if (isGone) {
    reported.loss = loss;  // nothing is left to write to
    reported.isRead = true;
    return Status::okay();
  }
  auto after = device->status;
  const auto stored = after.accessLost.find(node_);
  reported.loss = stored == after.accessLost.end() ? std::nullopt : std::optional(stored->second);
  reported.isRead = true;
  if (isSame(reported.loss, loss)) return Status::okay();
  if (loss) {
    loss->since =
        reported.loss && reported.loss->reason == loss->reason ? reported.loss->since : base::rfc3339(clock_.wall());
    after.accessLost[node_] = *loss;
  } else {
    after.accessLost.erase(node_);
  }
  const auto body = codec::patch::gpuStatus(uid, {}, device->status, after);
  const auto done = client_.patch<Device>({"", reported.name}, kube::PatchType::merge, body, "status", stop);
  if (done.status().code() == Code::notFound || done.status().code() == Code::conflict) {
    reported.isRead = false;  // it is gone, or another one; the next call reads it
    return Status::okay();
  }
  if (!done.ok()) return done.status();
  const bool isNews = loss && !(reported.loss && reported.loss->reason == loss->reason);
  reported.loss = loss;
  if (isNews) report(*device, *loss);
  return Status::okay();
}

/// Sends an event about the claim.
void RemoteDevices::report(const Device& device, const v1alpha::AccessLoss& loss) {
  base::log::warn("programs lose a device", {{"device", device.metadata.name}, {"why", loss.message}});
  if (!device.spec.claimRef) return;
  const auto& claim = *device.spec.claimRef;
  const auto& kind = core::kindOf<v1alpha::ElasticGPUClaim>;
  events_.event({kind.apiVersion(), std::string(kind.kind), claim.namespace_, claim.name, claim.uid, {}}, "Warning",
                loss.reason, "node " + node_ + ": " + loss.message);
}

}  // namespace egpu::agent::cards

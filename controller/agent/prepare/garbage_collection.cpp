// Garbage collection of prepared devices that the kubelet will not unprepare: (L1), (L2), (L4) and (L5) of preparer.h.
#include <algorithm>
#include <set>
#include <string>
#include <utility>

#include "api/v1alpha/keys.h"
#include "api/v1alpha/remote.h"
#include "controller/agent/prepare/preparer.h"
#include "controller/agent/prepare/staged.h"
#include "controller/base/log.h"

namespace egpu::agent {

using base::Code;
using base::Result;
using base::Status;
namespace keys = v1alpha::keys;
namespace log = base::log;

Status ClaimPreparer::garbageCollect(std::stop_token stop) {
  const auto entries = folder_.list();
  if (!entries) return entries.status();
  Status first;
  std::size_t left = 0;
  for (const auto& entry : *entries) {
    const Status s = entry.spec ? unprepareIfUnused(entry, stop) : recoverUnreadable(entry, stop);
    if (s.ok()) continue;
    log::debug("a CDI file is left as it is", {{"device", entry.deviceUid}, {"why", s.str()}});
    if (left++ == 0) first = Status(s.code(), "device " + entry.deviceUid + ": " + s.message());
    if (stop.stop_requested()) return first;
  }
  // If the API is unavailable, every file fails: reports the first failure and a count.
  if (left > 1) first = Status(first.code(), first.message() + "; and " + std::to_string(left - 1) + " more");
  const Status staged = unstageLeftovers(nullptr, stop), aside = removeSetAside({}, stop);
  if (!first.ok()) return first;
  return staged.ok() ? aside : staged;
}

/// (L1): unprepares a device that no pod of this node uses.
Status ClaimPreparer::unprepareIfUnused(const cdi::Folder::StoredSpec& entry, std::stop_token stop) {
  const ClaimRef claim{entry.spec->claimNamespace, entry.spec->claimName, entry.spec->claimUid};
  if (auto s = checkNames(claim); !s.ok()) return s;
  const auto held = locks_.hold(claim.str(), stop);
  if (!held) return {Code::cancelled, "stopped"};
  // The pods are read under the lock. Otherwise a prepare for a new pod could answer from a file that is being removed.
  const auto pods = users_.podsOf(claim, stop);
  if (!pods) return pods.status();
  const auto another = pods->empty() ? Result<bool>(true) : isAnother(claim, stop);
  if (!another) return another.status();
  if (!*another) return Status::okay();
  const auto now = folder_.find(entry.deviceUid);
  if (!now) return now.status();
  if (!*now || !(*now)->spec || (*now)->spec->claimUid != claim.uid) return Status::okay();
  log::info("unprepared: no pod of this node uses the claim", {{"claim", claim.str()}, {"device", entry.spec->device}});
  return undo(**now, stop);
}

/// True if a new ResourceClaim has this name, and no pod that names it has a running container. Terminating pods count,
/// as the kubelet has not reported that their containers stopped. If the ResourceClaim is merely gone, returns false: a
/// tenant may have deleted it under a pod, and the pod's containers may restart.
Result<bool> ClaimPreparer::isAnother(const ClaimRef& claim, const std::stop_token& stop) {
  const auto runs = users_.runningPodOf(claim, stop, Users::Ending::counted);
  if (!runs) return runs.status();
  if (!runs->empty()) return false;
  const auto now = client_.get<core::ResourceClaim>({claim.namespace_, claim.name}, stop);
  if (!now && now.status().code() != Code::notFound) return now.status();
  return now && now->metadata.uid != claim.uid;
}

/// Returns the claims' devices that this node may use, by uid: its own, and remote devices, which have no node.
Result<std::map<std::string, ClaimRef>> ClaimPreparer::devices(std::stop_token stop) {
  kube::ListOptions ofClaims;
  ofClaims.labelSelector = std::string(keys::kRoleLabel) + "=" + std::string(keys::kRoleDevice);
  std::map<std::string, ClaimRef> out;
  for (const auto& node : {options_.node, std::string()}) {
    ofClaims.fieldSelector = "spec.nodeName=" + node;
    auto all = client_.listAll<v1alpha::ElasticGPU>(ofClaims, stop);
    if (!all) return all.status();
    for (auto& device : *all)
      if ((v1alpha::isOnAnyNode(device) || device.spec.nodeName == options_.node) && device.spec.claimRef)
        out.emplace(device.metadata.uid, ClaimRef{device.spec.claimRef->namespace_, device.spec.claimRef->name, ""});
  }
  return out;
}

/// (L2): prepares the claim again, or removes the file.
Status ClaimPreparer::recoverUnreadable(const cdi::Folder::StoredSpec& entry, std::stop_token stop) {
  log::error("a CDI file can't be read", {{"why", entry.spec.status().str()}});
  const auto known = devices(stop);
  if (!known) return known.status();
  const auto device = known->find(entry.deviceUid);
  if (device == known->end()) return forget(entry, stop);
  const core::ObjectKey claim{device->second.namespace_, device->second.name};
  const auto rc = client_.get<core::ResourceClaim>(claim, stop);
  if (!rc && rc.status().code() != Code::notFound) return rc.status();
  if (rc && !rc->reservedFor.empty()) return prepare({claim.namespace_, claim.name, rc->metadata.uid}, stop).status();
  const auto held = locks_.hold(claim.str(), stop);
  if (!held) return {Code::cancelled, "stopped"};
  const auto now = folder_.find(entry.deviceUid);
  if (!now) return now.status();
  return !*now || (*now)->spec ? Status::okay() : forget(**now, stop);  // it may have been replaced meanwhile
}

/// (L2) for the claim that the kubelet unprepares; requires the claim's lock. Such a file blocks all other claims.
Status ClaimPreparer::removeUnreadableOf(const ClaimRef& given, const std::vector<cdi::Folder::StoredSpec>& entries,
                                         std::stop_token stop) {
  if (std::all_of(entries.begin(), entries.end(), [](const auto& entry) { return entry.spec.ok(); }))
    return Status::okay();
  const auto known = devices(stop);
  if (!known) return known.status();
  for (const auto& entry : entries) {
    const auto device = known->find(entry.deviceUid);
    if (entry.spec || device == known->end() || device->second.str() != given.str()) continue;
    const auto runs = users_.runningPodOf(given, stop);
    if (!runs) return runs.status();
    if (!runs->empty())
      return {Code::conflict, "ResourceClaim " + given.str() + " stays prepared: pod " + *runs + " runs with it"};
    if (auto s = forget(entry, stop); !s.ok()) return s;
  }
  return Status::okay();
}

/// (L5) for one device; `deviceUid` "": for all. An error means that a further call may remove more; unprepare ignores
/// it.
Status ClaimPreparer::removeSetAside(const std::string& deviceUid, const std::stop_token& stop) {
  if (options_.permitted.hostRoot.empty()) return Status::okay();  // containers of simulated nodes leave no files
  auto s = removeLeft(options_.permitted.stateFolder, deviceUid, stop, options_.removing);
  if (s.ok() || s.code() == Code::cancelled) return s;
  log::warn("files that a container left stay on the disk", {{"why", s.message()}});
  return s.code() == Code::deadline ? Status(Code::unavailable, s.message()) : Status::okay();
}

/// Calls unstage of every available plugin: without a readable file the device's plugin is unknown.
Status ClaimPreparer::unstageAnywhere(const std::string& deviceUid, const std::stop_token& stop) {
  for (const auto& name : plugins_.names()) {
    auto* plugin = plugins_.find(name, nullptr);
    if (plugin == nullptr) continue;
    const auto slot = limiter_.take(name);
    if (!slot) return slot.status();
    if (const auto reply = plugin->unstage(deviceUid); !reply.ok())
      return {Code::unavailable, name + " unstage: " + reply.message};
  }
  (void)removeSetAside(deviceUid, stop);  // the next start continues
  return Status::okay();
}

/// (L4). `given`: the claim that the kubelet unprepares; its lock is held. Null at the start.
Status ClaimPreparer::unstageLeftovers(const ClaimRef* given, std::stop_token stop) {
  if (options_.permitted.hostRoot.empty()) return Status::okay();  // simulated nodes share one folder
  const auto& folder = options_.permitted.stateFolder;
  std::set<std::string> staged = stagedIn(folder);
  std::erase_if(staged, [&](const auto& uid) { return hasFile(uid); });
  if (staged.empty()) return Status::okay();
  const auto known = devices(stop);
  if (!known) return known.status();
  Status first;
  for (const auto& uid : staged) {
    const auto device = known->find(uid);
    const Status s =
        device == known->end() ? unstageAnywhere(uid, stop) : unstageUnused(uid, device->second, given, stop);
    if (first.ok() && !s.ok()) first = s;
  }
  return first;
}

bool ClaimPreparer::hasFile(const std::string& deviceUid) {
  const auto found = folder_.find(deviceUid);
  return !found || *found;
}

/// Unstages a device that exists in the API, unless a pod needs it and the kubelet will prepare it again.
Status ClaimPreparer::unstageUnused(const std::string& deviceUid, const ClaimRef& claim, const ClaimRef* given,
                                    std::stop_token stop) {
  const bool thatOne = given != nullptr && given->str() == claim.str();
  if (given != nullptr && !thatOne) return Status::okay();  // holding two claims' locks could deadlock
  const auto held = thatOne ? std::nullopt : locks_.hold(claim.str(), stop);
  if (!thatOne && !held) return {Code::cancelled, "stopped"};
  const auto pods = thatOne ? users_.runningPodOf(claim, stop) : anyPodOf(claim, stop);
  if (!pods) return pods.status();
  return !pods->empty() || hasFile(deviceUid) ? Status::okay() : unstageAnywhere(deviceUid, stop);
}

/// Returns a pod of this node that names the claim; empty if there is none.
Result<std::string> ClaimPreparer::anyPodOf(const ClaimRef& claim, const std::stop_token& stop) {
  const auto pods = users_.podsOf(claim, stop);
  if (!pods) return pods.status();
  return pods->empty() ? std::string() : core::keyOf(pods->front().metadata).str();
}

Status ClaimPreparer::forget(const cdi::Folder::StoredSpec& entry, const std::stop_token& stop) {
  if (auto s = unstageAnywhere(entry.deviceUid, stop); !s.ok()) return s;
  if (entry.ready)
    if (auto s = folder_.withdraw(entry.deviceUid); !s.ok()) return s;
  return folder_.removePart(entry.deviceUid);
}

}  // namespace egpu::agent

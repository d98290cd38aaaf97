// What nobody will ask about any more: (L1) and (L2) of preparer.h.
#include <algorithm>
#include <string>

#include "api/v1alpha/keys.h"
#include "controller/agent/prepare/preparer.h"
#include "controller/base/log.h"

namespace egpu::agent {

using base::Code;
using base::Status;
namespace keys = v1alpha::keys;
namespace log = base::log;

Status ClaimPreparer::leftovers(std::stop_token stop) {
  const auto entries = folder_.list();
  if (!entries) return entries.status();
  Status first;
  std::size_t left = 0;
  for (const auto& entry : *entries) {
    const Status s = entry.spec ? unused(entry, stop) : unreadable(entry, stop);
    if (s.ok()) continue;
    log::debug("a CDI file is left as it is", {{"device", entry.deviceUid}, {"why", s.str()}});
    if (left++ == 0) first = Status(s.code(), "device " + entry.deviceUid + ": " + s.message());
    if (stop.stop_requested()) break;
  }
  // While the API is away that is each of them, again and again.
  return left < 2 ? first : Status(first.code(), first.message() + "; and " + std::to_string(left - 1) + " more");
}

/// (L1)
Status ClaimPreparer::unused(const cdi::Folder::Entry& entry, std::stop_token stop) {
  const ClaimRef claim{entry.spec->claimNamespace, entry.spec->claimName, entry.spec->claimUid};
  if (auto s = checkNames(claim); !s.ok()) return s;
  const auto held = locks_.hold(claim.str(), stop);
  if (!held) return {Code::cancelled, "stopped"};
  // Under the lock, or a pod that has just come may be answered from the file that goes.
  const auto pods = users_.podsOf(claim, stop);
  if (!pods) return pods.status();
  if (!pods->empty()) return Status::okay();
  const auto now = folder_.find(entry.deviceUid);
  if (!now) return now.status();
  if (!*now || !(*now)->spec || (*now)->spec->claimUid != claim.uid) return Status::okay();
  log::info("no pod of this node uses what is prepared", {{"claim", claim.str()}, {"device", entry.spec->device}});
  return undo(**now);
}

/// (L2)
Status ClaimPreparer::unreadable(const cdi::Folder::Entry& entry, std::stop_token stop) {
  log::error("a CDI file can't be read", {{"why", entry.spec.status().str()}});
  kube::ListOptions ofThisNode;
  ofThisNode.labelSelector = std::string(keys::kRoleLabel) + "=" + std::string(keys::kRoleDevice);
  const auto devices = client_.listAll<v1alpha::ElasticGPU>(ofThisNode, stop);
  if (!devices) return devices.status();
  const auto device = std::find_if(devices->begin(), devices->end(),
                                   [&](const auto& each) { return each.metadata.uid == entry.deviceUid; });
  if (device == devices->end() || device->spec.nodeName != options_.node || !device->spec.claimRef)
    return forget(entry);
  const core::ObjectKey claim{device->spec.claimRef->namespace_, device->spec.claimRef->name};
  const auto rc = client_.get<core::ResourceClaim>(claim, stop);
  if (!rc && rc.status().code() != Code::notFound) return rc.status();
  if (rc && !rc->reservedFor.empty()) return prepare({claim.namespace_, claim.name, rc->metadata.uid}, stop).status();
  const auto held = locks_.hold(claim.str(), stop);
  if (!held) return {Code::cancelled, "stopped"};
  const auto now = folder_.find(entry.deviceUid);
  if (!now) return now.status();
  return !*now || (*now)->spec ? Status::okay() : forget(**now);  // it may have been made anew meanwhile
}

/// What no file says any more whose it is: no plugin shall have it.
Status ClaimPreparer::forget(const cdi::Folder::Entry& entry) {
  for (const auto& name : plugins_.names()) {
    auto* plugin = plugins_.find(name, nullptr);
    if (plugin == nullptr) continue;
    if (const auto reply = plugin->unstage(entry.deviceUid); !reply.ok())
      return {Code::unavailable, name + " unstage: " + reply.message};
  }
  if (entry.ready)
    if (auto s = folder_.withdraw(entry.deviceUid); !s.ok()) return s;
  return folder_.removePart(entry.deviceUid);
}

}  // namespace egpu::agent

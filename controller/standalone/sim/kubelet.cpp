#include "controller/standalone/sim/kubelet.h"

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <optional>
#include <set>
#include <system_error>
#include <utility>

#include "api/v1alpha/keys.h"
#include "api/v1alpha/pod_claims.h"
#include "api/v1alpha/validation.h"
#include "controller/base/ids.h"
#include "controller/base/log.h"
#include "controller/codec/patch.h"
#include "controller/codec/simulated.h"

namespace egpu::sim {

namespace {

using base::Code;
using base::Result;
using base::Status;
namespace keys = v1alpha::keys;
namespace log = base::log;

std::string podIp(const core::Pod& pod) {
  const std::string digest = base::hexDigest(pod.metadata.uid);
  auto octet = [&](std::size_t at) { return std::to_string(1 + std::stoi(digest.substr(at, 2), nullptr, 16) % 254); };
  return "10." + octet(0) + "." + octet(2) + "." + octet(4);
}

}  // namespace

Kubelet::NodeKubelet::NodeKubelet(std::string folder, agent::PreparerOptions options, kube::Client& client,
                                  plugin::Registry& plugins, kube::EventSink& events)
    : cdi(std::move(folder)), preparer(client, plugins, events, cdi, std::move(options)) {}

Kubelet::Kubelet(kube::Client& client, plugin::Registry& plugins, kube::EventSink& events, base::Clock& clock,
                 std::map<std::string, std::string> addresses, NodeFolders folders)
    : client_(client),
      plugins_(plugins),
      events_(events),
      clock_(clock),
      addresses_(std::move(addresses)),
      folders_(std::move(folders)) {}

std::string Kubelet::addressOf(const std::string& node) const {
  const auto it = addresses_.find(node);
  return it == addresses_.end() ? std::string() : it->second;
}

Result<Kubelet::NodeKubelet*> Kubelet::nodeOf(const std::string& name) {
  if (!v1alpha::isDnsSubdomain(name)) return Status(Code::invalid, "\"" + name + "\" is not the name of a node");
  auto& node = nodes_[name];
  if (node) return node.get();
  agent::PreparerOptions options;
  options.node = name;
  options.permitted.stateFolder = folders_.state;
  auto made = std::make_unique<NodeKubelet>(folders_.cdi + "/" + name, std::move(options), client_, plugins_, events_);
  if (auto s = made->cdi.open(); !s.ok()) return s;
  node = std::move(made);
  return node.get();
}

void Kubelet::clean(std::stop_token stop) {
  std::error_code none;
  for (const auto& each : std::filesystem::directory_iterator(folders_.cdi, none)) {
    const auto node = nodeOf(each.path().filename().string());
    const Status s = node ? (*node)->preparer.garbageCollect(stop) : node.status();
    if (!s.ok())
      log::warn("previously prepared devices are kept", {{"folder", each.path().string()}, {"why", s.str()}});
    if (!node) continue;
    const auto stored = (*node)->cdi.list();
    for (const auto& entry : stored ? *stored : std::vector<agent::cdi::Folder::StoredSpec>())
      if (entry.spec) {
        const agent::ClaimRef claim{entry.spec->claimNamespace, entry.spec->claimName, entry.spec->claimUid};
        found_.emplace(claim.str(), std::pair(each.path().filename().string(), claim));
      }
  }
}

/// Checks, as a kubelet does, that the claim is reserved for the pod before it is prepared.
Result<agent::ClaimRef> Kubelet::check(const core::Pod& pod, const v1alpha::PodClaim& claim, std::stop_token stop) {
  const auto rc = client_.get<core::ResourceClaim>({pod.metadata.namespace_, claim.claim}, stop);
  if (!rc) return rc.status();
  if (std::any_of(rc->reservedFor.begin(), rc->reservedFor.end(),
                  [&](const auto& c) { return c.uid == pod.metadata.uid; }))
    return agent::ClaimRef{rc->metadata.namespace_, rc->metadata.name, rc->metadata.uid};
  return Status(Code::unavailable, "ResourceClaim " + claim.claim + " is not reserved for this pod");
}

Result<agent::cdi::Spec> Kubelet::prepareClaim(NodeKubelet& node, const core::Pod& pod, const v1alpha::PodClaim& claim,
                                               std::stop_token stop) {
  const auto ref = check(pod, claim, stop);
  if (!ref) {
    if (ref.status().code() != Code::cancelled)
      events_.event(kube::referenceTo(pod), "Warning", "FailedPrepareDevices", ref.status().message());
    return ref.status();
  }
  auto& claims = prepared_[pod.metadata.uid].claims;
  if (std::find(claims.begin(), claims.end(), *ref) == claims.end()) claims.push_back(*ref);
  const auto [first, last] = found_.equal_range(ref->str());  // from now on release() of this pod unprepares the claim
  for (auto it = first; it != last;) it = it->second.second == *ref ? found_.erase(it) : std::next(it);
  const auto ids = node.preparer.prepare(*ref, stop);
  if (!ids) return ids.status();
  const auto entry = node.cdi.find(ids->front().substr(ids->front().find('=') + 1));  // as a container runtime does
  if (!entry) return entry.status();
  if (!*entry || !(*entry)->ready) return Status(Code::unavailable, "unresolvable CDI device " + ids->front());
  const auto& spec = (*entry)->spec;
  return spec ? base::Result<agent::cdi::Spec>(*spec) : spec.status();
}

Status Kubelet::prepare(const core::Pod& pod, std::map<std::string, ContainerDevices>& given, std::stop_token stop) {
  if (!v1alpha::hasPodClaims(pod)) return Status::okay();
  const auto node = nodeOf(pod.nodeName);
  if (!node) return node.status();
  std::vector<const core::Container*> containers;
  for (const auto& c : pod.initContainers) containers.push_back(&c);
  for (const auto& c : pod.containers) containers.push_back(&c);
  for (const auto& claim : v1alpha::podClaims(pod)) {
    if (claim.state == v1alpha::PodClaimState::pending)
      return Status(Code::unavailable,
                    "no ResourceClaim is made yet from template " + claim.templateName + " for the pod");
    const auto spec = prepareClaim(**node, pod, claim, stop);
    if (!spec) return spec.status();
    for (const core::Container* c : containers) {
      if (std::find(c->resourceClaims.begin(), c->resourceClaims.end(), claim.name) == c->resourceClaims.end())
        continue;
      auto& one = given[c->name];
      one.used.insert(claim.claim);
      one.claims += (one.claims.empty() ? "" : ", ") + claim.name;
      if (std::find(one.devices.begin(), one.devices.end(), spec->deviceUid) != one.devices.end())
        continue;  // one claim with two names has only one device
      one.devices.push_back(spec->deviceUid);
      apply(one.all, spec->edits);
    }
  }
  return Status::okay();
}

Status Kubelet::refuse(const core::Pod& pod, const Status& why, std::stop_token stop) {
  if (why.code() == Code::cancelled) return why;
  const auto ready =
      std::find_if(pod.conditions.begin(), pod.conditions.end(), [](const auto& c) { return c.type == "Ready"; });
  if (ready != pod.conditions.end() && ready->message == why.message()) return why;  // already reported
  const auto body = codec::patch::podWaiting(pod, "ContainerCreating", why.message(), base::rfc3339(clock_.wall()));
  const auto written =
      client_.patch<core::Pod>(core::keyOf(pod.metadata), kube::PatchType::strategic, body, "status", stop);
  if (!written && written.status().code() != Code::notFound)
    log::debug("pod status not written", {{"pod", core::keyOf(pod.metadata).str()}, {"error", written.status().str()}});
  return why;
}

/// Writes an annotation with devices and edits for each container, for people.
Status Kubelet::annotate(const core::Pod& pod, const std::map<std::string, ContainerDevices>& given,
                         std::stop_token stop) {
  std::vector<std::pair<std::string, std::optional<std::string>>> annotations;
  for (const auto& [container, one] : given) {
    const std::string text = one.claims + ":" + describeEdits(one.all);
    const std::string key = std::string(keys::kPreparedAnnotationPrefix) + container;
    if (pod.metadata.annotation(key) != text) annotations.emplace_back(key, text);
  }
  if (annotations.empty()) return Status::okay();
  const auto written = client_.patch<core::Pod>(core::keyOf(pod.metadata), kube::PatchType::merge,
                                                codec::patch::annotations(pod.metadata.uid, annotations), {}, stop);
  return written ? Status::okay() : written.status();
}

Status Kubelet::run(const core::Pod& pod, std::stop_token stop) {
  const bool runs = pod.phase == "Running";
  if (runs && !v1alpha::hasPodClaims(pod)) return Status::okay();
  auto& mine = prepared_[pod.metadata.uid];
  mine.node = pod.nodeName;
  // `pod` may be older than this process's last write.
  if (mine.done && (runs || mine.running)) return Status::okay();
  std::map<std::string, ContainerDevices> given;
  if (auto s = prepare(pod, given, stop); !s.ok()) return refuse(pod, s, stop);
  mine.done = true;
  if (auto s = annotate(pod, given, stop); !s.ok()) return s;
  if (runs) return Status::okay();  // the pod was started by an earlier process
  const auto written = client_.patch<core::Pod>(
      core::keyOf(pod.metadata), kube::PatchType::strategic,
      codec::patch::podRunning(pod, podIp(pod), addressOf(pod.nodeName), base::rfc3339(clock_.wall())), "status", stop);
  if (!written) return written.status();
  mine.running = true;
  std::set<std::string> claims;  // a claim may have two names
  for (const auto& [container, one] : given) claims.insert(one.used.begin(), one.used.end());
  if (!claims.empty())
    events_.event(kube::referenceTo(pod), "Normal", "PreparedDevices",
                  "devices of " + std::to_string(claims.size()) + " claim(s) are in the pod's containers");
  return Status::okay();
}

bool Kubelet::usedByOthers(std::string_view podUid, const std::string& node, const agent::ClaimRef& claim) const {
  return std::any_of(prepared_.begin(), prepared_.end(), [&](const auto& other) {
    const auto& claims = other.second.claims;
    return other.first != podUid && other.second.node == node &&
           std::find(claims.begin(), claims.end(), claim) != claims.end();
  });
}

Status Kubelet::release(std::string_view podUid, std::stop_token stop) {
  const auto it = prepared_.find(podUid);
  if (it == prepared_.end()) return Status::okay();
  for (const auto& claim : it->second.claims) {
    if (usedByOthers(podUid, it->second.node, claim)) continue;
    const auto node = nodeOf(it->second.node);
    if (!node) return node.status();
    if (auto s = (*node)->preparer.unprepare(claim, stop); !s.ok()) {
      log::warn("not unprepared", {{"claim", claim.str()}, {"why", s.str()}});
      return s;
    }
  }
  prepared_.erase(it);
  return Status::okay();
}

Status Kubelet::unreserved(const core::ObjectKey& claim, std::stop_token stop) {
  for (auto it = found_.find(claim.str()); it != found_.end(); it = found_.find(claim.str())) {
    const auto& [name, ref] = it->second;
    const auto node = nodeOf(name);
    if (!node) return node.status();
    if (!usedByOthers({}, name, ref))
      if (auto s = (*node)->preparer.unprepare(ref, stop); !s.ok()) return s;
    found_.erase(it);
  }
  return Status::okay();
}

}  // namespace egpu::sim

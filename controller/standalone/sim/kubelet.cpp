#include "controller/standalone/sim/kubelet.h"

#include <algorithm>

#include "api/v1alpha/keys.h"
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

Status fromReply(const plugin::Reply& reply, const std::string& verb) {
  if (reply.ok()) return Status::okay();
  const std::string text =
      verb + ": " + std::string(plugin::toString(reply.outcome)) + (reply.message.empty() ? "" : ": " + reply.message);
  return Status(reply.outcome == plugin::ReplyCode::invalid ? Code::invalid : Code::unavailable, text);
}

}  // namespace

Kubelet::Kubelet(kube::Client& client, plugin::Registry& plugins, kube::EventSink& events, base::Clock& clock,
                 std::map<std::string, v1alpha::Card> hardware, std::map<std::string, std::string> addresses)
    : client_(client),
      plugins_(plugins),
      events_(events),
      clock_(clock),
      hardware_(std::move(hardware)),
      addresses_(std::move(addresses)) {}

std::string Kubelet::addressOf(const std::string& node) const {
  const auto it = addresses_.find(node);
  return it == addresses_.end() ? std::string() : it->second;
}

plugin::DeviceRequest Kubelet::requestFor(const v1alpha::ElasticGPU& device) const {
  plugin::DeviceRequest out;
  out.key = device.metadata.uid;
  out.device = device.metadata.name;
  if (device.spec.claimRef) out.claim = device.spec.claimRef->namespace_ + "/" + device.spec.claimRef->name;
  out.node = device.spec.nodeName;
  out.parameters = device.spec.parameters;
  for (const auto& c : device.spec.cards) {
    plugin::CardShare share;
    share.uuid = c.uuid;
    share.core = c.core;
    share.memory = c.memory;
    if (const auto it = hardware_.find(c.uuid); it != hardware_.end()) {
      share.model = it->second.model;
      share.index = it->second.index;
      share.cardMemory = it->second.memory;
    }
    out.cards.push_back(std::move(share));
  }
  return out;
}

Result<Kubelet::PodDevice> Kubelet::check(const core::Pod& pod, const core::PodResourceClaim& claim,
                                          std::stop_token stop) {
  const auto rc = client_.get<core::ResourceClaim>({pod.metadata.namespace_, claim.resourceClaimName}, stop);
  if (!rc) return rc.status();
  const std::string what = "ResourceClaim " + claim.resourceClaimName;
  if (!rc->allocation) return Status(Code::unavailable, what + " is not allocated");
  if (rc->allocation->driver != keys::kDriver)
    return Status(Code::invalid,
                  what + " belongs to the driver " + rc->allocation->driver + ", which no simulated node has");
  if (rc->allocation->nodeName != pod.nodeName)
    return Status(Code::invalid,
                  what + " is allocated on node " + rc->allocation->nodeName + ", the pod is on " + pod.nodeName);
  const bool reserved = std::any_of(rc->reservedFor.begin(), rc->reservedFor.end(),
                                    [&](const auto& c) { return c.uid == pod.metadata.uid; });
  if (!reserved) return Status(Code::unavailable, what + " is not reserved for this pod");
  const auto& owners = rc->metadata.ownerReferences;
  const auto owner =
      std::find_if(owners.begin(), owners.end(), [](const auto& o) { return o.kind == "ElasticGPUClaim"; });
  if (owner == owners.end()) return Status(Code::invalid, what + " is not owned by an ElasticGPUClaim");

  const auto device = client_.get<v1alpha::ElasticGPU>({"", rc->allocation->device}, stop);
  if (!device) return device.status();
  const std::string which = "ElasticGPU " + device->metadata.name;
  if (!device->spec.claimRef || device->spec.claimRef->uid != owner->uid)
    return Status(Code::invalid, which + " is not the device of the claim that owns " + what);
  if (device->spec.nodeName != pod.nodeName)
    return Status(Code::invalid, which + " is on node " + device->spec.nodeName + ", the pod is on " + pod.nodeName);
  if (device->status.phase != "Bound") return Status(Code::unavailable, which + " is not Bound yet");
  return PodDevice{claim.name, device->spec.provisioner, requestFor(*device)};
}

Status Kubelet::prepare(const core::Pod& pod, std::vector<Mounted>& mounted, std::map<std::string, Given>& given,
                        std::stop_token stop) {
  const std::string podName = pod.metadata.namespace_ + "/" + pod.metadata.name;
  std::vector<const core::Container*> containers;
  for (const auto& c : pod.initContainers) containers.push_back(&c);
  for (const auto& c : pod.containers) containers.push_back(&c);
  for (const auto& claim : pod.resourceClaims) {
    const auto device = check(pod, claim, stop);
    if (!device) return device.status();
    std::string why;
    plugin::Provisioner* plugin = plugins_.find(device->provisioner, &why);
    if (plugin == nullptr) return Status(Code::unavailable, "provisioner " + device->provisioner + ": " + why);
    if (auto s = fromReply(plugin->stage(device->request), "stage"); !s.ok()) return s;
    for (const core::Container* c : containers) {
      if (std::find(c->resourceClaims.begin(), c->resourceClaims.end(), claim.name) == c->resourceClaims.end())
        continue;
      auto& all = given[c->name];
      all.claims += (all.claims.empty() ? "" : ", ") + claim.name;
      const bool again = std::any_of(mounted.begin(), mounted.end(), [&](const auto& m) {
        return m.key == device->request.key && m.container == c->name;
      });
      if (again) continue;  // one claim under two names is one device still
      const auto reply = plugin->mount(device->request, podName, c->name);
      if (auto s = fromReply(reply.reply, "mount"); !s.ok()) return s;
      mounted.push_back({device->provisioner, device->request.key, podName, c->name});
      merge(all.devices, reply.edits, device->request.cards);
    }
  }
  return Status::okay();
}

Status Kubelet::refuse(const core::Pod& pod, const Status& why, std::stop_token stop) {
  if (why.code() == Code::cancelled) return why;
  const auto ready =
      std::find_if(pod.conditions.begin(), pod.conditions.end(), [](const auto& c) { return c.type == "Ready"; });
  if (ready != pod.conditions.end() && ready->message == why.message()) return why;  // said already
  events_.event(kube::referenceTo(pod), "Warning", "FailedPrepareDevices", why.message());
  const auto body = codec::patch::podWaiting(pod, "ContainerCreating", why.message(), base::rfc3339(clock_.wall()));
  const auto written =
      client_.patch<core::Pod>(core::keyOf(pod.metadata), kube::PatchType::strategic, body, "status", stop);
  if (!written && written.status().code() != Code::notFound)
    log::debug("pod status not written", {{"pod", core::keyOf(pod.metadata).str()}, {"error", written.status().str()}});
  return why;
}

Status Kubelet::run(const core::Pod& pod, std::stop_token stop) {
  if (pod.phase == "Running" && (holds(pod.metadata.uid) || pod.resourceClaims.empty())) return Status::okay();
  // The watch may still show what was before our own last write.
  if (const auto it = prepared_.find(pod.metadata.uid); it != prepared_.end() && it->second.running)
    return Status::okay();
  std::vector<Mounted> mounted;
  std::map<std::string, Given> given;
  if (auto s = prepare(pod, mounted, given, stop); !s.ok()) return refuse(pod, s, stop);
  prepared_[pod.metadata.uid] = {std::move(mounted), pod.phase == "Running"};

  std::vector<std::pair<std::string, std::optional<std::string>>> annotations;
  for (const auto& [container, all] : given) {
    const std::string text = all.claims + ":" + describeEdits(all.devices.edits);
    const std::string key = std::string(keys::kPreparedAnnotationPrefix) + container;
    if (pod.metadata.annotation(key) != text) annotations.emplace_back(key, text);
  }
  if (!annotations.empty()) {
    const auto written = client_.patch<core::Pod>(core::keyOf(pod.metadata), kube::PatchType::merge,
                                                  codec::patch::annotations(pod.metadata.uid, annotations), {}, stop);
    if (!written) return written.status();
  }
  if (pod.phase == "Running") return Status::okay();  // this process is new, the pod ran before
  const auto written = client_.patch<core::Pod>(
      core::keyOf(pod.metadata), kube::PatchType::strategic,
      codec::patch::podRunning(pod, podIp(pod), addressOf(pod.nodeName), base::rfc3339(clock_.wall())), "status", stop);
  if (!written) return written.status();
  prepared_[pod.metadata.uid].running = true;
  if (!given.empty())
    events_.event(kube::referenceTo(pod), "Normal", "PreparedDevices",
                  "devices of " + std::to_string(pod.resourceClaims.size()) + " claim(s) are in the pod's containers");
  return Status::okay();
}

void Kubelet::release(std::string_view podUid) {
  const auto it = prepared_.find(podUid);
  if (it == prepared_.end()) return;
  const auto mounted = std::move(it->second.mounted);
  prepared_.erase(it);
  std::set<std::pair<std::string, std::string>> devices;
  for (const auto& m : mounted) {
    devices.emplace(m.provisioner, m.key);
    if (auto* plugin = plugins_.find(m.provisioner, nullptr)) {
      const auto reply = plugin->unmount(m.key, m.pod, m.container);
      if (!reply.ok()) log::warn("unmount failed", {{"device", m.key}, {"pod", m.pod}, {"error", reply.message}});
    }
  }
  for (const auto& [provisioner, key] : devices) {
    const bool used = std::any_of(prepared_.begin(), prepared_.end(), [&k = key](const auto& p) {
      const auto& others = p.second.mounted;
      return std::any_of(others.begin(), others.end(), [&](const auto& m) { return m.key == k; });
    });
    if (used) continue;
    if (auto* plugin = plugins_.find(provisioner, nullptr)) {
      const auto reply = plugin->unstage(key);
      if (!reply.ok()) log::warn("unstage failed", {{"device", key}, {"error", reply.message}});
    }
  }
}

}  // namespace egpu::sim

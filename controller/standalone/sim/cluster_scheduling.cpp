// The functions of Cluster that act as the stock scheduler.
#include <algorithm>

#include "api/v1alpha/pod_claims.h"
#include "api/v1alpha/quantity.h"
#include "controller/codec/patch.h"
#include "controller/codec/simulated.h"
#include "controller/standalone/sim/cluster.h"

namespace egpu::sim {

namespace {

using base::Code;
using base::Result;

constexpr std::string_view kScheduler = "default-scheduler";
constexpr int64_t kNanoPerUnit = 1'000'000'000;
constexpr std::string_view kUnschedulable = "Unschedulable";

}  // namespace

bool Cluster::unschedulable(const core::Pod& pod, std::string_view reason, const std::string& message,
                            std::stop_token stop) {
  const auto condition = std::find_if(pod.conditions.begin(), pod.conditions.end(),
                                      [](const auto& c) { return c.type == "PodScheduled"; });
  if (condition != pod.conditions.end() && condition->message == message) return true;
  events_.event(kube::referenceTo(pod), "Warning", "FailedScheduling", message);
  const auto body = codec::patch::podUnschedulable(pod.metadata.uid, reason, message, base::rfc3339(clock_.wall()));
  const auto written =
      client_.patch<core::Pod>(core::keyOf(pod.metadata), kube::PatchType::strategic, body, "status", stop);
  if (written) podStore_.observed(*written);
  return written.ok() || written.status().code() == Code::notFound;
}

bool Cluster::schedule(const core::Pod& pod, std::stop_token stop) {
  if (pod.schedulerName != kScheduler)
    return otherSchedulers_.count(pod.schedulerName) > 0 ||
           unschedulable(pod, "SchedulerNotFound", unknownScheduler(pod), stop);
  Claims claims;
  if (const std::string waits = claimsOf(pod, claims); !waits.empty())
    return unschedulable(pod, kUnschedulable, waits, stop);
  const auto offered = offeredTo(pod, stop);
  if (!offered) return false;
  const PodChoice choice = chooseNode(pod, claims, *offered);
  if (choice.node.empty()) {
    if (choice.otherNodeSuits) clearOne(claims, stop);
    return unschedulable(pod, kUnschedulable, choice.message, stop);
  }
  for (const auto& rc : claims)
    if (!reserve(pod, *rc, stop)) return false;
  return bind(pod, choice.node, stop);
}

std::string Cluster::claimsOf(const core::Pod& pod, Claims& claims) const {
  if (const auto pending = v1alpha::pendingClaim(pod))
    return "waiting for the ResourceClaim of template " + pending->templateName + " to be created";
  for (const auto& name : v1alpha::claimNames(pod)) {
    const auto rc = claimStore_.get({pod.metadata.namespace_, name});
    if (!rc) return "waiting for the ResourceClaim " + name + " to be created";
    if (rc->metadata.deleting()) return "ResourceClaim " + name + " is being deleted";
    if (!rc->allocation) return "cannot allocate all claims: " + name + " is not allocated";
    claims.push_back(rc);
  }
  return {};
}

/// Returns extended resources by node. The nodes of the file have none, but an administrator may add some by writing
/// the status of a node. The nodes are read only for pods that request such resources, because few do.
Result<Cluster::Offered> Cluster::offeredTo(const core::Pod& pod, std::stop_token stop) {
  if (cache::extendedRequestsOf(pod).empty()) return Offered{};
  kube::HttpRequest list;
  list.target = kube::Client::path(core::kindOf<core::Node>, {});
  const auto answer = client_.call(std::move(list), stop);
  if (!answer) return answer.status();
  const auto nodes = codec::allocatableOf(answer->body);
  if (!nodes) return nodes.status();
  Offered out;
  for (const auto& [node, amounts] : *nodes)
    for (const auto& [resource, text] : amounts)
      if (const auto quantity = v1alpha::parseQuantity(text); quantity && cache::isExtended(resource))
        out[node][resource] = static_cast<int64_t>(quantity->nano / kNanoPerUnit);
  return out;
}

NodeUse Cluster::useOf(const std::string& node, const std::function<bool(const core::Pod&)>& counts) const {
  NodeUse used;
  for (const auto& pod : podStore_.find(byNode_, node))
    if (counts(*pod)) used += requestsOf(*pod);
  return used;
}

PodChoice Cluster::chooseNode(const core::Pod& pod, const Claims& claims, const Offered& offered) const {
  std::vector<std::string> claimNodes;
  for (const auto& rc : claims)  // a remote device suits every node, because all simulated nodes have an agent
    if (!rc->allocation->nodeName.empty()) claimNodes.push_back(rc->allocation->nodeName);
  std::vector<std::shared_ptr<const core::Node>> held;
  std::vector<const core::Node*> nodes;
  std::map<std::string, NodeUse, std::less<>> used;
  nodeStore_.forEach([&](const auto& n) { held.push_back(n); });
  for (const auto& n : held) {
    nodes.push_back(n.get());
    used[n->metadata.name] = useOf(n->metadata.name, [](const core::Pod&) { return true; });
  }
  return choose(pod, nodes, used, claimNodes, offered);
}

// Clears the allocation of one unreserved claim, as the stock scheduler does, so that it can be allocated on another
// node.
void Cluster::clearOne(const Claims& claims, std::stop_token stop) {
  const auto free = std::find_if(claims.begin(), claims.end(), [](const auto& rc) { return rc->reservedFor.empty(); });
  if (free == claims.end()) return;
  const auto& meta = (*free)->metadata;
  const auto body = codec::patch::reservedFor(meta.uid, meta.resourceVersion, {}, true);
  const auto written =
      client_.patch<core::ResourceClaim>(core::keyOf(meta), kube::PatchType::merge, body, "status", stop);
  if (written) claimStore_.observed(*written);
}

bool Cluster::bind(const core::Pod& pod, const std::string& node, std::stop_token stop) {
  kube::HttpRequest bind;
  bind.method = kube::Method::post;
  bind.target = kube::Client::path(core::kindOf<core::Pod>, pod.metadata.namespace_, pod.metadata.name, "binding");
  bind.headers = {{"Content-Type", "application/json"}};
  bind.body = codec::patch::binding(pod, node);
  const auto answer = client_.call(std::move(bind), stop);
  if (!answer && answer.status().code() != Code::conflict && answer.status().code() != Code::notFound) return false;
  events_.event(kube::referenceTo(pod), "Normal", "Scheduled",
                "Successfully assigned " + core::keyOf(pod.metadata).str() + " to " + node + " (simulated)");
  const auto now = client_.get<core::Pod>(core::keyOf(pod.metadata), stop);  // so that the next choice counts this pod
  if (now) podStore_.observed(*now);
  return now.ok() || now.status().code() == Code::notFound;
}

bool Cluster::reserve(const core::Pod& pod, const core::ResourceClaim& claim, std::stop_token stop) {
  auto consumers = claim.reservedFor;
  for (const auto& c : consumers)
    if (c.uid == pod.metadata.uid) return true;
  consumers.push_back({"pods", pod.metadata.name, pod.metadata.uid});
  const auto body = codec::patch::reservedFor(claim.metadata.uid, claim.metadata.resourceVersion, consumers, false);
  const auto written =
      client_.patch<core::ResourceClaim>(core::keyOf(claim.metadata), kube::PatchType::merge, body, "status", stop);
  if (written) claimStore_.observed(*written);
  return written.ok();
}

}  // namespace egpu::sim

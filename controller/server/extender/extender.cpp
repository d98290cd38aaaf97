#include "controller/server/extender/extender.h"

#include <algorithm>
#include <array>
#include <limits>
#include <set>
#include <utility>

#include "controller/base/log.h"
#include "controller/codec/json/text.h"
#include "controller/reconcile/resourceclaim/adopter.h"

namespace egpu::server {

namespace {

using base::Code;
using codec::ExtenderArgs;
using reconcile::PodDemand;

constexpr std::string_view kPath = "/extender/";
constexpr std::array<std::string_view, 4> kVerbs = {"filter", "prioritize", "bind", "preempt"};
constexpr uint8_t kHighest = 10;  // kube-scheduler's MaxExtenderPriority
// The nodes sent here passed the scheduler's own filters, so its preemption would find no victims on them.
constexpr const char* kNoCapacity = "not enough free capacity for the pod's ElasticGPU claims";
constexpr const char* kReserved =
    "not enough free capacity for the pod's ElasticGPU claims beside what is reserved for other claims";
constexpr const char* kNodeRejected = "in backoff for the pod's ElasticGPU claims";

http::Response answer(std::string body) {
  http::Response response;
  response.body = std::move(body);
  return response;
}

/// Returns a Kubernetes Status. The scheduler logs only its code.
http::Response refused(int status, std::string_view reason, const std::string& message) {
  codec::JsonText j;
  j.beginObject().key("kind").value("Status").key("apiVersion").value("v1").key("status").value("Failure");
  j.key("reason").value(reason).key("message").value(message).key("code").value(status).endObject();
  auto response = answer(j.take());
  response.status = status;
  return response;
}
http::Response badRequest(const base::Status& why) { return refused(400, "BadRequest", why.message()); }

/// Returns 10 for the nodes with the highest score, and 0 to 9 for the others, scaled between the lowest and the
/// highest.
std::vector<uint8_t> scoresOf(const std::vector<int64_t>& score, const std::vector<uint8_t>& fate) {
  int64_t least = std::numeric_limits<int64_t>::max(), max = std::numeric_limits<int64_t>::min();
  for (std::size_t i = 0; i < score.size(); ++i) {
    if (fate[i] != 0) continue;
    least = std::min(least, score[i]);
    max = std::max(max, score[i]);
  }
  std::vector<uint8_t> scores(score.size(), 0);
  const auto range = static_cast<double>(max) - static_cast<double>(least);
  for (std::size_t i = 0; i < score.size(); ++i) {
    if (fate[i] != 0) continue;
    if (score[i] == max)
      scores[i] = kHighest;
    else
      scores[i] = static_cast<uint8_t>(std::min<double>(
          kHighest - 1, (static_cast<double>(score[i]) - static_cast<double>(least)) / range * kHighest));
  }
  return scores;
}

}  // namespace

http::Limits Extender::limits() {
  http::Limits limits;
  limits.maxConnections = 512;  // a binding holds its connection
  limits.maxHeadBytes = std::size_t{16} * 1024;
  limits.maxHeaders = 64;
  limits.maxBodyBytes = std::size_t{64} * 1024 * 1024;
  limits.firstByteTimeout = std::chrono::milliseconds(5'000);
  limits.requestTimeout = std::chrono::milliseconds(30'000);
  limits.readTimeout = std::chrono::milliseconds(5'000);
  limits.answerTimeout = std::chrono::milliseconds(30'000);
  return limits;
}

http::Response Extender::handle(const http::Request& request, std::stop_token stop) {
  const auto path = std::string_view(request.path);
  const auto verb = path.starts_with(kPath) ? path.substr(kPath.size()) : std::string_view();
  if (std::find(kVerbs.begin(), kVerbs.end(), verb) == kVerbs.end())
    return refused(404, "NotFound",
                   "there are /extender/filter, /extender/prioritize, /extender/bind, /extender/preempt");
  if (request.method != "POST") {
    auto response = refused(405, "MethodNotAllowed", "only POST is served here");
    response.headers.emplace_back("Allow", "POST");
    return response;
  }
  if (const auto why = unavailable_(); !why.empty()) {
    auto response = verb == "filter" ? answer(codec::encodeFilterError(why))
                    : verb == "bind" ? answer(codec::encodeBindingResult(why))
                                     : refused(503, "ServiceUnavailable", why);
    response.headers.emplace_back("Connection", "close");  // otherwise the scheduler would keep calling this replica
    return response;
  }
  const auto start = std::chrono::steady_clock::now();
  auto response = verb == "filter"       ? filter(request.body)
                  : verb == "prioritize" ? prioritize(request.body)
                  : verb == "bind"       ? bind(request.body, std::move(stop))
                                         : preempt(request.body);
  metrics_.observe("elasticgpu_extender_duration_seconds",
                   std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count(),
                   {{"verb", std::string(verb)}});
  return response;
}

std::vector<scheduler::NodeVerdict> Extender::verdictsFor(const PodDemand& demand,
                                                          std::span<const std::string_view> nodes,
                                                          const std::vector<std::string>& withoutDevices,
                                                          scheduler::Judge what) {
  auto verdicts = cluster_.queries().scoreNodes(demand.asks, nodes, withoutDevices, what);
  int64_t lowest = 0;
  for (const auto& verdict : verdicts) lowest = std::min(lowest, verdict.score);
  for (const auto& asks : reconcile::otherAsks(demand)) {
    if (std::all_of(verdicts.begin(), verdicts.end(), [](const auto& verdict) { return verdict.fits; })) break;
    const auto more = cluster_.queries().scoreNodes(asks, nodes, withoutDevices, what);
    --lowest;  // nodes that fit an earlier alternative rank higher
    for (std::size_t i = 0; i < verdicts.size(); ++i)
      if (!verdicts[i].fits && more[i].fits) verdicts[i] = {true, lowest};
  }
  return verdicts;
}

Extender::Judged Extender::scoreNodes(const ExtenderArgs& args, const PodDemand& demand, scheduler::Judge what) {
  Judged judged{std::vector<uint8_t>(args.names.size(), 0), {}, std::vector<int64_t>(args.names.size(), 0)};
  const auto reason = [&judged](std::string text) {
    judged.reasons.push_back({std::move(text), true});
    return static_cast<uint8_t>(judged.reasons.size());
  };
  if (!demand.never.empty()) {
    std::fill(judged.fate.begin(), judged.fate.end(), reason(demand.never));
    return judged;
  }
  if (!demand.node.empty()) {
    const auto elsewhere = reason("claim " + demand.fixedBy + " is on node " + demand.node);
    for (std::size_t i = 0; i < args.names.size(); ++i)
      if (args.names[i] != demand.node) judged.fate[i] = elsewhere;
  }
  if (demand.asks.empty()) return judged;
  const auto noCapacity = reason(kNoCapacity), reserved = reason(kReserved), rejected = reason(kNodeRejected);
  const auto withheld = cluster_.queries().nodesWithheldFrom(demand.asks);
  const bool any = reconciler_.hasRejectedNode(demand.asks);
  const auto& all = args.names;
  const auto record = [&](std::size_t i, const scheduler::NodeVerdict& verdict) {
    judged.score[i] = verdict.score;
    if (!verdict.fits)
      judged.fate[i] = withheld.contains(all[i]) ? reserved : noCapacity;
    else if (any && reconciler_.isNodeRejected(demand.asks, all[i]))
      judged.fate[i] = rejected;
  };
  if (demand.node.empty()) {
    const auto verdicts = verdictsFor(demand, all, demand.devices, what);
    for (std::size_t i = 0; i < all.size(); ++i) record(i, verdicts[i]);
    return judged;
  }
  const std::string_view only = demand.node;
  const auto verdict = verdictsFor(demand, {&only, 1}, demand.devices, what).front();
  for (std::size_t i = 0; i < all.size(); ++i)
    if (judged.fate[i] == 0) record(i, verdict);
  return judged;
}

http::Response Extender::filter(std::string_view body) {
  const auto args = codec::decodeExtenderArgs(body);
  if (!args) return badRequest(args.status());
  const auto demand = reconciler_.demandOf(args->pod);
  if (!demand.later.empty()) return answer(codec::encodeFilterError(demand.later));
  if (demand.any()) return answer(codec::encodeFilterResult(*args));
  const auto judged = scoreNodes(*args, demand, scheduler::Judge::fit);
  return answer(codec::encodeFilterResult(*args, judged.fate, judged.reasons));
}

http::Response Extender::prioritize(std::string_view body) {
  const auto args = codec::decodeExtenderArgs(body);
  if (!args) return badRequest(args.status());
  const auto demand = reconciler_.demandOf(args->pod);
  if (!demand.later.empty() || demand.any())
    return answer(codec::encodeHostPriorities(*args, std::vector<uint8_t>(args->names.size(), 0)));
  const auto judged = scoreNodes(*args, demand, scheduler::Judge::fitAndScore);
  return answer(codec::encodeHostPriorities(*args, scoresOf(judged.score, judged.fate)));
}

http::Response Extender::bind(std::string_view body, std::stop_token stop) {
  const auto args = codec::decodeExtenderBindingArgs(body);
  if (!args) return badRequest(args.status());
  const core::ObjectKey pod{args->podNamespace, args->podName};
  const auto bound = reconciler_.bindPod(pod, args->podUid, args->node, bindWithin_, std::move(stop));
  if (bound.ok()) return answer(codec::encodeBindingResult({}));
  base::log::info("a pod was not bound", {{"pod", pod.str()}, {"node", args->node}, {"why", bound.message()}});
  return answer(codec::encodeBindingResult(bound.message().empty() ? bound.str() : bound.message()));
}

std::vector<std::string> Extender::devicesOf(const codec::NodeVictims& victims) const {
  std::vector<std::string> devices;
  const std::set<std::string_view> going(victims.pods.begin(), victims.pods.end());
  std::set<std::string> there;
  for (const auto& card : stores_.cardsOnNode(victims.node))
    for (const auto& [uid, entry] : card->spec.allocations) there.insert(entry.device);
  for (const auto& name : there) {
    const auto device = stores_.devices.get({"", name});
    if (!device || !device->spec.claimRef || device->spec.reclaimPolicy == "Retain") continue;
    const auto& ref = *device->spec.claimRef;
    const auto claim = stores_.claims.get({ref.namespace_, ref.name});
    if (!claim || claim->metadata.uid != ref.uid) continue;
    // The device goes with its pod only if Kubernetes made its ResourceClaim for that pod. A claim made by hand
    // survives the pod with its device.
    const auto resourceClaim = stores_.resourceClaims.get({ref.namespace_, ref.name});
    if (!resourceClaim || reconcile::madeFor(*claim) != resourceClaim->metadata.uid) continue;
    const auto& owners = resourceClaim->metadata.ownerReferences;
    if (std::any_of(owners.begin(), owners.end(),
                    [&](const auto& owner) { return owner.kind == "Pod" && going.count(owner.uid) != 0; }))
      devices.push_back(device->metadata.name);
  }
  return devices;
}

bool Extender::fitsWithout(const PodDemand& demand, const codec::NodeVictims& victims) {
  if (!demand.node.empty() && demand.node != victims.node) return false;
  if (demand.asks.empty()) return true;
  auto without = devicesOf(victims);
  without.insert(without.end(), demand.devices.begin(), demand.devices.end());
  const std::string_view only = victims.node;
  return verdictsFor(demand, {&only, 1}, without, scheduler::Judge::fit).front().fits &&
         !reconciler_.isNodeRejected(demand.asks, victims.node);
}

http::Response Extender::preempt(std::string_view body) {
  auto args = codec::decodeExtenderPreemptionArgs(body);
  if (!args) return badRequest(args.status());
  const auto demand = reconciler_.demandOf(args->pod);
  // The scheduler chose the victims for the resources that it counts, so all of them are needed. The question is
  // whether they are enough for the claims as well.
  std::erase_if(args->nodes, [&](const auto& victims) {
    if (!demand.later.empty() || !demand.never.empty()) return true;
    return !demand.any() && !fitsWithout(demand, victims);
  });
  return answer(codec::encodePreemptionResult(args->nodes));
}

}  // namespace egpu::server

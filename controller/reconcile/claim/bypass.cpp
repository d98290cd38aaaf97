#include "controller/reconcile/claim/bypass.h"

#include <algorithm>

#include "api/v1alpha/keys.h"
#include "api/v1alpha/pod_claims.h"
#include "controller/base/log.h"
#include "controller/kube/eviction.h"

namespace egpu::reconcile {

std::optional<v1alpha::IsolationBypass> bypassOf(const cache::Stores& stores, const cache::Gpu& device) {
  for (const auto& share : device.spec.cards) {
    const auto card = stores.cards.get({"", share.name});
    if (!card) continue;
    const auto bypass = card->status.bypassed.find(device.metadata.uid);
    if (bypass != card->status.bypassed.end()) return bypass->second;
  }
  return std::nullopt;
}

std::optional<Outcome> evictBypassing(const ClaimContext& context, const cache::Claim& claim, const cache::Gpu& device,
                                      std::stop_token stop) {
  const auto reaction = device.spec.parameters.find(std::string_view("onBypass"));
  if (reaction == device.spec.parameters.end() || reaction->second != "evict") return std::nullopt;
  const auto bypass = bypassOf(context.stores, device);
  if (!bypass) return std::nullopt;
  const auto key = core::keyOf(claim.metadata);
  auto pods = context.stores.podsOfClaim(key);
  for (auto& pod : context.stores.podsAnnotatedWith(key)) pods.push_back(std::move(pod));
  const auto pod =
      std::find_if(pods.begin(), pods.end(), [&](const auto& each) { return each->metadata.uid == bypass->pod; });
  if (pod == pods.end() || (*pod)->metadata.deleting() || (*pod)->finished()) return std::nullopt;
  // The store may not have the eviction of the last step yet; a second one would be reported again.
  auto& client = context.writer.client();
  const auto now = client.get<core::Pod>(core::keyOf((*pod)->metadata), stop);
  if (now.ok() && (now->metadata.uid != bypass->pod || now->metadata.deleting())) return std::nullopt;
  const auto answer = client.call(kube::evictionOf(**pod, false), stop);
  if (answer.ok()) {
    base::log::info("evicting a pod that evades its limiter",
                    {{"pod", core::keyOf((*pod)->metadata).str()}, {"claim", key.str()}});
    context.status.warn(**pod, v1alpha::keys::reason::kIsolationBypassed,
                        "evicted because of onBypass: evict of its class: " + bypass->message);
    return std::nullopt;
  }
  // Gone, or another pod by now: its event requeues the claim.
  const auto code = answer.status().code();
  if (code == base::Code::notFound || code == base::Code::conflict) return std::nullopt;
  if (code == base::Code::cancelled) return Outcome::retry(answer.status());
  base::log::warn("a pod that evades its limiter can't be evicted now",
                  {{"pod", core::keyOf((*pod)->metadata).str()}, {"why", answer.status().str()}});
  return Outcome::after(context.timeouts.preemptionRetryBackoff);
}

}  // namespace egpu::reconcile

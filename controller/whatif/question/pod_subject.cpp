#include "controller/whatif/question/pod_subject.h"

#include <algorithm>
#include <set>
#include <utility>

#include "api/v1alpha/keys.h"
#include "api/v1alpha/pod_claims.h"
#include "controller/cache/pod_requests.h"
#include "controller/reconcile/pod/node_fit/node_fit.h"
#include "controller/reconcile/pod/node_fit/resources.h"
#include "controller/reconcile/pod/schedulability.h"
#include "controller/reconcile/resourceclaim/adopter.h"
#include "controller/whatif/question/template_claims.h"

namespace egpu::whatif {

namespace {

namespace keys = v1alpha::keys;
using base::Code;
using base::Result;
using base::Status;
using Claims = std::vector<v1alpha::ElasticGPUClaim>;

std::string spaceOf(const core::Pod& pod, const std::string& space) {
  return pod.metadata.namespace_.empty() ? space : pod.metadata.namespace_;
}

/// The question provides the claim's first consumer, so the claim no longer waits for one. Members of a gang still wait
/// for the rest of the gang.
void asConsumed(Subject& subject) {
  if (subject.inGang) return;
  if (subject.request && subject.device.empty() && !subject.why.empty()) subject.why = subject.note = {};
}

/// A claim that is stamped for the pod uses the pod's tolerations, in either binding mode of its class.
void placeWithPod(Subject& subject) {
  if (!std::exchange(subject.immediate, false)) return;
  subject.suits = {};
  subject.whyUnsuited = {};
  if (!subject.inGang) subject.note = subject.notReady;
}

/// Returns a claim that does not exist yet, as its first consumer would get it.
Result<std::optional<Subject>> wouldBeOfPod(const cache::Stores& stores, const v1alpha::ElasticGPUClaim& claim,
                                            const std::string& space) {
  auto subject = wouldBeSubject(stores, claim, space);
  if (!subject)
    return Status(subject.status().code(), "claim " + claim.metadata.name + ": " + subject.status().message());
  asConsumed(*subject);
  return std::optional<Subject>(std::move(*subject));
}

/// Returns one claim of the pod; none if it is probably a ResourceClaim of another driver.
Result<std::optional<Subject>> claimOfPod(const cache::Stores& stores, const core::Pod& pod, const Claims& beside,
                                          const core::ObjectKey& key) {
  const auto own = std::find_if(beside.begin(), beside.end(), [&](const auto& each) {
    const auto& space = each.metadata.namespace_;
    return each.metadata.name == key.name && (space.empty() || space == key.namespace_);
  });
  const bool exists = stores.claims.get(key) != nullptr;
  if (own == beside.end() && !exists)
    if (const auto resourceClaim = stores.resourceClaims.get(key); resourceClaim && reconcile::asks(*resourceClaim)) {
      const auto made =
          claimMadeFor(*resourceClaim, "ResourceClaim " + key.name);  // its ElasticGPUClaim does not exist yet
      if (!made) return made.status();
      auto subject = wouldBeOfPod(stores, *made, key.namespace_);
      if (subject && reconcile::stampedFor(*resourceClaim) != nullptr) placeWithPod(**subject);
      return subject;
    }
  if (own == beside.end() && !exists && !v1alpha::annotatedClaims(pod).contains(key.name))
    return std::optional<Subject>();
  auto subject = exists ? existingSubject(stores, key)
                 : own != beside.end()
                     ? wouldBeSubject(stores, *own, key.namespace_)
                     : Result<Subject>(Status(Code::notFound, "there is no ElasticGPUClaim \"" + key.str() +
                                                                  "\", nor does one come with the pod"));
  if (!subject) return Status(subject.status().code(), "claim " + key.name + ": " + subject.status().message());
  asConsumed(*subject);
  return std::optional<Subject>(std::move(*subject));
}

}  // namespace

std::vector<core::ObjectKey> claimsOfPod(const core::Pod& pod, const std::string& space) {
  auto names = v1alpha::annotatedClaims(pod);
  for (auto& name : v1alpha::claimNames(pod)) names.insert(std::move(name));
  std::vector<core::ObjectKey> keys;
  keys.reserve(names.size());
  for (const auto& name : names) keys.push_back({spaceOf(pod, space), name});
  return keys;
}

Result<PodSubject> podSubject(const cache::Stores& stores, const core::Pod& pod, const Claims& beside,
                              const std::optional<v1alpha::ElasticGPUClaim>& amounts, const std::string& space) {
  PodSubject subject;
  subject.pod = pod;
  subject.pod.nodeName.clear();
  subject.pod.metadata.namespace_ = spaceOf(pod, space);
  if (subject.pod.metadata.name.empty()) subject.pod.metadata.name = "new";
  if (const auto obstacle = reconcile::obstacleOf(stores, subject.pod)) subject.note = obstacle.message;
  for (const auto& key : claimsOfPod(pod, space)) {
    auto claim = claimOfPod(stores, pod, beside, key);
    if (!claim) return claim.status();
    if (*claim)
      subject.claims.push_back(std::move(**claim));
    else
      subject.note += (subject.note.empty() ? "" : "; ") + std::string("ResourceClaim ") + key.name +
                      " is not an ElasticGPUClaim and is ignored";
  }
  auto stamped = claimsStampedFor(stores, pod, subject.pod.metadata.namespace_, subject.note);
  if (!stamped) return stamped.status();
  for (const auto& claim : *stamped) {
    auto made = wouldBeOfPod(stores, claim, subject.pod.metadata.namespace_);
    if (!made) return made.status();
    placeWithPod(**made);
    subject.claims.push_back(std::move(**made));
  }
  if (!pod.volumes.empty())
    subject.note += (subject.note.empty() ? "" : "; ") + std::string("its volumes are not considered");
  if (amounts && !subject.claims.empty())
    return Status(Code::invalid, "the pod names its claims: give no class, gpu, gpu-core, gpu-memory, tflops or card");
  if (amounts) {
    auto claim = wouldBeSubject(stores, *amounts, subject.pod.metadata.namespace_);
    if (!claim) return claim.status();
    subject.claims.push_back(std::move(*claim));
  }
  if (subject.claims.empty())
    return Status(Code::invalid, "the pod names no claim: annotate it (" + std::string(keys::kClaimAnnotationPrefix) +
                                     "NAME: CLAIM), or give class and gpu, gpu-core, gpu-memory or tflops");
  return subject;
}

std::string unsuitable(const cache::Stores& stores, const core::Pod& pod, std::string_view name) {
  const auto node = stores.nodes.get({"", std::string(name)});
  if (!node) return {};
  if (auto why = reconcile::nodeUnsuitable(pod, {}, *node); !why.empty()) return why;
  return reconcile::shortOf(cache::requestsOf(pod), stores.usage.of(name, core::keyOf(pod.metadata)), *node);
}

}  // namespace egpu::whatif

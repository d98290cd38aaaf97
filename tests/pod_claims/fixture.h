// Pods that get their claims in every supported way, in a cluster whose admission, controller manager and scheduler act
// only when the test lets them. Nodes n1 and n2 have two cards each.
#pragma once

#include <algorithm>
#include <cctype>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "api/v1alpha/pod_claims.h"
#include "controller/codec/claim_spec.h"
#include "controller/standalone/sim/admission.h"
#include "controller/standalone/sim/claim_stamping.h"
#include "tests/extender/fixture.h"
#include "tests/support/stock_scheduler.h"

namespace egpu::server {

/// The way in which a pod gets its claims.
enum class Source { annotation, claimTemplate, resourceClaimTemplate, amounts, twoOfOneTemplate, mixed };

class ClaimedPodsTest : public ExtenderTest {
 protected:
  using Change = std::function<void(core::Pod&)>;
  using Requests = core::StringMap;

  /// Adds the class of the claims.
  void addClassOf(const std::string& mode) {
    world.addClass("any", "Delete", mode, {{"preemptible", "true"}, {"movable", "true"}, {"resizable", "true"}});
    settle();
  }
  std::size_t claimsPerPod() const { return source == Source::twoOfOneTemplate || source == Source::mixed ? 2 : 1; }
  bool namesOwnClaim() const { return source == Source::annotation || source == Source::mixed; }

  /// Returns the pod as a user writes it, with a claim for each of these requests. Also creates the claims and
  /// templates that it names. Pods whose names are equal up to the first dot share their own claim.
  core::Pod manifest(const std::string& name, const Requests& requests, const Change& change = {}) {
    auto pod = World::podOf(name, {}, false);
    // Any existing owner works: a pod without a controller is never moved.
    const auto owner = World::must(world.client.get<core::Namespace>({"", "default"})).metadata.uid;
    pod.metadata.ownerReferences = {{"v1", "Namespace", "default", owner, true}};
    if (change) change(pod);
    auto& notes = pod.metadata.annotations;
    if (namesOwnClaim()) notes["egpuc.elasticgpu.io/own"] = ownClaim(pod, requests);
    if (source == Source::claimTemplate || source == Source::mixed)
      notes["egpuct.elasticgpu.io/gpu"] = claimTemplate(requests);
    if (source == Source::twoOfOneTemplate)
      for (const auto* each : {"a", "b"}) notes[std::string("egpuct.elasticgpu.io/") + each] = claimTemplate(requests);
    if (source == Source::amounts) {
      notes["egpu.elasticgpu.io/class"] = "any";
      for (const auto& [key, value] : requests) notes["egpu.elasticgpu.io/" + key] = value;
    }
    if (source == Source::resourceClaimTemplate) {
      pod.resourceClaims.push_back({"gpu", "", resourceClaimTemplate(requests)});
      pod.containers[0].resourceClaims.push_back("gpu");
    }
    settle();
    return pod;
  }
  void addPod(const std::string& name, const Requests& requests, const Change& change = {}) {
    create(manifest(name, requests, change));
  }
  void create(const core::Pod& pod) {
    auto json = codec::encode(pod);
    World::mustOk(sim::admitPod("pods", "CREATE", json, {}));
    (void)World::must(world.client.create(World::must(codec::decode<core::Pod>(json))));
    settle();
    world.nextSecond();
  }

  /// Acts as the controller manager: stamps claims, and removes reservations and claims of deleted pods.
  void manage() {
    const auto pods = World::must(world.client.listAll<core::Pod>({}));
    for (const auto& pod : pods)
      if (!pod.finished() && !pod.metadata.deleting()) (void)stamping.stamp(pod, {});
    const auto isGone = [&pods](const std::string& uid) {
      return std::none_of(pods.begin(), pods.end(), [&](const auto& pod) { return pod.metadata.uid == uid; });
    };
    for (auto& claim : World::must(world.client.listAll<core::ResourceClaim>({}))) {
      const auto dropped = std::erase_if(claim.reservedFor, [&](const auto& user) { return isGone(user.uid); });
      if (dropped > 0) world.reserve(claim);
      for (const auto& owner : claim.metadata.ownerReferences)
        if (dropped == 0 && owner.kind == "Pod" && isGone(owner.uid) && !claim.metadata.deleting())
          World::mustOk(world.client.remove<core::ResourceClaim>(core::keyOf(claim.metadata)));
    }
    settle();
  }
  /// Lets all components act in turn until none of them writes. Returns false if that never happens.
  bool rests() {
    for (int round = 0; round < 30; ++round) {
      const auto before = writes();
      driver->run(std::chrono::seconds(20));
      manage();
      scheduler.round();
      driver->run(std::chrono::seconds(20));
      if (writes() == before) return true;
    }
    return false;
  }

  bool runs(const std::string& pod) {
    const auto found = world.client.get<core::Pod>({"default", pod});
    return found.ok() && !found->metadata.deleting() && !found->nodeName.empty();
  }
  /// Number of running pods whose names begin with the text.
  std::size_t running(const std::string& start) {
    const auto pods = World::must(world.client.listAll<core::Pod>({}));
    return static_cast<std::size_t>(std::count_if(pods.begin(), pods.end(), [&](const auto& pod) {
      return pod.metadata.name.starts_with(start) && runs(pod.metadata.name);
    }));
  }
  std::vector<std::string> claimsOf(const std::string& pod) { return v1alpha::claimNames(world.pod(pod)); }
  /// Returns the reasons and messages of the pod's claims, for failed expectations.
  std::string messagesOf(const std::string& pod) {
    std::string text;
    for (const auto& name : claimsOf(pod))
      if (world.client.get<cache::Claim>({"default", name}).ok())
        text += name + ": " + world.reason(name) + " " + world.message(name) + "; ";
    return text;
  }
  int64_t usedCore() { return driver->cluster.allocationMap().totals().usedCore; }

  Source source = Source::claimTemplate;

 private:
  static v1alpha::ElasticGPUClaimSpec specOf(const Requests& requests) {
    v1alpha::ElasticGPUClaimSpec spec;
    spec.className = "any";
    for (const auto& [key, value] : requests) spec.requests["elasticgpu.io/" + key] = value;
    return spec;
  }
  static std::string nameOf(const Requests& requests) {
    std::string name = "t";
    for (const auto& [key, value] : requests) name += "." + key + "-" + value;
    std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) { return std::tolower(c); });
    return name;
  }
  /// Creates the pod's own claim, a member of the gang that the pod's annotations name.
  std::string ownClaim(const core::Pod& pod, const Requests& requests) {
    const auto name = pod.metadata.name.substr(0, pod.metadata.name.find('.')) + "-own";
    if (world.client.get<cache::Claim>({"default", name}).ok()) return name;
    core::StringMap gang;
    for (const auto& [key, value] : pod.metadata.annotations)
      if (key.starts_with("elasticgpu.io/gang")) gang[key] = value;
    (void)world.addMember(name, "any", requests, gang);
    return name;
  }
  std::string claimTemplate(const Requests& requests) {
    cache::ClaimTemplate made;
    made.metadata.name = nameOf(requests);
    made.metadata.namespace_ = "default";
    made.spec = specOf(requests);
    if (!world.client.get<cache::ClaimTemplate>({"default", made.metadata.name}).ok())
      (void)World::must(world.client.create(made));
    return made.metadata.name;
  }
  std::string resourceClaimTemplate(const Requests& requests) {
    core::ResourceClaimTemplate made;
    made.metadata.name = nameOf(requests);
    made.metadata.namespace_ = "default";
    made.claim.deviceClassName = "elasticgpu.io";
    made.claim.requestName = "gpu";
    made.claim.config.push_back({{}, "elasticgpu.io", codec::encodeClaimSpec(specOf(requests))});
    if (!world.client.get<core::ResourceClaimTemplate>({"default", made.metadata.name}).ok())
      (void)World::must(world.client.create(made));
    return made.metadata.name;
  }

  support::EventLog events;
  sim::ClaimStamping stamping{world.client, events};
  support::StockScheduler scheduler{world};
};

}  // namespace egpu::server

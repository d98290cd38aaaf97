#include "controller/whatif/answer/pod_simulation.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "controller/scheduler/first_available.h"
#include "controller/scheduler/state/holdings.h"
#include "controller/whatif/answer/quota_check.h"

namespace egpu::whatif {

namespace {

using scheduler::Decision;
using scheduler::Request;

constexpr const char* kAtOnce = "; Immediate classes bind their claims without considering the pod";

std::string nameOf(const Subject& claim) { return claim.claim.empty() ? "its claim" : "claim " + claim.claim; }

class PlacingPod {
 public:
  PlacingPod(const cache::Stores& stores, scheduler::Cluster cluster, PodSubject subject, scheduler::QuotaBook quotas,
             std::string onlyNode, const scheduler::SimulationLimits& limits)
      : stores_(stores),
        cluster_(std::move(cluster)),
        scratch_(cluster_),
        subject_(std::move(subject)),
        quotas_(std::move(quotas)),
        asked_(std::move(onlyNode)),
        node_(asked_),
        limits_(limits) {}

  PodSimulation run() {
    out_.pod = subject_.name();
    out_.note = subject_.note;
    for (auto& claim : subject_.claims) sort(claim);
    for (auto& claim : out_.claims)
      if (isOpen(claim) && claim.subject.immediate) bind(claim);
    if (out_.why.empty() && open_.empty() && !(anyNode_ && node_.empty())) checkNode();
    bool first = true;
    for (auto& claim : out_.claims)
      if (isOpen(claim) && !claim.subject.immediate) place(claim, std::exchange(first, false));
    out_.fits = out_.why.empty();
    if (out_.fits) out_.node = node_;
    return std::move(out_);
  }

 private:
  static bool isOpen(const PodSimulation::OfClaim& claim) { return !claim.bound && claim.subject.request; }

  void fails(const std::string& why) {
    if (out_.why.empty()) out_.why = why;
  }

  /// Bound claims determine the node; the other claims are to be placed.
  void sort(Subject& claim) {
    const bool bound = claim.exists && !claim.device.empty();
    const bool isPlaced = bound && !claim.node.empty();  // pods on any node can use a remote device
    const auto name = nameOf(claim);
    if (isPlaced && !node_.empty() && node_ != claim.node)
      fails(name + " is on node " + claim.node + ", and not on " + node_);
    if (isPlaced && node_.empty()) node_ = claim.node;
    anyNode_ = anyNode_ || (bound && !isPlaced);
    if (!bound && !claim.request) fails(name + ": " + claim.why);
    if (!bound && claim.request && claim.immediate) atOnce_ = true;
    if (!bound && claim.request && !claim.immediate) open_.push_back(*claim.request);
    out_.claims.push_back({std::move(claim), bound, {}});
  }

  /// Places the claim as its own binding does: by the tolerations of its class, regardless of the pod's constraints.
  void bind(PodSimulation::OfClaim& claim) {
    auto request = *claim.subject.request;
    if (!asked_.empty()) request.pinnedNode = asked_;
    simulate(claim, request, claim.subject.suits, claim.subject.whyUnsuited);
    const auto& decision = claim.simulation.decision;
    if (!decision.fits) return fails(whyNot(claim));
    hold(claim, decision);
    if (node_.empty()) node_ = decision.node;
    if (decision.node != node_)
      fails(nameOf(claim.subject) + " would be bound on node " + decision.node + ", and not on " + node_ + kAtOnce);
  }

  /// Fails unless the pod can run on the node of its claims.
  void checkNode() {
    if (const auto why = unsuitable(stores_, subject_.pod, node_); !why.empty())
      fails("pod " + subject_.pod.metadata.name + " can't run on node " + node_ + ": " + why +
            (atOnce_ ? kAtOnce : ""));
  }

  scheduler::QuotaClaim counted(const PodSimulation::OfClaim& claim) const {
    return quotaClaimOf(claim.subject, subject_.pod.metadata.namespace_);
  }
  /// Simulates the claim within its quotas.
  void simulate(PodSimulation::OfClaim& claim, const Request& request, const scheduler::NodePredicate& suits,
                const scheduler::WhyUnsuited& whyUnsuited) {
    auto limits = limits_;
    limits.whyUnsuited = whyUnsuited;
    const auto owner = counted(claim);
    const auto within = withinQuotas(cluster_, quotas_, owner, request, suits, limits_.pause, claim.subject);
    const scheduler::SimulatedQuotas quotas{quotas_, owner, request};
    claim.simulation =
        scheduler::simulate(cluster_, within, suits, limits, {}, quotas_.counts(owner.namespace_) ? &quotas : nullptr);
  }
  static std::string whyNot(PodSimulation::OfClaim& claim) {
    if (claim.subject.quota.empty()) return claim.simulation.filter.text();
    claim.simulation.filter.remedies.clear();  // more cards would not help
    return claim.subject.quota;
  }

  void hold(const PodSimulation::OfClaim& claim, const Decision& decision) {
    const auto key = "pod/" + std::to_string(held_++);
    scheduler::count(quotas_, cluster_, key, counted(claim), decision);
    scheduler::hold(cluster_, key, decision);
    scheduler::hold(scratch_, key, decision);
  }

  /// True if all claims that wait for the pod fit together on the node. Restores the scratch cluster.
  bool capacityForAll(std::string_view node) {
    std::vector<Decision> taken;
    for (auto request : open_) {
      request.pinnedNode = node;
      auto decision = scheduler::decide(scratch_, request);
      if (!decision.fits) break;
      scheduler::hold(scratch_, "trial/" + std::to_string(taken.size()), decision);
      taken.push_back(std::move(decision));
    }
    for (std::size_t i = 0; i < taken.size(); ++i)
      for (const auto& placement : taken[i].placements) scratch_.giveBack(placement.card, "trial/" + std::to_string(i));
    return taken.size() == open_.size();
  }

  std::string faultOf(std::string_view node, bool all) {
    auto why = unsuitable(stores_, subject_.pod, node);
    if (why.empty() && all && open_.size() > 1 && !capacityForAll(node))
      why = "not enough capacity for all of the pod's claims together";
    return why;
  }

  void place(PodSimulation::OfClaim& claim, bool first) {
    auto request = *claim.subject.request;
    if (!node_.empty()) request.pinnedNode = node_;
    const auto& own = claim.subject.suits;  // taints that the class tolerates
    const auto suits = [&](std::string_view node) { return (!own || own(node)) && faultOf(node, first).empty(); };
    simulate(claim, request, suits, [&](std::string_view node) {
      return own && !own(node) && claim.subject.whyUnsuited ? claim.subject.whyUnsuited(node) : faultOf(node, first);
    });
    if (!claim.simulation.decision.fits) {
      fails(whyNot(claim));
      return;
    }
    hold(claim, claim.simulation.decision);
    node_ = claim.simulation.decision.node;
  }

  const cache::Stores& stores_;
  scheduler::Cluster cluster_, scratch_;
  PodSubject subject_;
  scheduler::QuotaBook quotas_;
  const std::string asked_;  ///< the only node to consider; empty = any
  std::string node_;         ///< node that the pod must use; empty = not determined
  const scheduler::SimulationLimits limits_;
  std::vector<Request> open_;  ///< requests of the claims that wait for the pod
  bool atOnce_ = false;        ///< a claim would be bound regardless of the pod's constraints
  bool anyNode_ = false;       ///< a claim has a remote device, which does not determine the node
  int held_ = 0;
  PodSimulation out_;
};

}  // namespace

PodSimulation simulatePod(const cache::Stores& stores, const scheduler::Cluster& cluster, const PodSubject& subject,
                          const scheduler::QuotaBook& quotas, const std::string& onlyNode,
                          const scheduler::SimulationLimits& limits) {
  std::vector<std::size_t> counts;
  for (const auto& claim : subject.claims)
    counts.push_back(claim.device.empty() ? std::max<std::size_t>(1, claim.alternatives.size()) : 1);
  scheduler::Combinations combinations(std::move(counts));
  std::optional<PodSimulation> first;
  do {
    auto chosen = subject;
    for (std::size_t i = 0; i < chosen.claims.size(); ++i)
      if (auto& claim = chosen.claims[i]; claim.device.empty() && !claim.alternatives.empty())
        claim.choose(combinations.at()[i]);
    auto one = PlacingPod(stores, cluster, std::move(chosen), quotas, onlyNode, limits).run();
    if (one.fits) return one;
    if (!first) first = std::move(one);
  } while (combinations.next());
  return *std::move(first);
}

}  // namespace egpu::whatif

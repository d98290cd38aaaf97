// Pods that use claims: the first consumer chooses a node for all its claims together, and a gated pod is let go once
// they are carried.
//
// What keeps a gate, in the order of a step (what the pod hears of it: tell, tellConditions):
//   awaitEnd          the pod may not be scheduled: another controller's gate, a scheduler that is not served (schedulability.h)
//   claimsOf          a claim is not stamped from its template yet, isn't there, or is being deleted
//   leaveToScheduler  of a scheduler with our extender alone: a claim's class or plugin refuses (choiceOf)
//   gather            claims are on several nodes, and some can move
//   awaitTurn         a claim has no device, and of its many pods others choose its node (consumer_turns.h)
//   choose            a claim has no device: its class or plugin refuses (choiceOf); several choices came to nothing,
//                     and the next one waits; a quota is used up (overQuota); others make room first (noRoom); no node
//                     has room and suits (noFit); the API server refused the device (writeIntents). Of an Immediate
//                     class: its own step says why
//   letGo             a claim is Lost, its device Failed or going; areApart; allCarried: no allocation yet, or an
//                     Immediate claim is not Bound; the node does not suit the pod (unsuited)
//   removeGate        the API server refuses the patch: ApiRejections says so
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "api/v1alpha/pod_claims.h"
#include "controller/cache/cluster_view.h"
#include "controller/reconcile/claim/binder.h"
#include "controller/reconcile/claim/carrier.h"
#include "controller/reconcile/claim/claim.h"
#include "controller/reconcile/claim/conditions.h"
#include "controller/reconcile/claim/waiting.h"
#include "controller/reconcile/pod/bound_volumes.h"
#include "controller/reconcile/pod/demand.h"
#include "controller/reconcile/pod/node_choice.h"
#include "controller/reconcile/pod/schedulability.h"

namespace egpu::reconcile {

/// Message of a claim that could be decided, but for these claims (or this template) of its pod.
std::string waitText(const core::Pod& pod, const std::string& names);

/// Thread-safe, one thread per pod at a time. Its claims and what it is told: pod.cpp; its node: choose.cpp; claims that are apart:
/// gather.cpp; its gate: let_go.cpp.
class PodSync {
 public:
  PodSync(Writer& writer, cache::Stores& stores, cache::ClusterView& cluster, Binder& binder, ClaimSync& claims,
          Waiting& waiting, BoundVolumes& volumes, kube::EventSink& events,
          std::function<void(const std::string& queueKey)> enqueue)
      : writer_(writer),
        stores_(stores),
        cluster_(cluster),
        binder_(binder),
        claims_(claims),
        waiting_(waiting),
        volumes_(volumes),
        events_(events),
        enqueue_(std::move(enqueue)) {}

  Outcome step(const core::ObjectKey& key, std::stop_token stop);
  /// Pods of which something is remembered; for tests.
  std::size_t remembered() const;
  /// A claim's device by claimRef, or null.
  cache::Store<cache::Gpu>::Ptr deviceOf(const cache::Claim& claim) const { return claims_.deviceOf(claim); }
  /// What its claims ask of a node that another scheduler chooses; the pod as that one knows it.
  PodDemand demandOf(const core::Pod& pod);
  /// What is said of a template of the pod's without a ResourceClaim yet, unless it is known to be another driver's; else empty.
  std::string unstamped(const core::Pod& pod) const;
  /// Pods left a node or ask less of it: who was only short of that is enqueued.
  void freed(const std::string& node);

 private:
  using ClaimPtr = cache::Store<cache::Claim>::Ptr;
  using GpuPtr = cache::Store<cache::Gpu>::Ptr;
  using milliseconds = std::chrono::milliseconds;
  struct Used {
    ClaimPtr claim;
    GpuPtr device;  ///< null: none yet
  };
  struct Short {
    Age age;
    cache::PodRequests requests;
  };
  /// The claims that the pod names; nothing if one of them is missing or being deleted, which an event on the pod reports.
  /// lacks: that claim or template, unless it is about to be made.
  std::optional<std::vector<Used>> claimsOf(const core::Pod& pod, std::string* lacks, std::stop_token stop);
  /// The pod's claims that exist and are not being deleted.
  std::vector<Used> presentClaims(const core::Pod& pod) const;
  /// Nothing is decided for the pod before that obstacle has ended.
  Outcome awaitEnd(const core::Pod& pod, const PodObstacle& obstacle);
  Outcome decideFor(const core::Pod& pod, const std::vector<Used>& used, std::stop_token stop);
  void notShort(const core::ObjectKey& pod);
  Outcome choose(const core::Pod& pod, const std::vector<Used>& used, std::stop_token stop);
  /// Another scheduler chooses the node of its claims: nothing is chosen here, and no intent kept without a binding.
  Outcome leaveToScheduler(const core::Pod& pod, const std::vector<Used>& used, std::stop_token stop);
  /// All of the claim's pods are left so: another one's step says of it what keeps it, and the two would overwrite each
  /// other.
  bool leftAltogether(const cache::Claim& claim) const;
  /// One claim's part of demandOf().
  void addDemand(const core::Pod& pod, const core::ObjectKey& claim, PodDemand& demand);
  void addOpen(const cache::Claim& claim, const GpuPtr& device, PodDemand& demand);
  /// What the pod chooses for: its claims without a device, and what they ask for.
  struct Choice {
    std::vector<const Used*> open;
    std::vector<Asked> asked;
    std::vector<cache::ClusterView::Ask> asks;
    std::string node;  ///< if not empty, the only one: the pod or another claim of it is there
    std::string fixedBy;
    milliseconds wait{0};  ///< until the next choice
  };
  /// Nothing if there is nothing to choose now, and then what the step comes to.
  std::optional<Choice> choiceOf(const core::Pod& pod, const std::vector<Used>& used, Outcome* outcome);
  /// The first combination of their alternatives that fits, as scheduler::Combinations has them; if none does, the first one where
  /// the scheduler can make room for the pod. Nothing: why not, of the first one; `excess` only if quotas speak against all, `alone`
  /// of whichever alternative.
  struct Tried {
    scheduler::Together together;
    bool firstOverQuota = false;  ///< of the claims' alternatives the first: no node would help it
  };
  Tried decideFirst(const Choice& choice, NodeChoice& nodes);
  /// Perhaps, for what was tried in vain on all nodes.
  void keepNode(const Choice& choice, NodeChoice& nodes);
  /// What is asked where these alternatives are tried.
  static std::vector<cache::ClusterView::Ask> asksOf(const Choice& choice, const std::vector<std::size_t>& which);
  /// Where all of them go together as things are.
  scheduler::Together decide(std::vector<cache::ClusterView::Ask> asks, NodeChoice& nodes);
  /// Notes that the pod, and what it asks of a node, waits. False: it yields to others (WaitingForRoom::add).
  bool waitForRoom(const core::Pod& pod, const Choice& choice);
  /// (C6) Who has to make room for all that the pod chooses for, on one node. Nothing: nobody can, or may, for all of it.
  std::optional<Outcome> makeRoom(const core::Pod& pod, const Choice& choice, NodeChoice& nodes, std::stop_token stop);
  /// Nothing was decided: what the pod's own intents hold up is given up, or the claims say NoFit or QuotaExceeded.
  Outcome noRoom(const core::Pod& pod, const std::vector<Used>& used, const Choice& choice,
                 const scheduler::Together& together, NodeChoice& nodes, std::stop_token stop);
  /// A quota keeps some of the claims from being decided, and so all of them.
  Outcome overQuota(const core::Pod& pod, const std::vector<Used>& used, const Choice& choice,
                    const scheduler::QuotaExcess& excess);
  /// Nodes on which the API server refused one of the claims serve again, when nothing else does. Whether there were
  /// any.
  bool forgetRefusedNodes(const std::vector<cache::ClusterView::Ask>& asks);
  Outcome noFit(const core::Pod& pod, const std::vector<Used>& used, const Choice& choice,
                const std::vector<bool>& alone, NodeChoice& nodes);  // (C6)
  /// each: every claim fits by itself.
  static std::string whyNotTogether(const core::Pod& pod, const Choice& choice, bool each, NodeChoice& nodes);
  Outcome writeIntents(const core::Pod& pod, const Choice& choice, const std::vector<scheduler::Decision>& decisions,
                       std::stop_token stop);  // W1
  /// An intent that may be given up, and that is of no use where it is to another pod.
  bool movable(const core::Pod& pod, const Used& one) const;
  /// The first of the pod's claims whose node other pods choose for now (ConsumerTurns); null: there is none.
  const cache::Claim* chosenByOthers(const core::Pod& pod, const std::vector<Used>& used);
  /// The pod chooses no node before others have chosen for this claim, or before its turn.
  Outcome awaitTurn(const core::Pod& pod, const std::vector<Used>& used, const cache::Claim& claim);
  /// Reports for the pod's claims that could be decided, but for the pod's other claims.
  std::vector<Said> waitReports(const core::Pod& pod, const std::vector<Used>& used, const std::string& why);
  /// Adds a report for each of these claims that the pod reports on.
  void addWaitReports(const core::Pod& pod, const std::vector<const Used*>& open, const std::string& why,
                      std::vector<Said>& said) const;
  /// Whether this pod reports which of its other claims keeps the claim waiting. Of several pods the oldest one does,
  /// unless another one could choose and reports what keeps it: two texts would overwrite each other.
  bool reportsOn(const core::Pod& pod, const cache::Claim& claim) const;
  /// Why the claim is not decided is said for an older pod that waits for it too: two texts would overwrite each other.
  bool olderSays(const core::Pod& pod, const cache::Claim& claim) const;
  /// Its room is what another pod plans, which says so.
  bool plannedByAnother(const core::Pod& pod, const Choice& choice, const cache::Claim& claim) const;
  enum class Others { all, older };
  /// Another pod waits behind its gate for the same claim, its claims are there, and no more than so many of them have no device.
  bool anotherWaits(const core::Pod& pod, const cache::Claim& claim, Others which, std::size_t mostOpen) const;
  /// The pod's claims are on several nodes: those that may move leave theirs. Nothing if none can or need be moved.
  std::optional<Outcome> gather(const core::Pod& pod, const std::vector<Used>& used, std::stop_token stop);
  /// There is no room beside the pod's own intents, but there would be for all of its claims anew: the intents are
  /// given up. Nothing if that wouldn't help; anyShort is set if it might once other pods give something back.
  std::optional<Outcome> startOver(const core::Pod& pod, const std::vector<Used>& used, const Choice& choice,
                                   bool* anyShort, std::stop_token stop);
  Outcome regroup(const std::vector<const Used*>& moving, const std::string& why, std::stop_token stop);
  /// Says so if the pod's claims are on several nodes, and then what the step comes to.
  static std::optional<Outcome> areApart(const core::Pod& pod, const std::vector<Used>& used);
  static std::vector<Said> notCarried(const std::vector<Used>& used, const std::string& message);
  /// Every claim's ResourceClaim is allocated on its device.
  bool allCarried(const core::Pod& pod, const std::vector<Used>& used);
  /// The write itself; nothing: it is done.
  std::optional<Outcome> removeGate(const core::Pod& pod, const std::string& body, std::stop_token stop);
  /// What a choice for a binding comes to is told to who waits for it.
  Outcome toldToBinder(const core::Pod& pod, Outcome outcome);
  Outcome liftGate(const core::Pod& pod, const std::vector<Used>& used, bool anyBound, std::stop_token stop);
  Outcome letGo(const core::Pod& pod, const std::vector<Used>& used, std::stop_token stop);  // W9
  /// The pod may not be let go to its claims' node.
  static Outcome unsuited(const core::Pod& pod, const std::vector<Used>& used, bool anyBound, const std::string& why);
  bool suitsAnotherPod(const core::Pod& pod, const std::vector<Used>& used, const core::Node& node) const;
  /// The pod counts on the node of its claims' devices, or, if there is none, nowhere.
  void plan(const core::Pod& pod, const std::vector<Used>& used);
  /// An event on a pod without a node, once per claim and reason: who looks at the pod must see what it waits for.
  void tell(const core::Pod& pod, const std::string& claim, std::string_view why, const std::string& message);
  /// The same of what else it waits for.
  void tellOf(const core::Pod& pod, const std::string& of, std::string_view why, const std::string& message);
  /// Such an event with a reason of its own. of, why: what was told before under the same words is not told again.
  void tellOnce(const core::Pod& pod, const std::string& of, std::string_view why, std::string_view event,
                const std::string& message);
  /// Why Kubernetes has not stamped a ResourceClaim for it from that template. False: no reason is known.
  bool tellUnstamped(const core::Pod& pod, const std::string& name, std::stop_token stop);
  /// Why there is no ElasticGPUClaim. carrier: the ResourceClaim of that name, or null. False: no reason is known.
  bool tellMissing(const core::Pod& pod, const v1alpha::PodClaim& entry, const core::ResourceClaim* carrier);
  /// news: what this step says on its claims.
  void tellConditions(const core::Pod& pod, const std::vector<Used>& used, const std::vector<Said>& news);

  Writer& writer_;
  cache::Stores& stores_;
  cache::ClusterView& cluster_;
  Binder& binder_;
  ClaimSync& claims_;
  Waiting& waiting_;
  BoundVolumes& volumes_;
  kube::EventSink& events_;
  const std::function<void(const std::string& queueKey)> enqueue_;
  mutable std::mutex mutex_;
  std::map<core::ObjectKey, std::string> told_;  ///< what each pod was told last; guarded by mutex_
  /// Pods that found nodes too short of CPU, memory or pods, and what they ask for; guarded by mutex_.
  std::map<core::ObjectKey, Short> short_;
};

}  // namespace egpu::reconcile

// GangSync: the step of one member. gang_choice.cpp chooses the members, gang_members.cpp remembers the choice.
#include <algorithm>
#include <map>

#include "api/v1alpha/gang.h"
#include "api/v1alpha/keys.h"
#include "controller/reconcile/claim/claim_state.h"
#include "controller/reconcile/class/class_access.h"
#include "controller/reconcile/gang/gang_choice.h"
#include "controller/reconcile/gang/gang_pods.h"
#include "controller/reconcile/gang/gang_sync.h"
#include "controller/reconcile/gang/membership.h"
#include "controller/reconcile/pod/schedulability.h"
#include "controller/reconcile/queue_key.h"

namespace egpu::reconcile {

namespace keys = v1alpha::keys;
namespace reason = v1alpha::keys::reason;

Outcome GangSync::reconcileMember(const ClaimPtr& claim, const ResolvedClaim& asked, std::stop_token stop) {
  const auto mistake = v1alpha::gangMistake(claim->metadata.annotations);
  const auto apart = decidedByItself(*claim, takesDevice(context_.stores, *claim));
  if (mistake || !apart.empty()) {
    context_.cluster.releaseReservation(claim->metadata.uid);
    return Outcome::done().reports(
        ConditionUpdate::of(claim->metadata, ConditionUpdate::As::notAccepted, reason::kInvalidParameter,
                            mistake ? mistake->field + ": " + mistake->message
                                    : "metadata.annotations[" + std::string(keys::kGangAnnotation) + "]: " + apart));
  }
  if (const auto decided = context_.cluster.decidedInGang(claim->metadata.uid))
    return parts_.intents.write(*claim, *asked.cls, *decided, stop);
  const auto found = gangOf(context_.stores, *claim);
  if (!found) {
    context_.cluster.releaseReservation(claim->metadata.uid);
    return Outcome::after(context_.timeouts.podGroupInterval)
        .reports(notBound(
            *claim, reason::kWaitingForGang,
            "there is no PodGroup " + std::string(claim->metadata.annotation(keys::kGangPodGroupAnnotation)) + " yet"));
  }
  const auto id = gangIdOf(claim->metadata.namespace_, *found);
  const auto roster = context_.waiting.rosters.of(id);
  const bool further = roster && roster->furtherUids.contains(claim->metadata.uid);
  if (further) return reconcileFurtherPod(claim, *found, *roster, stop);
  if (!roster || !roster->excludes(claim->metadata.uid)) context_.enqueue(gangKey(id));
  return roster ? reportMember(*claim, *found, *roster) : Outcome::done();  // the gang's first step requeues it
}

Outcome GangSync::reconcileFurtherPod(const ClaimPtr& claim, const v1alpha::Gang& gang, const GangRoster& roster,
                                      std::stop_token stop) {
  const auto members = roster.bound ? gangs_.openOf(*claim, gang) : GangMembers();
  if (!roster.bound || !members.lacks.empty()) {
    context_.cluster.releaseReservation(claim->metadata.uid);
    if (roster.bound)
      return Outcome::after(context_.timeouts.gangRecheckInterval)
          .reports(std::move(waitsForGang(*claim, members.lacks).updates));
    return waitsForGang(*claim,
                        "the first " + std::to_string(gang.size) + " pods of " + gang.text() + " are placed before it");
  }
  if (members.open.empty()) return Outcome::after(context_.timeouts.shortRecheckInterval);  // decided meanwhile
  const auto& first = *members.open.front();
  const auto queueKey = claimKey(core::keyOf(first.metadata));
  if (first.metadata.uid == claim->metadata.uid) return decide(*claim, members, queueKey, stop);
  context_.enqueue(queueKey);
  if (claim->status.nominated && first.status.nominated) return Outcome::done();
  return waitsForGang(*claim, "see claim " + first.metadata.name + " for what " + gang.text() + " waits for");
}

std::optional<Outcome> GangSync::resolveMembers(const cache::Claim& claim, const GangMembers& members, GangPods& pods,
                                                GangAsks& asks, std::stop_token stop) {
  for (const auto& each : members.open) {
    const auto because = [&](const std::string& why) {
      const bool itself = each->metadata.uid == claim.metadata.uid;  // the step of that claim reports the reason
      return itself ? Outcome::done()
                    : waitsForGang(claim, members.gang.text() + ": claim " + each->metadata.name + ": " + why);
    };
    if (auto refusal = context_.waiting.provisioners.refusal(each->metadata.uid); !refusal.empty()) {
      auto outcome = because(refusal);
      outcome.kind = Outcome::Kind::after;
      outcome.delay = context_.waiting.provisioners.untilRefusalEnds(each->metadata.uid);
      return outcome;
    }
    const auto asked = parts_.resolver.resolve(*each);
    if (asked.later) return Outcome::after(context_.timeouts.busyPluginInterval);
    if (!asked.ok()) return because(asked.message);
    if (const auto apart = decidedByItself(*each, takesDevice(context_.stores, *each)); !apart.empty())
      return because(apart);
    asks.asks.push_back(asked.of(*each));
    asks.preempt = asks.preempt && asked.preempts;
    std::optional<scheduler::NodePredicate> tolerated;
    if (!isPlacedWithPod(context_.stores, *each, *asked.cls)) tolerated = toleratedNodes(context_.stores, *asked.cls);
    const auto lacks = pods.add(each, tolerated, stop);
    if (!lacks.ok()) return Outcome::retry(lacks.status());
    if (!lacks->empty())
      return Outcome::after(context_.timeouts.gangRecheckInterval)
          .reports(std::move(waitsForGang(claim, members.gang.text() + ": " + *lacks).updates));
  }
  return std::nullopt;
}

Outcome GangSync::decide(const cache::Claim& claim, const GangMembers& members, const std::string& queueKey,
                         std::stop_token stop) {
  const auto& gang = members.gang;
  GangAsks gathered;
  const auto pods = std::make_shared<GangPods>(context_.stores, context_.volumes, context_.waiting.nodes);
  if (auto outcome = resolveMembers(claim, members, *pods, gathered, stop)) {
    if (!outcome->updates.empty() || outcome->isDone())  // the gang is not decided as a whole now
      for (const auto& each : members.open) context_.cluster.releaseReservation(each->metadata.uid);
    return *std::move(outcome);
  }
  auto& asks = gathered.asks;
  useGroupOrder(asks);
  const auto admission = context_.waiting.unschedulable.add(queueKey, ageOf(claim.metadata),
                                                            asks.front().order.priority, {{asks.front()}});
  if (!admission.isGranted) return Outcome::after(context_.timeouts.queueYieldTimeout);
  for (auto& ask : asks) ask.order.releases = admission.releases;
  std::shared_ptr<const std::vector<scheduler::TopologyGroup>> within;
  if (!gang.topology.empty())
    within = std::make_shared<const std::vector<scheduler::TopologyGroup>>(
        topologyGroups(context_.stores, gang.topology, members.standsOn));
  auto places = pods->places();
  const auto decided = context_.cluster.decideGang(asks, places, within.get());
  using DecisionResult = UnschedulableQueue::DecisionResult;
  const auto found = !decided           ? DecisionResult::unknown
                     : decided->lacking ? DecisionResult::nothing
                                        : DecisionResult::capacity;
  if (context_.waiting.unschedulable.decided(queueKey, found)) context_.enqueue(capacityKey());
  if (!decided)
    return Outcome::after(context_.timeouts.shortRecheckInterval);  // a member has got a decision or a device meanwhile
  if (decided->lacking) {
    const auto& excess = decided->lacking->excess;
    const bool preempts = gathered.preempt && !members.memberLeaves && (!excess || excess->releasesMayHelp());
    if (preempts)
      if (auto making = parts_.preemptor.nominateVictimsForGroup(
              gang.text(), queueKey, {members.open, asks, std::move(places), within.get()}, stop))
        return *std::move(making);
    return reportUnschedulable(claim, queueKey, {members, asks, pods, within, preempts}, *decided->lacking);
  }
  if (!pods->promise(decided->decisions)) {  // another pod has taken the capacity meanwhile
    for (const auto& ask : asks) context_.cluster.forget(ask.claimUid);
    return Outcome::requeueNow();
  }
  context_.waiting.remove(queueKey);
  for (const auto& each : members.open) context_.enqueue(claimKey(core::keyOf(each->metadata)));
  return Outcome::done();
}

Explainer::Explain GangSync::explanationOf(const GangTry& tried) const {
  return [&queries = context_.cluster.queries(), asks = tried.asks, pods = tried.pods,
          within = tried.within]() -> Explainer::Text {
    const auto explanation = queries.explainGang(
        asks, pods->places(), within.get(),
        [&pods](std::size_t member, std::string_view node) { return pods->whyUnsuited(member, node); });
    if (explanation.stages.empty()) return {};
    // The pod's other claims take the capacity: the claim fits by itself.
    return {explanation.stages.back().after > 0 ? "no node has capacity for all claims of its pod" : explanation.text(),
            explanation.nodes()};
  };
}

Outcome GangSync::reportUnschedulable(const cache::Claim& claim, const std::string& queueKey, const GangTry& tried,
                                      const scheduler::GangShort& lacking) {
  const auto& [members, asks, pods, within, preempts] = tried;
  const auto& gang = members.gang;
  const auto all = members.here.size() + members.others;
  const auto standing = all - members.open.size();
  const auto& name = members.open[lacking.member]->metadata.name;
  auto why = std::to_string(standing + lacking.fit) + " of " + std::to_string(gang.podGroup ? all : gang.size) +
             " members of " + gang.text() + " fit" +
             (lacking.group.empty() ? "" : " in " + gang.topology + " " + lacking.group) + "; claim " + name +
             " does not";
  if (lacking.excess) {
    // The excess counts the open members that were placed before this one.
    const auto counts = lacking.fit + 1 == members.open.size() ? GroupUsage::all : GroupUsage::some;
    auto over = parts_.report.overQuota(claim, *lacking.excess, why + ": ", counts);
    // Cards that the quota does not count may be on nodes that are short of CPU or memory: requeue as below.
    return pods->anyShort() ? Outcome::after(context_.timeouts.gangRecheckInterval).reports(std::move(over.updates))
                            : over;
  }
  if (!gang.topology.empty() && lacking.group.empty()) why += ": no node has label " + gang.topology;
  std::string rest;
  if (const auto unsuited = pods->text(lacking.member); !unsuited.empty()) rest += "; " + unsuited;
  const auto vain = preempts
                        ? parts_.preemptor.preemption().noVictimsMessage(claim.metadata.uid, gang.text(), "members")
                        : std::string();
  if (!vain.empty()) rest += "; " + vain;
  const auto delay = preempts ? parts_.preemptor.awaitSearch(claim, queueKey) : std::chrono::milliseconds(0);
  // A release of CPU or memory requeues no claim.
  const auto next = pods->anyShort() && (delay.count() == 0 || delay > context_.timeouts.gangRecheckInterval)
                        ? context_.timeouts.gangRecheckInterval
                        : delay;
  const auto explained = context_.waiting.explainer.take(claim.metadata.uid);
  if (!explained) {
    // Every release changes the count and the explanation, so they are written at intervals only.
    const auto* reported = findCondition(claim.status.conditions, kBound);
    const bool same = reported != nullptr && reported->reason == reason::kNoFit && reported->message.ends_with(rest) &&
                      reported->message.find("members of " + gang.text() + " fit") != std::string::npos;
    if (!context_.waiting.unschedulable.mayExplain(claim.metadata.uid) && same)
      return Outcome::after(next.count() > 0 ? next : context_.timeouts.explainInterval);
    context_.waiting.explainer.request(claim.metadata.uid, queueKey, explanationOf(tried));
    context_.enqueue(explainKey());
    return next.count() > 0 ? Outcome::after(next) : Outcome::done();
  }
  if (!explained->empty()) why += ": " + *explained;
  why += rest;
  return (next.count() > 0 ? Outcome::after(next) : Outcome::done())
      .reports(notBound(claim, reason::kNoFit, std::move(why)));
}

}  // namespace egpu::reconcile

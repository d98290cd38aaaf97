// (C14) A member of a gang. No member gets cards while one is missing. Then the gang's step decides for all members,
// and each member's step writes its own intent. gang_members.cpp chooses the members.
#include <algorithm>
#include <map>

#include "api/v1alpha/gang.h"
#include "api/v1alpha/keys.h"
#include "controller/reconcile/claim/claim.h"
#include "controller/reconcile/class/class_access.h"
#include "controller/reconcile/gang/gang_choice.h"
#include "controller/reconcile/gang/gang_pods.h"
#include "controller/reconcile/gang/membership.h"
#include "controller/reconcile/queue_key.h"

namespace egpu::reconcile {

namespace keys = v1alpha::keys;
namespace reason = v1alpha::keys::reason;

namespace {

/// Time for which a member keeps its cards while other members have none.
constexpr std::chrono::milliseconds kGangTimeout{60'000};
/// Time after which a member reports that it waits; also its requeue delay.
constexpr std::chrono::milliseconds kGangSays{5'000};
/// Requeue delay for a missing PodGroup: if the API server loses the kind, there is no event.
constexpr std::chrono::milliseconds kGroupComes{60'000};
/// Requeue delay for an obstacle that ends by itself, perhaps without an event.
constexpr std::chrono::milliseconds kRequeueSoon{500};

}  // namespace

bool ClaimSync::inGang(const cache::Claim& claim) const { return reconcile::inGang(stores_, claim); }

Outcome ClaimSync::withGang(const ClaimPtr& claim, const ResolvedClaim& asked, std::stop_token stop) {
  const auto mistake = v1alpha::gangMistake(claim->metadata.annotations);
  const auto apart = decidedByItself(*claim, takesDevice(*claim));
  if (mistake || !apart.empty()) {
    cluster_.releaseReservation(claim->metadata.uid);
    return Outcome::done().reports(
        ConditionUpdate::of(claim->metadata, ConditionUpdate::As::notAccepted, reason::kInvalidParameter,
                            mistake ? mistake->field + ": " + mistake->message
                                    : "metadata.annotations[" + std::string(keys::kGangAnnotation) + "]: " + apart));
  }
  if (const auto decided = cluster_.decidedInGang(claim->metadata.uid))
    return writeIntent(*claim, *asked.cls, *decided, stop);
  const auto found = gangOf(stores_, *claim);
  if (!found) {
    cluster_.releaseReservation(claim->metadata.uid);
    return Outcome::after(kGroupComes)
        .reports(notBound(
            *claim, reason::kWaitingForGang,
            "there is no PodGroup " + std::string(claim->metadata.annotation(keys::kGangPodGroupAnnotation)) + " yet"));
  }
  const auto id = gangIdOf(claim->metadata.namespace_, *found);
  const auto roster = waiting_.rosters.of(id);
  const bool further = roster && roster->furtherUids.contains(claim->metadata.uid);
  if (further) return withFurtherPod(claim, *found, *roster, stop);
  if (!roster || !roster->excludes(claim->metadata.uid)) enqueue_(gangKey(id));
  return roster ? tellMember(*claim, *found, *roster) : Outcome::done();  // the gang's first step requeues it
}

Outcome ClaimSync::withFurtherPod(const ClaimPtr& claim, const v1alpha::Gang& gang, const GangRoster& roster,
                                  std::stop_token stop) {
  const auto members = roster.bound ? openOf(*claim, gang) : GangMembers();
  if (!roster.bound || !members.lacks.empty()) {
    cluster_.releaseReservation(claim->metadata.uid);
    if (roster.bound) return Outcome::after(kGangSays).reports(std::move(waitsForGang(*claim, members.lacks).updates));
    return waitsForGang(*claim,
                        "the first " + std::to_string(gang.size) + " pods of " + gang.text() + " are placed before it");
  }
  if (members.open.empty()) return Outcome::after(kRequeueSoon);  // decided meanwhile
  const auto& first = *members.open.front();
  const auto queueKey = claimKey(core::keyOf(first.metadata));
  if (first.metadata.uid == claim->metadata.uid) return decideGang(*claim, members, queueKey, stop);
  enqueue_(queueKey);
  if (claim->status.nominated && first.status.nominated) return Outcome::done();
  return waitsForGang(*claim, "see claim " + first.metadata.name + " for what " + gang.text() + " waits for");
}

std::optional<Outcome> ClaimSync::askGang(const cache::Claim& claim, const GangMembers& members, GangPods& pods,
                                          GangAsks& asks, std::stop_token stop) {
  for (const auto& each : members.open) {
    const auto because = [&](const std::string& why) {
      const bool itself = each->metadata.uid == claim.metadata.uid;  // its own step reports it
      return itself ? Outcome::done()
                    : waitsForGang(claim, members.gang.text() + ": claim " + each->metadata.name + ": " + why);
    };
    if (auto refusal = waiting_.provisioners.refusal(each->metadata.uid); !refusal.empty()) {
      auto outcome = because(refusal);
      outcome.kind = Outcome::Kind::after;
      outcome.delay = waiting_.provisioners.untilRefusalEnds(each->metadata.uid);
      return outcome;
    }
    const auto asked = ask(*each);
    if (asked.later) return Outcome::after(kPluginBusy);
    if (!asked.ok()) return because(asked.message);
    if (const auto apart = decidedByItself(*each, takesDevice(*each)); !apart.empty()) return because(apart);
    asks.asks.push_back(asked.of(*each));
    asks.preempt = asks.preempt && asked.preempts;
    std::optional<scheduler::NodePredicate> tolerated;
    if (!isPlacedWithPod(stores_, *each, *asked.cls)) tolerated = toleratedNodes(stores_, *asked.cls);
    const auto lacks = pods.add(each, tolerated, stop);
    if (!lacks.ok()) return Outcome::retry(lacks.status());
    if (!lacks->empty())
      return Outcome::after(kGangSays).reports(
          std::move(waitsForGang(claim, members.gang.text() + ": " + *lacks).updates));
  }
  return std::nullopt;
}

Outcome ClaimSync::decideGang(const cache::Claim& claim, const GangMembers& members, const std::string& queueKey,
                              std::stop_token stop) {
  const auto& gang = members.gang;
  GangAsks gathered;
  GangPods pods(stores_, volumes_, waiting_.nodes);
  if (auto outcome = askGang(claim, members, pods, gathered, stop)) {
    if (!outcome->updates.empty() || outcome->isDone())  // the gang is not decided as a whole now
      for (const auto& each : members.open) cluster_.releaseReservation(each->metadata.uid);
    return *std::move(outcome);
  }
  auto& asks = gathered.asks;
  useGroupOrder(asks);
  const bool mayLook = waiting_.room.add(queueKey, ageOf(claim.metadata), asks.front().turn.priority, {{asks.front()}});
  if (!mayLook) return Outcome::after(UnschedulableQueue::kYieldTimeout);
  const auto groups = gang.topology.empty() ? std::vector<scheduler::TopologyGroup>()
                                            : topologyGroups(stores_, gang.topology, members.standsOn);
  const auto* within = gang.topology.empty() ? nullptr : &groups;
  auto places = pods.places();
  const auto decided = cluster_.decideGang(asks, places, within);
  using Found = UnschedulableQueue::Found;
  const auto found = !decided ? Found::unknown : decided->lacking ? Found::nothing : Found::room;
  if (waiting_.room.decided(queueKey, found)) enqueue_(roomKey());
  if (!decided) return Outcome::after(kRequeueSoon);  // a member has got a decision or a device meanwhile
  if (decided->lacking) {
    const auto& excess = decided->lacking->excess;
    const bool preempts = gathered.preempt && !members.oneLeaves && (!excess || excess->releasesMayHelp());
    if (preempts)
      if (auto making =
              nominateVictimsForGroup(gang.text(), queueKey, {members.open, asks, std::move(places), within}, stop))
        return *std::move(making);
    return reportGangUnschedulable(claim, queueKey, {members, asks, pods, within, preempts}, *decided->lacking);
  }
  if (!pods.promise(decided->decisions)) {  // another pod was promised the capacity meanwhile
    for (const auto& ask : asks) cluster_.forget(ask.claimUid);
    return Outcome::requeueNow();
  }
  waiting_.remove(queueKey);
  for (const auto& each : members.open) enqueue_(claimKey(core::keyOf(each->metadata)));
  return Outcome::done();
}

std::string ClaimSync::whyGangLacks(const GangTry& tried) {
  auto places = tried.pods.places();
  const auto explanation = cluster_.queries().explainGang(
      tried.asks, places, tried.within,
      [&tried](std::size_t member, std::string_view node) { return tried.pods.whyUnsuited(member, node); });
  if (explanation.stages.empty()) return {};
  // The pod's other claims take the capacity: the claim fits by itself.
  return explanation.stages.back().after > 0 ? "no node has capacity for all claims of its pod" : explanation.text();
}

Outcome ClaimSync::reportGangUnschedulable(const cache::Claim& claim, const std::string& queueKey, const GangTry& tried,
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
    auto over = overQuota(claim, *lacking.excess, why + ": ", counts);
    // Cards that the quota does not count may be on nodes that are short of CPU or memory: requeue as below.
    return pods.anyShort() ? Outcome::after(kGangSays).reports(std::move(over.updates)) : over;
  }
  if (!gang.topology.empty() && lacking.group.empty()) why += ": no node has label " + gang.topology;
  std::string rest;
  if (const auto unsuited = pods.text(lacking.member); !unsuited.empty()) rest += "; " + unsuited;
  const auto vain = preempts ? preemption_.noVictimsMessage(claim.metadata.uid, gang.text(), "members") : std::string();
  if (!vain.empty()) rest += "; " + vain;
  // Every release changes the count and the explanation, so they are written at intervals only.
  const auto* told = findCondition(claim.status.conditions, kBound);
  const bool same = told != nullptr && told->reason == reason::kNoFit && told->message.ends_with(rest) &&
                    told->message.find("members of " + gang.text() + " fit") != std::string::npos;
  const bool stands = !waiting_.room.mayExplain(claim.metadata.uid) && same;
  if (const auto text = stands ? std::string() : whyGangLacks(tried); !text.empty()) why += ": " + text;
  why += rest;
  const auto turn = preempts ? awaitPlan(claim, queueKey) : std::chrono::milliseconds(0);
  auto update = notBound(claim, reason::kNoFit, std::move(why));
  // A release of CPU or memory is no event of a claim.
  const auto next = pods.anyShort() && (turn.count() == 0 || turn > kGangSays) ? kGangSays : turn;
  if (stands) return Outcome::after(next.count() > 0 ? next : UnschedulableQueue::kExplainInterval);
  return (next.count() > 0 ? Outcome::after(next) : Outcome::done()).reports(std::move(update));
}

bool ClaimSync::hasItsCards(const cache::Claim& claim) const {
  const auto device = deviceOf(claim);
  if (device && device->status.phase == keys::phase::kBound) return true;  // even if it is being deleted (held)
  if (!device || device->metadata.deleting()) return false;
  const auto& cards = device->spec.cards;
  return committed(*device) || std::all_of(cards.begin(), cards.end(), [&](const auto& share) {
           const auto card = stores_.cards.get({"", share.name});
           return card && card->spec.allocations.contains(device->metadata.uid);
         });
}

ClaimSync::GangCards ClaimSync::knownCardsOf(const cache::Claim& claim, const core::ObjectKey& gang) const {
  const auto roster = waiting_.rosters.of(gang);
  if (!roster || !roster->full || !roster->lacks.empty() || !roster->uids.contains(claim.metadata.uid)) return {};
  if (roster->hasCards) return {true};  // a member that loses its cards requeues the gang's step
  for (auto i = waiting_.rosters.firstWithoutCards(gang); i < roster->members.size(); ++i) {
    auto member = stores_.claims.get(roster->members[i].claim);
    if (!member || member->metadata.uid != roster->members[i].uid || member->metadata.deleting()) return {};
    if (hasItsCards(*member)) continue;
    waiting_.rosters.noteWithoutCards(gang, i);
    return {false, std::move(member)};
  }
  return {};
}

ClaimSync::GangCards ClaimSync::cardsOf(const GangMembers& members, const core::ObjectKey& gang,
                                        const GangRosters::Ptr& roster) const {
  const auto& here = members.here;
  const auto lacks =
      std::find_if_not(here.begin(), here.end(), [this](const auto& each) { return hasItsCards(*each); });
  if (lacks != here.end()) {
    waiting_.rosters.noteWithoutCards(gang, static_cast<std::size_t>(lacks - here.begin()));
    return {false, *lacks};
  }
  const bool asChosen = roster && roster->full && here.size() == roster->members.size() &&
                        std::all_of(here.begin(), here.end(),
                                    [&](const auto& each) { return roster->uids.contains(each->metadata.uid); });
  if (!members.missing && asChosen) waiting_.rosters.noteCards(gang, roster);
  return {!members.missing};
}

std::optional<Outcome> ClaimSync::awaitGang(const cache::Claim& claim, const cache::Gpu& device, std::stop_token stop) {
  const auto gang = inGang(claim) ? gangOf(stores_, claim) : std::nullopt;
  if (!gang || isStatic(claim)) return std::nullopt;
  const auto& uid = claim.metadata.uid;
  const auto id = gangIdOf(claim.metadata.namespace_, *gang);
  auto cards = knownCardsOf(claim, id);
  if (!cards.all && !cards.lacks) {
    const auto roster = waiting_.rosters.of(id);
    const auto found = membersOf(claim, *gang);
    if (!gang->podGroup && found.full && !found.has(claim))  // two leaders chose different members
      return rollBack(claim, device, {}, stop).reports(notBound(claim, reason::kWaitingForGang, found.lacks));
    cards = cardsOf(found, id, roster);
    for (const auto& member : found.here)  // the earlier members wait for this one
      if (cards.all && member->metadata.uid != uid &&
          waiting_.gangs.over(GangDeadlines::What::cards, member->metadata.uid))
        enqueue_(claimKey(core::keyOf(member->metadata)));
  }
  if (cards.all) {
    waiting_.gangs.over(GangDeadlines::What::cards, uid);
    return std::nullopt;
  }
  const auto why = cards.lacks ? "claim " + cards.lacks->metadata.name + " of " + gang->text() + " has no cards yet"
                               : "a member of " + gang->text() + " is gone";
  const auto waited = waiting_.gangs.since(GangDeadlines::What::cards, uid, device.metadata.uid);
  if (waited >= kGangTimeout) {
    waiting_.gangs.over(GangDeadlines::What::cards, uid);
    return rollBack(claim, device, {}, stop)
        .reports(notBound(claim, reason::kWaitingForGang, why + ": its own cards are released"));
  }
  auto outcome = Outcome::after(kGangSays);
  return waited < kGangSays ? std::move(outcome)
                            : std::move(outcome).reports(notBound(claim, reason::kWaitingForGang, why));
}

}  // namespace egpu::reconcile

// (C6), (C14) Preemption for claims that are of use only together: a gang's open members, or the open claims of a pod.
// V1 is a nomination of each claim, for all or for none. claim/victim.cpp does the rest, with the same checks for
// all claims as for one.
#include <algorithm>

#include "api/v1alpha/keys.h"
#include "controller/reconcile/claim/claim.h"
#include "controller/reconcile/queue_key.h"

namespace egpu::reconcile {

namespace reason = v1alpha::keys::reason;

namespace {
constexpr std::size_t kNominationsAtOnce = 32;  ///< written by one step
}  // namespace

void ClaimSync::useGroupOrder(std::vector<cache::ClusterView::SchedulingRequest>& asks) {
  auto turn = asks.front().turn;
  for (const auto& ask : asks) {
    turn.priority = std::min(turn.priority, ask.turn.priority);
    turn.since = std::min(turn.since, ask.turn.since);
  }
  for (auto& ask : asks) {
    ask.turn.priority = turn.priority;
    ask.turn.since = turn.since;
  }
}

std::optional<Outcome> ClaimSync::nominateVictimsForGroup(const std::string& what, const std::string& queueKey,
                                                          AskedTogether asked, std::stop_token stop) {
  if (const auto rest = restsFromPlans(*asked.claims.front(), queueKey))
    return rest->count() > 0 ? std::optional(Outcome::after(*rest)) : std::nullopt;
  const auto planning = preemption_.tryLockPlanning(asked.claims.front()->metadata.uid);
  if (!planning) return Outcome::after(Preemption::kOthersPlan);
  for (const auto& each : asked.claims)
    if (preemption_.turns().done(each->metadata.uid)) context_.enqueue(plansKey());
  for (auto& each : asked.claims) {
    auto current =
        context_.stores.claims.get(core::keyOf(each->metadata));  // with the nomination that the last plan wrote
    if (!current || current->metadata.uid != each->metadata.uid || current->metadata.deleting())
      return Outcome::requeueNow();
    each = std::move(current);
  }
  useGroupOrder(asked.asks);
  auto [rooms, begin] = preemption_.unwritten(asked);
  const bool isNew = rooms.empty();
  if (isNew) rooms = preemption_.planForGroup(asked, stop);
  if (rooms.empty()) return std::nullopt;
  if (std::all_of(rooms.begin(), rooms.end(), [](const auto& room) { return room.victims.empty(); }))
    return Outcome::after(Preemption::kOthersPlan);  // the last victim was released just now
  // V1: first the speaker's nomination, as the others keep theirs only while it has one. No victim is evicted before
  // all are written. The step that searches a large plan writes the first one alone, so that no step occupies its
  // worker for long.
  const std::size_t most = isNew && rooms.size() > kNominationsAtOnce ? 1 : kNominationsAtOnce;
  for (std::size_t i = begin; i < rooms.size(); ++i) {
    if (i == begin + most) {
      preemption_.leaveUnwritten(asked, std::move(rooms), i);
      return Outcome::requeueNow();
    }
    const auto& each = *asked.claims[i];
    auto update = notBound(each, reason::kPreempting,
                           i == 0 ? what + " " + preemption_.text(rooms, each.metadata.namespace_)
                                  : "capacity on node " + rooms[i].nodeName + " is reserved for it; claim " +
                                        asked.claims.front()->metadata.name + " lists the victims for " + what);
    update.nominated = rooms[i];
    const auto written = context_.status.say({std::move(update)}, stop);
    if (!written.ok()) return Outcome::nextState(written);
  }
  preemption_.shared().forget(SharedPlans::keyOf(*asked.claims.front()));
  for (const auto& room : rooms)  // steps that checked before the last write found no need
    for (const auto& name : room.victims)
      if (const auto device = context_.stores.devices.get({"", name}); device && device->spec.claimRef)
        context_.enqueue(claimKey({device->spec.claimRef->namespace_, device->spec.claimRef->name}));
  return Outcome::after(Preemption::kHeldUpFor);
}

}  // namespace egpu::reconcile

#include "controller/journal/replay.h"

#include <algorithm>
#include <string_view>

#include "controller/journal/records.h"

namespace egpu::journal {

namespace {

using codec::JournalDecision;
using codec::JournalRecord;
using scheduler::Decision;
using scheduler::Request;
using scheduler::Together;

constexpr std::size_t kMaxUnschedulable = 64;  ///< maximum number of unschedulable groups that one retry() remembers
constexpr std::string_view kAssumed = "claim/";

std::string ownKey(const std::string& uid) { return "replay/" + uid; }

bool contains(const std::vector<std::string>& sorted, std::string_view name) {
  return std::binary_search(sorted.begin(), sorted.end(), name);
}

bool asked(const JournalDecision& d) { return d.onlySuited || !d.suited.empty() || !d.refused.empty(); }

scheduler::NodePredicate suitsFor(const JournalDecision& decision) {
  if (!asked(decision)) return {};
  return [&decision](std::string_view node) {
    return decision.onlySuited ? contains(decision.suited, node) : !contains(decision.refused, node);
  };
}

bool fitted(const JournalDecision& d) {
  return std::all_of(d.asks.begin(), d.asks.end(), [](const auto& ask) { return !ask.node.empty(); });
}

/// True if the claims may have had to wait because of a quota or of capacity held for other claims. With another policy
/// they wait, too, until they are decided again.
bool heldBack(const JournalDecision& d) { return d.given && !fitted(d); }

bool same(const codec::JournalAsk& ask, const Decision& decision) {
  if (ask.node != decision.node || ask.cards.size() != decision.placements.size()) return false;
  for (std::size_t i = 0; i < ask.cards.size(); ++i)
    if (ask.cards[i].card != decision.placements[i].card || !(ask.cards[i].charged == decision.placements[i].charged))
      return false;
  return true;
}

bool same(const JournalDecision& decision, const Together& together) {
  if (together.decisions.empty() || !fitted(decision)) return together.decisions.empty() && !fitted(decision);
  for (std::size_t i = 0; i < decision.asks.size(); ++i)
    if (!same(decision.asks[i], together.decisions[i])) return false;
  return true;
}

std::string textOf(const JournalDecision& decision, const Together& together) {
  const auto& ask = decision.asks.front();
  const auto where = [](const std::string& node, const std::string& card) {
    return node.empty() ? std::string("nowhere") : "on " + node + " from " + card;
  };
  const Decision none;
  const auto& now = together.decisions.empty() ? none : together.decisions.front();
  return ask.claim + " was placed " + where(ask.node, ask.cards.empty() ? "" : ask.cards.front().card) +
         ", and is placed " + where(now.node, now.placements.empty() ? "" : now.placements.front().card) + " now";
}

}  // namespace

template <class F>
void Replay::onCard(const std::string& card, F f) {
  const auto count = [&](int64_t sign) {
    const auto view = cluster_.findCard(card);
    capacity_.core += sign * view.capacity.core;
    capacity_.memory += sign * view.capacity.memory;
    used_.core += sign * view.used.core;
    used_.memory += sign * view.used.memory;
  };
  count(-1);
  f();
  count(1);
}

Request Replay::under(Request request) const {
  if (!policies_) return request;
  request.nodePolicy = policies_->node;
  request.cardPolicy = policies_->card;
  return request;
}

double Replay::share(int64_t used, int64_t capacity) const {
  return capacity > 0 ? static_cast<double>(used) / static_cast<double>(capacity) : 0;
}

void Replay::advance(int64_t time) {
  if (now_ == 0) out_.from = now_ = time;
  if (time > now_) {
    retry();
    const auto passed = static_cast<double>(time - now_);
    coreTime_ += passed * share(used_.core, capacity_.core);
    memoryTime_ += passed * share(used_.memory, capacity_.memory);
    out_.core.max = std::max(out_.core.max, share(used_.core, capacity_.core));
    out_.memory.max = std::max(out_.memory.max, share(used_.memory, capacity_.memory));
    now_ = time;
  }
}

void Replay::add(const JournalRecord& record, bool joined) {
  if (record.alive || record.holder || record.pod) return;  // for accounts: no decision depends on them
  advance(record.time);
  if (record.journal || record.complete || skipping_) return picture(record, joined);
  if (record.demand) cluster_.learn(learnedOf(*record.demand));
  if (record.asked) cluster_.observe(under(*record.asked));
  if (record.decision) decided(*record.decision);
  change(record);
}

void Replay::picture(const JournalRecord& record, bool joined) {
  if (record.complete) {
    cluster_.reprice();  // as the controller does when it passes a snapshot to the journal
    skipping_ = false;
    return;
  }
  if (!record.journal) return;
  skipping_ = joined;
  if (joined) return;
  ++out_.stretches;
  cluster_ = {};
  capacity_ = used_ = {};
  devices_.clear();
  diverged_ = freed_ = false;
  for (auto& [uid, claim] : claims_) {
    claim.own = false;
    claim.waits = 0;
    claim.cards.clear();
    claim.recorded.clear();
  }
  pendingGroups_.clear();
}

void Replay::change(const JournalRecord& record) {
  if (record.node)
    cluster_.upsertNode({record.node->name, record.node->schedulable, record.node->cpuMilli, record.node->memory});
  if (!record.nodeGone.empty()) cluster_.removeNode(record.nodeGone);
  if (record.card)
    onCard(record.card->name, [&] {
      cluster_.upsertCard({record.card->name, record.card->card, record.card->healthy});
    });
  if (!record.cardGone.empty()) onCard(record.cardGone, [&] { cluster_.removeCard(record.cardGone); });
  if (record.take) take(*record.take);
  if (record.giveBack) giveBack(*record.giveBack);
  if (record.mode && !diverged_) cluster_.noteMode(record.mode->card, record.mode->mode);
  if (record.device) devices_[record.device->device] = record.device->claim;
  if (!record.claimGone.empty()) gone(record.claimGone);
  freed_ = freed_ || record.node || record.card || record.giveBack;
}

Replay::Claim* Replay::ownerOf(const std::string& by) {
  std::string uid;
  if (by.starts_with(kAssumed)) {
    uid = by.substr(kAssumed.size());
  } else if (const auto device = devices_.find(by); device != devices_.end()) {
    uid = device->second;
  }
  const auto claim = claims_.find(uid);
  return claim != claims_.end() && claim->second.own ? &claim->second : nullptr;
}

void Replay::take(const codec::JournalTake& take) {
  Claim* const owner = ownerOf(take.by);
  if (owner == nullptr) {
    onCard(take.card, [&] { cluster_.take(take.card, take.by, take.charged, {}, take.mode); });
  } else if (!take.by.starts_with(kAssumed)) {
    owner->recorded.insert(take.by + " " + take.card);
  }
}

void Replay::giveBack(const codec::JournalTake& take) {
  onCard(take.card, [&] { cluster_.giveBack(take.card, take.by); });
  Claim* const owner = ownerOf(take.by);
  if (owner == nullptr || owner->recorded.erase(take.by + " " + take.card) == 0) return;
  if (owner->gone && owner->recorded.empty()) end(devices_[take.by], *owner);
}

void Replay::gone(const std::string& uid) {
  const auto known = claims_.find(uid);
  if (known == claims_.end()) return;
  Claim& claim = known->second;
  claim.gone = true;
  if (!claim.placed) ++out_.left;
  noLongerWaits(claim);
  if (claim.own && claim.recorded.empty()) end(uid, claim);
}

void Replay::end(const std::string& uid, Claim& claim) {
  for (const auto& card : claim.cards) onCard(card, [&] { cluster_.giveBack(card, ownKey(uid)); });
  claim.cards.clear();
  freed_ = true;
}

Replay::DecidedGroup Replay::groupOf(const JournalDecision& decision) {
  DecidedGroup group;
  group.recorded = std::make_shared<const JournalDecision>(decision);
  for (const auto& ask : decision.asks) {
    Claim& claim = claims_[ask.uid];
    if (claim.name.empty()) {
      claim.name = ask.claim;
      claim.arrived = now_;
      ++out_.claims;
    }
    if (diverged_ && claim.own && !claim.cards.empty()) continue;  // keeps its allocation
    group.uids.push_back(ask.uid);
    group.requests.push_back(under(ask.request));
  }
  return group;
}

Together Replay::decide(const DecidedGroup& group) {
  return scheduler::decideTogether(cluster_, group.requests, suitsFor(*group.recorded));
}

void Replay::decided(const JournalDecision& decision) {
  ++out_.decisions;
  const DecidedGroup group = groupOf(decision);
  if (group.uids.empty()) return;
  if (diverged_) {
    if (heldBack(decision)) ++out_.given;  // all other decisions are made again
    settle(group, heldBack(decision) ? Together() : decide(group));
    return;
  }
  if (decision.given) {
    ++out_.given;
  } else if (const auto together = decide(group); !same(decision, together)) {
    if (++out_.different == 1) out_.firstDifferent = textOf(decision, together);
    if (policies_) {
      diverge();
      settle(group, together);
      return;
    }
  }
  if (fitted(decision))
    fits(group);
  else
    fitsNowhere(group);
}

void Replay::diverge() {
  diverged_ = true;
  for (const auto& [since, group] : pendingGroups_)
    for (const auto& uid : group.uids) claims_[uid].own = true;
}

bool Replay::settle(const DecidedGroup& group, const Together& together) {
  for (const auto& uid : group.uids) claims_[uid].own = true;
  if (together.decisions.empty()) {
    fitsNowhere(group);
    return false;
  }
  for (std::size_t i = 0; i < group.uids.size(); ++i) {
    Claim& claim = claims_[group.uids[i]];
    for (const auto& placement : together.decisions[i].placements) {
      onCard(placement.card, [&] { cluster_.take(placement, ownKey(group.uids[i])); });
      claim.cards.push_back(placement.card);
    }
    if (asked(*group.recorded) && !contains(group.recorded->suited, together.decisions[i].node)) ++out_.guessed;
  }
  fits(group);
  return true;
}

void Replay::fits(const DecidedGroup& group) {
  for (const auto& uid : group.uids) {
    noLongerWaits(claims_[uid]);
    placed(claims_[uid]);
  }
}

void Replay::placed(Claim& claim) {
  if (claim.placed) return;
  claim.placed = now_;
  ++out_.placed;
  if (now_ > claim.arrived) ++out_.waited;
  waits_.push_back(now_ - claim.arrived);
}

void Replay::fitsNowhere(const DecidedGroup& group) {
  if (!out_.firstFailure)
    out_.firstFailure = {now_, claims_[group.uids.front()].name, share(used_.core, capacity_.core), out_.claims};
  wait(group);
}

void Replay::wait(const DecidedGroup& group) {
  int64_t since = 0;
  for (const auto& uid : group.uids) {
    Claim& claim = claims_[uid];
    if (claim.waits > 0 && since == 0) since = claim.waits;
    noLongerWaits(claim);
  }
  if (since == 0) since = ++lastWaiting_;
  for (const auto& uid : group.uids) claims_[uid].waits = since;
  pendingGroups_[since] = group;
}

void Replay::noLongerWaits(Claim& claim) {
  if (const auto group = pendingGroups_.find(claim.waits); group != pendingGroups_.end()) {
    const auto uids = group->second.uids;
    pendingGroups_.erase(group);
    for (const auto& uid : uids) claims_[uid].waits = 0;
  }
  claim.waits = 0;
}

void Replay::retry() {
  if (!diverged_ || !freed_) return;
  freed_ = false;
  std::vector<DecidedGroup> unschedulable;
  for (auto at = pendingGroups_.begin(); at != pendingGroups_.end();) {
    const DecidedGroup group = (at++)->second;
    if (heldBack(*group.recorded)) continue;
    const auto alike = [&group](const DecidedGroup& other) {
      return other.requests == group.requests && other.recorded->refused == group.recorded->refused &&
             other.recorded->onlySuited == group.recorded->onlySuited &&
             other.recorded->suited == group.recorded->suited;
    };
    if (std::any_of(unschedulable.begin(), unschedulable.end(), alike)) continue;
    const auto together = decide(group);
    if (!together.decisions.empty())
      settle(group, together);
    else if (unschedulable.size() < kMaxUnschedulable)
      unschedulable.push_back(group);
  }
}

ReplaySummary Replay::summary() const {
  ReplaySummary out = out_;
  out.to = now_;
  const auto time = static_cast<double>(out.to - out.from);
  out.core.last = share(used_.core, capacity_.core);
  out.memory.last = share(used_.memory, capacity_.memory);
  out.core.max = std::max(out.core.max, out.core.last);
  out.memory.max = std::max(out.memory.max, out.memory.last);
  out.core.mean = time > 0 ? coreTime_ / time : out.core.last;
  out.memory.mean = time > 0 ? memoryTime_ / time : out.memory.last;
  auto waits = waits_;
  std::sort(waits.begin(), waits.end());
  if (!waits.empty()) {
    int64_t sum = 0;
    for (const auto each : waits) sum += each;
    out.meanWait = sum / static_cast<int64_t>(waits.size());
    out.p99Wait = waits[(waits.size() * 99 + 99) / 100 - 1];
    out.longestWait = waits.back();
  }
  for (const auto& [uid, claim] : claims_) {
    if (claim.placed || claim.gone) continue;
    ++out.waiting;
    out.longestWaiting = std::max(out.longestWaiting, now_ - claim.arrived);
  }
  return out;
}

}  // namespace egpu::journal

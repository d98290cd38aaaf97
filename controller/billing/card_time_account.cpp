#include "controller/billing/card_time_account.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "api/core/meta.h"

namespace egpu::billing {

namespace {

using codec::JournalRecord;
using scheduler::Amount;

constexpr std::string_view kAssumed = "claim/";
constexpr int64_t kMilliCards = 1000;

/// Weight of the whole card in weightOf().
CardParts weightOf(const Amount& capacity) {
  return static_cast<CardParts>(std::max<int64_t>(1, capacity.core)) * std::max<int64_t>(1, capacity.memory);
}

/// The larger share of core and memory, as a fraction of the card's weight.
CardParts weightOf(const Amount& charged, const Amount& capacity) {
  const auto core = static_cast<CardParts>(std::clamp<int64_t>(charged.core, 0, capacity.core));
  const auto memory = static_cast<CardParts>(std::clamp<int64_t>(charged.memory, 0, capacity.memory));
  return std::max(core * std::max<int64_t>(1, capacity.memory), memory * std::max<int64_t>(1, capacity.core));
}

/// Removes a name from the names of a key, and the key with its last name.
void eraseFrom(std::unordered_map<std::string, std::set<std::string>>& index, const std::string& key,
               const std::string& name) {
  const auto names = index.find(key);
  if (names == index.end()) return;
  names->second.erase(name);
  if (names->second.empty()) index.erase(names);
}

}  // namespace

void CardTimeAccount::add(const JournalRecord& record, bool joined) {
  if (record.journal) {
    begin(record, joined);
  } else if (skipping_) {
    skipping_ = !record.complete;
  } else {
    now_ = std::max(now_, record.time);
    if (record.complete)
      complete();
    else
      apply(record);
  }
}

void CardTimeAccount::begin(const JournalRecord& record, bool joined) {
  skipping_ = joined;
  if (joined) return;
  accountAll();
  if (started_) {
    before_ = std::exchange(known_, {});
    gapBegin_ = now_;
    inGap_ = true;
    ++total_.gaps;
  }
  now_ = std::max(now_, record.time);
}

void CardTimeAccount::complete() {
  if (inGap_) accountGap();
  inGap_ = false;
  before_ = {};
  if (!started_) total_.from = std::max(window_.from, now_);
  started_ = true;
}

void CardTimeAccount::apply(const JournalRecord& record) {
  if (record.node) applyNode(record.node->name, record.node->schedulable);
  if (!record.nodeGone.empty()) applyNode(record.nodeGone, false);
  if (record.card) applyCard(*record.card);
  if (!record.cardGone.empty()) removeCard(record.cardGone);
  if (record.take) take(*record.take);
  if (record.giveBack) giveBack(*record.giveBack);
  if (record.holder) name(*record.holder);
  if (record.pod) use(*record.pod);
  nameFrom(record);
}

void CardTimeAccount::applyNode(const std::string& name, bool schedulable) {
  auto& known = known_.schedulable[name];
  if (known == schedulable) return;
  for (const auto& card : known_.cardsOn[name]) account(known_.cards.at(card));
  known = schedulable;
}

void CardTimeAccount::applyCard(const codec::JournalCard& card) {
  const auto [it, isNew] = known_.cards.try_emplace(card.name);
  auto& timed = it->second;
  if (isNew) {
    timed.since = now_;
  } else {
    account(timed);
    known_.cardsOn[timed.node].erase(card.name);
  }
  timed.uuid = card.card.uuid;
  timed.node = card.card.nodeName;
  timed.model = card.card.model;
  timed.capacity = {card.card.core, card.card.memory};
  timed.healthy = card.healthy;
  known_.cardsOn[timed.node].insert(card.name);
}

void CardTimeAccount::removeCard(const std::string& name) {
  const auto card = known_.cards.find(name);
  if (card == known_.cards.end()) return;
  account(card->second);
  for (const auto& [holder, charged] : card->second.takes) {
    accountCardsOf(holder);
    unlink(holder, name);
  }
  known_.cardsOn[card->second.node].erase(name);
  known_.cards.erase(card);
}

void CardTimeAccount::take(const codec::JournalTake& take) {
  const auto card = known_.cards.find(take.card);
  if (card == known_.cards.end()) return;
  account(card->second);
  accountCardsOf(take.by);  // another card changes the part of each card in the usage
  known_.cardsOf[take.by].insert(take.card);
  if (const auto holder = holders_.find(take.by); holder != holders_.end() && !holder->second.claim.empty())
    known_.holdersOf[holder->second.claim].insert(take.by);
  card->second.takes[take.by] = take.charged;
}

void CardTimeAccount::giveBack(const codec::JournalTake& take) {
  const auto card = known_.cards.find(take.card);
  if (card == known_.cards.end() || !card->second.takes.contains(take.by)) return;
  accountCardsOf(take.by);
  card->second.takes.erase(take.by);
  unlink(take.by, take.card);
}

void CardTimeAccount::unlink(const std::string& holder, const std::string& card) {
  auto& cards = known_.cardsOf[holder];
  cards.erase(card);
  if (!cards.empty()) return;
  known_.cardsOf.erase(holder);
  if (const auto known = holders_.find(holder); known != holders_.end())
    eraseFrom(known_.holdersOf, known->second.claim, holder);
}

void CardTimeAccount::name(const codec::JournalHolder& holder) {
  accountCardsOf(holder.by);
  auto& known = holders_[holder.by];
  eraseFrom(known_.holdersOf, known.claim, holder.by);
  known = holder;
  if (!holder.claim.empty() && known_.cardsOf.contains(holder.by)) known_.holdersOf[holder.claim].insert(holder.by);
}

void CardTimeAccount::use(const codec::JournalPod& pod) {
  const auto space = core::ObjectKey::of(pod.name).namespace_ + "/";
  auto& claims = known_.claimsOf[pod.name];
  for (const auto& claim : claims) {
    accountCardsOfClaim(claim);
    eraseFrom(known_.podsOf, claim, pod.name);
  }
  claims.clear();
  for (const auto& each : pod.claims) {
    const auto& claim = claims.emplace_back(space + each);
    accountCardsOfClaim(claim);
    known_.podsOf[claim].insert(pod.name);
  }
  if (claims.empty()) known_.claimsOf.erase(pod.name);
}

void CardTimeAccount::nameFrom(const JournalRecord& record) {
  if (record.decision)
    for (const auto& ask : record.decision->asks) {
      claimNames_.try_emplace(ask.uid, ask.claim);
      const auto holder = std::string(kAssumed) + ask.uid;
      if (!holders_.contains(holder)) name({holder, ask.claim, ask.uid, ask.className, {}});
    }
  if (record.device && !holders_.contains(record.device->device))
    if (const auto claim = claimNames_.find(record.device->claim); claim != claimNames_.end())
      name({record.device->device, claim->second, claim->first, {}, {}});
}

void CardTimeAccount::account(TimedCard& card) {
  const auto from = std::exchange(card.since, now_);
  if (from >= now_ || !started_) return;
  const auto node = known_.schedulable.find(card.node);
  const bool isOffered = card.healthy && node != known_.schedulable.end() && node->second;
  charge(card, from, now_, card.takes, isOffered ? CardTimeKind::idle : CardTimeKind::unhealthy);
}

void CardTimeAccount::accountAll() {
  for (auto& [name, card] : known_.cards) account(card);
}

void CardTimeAccount::accountCardsOf(const std::string& holder) {
  const auto cards = known_.cardsOf.find(holder);
  if (cards == known_.cardsOf.end()) return;
  for (const auto& card : cards->second) account(known_.cards.at(card));
}

void CardTimeAccount::accountCardsOfClaim(const std::string& claim) {
  const auto holders = known_.holdersOf.find(claim);
  if (holders == known_.holdersOf.end()) return;
  for (const auto& holder : holders->second) accountCardsOf(holder);
}

void CardTimeAccount::accountGap() {
  for (const auto& [name, card] : known_.cards) {
    const auto earlier = before_.cards.find(name);
    if (earlier == before_.cards.end() || earlier->second.uuid != card.uuid) continue;
    charge(card, gapBegin_, now_, lasting(earlier->second.takes, card.takes), CardTimeKind::unknown);
  }
}

CardTimeAccount::Amounts CardTimeAccount::lasting(const Amounts& before, const Amounts& after) const {
  Amounts out;
  for (const auto& [holder, charged] : after) {
    const auto same = std::find_if(before.begin(), before.end(), [&, holder = &holder](const auto& other) {
      return other.first == *holder || isSameClaim(other.first, *holder);
    });
    if (same == before.end()) continue;
    out[holder] = {std::min(charged.core, same->second.core), std::min(charged.memory, same->second.memory)};
  }
  return out;
}

bool CardTimeAccount::isSameClaim(const std::string& holder, const std::string& other) const {
  const auto one = holders_.find(holder), two = holders_.find(other);
  return one != holders_.end() && two != holders_.end() && !one->second.uid.empty() &&
         one->second.uid == two->second.uid;
}

void CardTimeAccount::charge(const TimedCard& card, int64_t from, int64_t to, const Amounts& takes, CardTimeKind rest) {
  from = std::max(from, window_.from);
  to = std::min(to, window_.to);
  if (from >= to) return;
  total_.cardMilliseconds += to - from;
  const auto all = static_cast<CardParts>(to - from) * kParts;
  CardParts weights = 0;
  for (const auto& [holder, charged] : takes) weights += weightOf(charged, card.capacity);
  const auto whole = std::max(weightOf(card.capacity), weights);
  CardTimeKey key;
  key.node = card.node;
  key.model = card.model;
  CardParts left = all;
  for (auto it = takes.begin(); it != takes.end(); ++it) {
    // The last holder of a full card gets the rest of the division.
    const bool takesRest = weights == whole && std::next(it) == takes.end();
    const auto part = takesRest ? left : all * weightOf(it->second, card.capacity) / whole;
    left -= part;
    if (part > 0) chargeHolder(it->first, key, {part, 0, false, from, to});
  }
  if (left == 0) return;
  key.kind = rest;
  total_.times[key].add({left, 0, false, from, to});
}

void CardTimeAccount::chargeHolder(const std::string& holder, CardTimeKey key, const CardTime& time) {
  const auto known = holders_.find(holder);
  key.kind = known == holders_.end()       ? CardTimeKind::unnamed
             : known->second.claim.empty() ? CardTimeKind::retained
                                           : CardTimeKind::claim;
  if (known == holders_.end()) return total_.times[key].add(time);
  const auto& claim = known->second.claim;
  key.className = known->second.className;
  const auto name = core::ObjectKey::of(claim);
  key.space = name.namespace_;
  key.claim = name.name;
  CardTime part = time;
  if (known->second.usedCore && !inGap_) {
    const auto cards = known_.cardsOf.find(holder);
    const auto divisor = cards == known_.cardsOf.end() ? 1 : std::max<std::size_t>(1, cards->second.size());
    part.used = static_cast<CardParts>(time.end - time.begin) * kParts * *known->second.usedCore / kMilliCards /
                static_cast<int64_t>(divisor);
    part.measured = true;
  }
  const auto pods = podsOf(claim);
  if (pods.empty()) return total_.times[key].add(part);
  auto left = part.granted, usedLeft = part.used;
  auto count = static_cast<int64_t>(pods.size());
  for (const auto& pod : pods) {
    key.pod = core::ObjectKey::of(pod).name;
    part.granted = left / count;
    part.used = usedLeft / count;
    left -= part.granted;
    usedLeft -= part.used;
    --count;
    total_.times[key].add(part);
  }
}

CardTimeAccount::Names CardTimeAccount::podsOf(const std::string& claim) const {
  const auto now = known_.podsOf.find(claim);
  if (now == known_.podsOf.end() || !inGap_) return now == known_.podsOf.end() ? Names{} : now->second;
  Names both;
  if (const auto before = before_.podsOf.find(claim); before != before_.podsOf.end())
    std::set_intersection(now->second.begin(), now->second.end(), before->second.begin(), before->second.end(),
                          std::inserter(both, both.end()));
  return both;
}

CardTimeTotal CardTimeAccount::finish() {
  accountAll();
  total_.to = std::max(total_.from, std::min(window_.to, now_));
  return std::move(total_);
}

}  // namespace egpu::billing

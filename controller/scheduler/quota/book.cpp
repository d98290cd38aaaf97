#include "controller/scheduler/quota/book.h"

#include <algorithm>

namespace egpu::scheduler {

std::vector<QuotaPart> QuotaBook::Holder::plain() const {
  std::vector<QuotaPart> all;
  all.reserve(parts.size());
  for (const auto& held : parts) all.push_back(held.part);
  return all;
}

QuotaAmounts QuotaBook::contribution(const Quota& quota, const Holder& holder) {
  return classCounts(quota, holder.className) ? quotaAmounts(holder.plain(), quota.models) : QuotaAmounts{};
}

namespace {

void add(QuotaAmounts& sum, const QuotaAmounts& amounts, int sign) {
  for (std::size_t i = 0; i < kQuotaKeys; ++i) sum[i] += sign * amounts[i];
}

/// Every counted card that would give compute has a rating to count it by.
bool allRated(const Quota& quota, const std::vector<QuotaPart>& parts) {
  return std::all_of(parts.begin(), parts.end(), [&](const QuotaPart& part) {
    return part.cardTflops > 0 || part.charged.core == 0 || !anyOf(quota.models, part.model);
  });
}

}  // namespace

void QuotaBook::count(Space& space, const Holder& holder, int sign) {
  for (auto& counted : space.quotas) add(counted.used, contribution(counted.quota, holder), sign);
}

const QuotaBook::Space* QuotaBook::spaceOf(std::string_view namespace_) const {
  const auto found = spaces_.find(namespace_);
  return found == spaces_.end() ? nullptr : &found->second;
}

void QuotaBook::setQuotas(const std::string& namespace_, std::vector<Quota> quotas) {
  const auto known = spaces_.find(namespace_);
  if (quotas.empty()) {
    if (known == spaces_.end()) return;
    std::erase_if(places_, [&](const auto& place) { return place.second.namespace_ == namespace_; });
    spaces_.erase(known);
    changed_[namespace_] = true;
    return;
  }
  std::sort(quotas.begin(), quotas.end(), [](const Quota& a, const Quota& b) { return a.name < b.name; });
  if (known != spaces_.end() &&
      std::equal(quotas.begin(), quotas.end(), known->second.quotas.begin(), known->second.quotas.end(),
                 [](const Quota& a, const Counted& b) { return a == b.quota; }))
    return;
  untold_ = untold_ || known == spaces_.end();
  auto& space = spaces_[namespace_];
  space.version = ++lastVersion_;
  space.quotas.clear();
  for (auto& quota : quotas) space.quotas.push_back({std::move(quota), {}, {}});
  for (const auto& [id, holder] : space.claims) count(space, holder, 1);
  changed_[namespace_] = true;
}

void QuotaBook::put(const std::string& holder, const QuotaClaim& claim, const std::string& card,
                    const QuotaPart& part) {
  if (const auto place = places_.find(holder);
      place != places_.end() && (place->second.namespace_ != claim.namespace_ || place->second.claim != claim.id))
    drop(holder);  // it changed hands, and with it its other cards
  const auto space = spaces_.find(claim.namespace_);
  if (space == spaces_.end()) return;
  auto& has = space->second.claims[claim.id];
  const auto held = std::find_if(has.parts.begin(), has.parts.end(),
                                 [&](const Held& each) { return each.holder == holder && each.card == card; });
  if (held != has.parts.end() && held->part == part && has.className == claim.className) return;
  count(space->second, has, -1);
  has.name = claim.name;
  has.className = claim.className;
  if (held != has.parts.end())
    held->part = part;
  else
    has.parts.push_back({holder, card, part});
  count(space->second, has, 1);
  places_[holder] = {claim.namespace_, claim.id};
  changed_.try_emplace(claim.namespace_, false);
}

void QuotaBook::drop(const std::string& holder, const std::string& card) { erase(holder, &card); }
void QuotaBook::drop(const std::string& holder) { erase(holder, nullptr); }

void QuotaBook::erase(const std::string& holder, const std::string* card) {
  const auto place = places_.find(holder);
  if (place == places_.end()) return;
  auto& space = spaces_.find(place->second.namespace_)->second;
  const auto has = space.claims.find(place->second.claim);
  auto& parts = has->second.parts;
  count(space, has->second, -1);
  std::erase_if(parts,
                [&](const Held& held) { return held.holder == holder && (card == nullptr || held.card == *card); });
  count(space, has->second, 1);
  changed_.try_emplace(place->second.namespace_, false);
  const bool any = std::any_of(parts.begin(), parts.end(), [&](const Held& held) { return held.holder == holder; });
  if (parts.empty()) space.claims.erase(has);
  if (!any) places_.erase(place);
}

const QuotaPart* QuotaBook::find(const std::string& holder, const std::string& card) const {
  const auto place = places_.find(holder);
  if (place == places_.end()) return nullptr;
  for (const auto& held : spaceOf(place->second.namespace_)->claims.find(place->second.claim)->second.parts)
    if (held.holder == holder && held.card == card) return &held.part;
  return nullptr;
}

QuotaAmounts QuotaBook::has(const Space& space, const Quota& quota, const std::string& claim) {
  const auto found = space.claims.find(claim);
  return found == space.claims.end() ? QuotaAmounts{} : contribution(quota, found->second);
}

QuotaAmounts QuotaBook::givenUp(const Space& space, const Quota& quota, const QuotaAsked& asked) {
  auto own = has(space, quota, asked.claim.id);
  if (!asked.insteadOf.empty()) add(own, has(space, quota, asked.insteadOf), 1);
  return own;
}

std::vector<QuotaRoom> QuotaBook::rooms(const QuotaClaim& claim, const std::vector<QuotaAsked>& besides) const {
  std::vector<QuotaRoom> rooms;
  const auto* space = spaceOf(claim.namespace_);
  if (space == nullptr) return rooms;
  for (const auto& [quota, used, refusedAt] : space->quotas) {
    if (!classCounts(quota, claim.className)) continue;
    auto others = used;
    add(others, has(*space, quota, claim.id), -1);
    for (const auto& each : besides) {
      add(others, givenUp(*space, quota, each), -1);
      if (classCounts(quota, each.claim.className)) add(others, quotaAmounts(each.parts, quota.models), 1);
    }
    QuotaRoom room{quota.models, quota.perClaim};
    for (std::size_t i = 0; i < kQuotaKeys; ++i)
      if (quota.hard[i]) {
        const int64_t left = *quota.hard[i] - others[i];
        room.left[i] = room.left[i] ? std::min(*room.left[i], left) : left;
      }
    rooms.push_back(std::move(room));
  }
  return rooms;
}

std::optional<QuotaExcess> QuotaBook::judge(const Quota& quota, const QuotaAsked& asked, const QuotaAmounts& own,
                                            const QuotaAmounts& others) {
  if (!classCounts(quota, asked.claim.className)) return std::nullopt;
  const auto wants = quotaAmounts(asked.parts, quota.models);
  for (std::size_t i = 0; i < kQuotaKeys; ++i) {
    const auto key = static_cast<QuotaKey>(i);
    const auto &single = quota.perClaim[i], &total = quota.hard[i];
    QuotaExcess excess{quota.name, key, false, quota.refuse, false, wants[i], others[i], 0, quota.models, false, 0};
    if (key == QuotaKey::tflops && (single || total) && own[0] == 0 && !allRated(quota, asked.parts)) {
      excess.unrated = true;
      return excess;
    }
    if (wants[i] <= own[i]) continue;
    if (single && wants[i] > *single) {
      excess.perClaim = true;
      excess.used = 0;
      excess.limit = *single;
      return excess;
    }
    if (!total || others[i] + wants[i] <= *total) continue;
    excess.limit = *total;
    return excess;
  }
  return std::nullopt;
}

std::optional<QuotaExcess> QuotaBook::excess(const std::vector<QuotaAsked>& asked) const {
  std::optional<QuotaExcess> first;
  const auto* space = asked.empty() ? nullptr : spaceOf(asked.front().claim.namespace_);
  if (space == nullptr) return first;
  for (const auto& [quota, used, refusedAt] : space->quotas) {
    if (first && (first->refuse || !quota.refuse)) continue;
    auto others = used;
    for (const auto& each : asked) add(others, givenUp(*space, quota, each), -1);
    for (const auto& each : asked) {
      auto excess = judge(quota, each, givenUp(*space, quota, each), others);
      if (classCounts(quota, each.claim.className)) add(others, quotaAmounts(each.parts, quota.models), 1);
      if (!excess) continue;
      excess->version = space->version;
      first = std::move(excess);
      break;
    }
  }
  return first;
}

void QuotaBook::refused(std::string_view namespace_) {
  const auto space = spaces_.find(namespace_);
  if (space == spaces_.end()) return;
  for (auto& [quota, used, refusedAt] : space->second.quotas) {
    if (!refusedAt) refusedAt = used;
    for (std::size_t i = 0; i < kQuotaKeys; ++i) (*refusedAt)[i] = std::max((*refusedAt)[i], used[i]);
  }
}

std::optional<QuotaAmounts> QuotaBook::used(std::string_view namespace_, std::string_view quota) const {
  const auto* space = spaceOf(namespace_);
  if (space == nullptr) return std::nullopt;
  for (const auto& counted : space->quotas)
    if (counted.quota.name == quota) return counted.used;
  return std::nullopt;
}

std::string QuotaBook::holders(std::string_view namespace_, std::string_view quota, QuotaKey key,
                               std::size_t most) const {
  const auto* space = spaceOf(namespace_);
  std::vector<std::pair<int64_t, std::string_view>> who;
  if (space != nullptr)
    for (const auto& counted : space->quotas) {
      if (counted.quota.name != quota) continue;
      for (const auto& [id, holder] : space->claims)
        if (const auto amount = contribution(counted.quota, holder)[static_cast<std::size_t>(key)]; amount > 0)
          who.emplace_back(-amount, holder.name);
    }
  std::sort(who.begin(), who.end());
  std::string text;
  for (std::size_t i = 0; i < who.size() && i < most; ++i)
    text += (i == 0 ? "" : ", ") + std::string(who[i].second) + " " + quotaText(key, -who[i].first);
  return who.size() > most ? text + " and " + std::to_string(who.size() - most) + " more" : text;
}

std::optional<uint64_t> QuotaBook::refusing(std::string_view namespace_) const {
  const auto* space = spaceOf(namespace_);
  if (space == nullptr || std::none_of(space->quotas.begin(), space->quotas.end(),
                                       [](const Counted& counted) { return counted.quota.refuse; }))
    return std::nullopt;
  return space->version;
}

std::vector<QuotaBook::Change> QuotaBook::takeChanges() {
  std::vector<Change> changes;
  for (auto& [name, limits] : changed_) {
    Change change{name, limits};
    if (const auto space = spaces_.find(name); space != spaces_.end())
      for (auto& [quota, used, refusedAt] : space->second.quotas)
        for (std::size_t i = 0; i < kQuotaKeys && refusedAt; ++i)
          change.freed = change.freed || used[i] < (*refusedAt)[i];
    if (const auto space = spaces_.find(name); change.freed && space != spaces_.end())
      for (auto& counted : space->second.quotas) counted.refusedAt.reset();
    changes.push_back(std::move(change));
  }
  changed_.clear();
  return changes;
}

}  // namespace egpu::scheduler

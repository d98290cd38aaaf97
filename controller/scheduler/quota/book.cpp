#include "controller/scheduler/quota/book.h"

#include <algorithm>
#include <tuple>
#include <utility>

namespace egpu::scheduler {

std::vector<QuotaPart> QuotaBook::Holder::plain() const {
  std::vector<QuotaPart> all;
  all.reserve(parts.size());
  for (const auto& held : parts) all.push_back(held.part);
  return all;
}

namespace {

void add(QuotaAmounts& sum, const QuotaAmounts& amounts, int sign) {
  for (std::size_t i = 0; i < kQuotaKeys; ++i) sum[i] += sign * amounts[i];
}

/// True if every counted card with compute has a rating.
bool allRated(const Quota& quota, const std::vector<QuotaPart>& parts) {
  return std::all_of(parts.begin(), parts.end(), [&](const QuotaPart& part) {
    return part.cardTflops > 0 || part.charged.core == 0 || !anyOf(quota.models, part.model);
  });
}

}  // namespace

QuotaAmounts QuotaBook::contribution(const Quota& quota, const Holder& holder) {
  return classCounts(quota, holder.className) ? quotaAmounts(holder.plain(), quota.models, quota.profile)
                                              : QuotaAmounts{};
}

QuotaAmounts QuotaBook::contribution(const Quota& quota, const Holder& claim, std::string_view holder) {
  auto amounts = contribution(quota, claim);
  Holder rest = claim;
  std::erase_if(rest.parts, [holder](const Held& held) { return held.holder == holder; });
  add(amounts, contribution(quota, rest), -1);
  return amounts;
}

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
  std::sort(quotas.begin(), quotas.end(),
            [](const Quota& a, const Quota& b) { return std::tie(a.name, a.profile) < std::tie(b.name, b.profile); });
  if (known != spaces_.end() &&
      std::equal(quotas.begin(), quotas.end(), known->second.quotas.begin(), known->second.quotas.end(),
                 [](const Quota& a, const Counted& b) { return a == b.quota; }))
    return;
  hasUncounted_ = hasUncounted_ || known == spaces_.end();
  auto& space = spaces_[namespace_];
  space.version = ++lastVersion_;
  space.quotas.clear();
  for (auto& quota : quotas) space.quotas.push_back({std::move(quota), {}, {}, {}, {}});
  for (const auto& [id, holder] : space.claims) count(space, holder, 1);
  changed_[namespace_] = true;
}

void QuotaBook::put(const std::string& holder, const QuotaClaim& claim, const std::string& card,
                    const QuotaPart& part) {
  if (const auto place = places_.find(holder);
      place != places_.end() && (place->second.namespace_ != claim.namespace_ || place->second.claim != claim.id))
    drop(holder);  // the holder's claim changed, so its other cards change, too
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

QuotaBook::Withdrawn QuotaBook::withdraw(const std::string& holder) {
  Withdrawn withdrawn;
  const auto place = places_.find(holder);
  if (place == places_.end()) return withdrawn;
  const auto& [namespace_, id] = place->second;
  const auto& has = spaceOf(namespace_)->claims.find(id)->second;
  withdrawn.claim = {namespace_, has.name, id, has.className};
  for (const auto& held : has.parts)
    if (held.holder == holder) withdrawn.parts.emplace_back(held.card, held.part);
  drop(holder);
  return withdrawn;
}

void QuotaBook::restore(const std::string& holder, const Withdrawn& withdrawn) {
  for (const auto& [card, part] : withdrawn.parts) put(holder, withdrawn.claim, card, part);
}

QuotaBook QuotaBook::of(std::string_view namespace_) const {
  QuotaBook copy;
  const auto space = spaces_.find(namespace_);
  if (space == spaces_.end()) return copy;
  copy.spaces_.insert(*space);
  copy.lastVersion_ = lastVersion_;
  if (holdsIn_.contains(namespace_)) copy.holdsIn_.insert(space->first);
  for (const auto& [id, claim] : space->second.claims)
    for (const auto& held : claim.parts) copy.places_[held.holder] = {space->first, id};
  return copy;
}

std::vector<std::string> QuotaBook::holdersIn(std::string_view namespace_) const {
  std::set<std::string> holders;
  if (const auto* space = spaceOf(namespace_))
    for (const auto& [id, claim] : space->claims)
      for (const auto& held : claim.parts) holders.insert(held.holder);
  return {holders.begin(), holders.end()};
}

void QuotaBook::hold(const std::vector<QuotaHold>& holds) {
  for (const auto& name : std::exchange(holdsIn_, {}))
    if (const auto space = spaces_.find(name); space != spaces_.end())
      for (auto& counted : space->second.quotas) counted.held = {}, counted.heldFor.clear();
  for (const auto& [owner, victims] : holds) {
    const auto space = spaces_.find(owner.claim.namespace_);
    if (space == spaces_.end()) continue;
    holdsIn_.insert(owner.claim.namespace_);
    for (auto& counted : space->second.quotas) {
      if (classCounts(counted.quota, owner.claim.className)) {
        add(counted.held, quotaAmounts(owner.parts, counted.quota.models, counted.quota.profile), 1);
        add(counted.held, givenUp(space->second, counted.quota, owner), -1);
        counted.heldFor.push_back(owner.claim.name);
      }
      for (const auto& victim : victims)
        if (const auto place = places_.find(victim); place != places_.end() && place->second.namespace_ == space->first)
          add(counted.held, contribution(counted.quota, space->second.claims.at(place->second.claim), victim), -1);
    }
  }
  for (const auto& name : holdsIn_)
    for (auto& counted : spaces_.find(name)->second.quotas)
      for (auto& amount : counted.held) amount = std::max<int64_t>(0, amount);
}

void QuotaBook::noteFreed(std::string_view namespace_) {
  if (counts(namespace_)) changed_[std::string(namespace_)] = true;
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

std::vector<RemainingQuota> QuotaBook::remaining(const QuotaClaim& claim,
                                                 const std::vector<QuotaAsked>& besides) const {
  std::vector<RemainingQuota> result;
  const auto* space = spaceOf(claim.namespace_);
  if (space == nullptr) return result;
  for (const auto& [quota, used, refusedAt, held, heldFor] : space->quotas) {
    if (!classCounts(quota, claim.className)) continue;
    auto others = used;
    add(others, held, 1);
    add(others, has(*space, quota, claim.id), -1);
    for (const auto& each : besides) {
      add(others, givenUp(*space, quota, each), -1);
      if (classCounts(quota, each.claim.className))
        add(others, quotaAmounts(each.parts, quota.models, quota.profile), 1);
    }
    RemainingQuota rest{quota.models, quota.perClaim, quota.profile};
    for (std::size_t i = 0; i < kQuotaKeys; ++i)
      if (quota.hard[i]) {
        const int64_t left = *quota.hard[i] - others[i];
        rest.left[i] = rest.left[i] ? std::min(*rest.left[i], left) : left;
      }
    result.push_back(std::move(rest));
  }
  return result;
}

void QuotaBook::judge(const Quota& quota, const QuotaAsked& asked, const QuotaAmounts& own, const QuotaAmounts& others,
                      const std::function<bool(QuotaExcess)>& visit) {
  if (!classCounts(quota, asked.claim.className)) return;
  const auto wants = quotaAmounts(asked.parts, quota.models, quota.profile);
  for (std::size_t i = 0; i < kQuotaKeys; ++i) {
    const auto key = static_cast<QuotaKey>(i);
    const auto &single = quota.perClaim[i], &total = quota.hard[i];
    const bool unrated = key == QuotaKey::tflops && (single || total) && own[0] == 0 && !allRated(quota, asked.parts);
    const bool grows = wants[i] > own[i], perClaim = grows && single && wants[i] > *single;
    if (!unrated && !perClaim && !(grows && total && others[i] + wants[i] > *total)) continue;
    QuotaExcess excess;
    excess.quota = quota.name;
    excess.key = key;
    excess.perClaim = !unrated && perClaim;
    excess.refuse = quota.refuse;
    excess.wants = wants[i];
    excess.used = excess.perClaim ? 0 : others[i];
    excess.limit = unrated ? 0 : perClaim ? *single : *total;
    excess.models = quota.models;
    excess.unrated = unrated;
    excess.own = own[i];
    excess.profile = quota.profile;
    if (visit(std::move(excess))) return;
  }
}

std::optional<QuotaExcess> QuotaBook::excess(const std::vector<QuotaAsked>& asked) const {
  std::optional<QuotaExcess> first;
  const auto* space = asked.empty() ? nullptr : spaceOf(asked.front().claim.namespace_);
  if (space == nullptr) return first;
  for (const auto& [quota, used, refusedAt, held, heldFor] : space->quotas) {
    if (first && (first->refuse || !quota.refuse)) continue;
    auto others = used;
    add(others, held, 1);
    for (const auto& each : asked) add(others, givenUp(*space, quota, each), -1);
    bool found = false;
    for (const auto& each : asked) {
      judge(quota, each, givenUp(*space, quota, each), others, [&](QuotaExcess excess) {
        first = std::move(excess);
        return found = true;
      });
      if (found) break;
      if (classCounts(quota, each.claim.className))
        add(others, quotaAmounts(each.parts, quota.models, quota.profile), 1);
    }
    if (!found) continue;
    first->version = space->version;
    if (first->perClaim || first->unrated) continue;
    first->held = held[static_cast<std::size_t>(first->key)];
    if (first->held > 0) first->heldFor = heldFor;
  }
  if (!first) return first;
  first->asked = asked;
  const auto all = lacks(asked);
  first->others = all && all->size() > 1;
  return first;
}

std::optional<std::vector<QuotaLack>> QuotaBook::lacks(const std::vector<QuotaAsked>& asked, bool alone) const {
  std::vector<QuotaLack> lacks;
  const auto* space = asked.empty() ? nullptr : spaceOf(asked.front().claim.namespace_);
  for (std::size_t q = 0; space != nullptr && q < space->quotas.size(); ++q) {
    const auto& [quota, used, refusedAt, held, heldFor] = space->quotas[q];
    QuotaAmounts others{}, max{};
    if (!alone) {
      others = used;
      add(others, held, 1);
      for (const auto& each : asked) add(others, givenUp(*space, quota, each), -1);
    }
    bool never = false;
    for (const auto& each : asked) {
      judge(quota, each, givenUp(*space, quota, each), others, [&](const QuotaExcess& excess) {
        auto& lack = max[static_cast<std::size_t>(excess.key)];
        lack = std::max(lack, excess.missing());
        return never = never || excess.perClaim || excess.unrated;
      });
      if (never) return std::nullopt;
      if (classCounts(quota, each.claim.className))
        add(others, quotaAmounts(each.parts, quota.models, quota.profile), 1);
    }
    for (std::size_t i = 0; i < kQuotaKeys; ++i)
      if (max[i] > 0) lacks.push_back({q, static_cast<QuotaKey>(i), max[i]});
  }
  return lacks;
}

std::vector<QuotaAmounts> QuotaBook::givenBackBy(const std::string& holder) const {
  std::vector<QuotaAmounts> all;
  const auto place = places_.find(holder);
  if (place == places_.end()) return all;
  const auto& space = *spaceOf(place->second.namespace_);
  for (const auto& counted : space.quotas)
    all.push_back(contribution(counted.quota, space.claims.at(place->second.claim), holder));
  return all;
}

void QuotaBook::refused(std::string_view namespace_) {
  const auto space = spaces_.find(namespace_);
  if (space == spaces_.end()) return;
  for (auto& [quota, used, refusedAt, held, heldFor] : space->second.quotas) {
    if (!refusedAt) refusedAt = used;
    for (std::size_t i = 0; i < kQuotaKeys; ++i) (*refusedAt)[i] = std::max((*refusedAt)[i], used[i]);
  }
}

std::optional<QuotaAmounts> QuotaBook::used(std::string_view namespace_, std::string_view quota) const {
  const auto all = usage(namespace_, quota);
  const auto found = all.find("");
  return found == all.end() ? std::nullopt : std::optional(found->second);
}

QuotaUsage QuotaBook::usage(std::string_view namespace_, std::string_view quota) const {
  QuotaUsage usage;
  const auto* space = spaceOf(namespace_);
  if (space == nullptr) return usage;
  for (const auto& counted : space->quotas)
    if (counted.quota.name == quota) usage[counted.quota.profile] = counted.used;
  return usage;
}

std::vector<QuotaBook::Share> QuotaBook::sharesOf(const QuotaExcess& excess) const {
  std::vector<Share> shares;
  const auto* space = excess.asked.empty() ? nullptr : spaceOf(excess.asked.front().claim.namespace_);
  if (space == nullptr) return shares;
  const auto asks = [&excess](const std::string& id) {
    return std::any_of(excess.asked.begin(), excess.asked.end(),
                       [&id](const QuotaAsked& each) { return each.claim.id == id || each.insteadOf == id; });
  };
  for (const auto& counted : space->quotas) {
    if (counted.quota.name != excess.quota || counted.quota.profile != excess.profile) continue;
    for (const auto& [id, claim] : space->claims)
      if (const int64_t amount = contribution(counted.quota, claim)[static_cast<std::size_t>(excess.key)];
          amount > 0 && !asks(id))
        shares.push_back({-amount, claim.name, id});
  }
  std::sort(shares.begin(), shares.end());
  return shares;
}

std::string QuotaBook::holders(const QuotaExcess& excess, std::size_t max) const {
  const auto shares = sharesOf(excess);
  std::string text;
  for (std::size_t i = 0; i < shares.size() && i < max; ++i)
    text += (i == 0 ? "" : ", ") + shares[i].name + " " + quotaText(excess.key, -shares[i].negative);
  return shares.size() > max ? text + " and " + std::to_string(shares.size() - max) + " more" : text;
}

std::vector<std::string> QuotaBook::releasesThatDo(const QuotaExcess& excess, std::size_t max) const {
  std::vector<std::string> names;
  if (excess.asked.empty() || excess.perClaim || excess.unrated) return names;
  auto rest = of(excess.asked.front().claim.namespace_);
  for (const auto& share : sharesOf(excess)) {
    if (names.size() == max) break;
    names.push_back(share.name);
    const auto parts = rest.spaceOf(excess.asked.front().claim.namespace_)->claims.find(share.id)->second.parts;
    for (const auto& held : parts) rest.drop(held.holder);
    if (!rest.excess(excess.asked)) return names;
  }
  return {};
}

std::optional<uint64_t> QuotaBook::refusing(std::string_view namespace_) const {
  const auto* space = spaceOf(namespace_);
  if (space == nullptr || std::none_of(space->quotas.begin(), space->quotas.end(),
                                       [](const Counted& counted) { return counted.quota.refuse; }))
    return std::nullopt;
  return space->version;
}

bool QuotaBook::isFreed(std::string_view namespace_, bool limitsChanged) const {
  const auto space = spaces_.find(namespace_);
  if (limitsChanged || space == spaces_.end()) return limitsChanged;
  const auto isBelowRefused = [](const Counted& counted) {
    for (std::size_t i = 0; i < kQuotaKeys && counted.refusedAt; ++i)
      if (counted.used[i] < (*counted.refusedAt)[i]) return true;
    return false;
  };
  return std::any_of(space->second.quotas.begin(), space->second.quotas.end(), isBelowRefused);
}

bool QuotaBook::hasFreed() const {
  return std::any_of(changed_.begin(), changed_.end(),
                     [this](const auto& change) { return isFreed(change.first, change.second); });
}

std::vector<QuotaBook::Change> QuotaBook::takeChanges() {
  std::vector<Change> changes;
  for (auto& [name, limits] : changed_) {
    const Change change{name, isFreed(name, limits)};
    if (const auto space = spaces_.find(name); change.freed && space != spaces_.end())
      for (auto& counted : space->second.quotas) counted.refusedAt.reset();
    changes.push_back(change);
  }
  changed_.clear();
  return changes;
}

std::string quotaHoldersText(const QuotaBook& book, const QuotaExcess& excess, bool releases) {
  constexpr std::size_t kMaxNamed = 3;
  if (excess.perClaim || excess.unrated) return {};
  auto text = book.holders(excess, kMaxNamed);
  if (text.empty()) return text;
  text = "held by " + text;
  std::string names;
  if (releases)
    for (const auto& name : book.releasesThatDo(excess, kMaxNamed)) names += (names.empty() ? "" : ", ") + name;
  return names.empty() ? text : text + ": without " + names + " it would be within its quotas";
}

}  // namespace egpu::scheduler

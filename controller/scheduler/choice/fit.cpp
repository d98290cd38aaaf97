#include "controller/scheduler/choice/fit.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "controller/scheduler/choice/parameters.h"
#include "controller/scheduler/choice/split.h"
#include "controller/scheduler/mig/instances.h"
#include "controller/scheduler/quota/quota.h"

namespace egpu::scheduler {
namespace {

int64_t saturate(__int128 value) {
  constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
  return value > kMax ? kMax : static_cast<int64_t>(value);
}

/// True if the quotas allow the wanted number of cards of this type. For a total to be divided only the smallest part
/// is checked; the whole is counted after the division.
bool withinQuota(const CardType& type, const Request& request, const Amount& charged) {
  auto wants = quotaAmounts(divides(request) ? 1 : request.cards, charged, type.core, type.milliTflops);
  wants[static_cast<std::size_t>(QuotaKey::instances)] = request.mig.instances;
  for (const auto& quota : request.quota) {
    if (!anyOf(quota.models, type.model)) continue;
    if (!quota.profile.empty() && quota.profile != request.mig.profile) continue;
    for (std::size_t i = 0; i < kQuotaKeys; ++i)
      if (quota.left[i] && wants[i] > 0 && wants[i] > *quota.left[i]) return false;
    const bool counted = type.milliTflops > 0 || charged.core == 0;
    if (quota.left[static_cast<std::size_t>(QuotaKey::tflops)] && !counted) return false;
  }
  return true;
}

/// Amounts of MIG instances on a card of this type. The driver enforces them, so they are charged as they are granted.
Need needOfInstances(const CardType& type, const Request& request) {
  Need need;
  need.profile = mig::findProfile(type.mig, request.mig.profile);
  if (need.profile == nullptr) {
    need.verdict = TypeVerdict::noProfile;
    return need;
  }
  const int64_t n = request.mig.instances;
  need.granted = need.charged = mig::amountOf(*need.profile, n, type.core);
  if (!mig::canPlace(*need.profile, n, {}))
    need.verdict = TypeVerdict::tooSmall;
  else if (!withinQuota(type, request, need.charged))
    need.verdict = TypeVerdict::overQuota;
  return need;
}

}  // namespace

int64_t chargedFor(int64_t granted, int64_t overcommit) {
  if (overcommit == 1000) return granted;
  return saturate((static_cast<__int128>(granted) * 1000 + overcommit - 1) / overcommit);
}

int64_t grantableFrom(int64_t charged, int64_t overcommit) {
  if (charged <= 0) return 0;
  return saturate(static_cast<__int128>(charged) * overcommit / 1000);
}

int64_t memoryInProportion(int64_t core, const CardType& type) {
  if (type.core <= 0) return 0;
  int64_t memory = saturate(static_cast<__int128>(type.memory) * core / type.core);
  // All of the core gives all of the memory, even if that is no multiple of a MiB.
  return core == type.core ? type.memory : memory / kMiB * kMiB;
}

bool isPinned(const Cluster::State& state, const Request& request, CardId id) {
  const auto& names = request.pinnedCards;
  return std::find(names.begin(), names.end(), state.cardName(id)) != names.end();
}

bool isAllowedByPin(const Cluster::State& state, const Request& request, CardId id) {
  if (request.pinnedCards.empty() || isPinned(state, request, id)) return true;
  if (isLimitedToPinned(request)) return false;
  const CardId first = state.findCard(request.pinnedCards.front());
  return first != kNone && state.cards[first].node == state.cards[id].node;
}

ModeId modeOf(const Cluster::State& state, const Request& request) {
  if (request.wholeCards || request.adminAccess) return kAnyMode;
  if (request.isolation.empty()) return kNoIsolation;
  return request.isolation == "auto" ? kAutoMode : state.modes.find(request.isolation);
}

std::string resolvedIsolation(const CardRecord& card, std::string_view parameter) {
  std::string_view mode = parameter;
  if (parameter == "auto") {
    const ModeId resolved = resolvedMode(card, kAutoMode);
    mode = resolved == kDriverLimits ? "driver" : resolved == kLimiter ? "limiter" : "none";
  }
  return mode == "none" ? std::string() : std::string(mode);
}

std::string isolationOf(const CardRecord& card, const Request& request) {
  return request.wholeCards || request.adminAccess ? std::string() : resolvedIsolation(card, request.isolation);
}

Need needOn(const CardType& type, const Request& request) {
  Need need;
  if (!request.models.empty() &&
      std::find(request.models.begin(), request.models.end(), type.model) == request.models.end()) {
    need.verdict = TypeVerdict::otherModel;
    return need;
  }
  if (type.memory < request.minMemory) {
    need.verdict = TypeVerdict::belowMinMemory;
    return need;
  }
  const bool wantsInstances = !request.mig.profile.empty();
  if (wantsInstances == type.mig.empty() && !request.adminAccess) {
    need.verdict = wantsInstances ? TypeVerdict::notInMigMode : TypeVerdict::inMigMode;
    return need;
  }
  if (wantsInstances) return needOfInstances(type, request);
  if (request.wholeCards) {
    // A whole card is charged whole, so that overcommit never lets another claim onto it.
    need.granted = need.charged = {type.core, type.memory};
    if (!withinQuota(type, request, need.charged)) need.verdict = TypeVerdict::overQuota;
    return need;
  }
  const int64_t rating = type.milliTflops;
  if (request.milliTflopsPerCard > 0 && rating <= 0) {
    need.verdict = TypeVerdict::noRating;
    return need;
  }
  if (divides(request)) {
    need.granted = SplitTotal(request).maxAmount(type, 1);
  } else {
    need.granted = request.perCard;
    if (request.milliTflopsPerCard > 0)
      need.granted.core =
          saturate((static_cast<__int128>(request.milliTflopsPerCard) * type.core + rating - 1) / rating);
    if (request.memoryFromCore) need.granted.memory = memoryInProportion(need.granted.core, type);
  }
  if (need.granted.core > type.core || need.granted.memory > type.memory) need.verdict = TypeVerdict::tooSmall;
  need.charged = chargedFor(need.granted, request);
  if (need.possible() && !withinQuota(type, request, need.charged)) need.verdict = TypeVerdict::overQuota;
  return need;
}

const Need& Needs::search(TypeId type) {
  const auto known = [type](const TypeNeed& k) { return k.type == type; };
  const auto end = few_.begin() + static_cast<std::ptrdiff_t>(count_);
  if (const auto few = std::find_if(few_.begin(), end, known); few != end) {
    last_ = &*few;
  } else if (const auto other = std::find_if(others_.begin(), others_.end(), known); other != others_.end()) {
    last_ = &*other;
  } else {
    TypeNeed& fresh = count_ < few_.size() ? few_[count_++] : others_.emplace_back();
    fresh = {type, needOn(state_.types[type], request_)};
    fresh.need.mode = modeOf(state_, request_);
    last_ = &fresh;
  }
  return last_->need;
}

namespace {

/// Lower bound of the core that a divided request takes in total on cards of this type.
int64_t totalCoreOn(const CardType& type, const Request& request) {
  if (request.milliTflopsPerCard == 0) return request.perCard.core;
  return static_cast<int64_t>(static_cast<__int128>(request.milliTflopsPerCard) * type.core / type.milliTflops);
}

}  // namespace

bool leastOn(const NodeIndex::CardMix& mix, const Request& request, Needs& needs, Summary& least) {
  least = {};
  auto require = [&least](std::size_t number, uint8_t value) { least.at[number] = std::max(least.at[number], value); };
  if (request.cpuMilli > 0) require(Summary::kNodeCpu, Summary::coarse(request.cpuMilli, Summary::kCpuUnit));
  if (request.podMemory > 0)
    require(Summary::kNodeMemory, Summary::coarse(request.podMemory, Summary::kNodeMemoryUnit));
  if (request.maxClaimsPerNode > 0)
    require(Summary::kNodeClaims, Summary::clamped(Summary::kMax + 1 - request.maxClaimsPerNode));
  if (request.cards == 0) return true;
  Amount charged{std::numeric_limits<int64_t>::max(), std::numeric_limits<int64_t>::max()};
  bool possible = false;
  int64_t total = std::numeric_limits<int64_t>::max();  // core of a divided request if all its cards had one type
  for (TypeId type : mix.types) {
    const Need& need = needs.of(type);
    if (!need.possible()) continue;
    possible = true;
    if (divides(request)) total = std::min(total, totalCoreOn(needs.type(type), request));
    charged = {std::min(charged.core, need.charged.core), std::min(charged.memory, need.charged.memory)};
  }
  if (!possible) return false;
  if (divides(request))
    require(Summary::kFreeCore, Summary::coarse(chargedFor(total, request.coreOvercommit), Summary::kCoreUnit));
  if (request.maxClaimsPerCard > 0)
    require(Summary::kCardClaims, Summary::clamped(Summary::kMax + 1 - request.maxClaimsPerCard));
  if (request.wholeCards) {
    require(Summary::kEmpty, Summary::clamped(request.cards));
    return true;
  }
  const uint8_t core = mix.scale.core(charged.core), memory = mix.scale.memory(charged.memory);
  require(Summary::kCoreAt + mix.scale.stepOfMemory(memory), core);
  require(Summary::kMemoryAt + mix.scale.stepOfCore(core), memory);
  // The last of the needed cards is at least as good as the one at the next lower power of two.
  if (request.cards >= 2) require(Summary::kMemoryRank, memory);
  for (std::size_t rank = 0; rank < 2 && (int64_t{2} << rank) <= request.cards; ++rank)
    require(Summary::kCoreRanks + rank, core);
  return true;
}

}  // namespace egpu::scheduler

// Checks whether a card or a node can hold a request. decide() and explain() share it, so that explanations agree with
// decisions.
#pragma once

#include <array>
#include <list>

#include "controller/scheduler/request.h"
#include "controller/scheduler/state/state.h"

namespace egpu::scheduler {

/// Why a card type can never hold a request, even if the card is empty.
/// inMigMode: only instances of it can be allocated. notInMigMode, noProfile: the request is for MIG instances.
enum class TypeVerdict {
  suits,
  otherModel,
  belowMinMemory,
  inMigMode,
  notInMigMode,
  noProfile,
  noRating,
  tooSmall,
  overQuota
};

/// Amounts of a request on one card of a type; for a total to be divided (split.h), those of the smallest part.
struct Need {
  TypeVerdict verdict = TypeVerdict::suits;
  Amount granted;  ///< also set for tooSmall and overQuota, so that reports can use it
  Amount charged;
  ModeId mode = kAnyMode;                        ///< of the request
  const v1alpha::MigProfile* profile = nullptr;  ///< profile of a request for MIG instances; valid as long as the type
  bool possible() const { return verdict == TypeVerdict::suits; }
};

/// ⌈granted · 1000 ÷ overcommit⌉
int64_t chargedFor(int64_t granted, int64_t overcommit);
inline Amount chargedFor(const Amount& granted, const Request& request) {
  return {chargedFor(granted.core, request.coreOvercommit), chargedFor(granted.memory, request.memoryOvercommit)};
}
/// Returns the maximum amount that can be granted for a charge: the inverse of chargedFor().
int64_t grantableFrom(int64_t charged, int64_t overcommit);
/// Returns the memory in proportion to core, rounded down to a MiB.
int64_t memoryInProportion(int64_t core, const CardType& type);

/// Returns the amounts of a request on a card of this type. `mode` is not set.
Need needOn(const CardType& type, const Request& request);

/// Returns the isolation mode of the request.
ModeId modeOf(const Cluster::State& state, const Request& request);
/// Returns the mode that a request of this mode has on the card. "auto" is the driver's memory limits if the card has
/// them, else the limiter if the card's node has it, else none. The shares of a card that are limited in one of these
/// ways get further ones, so that a new driver does not close the card to them.
inline ModeId resolvedMode(const CardRecord& card, ModeId requested) {
  if (requested != kAutoMode) return requested;
  const bool hasLimiter = card.limiter == static_cast<uint32_t>(LimiterSupport::available);
  if (hasLimiter && !card.empty() && card.mode == kLimiter) return kLimiter;
  if (card.memoryLimits) return kDriverLimits;
  return hasLimiter ? kLimiter : kNoIsolation;
}
/// Returns the name of the mode that the class parameter `isolation` gives on the card; empty = none.
std::string resolvedIsolation(const CardRecord& card, std::string_view parameter);
/// Returns the mode of the request's share of the card; empty = none, or a whole card.
std::string isolationOf(const CardRecord& card, const Request& request);
/// True if the compute mode of the card admits a single process, and the request is for a share: its containers can
/// have more. With MPS, the single process is the daemon.
inline bool isTooExclusive(const CardRecord& card, ModeId requested) {
  return card.exclusive && requested != kAnyMode && requested != kMps;
}
/// True if the card offers the mode of the request.
inline bool offersMode(const CardRecord& card, ModeId requested) {
  if (isTooExclusive(card, requested)) return false;
  const ModeId mode = resolvedMode(card, requested);
  if (mode == kDriverLimits) return card.memoryLimits;
  return card.limiter != static_cast<uint32_t>(LimiterSupport::missing) || mode != kLimiter;
}
/// True if the card's shares have another mode than the request: all of them would have to leave.
inline bool hasOtherMode(const CardRecord& card, ModeId requested) {
  return requested != kAnyMode && !card.empty() && card.mode != resolvedMode(card, requested);
}
inline bool canTakeMode(const CardRecord& card, ModeId requested) {
  return offersMode(card, requested) && !hasOtherMode(card, requested);
}

/// True if the card has the amount free and is below its limit of claims. Ignores its health.
inline bool cardHasCapacity(const CardRecord& card, const Amount& charged, const Request& request) {
  if (request.maxClaimsPerCard > 0 && card.claims() >= request.maxClaimsPerCard) return false;
  if (request.wholeCards) return card.empty();
  const Amount free = card.free();
  return free.core >= charged.core && free.memory >= charged.memory && !card.left.used().overlaps(charged.slots);
}

/// True if the card has free slots for the request's MIG instances, or it has none.
inline bool hasSlots(const CardRecord& card, const Need& need, const Request& request) {
  return need.profile == nullptr || mig::canPlace(*need.profile, request.mig.instances, card.left.used());
}

/// True if the card can hold the need now. The type's verdict must be `suits`.
inline bool canHold(const CardRecord& card, const Need& need, const Request& request) {
  return card.healthy && canTakeMode(card, need.mode) && cardHasCapacity(card, need.charged, request) &&
         hasSlots(card, need, request);
}

/// True if the request's pinned cards allow this card: it is one of them, or further cards are wanted and it is on
/// their node.
bool isAllowedByPin(const Cluster::State& state, const Request& request, CardId id);
/// True if the card is pinned by the request.
bool isPinned(const Cluster::State& state, const Request& request, CardId id);

inline bool isBelowClaimLimit(const NodeRecord& node, const Request& request) {
  return request.maxClaimsPerNode <= 0 || node.claims < request.maxClaimsPerNode;
}

/// True if the node has the free CPU and memory that the pod requests.
inline bool nodeHasCapacity(const NodeRecord& node, const Request& request) {
  const NodeAmount free = node.free();
  return (request.cpuMilli <= 0 || free.cpuMilli >= request.cpuMilli) &&
         (request.podMemory <= 0 || free.memory >= request.podMemory);
}

/// Needs by card type, computed once per request and type.
class Needs {
 public:
  Needs(const Cluster::State& state, const Request& request) : state_(state), request_(request) {}
  Needs(const Needs&) = delete;
  Needs& operator=(const Needs&) = delete;

  const Need& of(TypeId type) {
    // Neighbouring cards usually have the same type.
    return type == last_->type ? last_->need : search(type);
  }

  const CardType& type(TypeId id) const { return state_.types[id]; }

 private:
  struct TypeNeed {
    TypeId type = kNone;
    Need need;
  };
  const Need& search(TypeId type);

  const Cluster::State& state_;
  const Request& request_;
  std::array<TypeNeed, 8> few_;
  std::size_t count_ = 0;       // entries used in few_
  std::list<TypeNeed> others_;  // usually empty; a list, so that returned references stay valid
  const TypeNeed* last_ = &few_.front();
};

/// Computes the minimum free capacity, in the index's terms, that a node of this mix needs for the request. Returns
/// false if no node of the mix can ever hold the request.
bool leastOn(const NodeIndex::CardMix& mix, const Request& request, Needs& needs, Summary& least);

}  // namespace egpu::scheduler

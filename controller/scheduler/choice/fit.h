// Whether a card or a node can hold a request: the one place that says so, for decide() and explain() alike.
#pragma once

#include <array>
#include <list>

#include "controller/scheduler/request.h"
#include "controller/scheduler/state/state.h"

namespace egpu::scheduler {

/// Why a type of card can never hold a request, however empty.
enum class TypeVerdict { suits, otherModel, belowMinMemory, noRating, tooSmall, overQuota };

/// What a request takes of one card of a type; of a total to be divided (split.h), what the smallest part takes.
struct Need {
  TypeVerdict verdict = TypeVerdict::suits;
  Amount granted;  ///< also filled in for tooSmall and overQuota, so that a report can name it
  Amount charged;
  bool possible() const { return verdict == TypeVerdict::suits; }
};

/// ⌈granted · 1000 ÷ overcommit⌉
int64_t chargedFor(int64_t granted, int64_t overcommit);
inline Amount chargedFor(const Amount& granted, const Request& request) {
  return {chargedFor(granted.core, request.coreOvercommit), chargedFor(granted.memory, request.memoryOvercommit)};
}
/// The most that can be granted when this much may be charged: the inverse of chargedFor.
int64_t grantableFrom(int64_t charged, int64_t overcommit);
/// core ÷ cardCore of memory, down to a MiB.
int64_t memoryInProportion(int64_t core, const CardType& type);

Need needOn(const CardType& type, const Request& request);

/// Whether so much is free of the card, and it has not too many claims; however healthy it is.
inline bool cardHasRoom(const CardRecord& card, const Amount& charged, const Request& request) {
  if (request.maxClaimsPerCard > 0 && card.claims() >= request.maxClaimsPerCard) return false;
  if (request.wholeCards) return card.empty();
  const Amount free = card.free();
  return free.core >= charged.core && free.memory >= charged.memory;
}

/// Whether the card holds the need now. The type's verdict must be `suits`.
inline bool cardFits(const CardRecord& card, const Need& need, const Request& request) {
  return card.healthy && cardHasRoom(card, need.charged, request);
}

/// Whether the request's pinned cards allow this card: one of them, or, where more cards are wanted than are pinned, any
/// card of their node.
bool isAllowedByPin(const Cluster::State& state, const Request& request, CardId id);
/// Whether the request names this card.
bool isPinned(const Cluster::State& state, const Request& request, CardId id);

inline bool nodeBelowLimit(const NodeRecord& node, const Request& request) {
  return request.maxClaimsPerNode <= 0 || node.claims < request.maxClaimsPerNode;
}

/// Whether the node has the CPU and memory that the pod asks of it.
inline bool nodeHasRoom(const NodeRecord& node, const Request& request) {
  const NodeAmount free = node.free();
  return (request.cpuMilli <= 0 || free.cpuMilli >= request.cpuMilli) &&
         (request.podMemory <= 0 || free.memory >= request.podMemory);
}

/// Needs per type of card, worked out once per request and type.
class Needs {
 public:
  Needs(const Cluster::State& state, const Request& request) : state_(state), request_(request) {}
  Needs(const Needs&) = delete;
  Needs& operator=(const Needs&) = delete;

  const Need& of(TypeId type) {
    // Neighbouring cards are mostly of one type.
    return type == last_->type ? last_->need : lookUp(type);
  }

  const CardType& type(TypeId id) const { return state_.types[id]; }

 private:
  struct Known {
    TypeId type = kNone;
    Need need;
  };
  const Need& lookUp(TypeId type);

  const Cluster::State& state_;
  const Request& request_;
  std::array<Known, 8> few_;
  std::size_t count_ = 0;    // of those
  std::list<Known> others_;  // mostly none; a list: what was handed out stays where it is
  const Known* last_ = &few_.front();
};

/// What a node of this mix must at least have free for the request to have a chance, as the index states it. False:
/// no node of it can ever hold the request.
bool leastOn(const NodeIndex::CardMix& mix, const Request& request, Needs& needs, Summary& least);

}  // namespace egpu::scheduler

// Finds victims: the smallest set of holders on one node whose release lets a request in.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "controller/scheduler/decide.h"
#include "controller/scheduler/explain.h"
#include "controller/scheduler/state/holdings.h"

namespace egpu::scheduler {

struct VictimPlaces;

struct Victim {
  std::string device;  ///< uid of its allocations
  std::vector<Holding> holdings;
  bool operator==(const Victim&) const = default;
};

struct Preemption {
  bool possible = false;
  std::string node;
  std::vector<Victim> victims;  ///< by uid; empty if the request fits already
  Decision decision;            ///< decision after the victims are released
  /// True if no smaller set of victims is enough on any node. False if the search was cut short: none of the victims
  /// can be spared, or none were found.
  bool exact = true;
  bool operator==(const Preemption&) const = default;
};

/// True if the holder of this device uid can be preempted; null = all can.
using IsEvictable = std::function<bool(std::string_view device)>;

/// True if a set of victims that is enough is acceptable; null = always. In `without` the victims are released;
/// `decision` is the decision for the request then. The function must restore `without` before it returns.
using AcceptVictims =
    std::function<bool(Cluster& without, const Decision& decision, const std::vector<Victim>& victims)>;

/// Rank of a possible victim. since: seconds of any one clock, when it got its cards.
struct EvictionRank {
  int64_t priority = 0;
  int64_t since = 0;
};
/// Returns the rank of the holder of this device uid; null = all ranks are equal.
using EvictionRankOf = std::function<EvictionRank(std::string_view device)>;

/// Called before each decision. True ends the search with the best result so far. Null = never.
using StopCondition = std::function<bool()>;

/// Finds the cheapest set of victims: the fewest holders; then, if `standing` is given, the lowest priorities (smallest
/// sum), then the youngest (largest sum of `since`); then the smallest amounts (sum of the shares of their cards), then
/// the lower node name.
///
/// Example, two cards of one node, a request of core 700:
///
///   card 0: a 500, b 400      lacks 600: a alone releases 500 and b alone 400, so both are needed
///   card 1: c 900             lacks 600: c is enough
///
/// c is the victim: one holder instead of two. Places (a card or, for several cards, their node) are ordered by a lower
/// bound of the cost and searched in that order until no other place can be better. After `limit` decisions the best
/// result so far is returned; without a result the search continues. `pause` is called before each decision, and can
/// throw to abort.
inline constexpr int64_t kMaxPreemptions = 100'000;
Preemption preempt(const Cluster& cluster, const Request& request, const NodePredicate& suits = {},
                   const IsEvictable& isEvictable = {}, int64_t limit = kMaxPreemptions, const Pause& pause = {},
                   const AcceptVictims& accept = {}, const EvictionRankOf& standing = {},
                   const StopCondition& enough = {});

/// Restricts the search of a request that does not fit.
struct SearchScope {
  const std::vector<std::string>* nodes = nullptr;  ///< only these nodes are searched; null = all
  NodePredicate goes{};                             ///< nodes on which there can be victims; null = all
};
/// Like preempt(), but tries on the cluster itself, which is unchanged on return, and makes no copy. Decisions are
/// subtracted from `left`. `known` has the places found by an earlier search and is updated for the next one; null =
/// none.
Preemption preemptIn(Cluster& cluster, const Request& request, const SearchScope& among, const NodePredicate& suits,
                     const IsEvictable& isEvictable, int64_t& left, const EvictionRankOf& standing,
                     const StopCondition& enough, const AcceptVictims& accept = {}, VictimPlaces* known = nullptr);

}  // namespace egpu::scheduler

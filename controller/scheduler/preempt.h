// Who would have to go: the smallest set of holders on one node whose release lets a request in.
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
  std::string device;  ///< the uid that its allocations stand under
  std::vector<Holding> holdings;
  bool operator==(const Victim&) const = default;
};

struct Preemption {
  bool possible = false;
  std::string node;
  std::vector<Victim> victims;  ///< by uid; empty if the request fits as it is
  Decision decision;            ///< what would be decided once they are gone
  /// Fewer holders would do on no node. False: none of these can be spared, or nobody was found, but the search was cut short.
  bool exact = true;
  bool operator==(const Preemption&) const = default;
};

/// Whether the holder of this device uid may be released; null = all may.
using MayGo = std::function<bool(std::string_view device)>;

/// Whether a set of holders will do that would make room; null = it does. `without` has them gone, `decision` is what
/// would be decided then; `without` must be as it was when this returns.
using Settles = std::function<bool(Cluster& without, const Decision& decision, const std::vector<Victim>& victims)>;

/// What speaks for a holder. since: seconds of any one clock, from when it has what it holds.
struct Standing {
  int64_t priority = 0;
  int64_t since = 0;
};
/// The standing of the holder of this device uid; null = all stand alike.
using StandingOf = std::function<Standing(std::string_view device)>;

/// Asked before each decision; true: it has gone on for long enough, and what has been found is the answer. Null = never.
using Enough = std::function<bool()>;

/// Fewest holders first, then, if `standing` is given, the lowest (the smallest sum of priorities) and of these the
/// youngest (the largest sum of `since`), then the least they hold (the sum of the shares of their cards), then the lower node name.
///
/// Worked example, two cards of one node, a request of core 700:
///
///   card 0: a 500, b 400      lacks 600: a alone leaves 600, b alone 500, so both
///   card 1: c 900             lacks 600: c
///
/// c goes: one holder instead of two. Places (a card, or for several cards their node) are ordered by a lower bound of
/// what must go, and searched in that order until no other can be better. Once `limit` decisions are made the best of what
/// was found is the answer; where nothing was, it goes on. `pause` is called before each of them, and may throw to give up.
inline constexpr int64_t kMostPreemptions = 100'000;
Preemption preempt(const Cluster& cluster, const Request& request, const NodePredicate& suits = {},
                   const MayGo& mayGo = {}, int64_t limit = kMostPreemptions, const Pause& pause = {},
                   const Settles& settles = {}, const StandingOf& standing = {}, const Enough& enough = {});

/// Where one that does not fit is looked for.
struct Among {
  const std::vector<std::string>* nodes = nullptr;  ///< no other is looked at; null = any
  NodePredicate goes{};                             ///< nodes on which somebody may go; null = any
};
/// As preempt(), but tried on the cluster itself, which is as before when this returns, and no copy is made. The decisions
/// made are taken off `left`. known: places that an earlier search found, for this one and the next; null = none.
Preemption preemptIn(Cluster& cluster, const Request& request, const Among& among, const NodePredicate& suits,
                     const MayGo& mayGo, int64_t& left, const StandingOf& standing, const Enough& enough,
                     const Settles& settles = {}, VictimPlaces* known = nullptr);

}  // namespace egpu::scheduler

// Plans claim moves so that a request fits or cards become empty, with as few moves as possible. Works on a copy.
//
// To move a claim means to release it and to decide again by the policies of its class; no claim moves twice. The moves
// of a plan can be made in their order: each then has the capacity that it needs. Nothing is reserved or written; the
// caller plans again after every move.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "controller/scheduler/decide.h"
#include "controller/scheduler/explain.h"
#include "controller/scheduler/gang.h"
#include "controller/scheduler/state/holdings.h"

namespace egpu::scheduler {

/// A claim that can be moved, with the request for its new decision.
struct Mover {
  Request request;  ///< without its pod's amounts on a node, which are read from its holdings
  NodePredicate suits;
};
/// Movers by device uid.
using Movers = std::map<std::string, Mover, std::less<>>;

struct Move {
  std::string device;
  std::vector<Holding> from;
  Decision to;
  bool operator==(const Move&) const = default;
};

struct MovePlan {
  bool possible = false;
  std::vector<Move> moves;
  Decision decision;       ///< decision for the request after the moves; fits = false: no request
  int64_t freedCards = 0;  ///< without a request: number of healthy cards that become empty
  /// With a request: no smaller plan exists, except plans that also move claims between other nodes.
  bool exact = true;
  /// Decision of decideGang() after the moves; nullopt: the plan is not for a gang.
  struct Gang {
    std::vector<Decision> decisions;     ///< one per member, in their order; empty = they do not all fit
    std::string group;                   ///< group of all members, if groups were given
    std::size_t fit = 0;                 ///< number of members that fit without any move
    std::optional<GangShort> lacking{};  ///< member that does not fit without a move; nullopt: all fit
    bool operator==(const Gang&) const = default;
  };
  std::optional<Gang> gang{};
  bool operator==(const MovePlan&) const = default;
};

/// Maximum number of decisions of a search; the rest is not tried.
inline constexpr int64_t kMaxMoveDecisions = 20'000;

/// Finds the fewest moves that let the request in; among equal numbers, the moves of the least amount. All moved claims
/// are on the node that the request gets. The search is that of preempt(), limited to victims that fit elsewhere. No
/// claim moves if the request fits already. `pause` is called periodically, and can throw to abort.
MovePlan movesToLetIn(const Cluster& cluster, const Request& request, const NodePredicate& suits, const Movers& movers,
                      int64_t limit = kMaxMoveDecisions, const Pause& pause = {});

/// Finds few moves that let all members of a gang in: the better result of two searches. One is movesToLetIn() for each
/// member, beside the capacity of the members before it; the other uses the victims of preemptTogether(). With several
/// groups (`within`, as in decideGang()) the group with the fewest moves wins. No claim moves if all members fit
/// already, or if a quota stops them, which gang->lacking names. A plan is possible only if decideGang() lets all
/// members in after its moves, without reserved capacity. `exact`: with fewer moves too few cards would be empty;
/// without a plan: no moves at all would be enough.
MovePlan movesToLetAllIn(const Cluster& cluster, const std::vector<GangMember>& members,
                         const std::vector<TopologyGroup>* within, const QuotaBook& book, const Movers& movers,
                         int64_t limit = kMaxMoveDecisions, const Pause& pause = {});

/// Empties cards, those with the fewest and smallest claims first, while this increases the number of empty cards, by
/// at most `max` moves. A card is emptied only if all its claims can move to cards that are in use. A claim whose
/// policy spreads would take an empty card, so it never moves.
MovePlan movesToFreeCards(const Cluster& cluster, const Movers& movers, int64_t max, int64_t limit = kMaxMoveDecisions,
                          const Pause& pause = {});

/// Plans moves for a cluster, by one of the functions above.
using MovePlanner = std::function<MovePlan(const Cluster&)>;

/// True if the first move helps even if it is carried out without any reservation: the claim is released and decided
/// again, in either order. Wherever it goes, the remaining plan must be shorter and reach the same goal.
bool firstMoveHolds(const Cluster& cluster, const MovePlan& plan, const Movers& movers, const MovePlanner& planner);
/// Reorders the plan so that it begins with a move for which firstMoveHolds() is true. Considers at most `max` moves
/// that can be made first; each other move still has its capacity. Returns false and keeps the order if there is none.
/// For one request all moves leave one node, for a gang several nodes: a claim that its policy would return to one of
/// them may still be able to leave another at once.
bool beginWithMoveThatHolds(const Cluster& cluster, MovePlan& plan, const Movers& movers, const MovePlanner& planner,
                            std::size_t max);

}  // namespace egpu::scheduler

// Which claims to move so that a request fits, or cards become whole: the fewest that do, found on a copy.
//
// A claim is moved by releasing it and deciding for it anew, by its own class's policies; nothing is moved twice. The
// moves of a plan can be made one after the other in their order: each finds its room when its turn comes. Nothing is
// reserved or written: who carries a plan out asks again after every move.
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

/// A claim that may be moved, as it would be decided for anew.
struct Mover {
  Request request;  ///< what its pod takes of a node is known from what it holds
  NodePredicate suits;
};
/// By device uid.
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
  Decision decision;       ///< for the request, once they are made; fits = false: there was none
  int64_t freedCards = 0;  ///< without a request: healthy cards without holders, more than before
  /// With a request: fewer would not do, unless claims on other nodes moved as well to make room for these.
  bool exact = true;
  /// Decision of decideGang() once the moves are made; nothing: the plan is for no gang.
  struct Gang {
    std::vector<Decision> decisions;     ///< one per member, in their order; empty: not all fit
    std::string group;                   ///< where they are, if they are kept together
    std::size_t fit = 0;                 ///< members that fit without any move
    std::optional<GangShort> lacking{};  ///< the member that fits nowhere without a move; nothing: all fit
    bool operator==(const Gang&) const = default;
  };
  std::optional<Gang> gang{};
  bool operator==(const MovePlan&) const = default;
};

/// So many decisions are made at most; what is left then is not tried.
inline constexpr int64_t kMostMoveDecisions = 20'000;

/// The fewest moves that let the request in; of as few, those of the least amount. All are moved from the node that it
/// gets, as preempt() finds victims, but only who has room elsewhere may go. Nothing moves if it fits as it is.
/// `pause` is called now and then, and may throw to give up.
MovePlan movesToLetIn(const Cluster& cluster, const Request& request, const NodePredicate& suits, const Movers& movers,
                      int64_t limit = kMostMoveDecisions, const Pause& pause = {});

/// Few moves that let all members of a gang in. Two searches look for them, and the fewest moves win: movesToLetIn() for
/// each member beside the room of the members before it, and the victims of preemptTogether(). Of several groups
/// (`within`, as in decideGang()) the group with the fewest moves wins. No claim moves if all members fit already, or if
/// a quota stops them, which gang->lacking names. A plan is possible only if decideGang() lets all members in after its
/// moves, while no room is held.
/// exact: with fewer moves too few cards would be empty; without a plan, no moves at all would do.
MovePlan movesToLetAllIn(const Cluster& cluster, const std::vector<GangMember>& members,
                         const std::vector<TopologyGroup>* within, const QuotaBook& book, const Movers& movers,
                         int64_t limit = kMostMoveDecisions, const Pause& pause = {});

/// Empties cards, those of the fewest and smallest claims first, as long as that makes more of them whole: at most
/// `most` moves. A card is emptied only if all that is on it may move and finds room on cards that are in use. A claim
/// whose policy spreads goes to an empty card again, so that it is never moved.
MovePlan movesToFreeCards(const Cluster& cluster, const Movers& movers, int64_t most,
                          int64_t limit = kMostMoveDecisions, const Pause& pause = {});

/// The plan for a cluster: one of the two above.
using MovePlanner = std::function<MovePlan(const Cluster&)>;

/// Whether the first move brings the plan on if it is carried out by nothing but giving the claim up and making it anew, in whichever
/// order, with nothing kept for anybody: wherever it goes then, what is left to do is less, and has the same end.
bool firstMoveHolds(const Cluster& cluster, const MovePlan& plan, const Movers& movers, const MovePlanner& planner);
/// Puts first the first move that holds so, of at most `most` that may be made first; each other move still finds its
/// room. False: none holds, and the plan is as before. The moves of one claim are on one node, of a gang on several: a
/// claim that its policy sends back to one of these nodes may leave another one at once.
bool beginWithMoveThatHolds(const Cluster& cluster, MovePlan& plan, const Movers& movers, const MovePlanner& planner,
                            std::size_t most);

}  // namespace egpu::scheduler

// A gang's members in a group of nodes, one after the other: what decide() would choose of these nodes, whose index has all nodes of
// the cluster, most of which are of other groups. The nodes are looked at once for all members that are alike. Internal to
// scheduler/.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "controller/scheduler/gang.h"
#include "controller/scheduler/judge.h"

namespace egpu::scheduler {

/// Cluster and group must outlive it.
class InGroup {
 public:
  InGroup(Cluster& cluster, const TopologyGroup& group) : cluster_(cluster), group_(group) {}

  static constexpr std::size_t kNowhere = static_cast<std::size_t>(-1);
  struct Chosen {
    std::size_t place = kNowhere;  ///< of the node, in the group
    Decision decision;
  };
  /// kind: those of one kind have the same `suits`, which is then asked once of each node; null = all do. open: asked of the node that
  /// is about to be chosen; a node where it says no is open to none of its kind until touched(). Null = all are.
  Chosen decide(std::size_t kind, Request request, const NodePredicate& suits, const NodePredicate& open);

  /// Something was taken there, or given back.
  void touched(std::size_t place);
  /// The cluster has changed: what was judged holds no more.
  void changed();
  /// How many nodes were looked at so far, each time that one was.
  std::size_t looks() const { return looks_; }

 private:
  static constexpr std::size_t kMostKnown = 8;  ///< of unlike members, the last ones
  struct Known {
    std::size_t kind = 0;
    Request request;
    std::vector<std::string_view> nodes;  ///< those that suit
    std::vector<std::size_t> places;      ///< theirs, ascending
    std::vector<NodeVerdict> verdicts;
    bool judged = false;
    std::vector<std::size_t> touched;  ///< places
  };
  Known& knownOf(std::size_t kind, const Request& request, const NodePredicate& suits);
  void lookAt(Known& known, const NodePredicate& suits);
  void judgeTouched(Known& known);

  Cluster& cluster_;
  const TopologyGroup& group_;
  std::vector<Known> known_;
  std::size_t next_ = 0;  ///< which of them goes for another
  std::size_t looks_ = 0;
};

}  // namespace egpu::scheduler

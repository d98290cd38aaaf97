// Chooses the nodes to reserve for requests that need their capacity at the same time: the pods of a gang, or the
// claims of one pod. Like reserveNodes() for one request, but also reserves nodes with enough free capacity, which
// later requests would take otherwise. Pure.
//
// A gang of three, each for two whole cards, has waited for long. Nodes of two cards, with the ages of their holders:
//
//   n0: free   n1: 100 and 200   n2: 50 and 400   n3: 300          n0, n1, n3: the last after 300 seconds
//   as before, n1 and n2 are reserved already                      n0, n1, n2: after 400; n3 would need half of that
//   as before, at most two nodes can be reserved                   none: two nodes would be of no use
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "controller/scheduler/gang.h"
#include "controller/scheduler/queue_order.h"
#include "controller/scheduler/quota/book.h"

namespace egpu::scheduler {

/// A reserved node, with the first of the members (by position) that will be placed there.
struct MemberReservation {
  std::size_t member = 0;
  std::string node;
  bool operator==(const MemberReservation&) const = default;
};

/// Nodes that are reserved for the requests now.
struct CurrentReservations {
  std::vector<std::string> nodes;
  int moves = 0;  ///< number of earlier changes of its nodes
};

/// Returns enough nodes for all members (as in decideGang(), which did not fit). Nodes without enough capacity count as
/// empty, and are taken in the order in which reserveNodes() expects them. Members of one pod share a node. A reserved
/// node is kept unless another one is expected in half the time, and so on, as in reserveNodes(). Of several groups
/// (`within`), the one that is complete first is taken, with the same preference for the group of all reserved nodes.
///
/// Holders for which `lasts` is true are expected to stay. It is called only for nodes about to be chosen, because it
/// may be expensive.
///
/// Returns an empty list if more than `max` nodes are needed, no nodes can ever hold all members, their quotas do not
/// allow it, or the pods have more than eight different requests. Scans the cluster once per different request.
std::vector<MemberReservation> planReservations(const Cluster& cluster, const std::vector<GangMember>& members,
                                                const std::vector<TopologyGroup>* within, const QuotaBook& book,
                                                int64_t now, const HeldSince& heldSince,
                                                const CurrentReservations& before, std::size_t max,
                                                const HolderLasts& lasts = {});

}  // namespace egpu::scheduler

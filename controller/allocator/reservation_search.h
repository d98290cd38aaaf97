// Search for nodes to reserve for claims and gangs that have been pending for long (reservations.h). A search scans the
// cluster, so it runs on a snapshot without the allocator's mutex, one at a time.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "controller/allocator/scheduling_request.h"
#include "controller/scheduler/choice/plan_reservations.h"
#include "controller/scheduler/queue_order.h"

namespace egpu::allocator {

struct AllocatorState;

/// Thread-safe.
class ReservationSearch {
 public:
  explicit ReservationSearch(AllocatorState& state) : state_(state) {}

  /// May reserve a node for requests (of one claim, or of several of one pod) that fit no node now: a node that `suits`
  /// accepts, or otherwise one that `otherwise` accepts (null = none).
  void reserveFor(const std::vector<SchedulingRequest>& asks, const scheduler::NodePredicate& suits,
                  const scheduler::NodePredicate& otherwise);
  /// May reserve all nodes that a gang needs.
  void reserveForGang(const std::vector<SchedulingRequest>& asks, const std::vector<GangMemberConstraints>& places,
                      const std::vector<scheduler::TopologyGroup>* within);

 private:
  struct NodeSearch {
    const scheduler::Cluster& cluster;
    const std::vector<SchedulingRequest>& asks;
    scheduler::NodePredicate suits;      ///< null = any node
    scheduler::NodePredicate otherwise;  ///< tried if no node suits; null = none
    scheduler::CurrentReservations before;
    scheduler::ReservationLimits limits;
  };
  /// Returns the node to reserve; empty if there is none. why: set to a message if a limit excludes all nodes.
  std::string nodeFor(const NodeSearch& search, std::string* why) const;
  /// isLimited: ReservationLimits::freeCardPercent applies.
  std::string nodeFor(const NodeSearch& search, bool isLimited, const scheduler::HolderLasts& lasts) const;
  /// Time since which the device exists; `now` if it is not known.
  int64_t heldSince(std::string_view device, int64_t now) const;
  /// True if the holder of the device shows no sign of ending (cache/holder_signs.h). max: age in seconds after
  /// which a holder without any sign is taken to stay.
  bool holderLasts(std::string_view device, int64_t now, int64_t max) const;

  AllocatorState& state_;
};

}  // namespace egpu::allocator

// Groups the members of a gang by pod.
#pragma once

#include <algorithm>
#include <cstddef>
#include <tuple>
#include <vector>

#include "controller/scheduler/gang.h"

namespace egpu::scheduler {

/// Positions of the members of one pod, which are placed on one node.
using GangUnit = std::vector<std::size_t>;

/// The units of a gang, in the two orders in which they are placed.
struct GangUnits {
  std::vector<GangUnit> inOrder;       ///< ordered by their first members
  std::vector<GangUnit> largestFirst;  ///< whole cards before shares, then by the request of the first member

  explicit GangUnits(const std::vector<GangMember>& members) {
    std::vector<std::size_t> unitOf(members.size());
    for (std::size_t i = 0; i < members.size(); ++i) {
      unitOf[i] = members[i].with ? unitOf[*members[i].with] : inOrder.size();
      if (!members[i].with) inOrder.emplace_back();
      inOrder[unitOf[i]].push_back(i);
    }
    largestFirst = inOrder;
    const auto size = [&members](const GangUnit& unit) {
      const Request& r = members[unit.front()].request;
      return std::tuple(r.wholeCards, r.perCard.core * r.cards, r.perCard.memory * r.cards, r.cards);
    };
    std::stable_sort(largestFirst.begin(), largestFirst.end(),
                     [&size](const GangUnit& a, const GangUnit& b) { return size(a) > size(b); });
  }
};

}  // namespace egpu::scheduler

// The card tier as plain loops: tries all sets of cards, and all divisions where links count. Supports up to 8 fitting
// cards, or 16 if neither links nor a division are requested.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "controller/scheduler/decide.h"

namespace egpu::scheduler::testing {

/// A card of a node that passes the parts of the card filter that do not depend on amounts.
struct PlainCandidate {
  std::string name;
  v1alpha::Card card;
  Amount used;
  int64_t fill = 0;
  Amount granted, charged;  ///< for requests that are not divided
};

/// Chooses cards. `node`: all its cards; both lists in the order of index, uuid, name. Returns nothing if the request
/// does not fit there.
std::optional<std::vector<Placement>> plainChoice(const Request& request, const std::vector<v1alpha::Card>& node,
                                                  const std::vector<PlainCandidate>& candidates);

/// Returns round(0.7 · memory + 0.3 · core) of the used percentages, or of the free ones if `available`. Rounds halves
/// up; the range is 0 … 100.
int64_t plainLoad(const v1alpha::Card& card, const Amount& used, int64_t memoryWeight, bool available);

/// Returns the largest part of a divided total that fits on a card, in steps; 0: none.
int64_t plainCapacity(const Request& request, const v1alpha::Card& card, const Amount& used);

}  // namespace egpu::scheduler::testing

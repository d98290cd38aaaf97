// The card tier as plain loops: tries all sets of cards, and all divisions where links count. Up to 8 fitting cards, or
// 16 where neither links nor a division are asked for.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "controller/scheduler/decide.h"

namespace egpu::scheduler::testing {

/// A card of a node that passes the card filter, as far as that does not depend on amounts.
struct PlainCandidate {
  std::string name;
  v1alpha::Card card;
  Amount used;
  int64_t fill = 0;
  Amount granted, charged;  ///< of what is not divided
};

/// `node`: all its cards; both in the order of index, uuid, name. Nothing if the request does not fit there.
std::optional<std::vector<Placement>> plainChoice(const Request& request, const std::vector<v1alpha::Card>& node,
                                                  const std::vector<PlainCandidate>& candidates);

/// round(0.7 · memory + 0.3 · core) of the percentages in use, or of those that are not, halves up, within 0 … 100.
int64_t plainLoad(const v1alpha::Card& card, const Amount& used, int64_t memoryWeight, bool available);

/// The largest part of a divided total that goes onto a card, in steps; 0: none.
int64_t plainRoom(const Request& request, const v1alpha::Card& card, const Amount& used);

}  // namespace egpu::scheduler::testing

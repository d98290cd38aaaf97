// Determines the usual request of a class's claims, for forecasts without a size.
#pragma once

#include <map>
#include <string>

#include "api/v1alpha/types.h"
#include "controller/cache/stores.h"

namespace egpu::whatif {

struct UsualSize {
  core::StringMap requests;
  std::string of;  ///< origin of the size: "the most frequent of its 12 claims"
  static core::StringMap wholeCard();
};

/// Returns per class the most frequent requests of its claims; of equally frequent ones the first in sort order. One
/// whole card if the class has no claims with requests. Reads every claim once.
std::map<std::string, UsualSize, std::less<>> usualSizes(const cache::Stores& stores);

}  // namespace egpu::whatif

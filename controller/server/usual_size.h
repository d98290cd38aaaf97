// What a claim of a class usually asks for, for forecasts that name no size.
#pragma once

#include <map>
#include <string>

#include "api/v1alpha/types.h"
#include "controller/cache/stores.h"

namespace egpu::server {

struct UsualSize {
  core::StringMap requests;
  std::string of;  ///< for people: "the most frequent of its 12 claims"
  static core::StringMap wholeCard();
};

/// Per class: the requests that most of its claims have, the lower ones in text if several are as frequent; one whole
/// card if it has no claims with requests. Reads every claim once.
std::map<std::string, UsualSize, std::less<>> usualSizes(const cache::Stores& stores);

}  // namespace egpu::server

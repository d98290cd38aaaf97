#include "controller/cache/explanations.h"

#include <algorithm>

namespace egpu::cache {

const scheduler::Explanation* Explanations::find(const scheduler::Request& request, std::string_view nodes,
                                                 Clock::time_point now) {
  std::erase_if(all_, [now](const Told& told) { return told.until <= now; });
  const auto it = std::find_if(all_.begin(), all_.end(),
                               [&](const Told& told) { return told.nodes == nodes && told.request == request; });
  return it == all_.end() ? nullptr : &it->explanation;
}

void Explanations::told(const scheduler::Request& request, std::string_view nodes,
                        const scheduler::Explanation& explanation, Clock::time_point began, Clock::time_point ended) {
  if (ended - began < kLong) return;
  if (all_.size() == kMax) all_.pop_front();
  all_.push_back({request, std::string(nodes), explanation, ended + kToldFor * (ended - began)});
}

}  // namespace egpu::cache

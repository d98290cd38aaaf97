#include "controller/allocator/explanation_cache.h"

#include <algorithm>

namespace egpu::allocator {

const scheduler::Explanation* ExplanationCache::find(const scheduler::Request& request, std::string_view nodes,
                                                     Clock::time_point now) {
  std::erase_if(all_, [now](const CachedExplanation& entry) { return entry.until <= now; });
  const auto it = std::find_if(all_.begin(), all_.end(), [&](const CachedExplanation& entry) {
    return entry.nodes == nodes && entry.request == request;
  });
  return it == all_.end() ? nullptr : &it->explanation;
}

void ExplanationCache::store(const scheduler::Request& request, std::string_view nodes,
                             const scheduler::Explanation& explanation, Clock::time_point began,
                             Clock::time_point ended) {
  if (ended - began < kLong) return;
  if (all_.size() == kMax) all_.pop_front();
  all_.push_back({request, std::string(nodes), explanation, ended + kValidityFactor * (ended - began)});
}

}  // namespace egpu::allocator

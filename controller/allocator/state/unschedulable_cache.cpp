#include "controller/allocator/state/unschedulable_cache.h"

#include <algorithm>
#include <utility>

namespace egpu::allocator {
namespace {

template <class Value>
void append(std::deque<Value>& entries, Value value) {
  if (entries.size() == UnschedulableCache::kMaxEntries) entries.pop_front();
  entries.push_back(std::move(value));
}

}  // namespace

const PredicateTrace* UnschedulableCache::find(const scheduler::Request& request, std::string_view nodes) const {
  const auto known = std::find_if(onNodes_.begin(), onNodes_.end(),
                                  [&](const OnNodes& each) { return each.request == request && each.nodes == nodes; });
  return known == onNodes_.end() ? nullptr : &known->trace;
}

void UnschedulableCache::store(const scheduler::Request& request, std::string_view nodes, const PredicateTrace& trace) {
  append(onNodes_, OnNodes{request, std::string(nodes), trace});
}

bool UnschedulableCache::isUnschedulable(const scheduler::Request& request) const {
  return std::find(anywhere_.begin(), anywhere_.end(), request) != anywhere_.end();
}

void UnschedulableCache::storeUnschedulable(const scheduler::Request& request) { append(anywhere_, request); }

bool UnschedulableCache::isUnschedulableWithin(const scheduler::QuotaClaim& claim,
                                               const scheduler::Request& request) const {
  return std::any_of(withinQuotas_.begin(), withinQuotas_.end(), [&](const WithinQuotas& each) {
    return each.request == request && each.claim.namespace_ == claim.namespace_ &&
           each.claim.className == claim.className;
  });
}

void UnschedulableCache::storeUnschedulableWithin(const scheduler::QuotaClaim& claim,
                                                  const scheduler::Request& request) {
  append(withinQuotas_, WithinQuotas{claim, request});
}

void UnschedulableCache::clear() {
  onNodes_.clear();
  anywhere_.clear();
  withinQuotas_.clear();
}

void UnschedulableCache::forgetQuotasOf(std::string_view namespace_) {
  std::erase_if(withinQuotas_, [&](const auto& each) { return each.claim.namespace_ == namespace_; });
}

}  // namespace egpu::allocator

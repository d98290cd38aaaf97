// Cache of requests that do not fit, so that a thousand equal pending claims cost one search and not a thousand. An
// entry is valid until capacity is freed: whatever else changes, a request that did not fit does not fit afterwards.
//
//   find()                    requests that fit none of the nodes which suit their claim
//   isUnschedulable()         requests that fit no node of the cluster
//   isUnschedulableWithin()   requests that fit no node within the quotas of their namespace
#pragma once

#include <cstddef>
#include <deque>
#include <string>
#include <string_view>

#include "controller/allocator/cluster_observer.h"
#include "controller/scheduler/quota/quota.h"
#include "controller/scheduler/request.h"

namespace egpu::allocator {

/// Not thread-safe.
class UnschedulableCache {
 public:
  static constexpr std::size_t kMaxEntries = 64;  ///< per kind; the oldest entry goes first

  /// Returns the trace of the node predicate when the request was last tried on these nodes; null if there is no entry.
  /// nodes: key of the node predicate. Equal texts mean equal sets of suitable nodes.
  const PredicateTrace* find(const scheduler::Request& request, std::string_view nodes) const;
  void store(const scheduler::Request& request, std::string_view nodes, const PredicateTrace& trace);

  bool isUnschedulable(const scheduler::Request& request) const;
  void storeUnschedulable(const scheduler::Request& request);

  /// True if an equal request of the namespace and class of this claim exceeded the quotas or the cluster.
  bool isUnschedulableWithin(const scheduler::QuotaClaim& claim, const scheduler::Request& request) const;
  void storeUnschedulableWithin(const scheduler::QuotaClaim& claim, const scheduler::Request& request);

  /// Removes all entries: capacity was freed.
  void clear();
  /// Removes the entries that depend on the quotas of the namespace: quota was freed.
  void forgetQuotasOf(std::string_view namespace_);

 private:
  struct OnNodes {
    scheduler::Request request;
    std::string nodes;
    PredicateTrace trace;
  };
  struct WithinQuotas {
    scheduler::QuotaClaim claim;  ///< its namespace and class count
    scheduler::Request request;
  };
  std::deque<OnNodes> onNodes_;
  std::deque<scheduler::Request> anywhere_;
  std::deque<WithinQuotas> withinQuotas_;
};

}  // namespace egpu::allocator

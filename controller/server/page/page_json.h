// JSON of nodes, claims, classes, quotas and reservations, as the page reads it. Core in milli-cards, memory in bytes,
// times in seconds since 1970.
#pragma once

#include <cstddef>
#include <set>
#include <string>
#include <vector>

#include "api/core/meta.h"
#include "controller/allocator/allocator.h"
#include "controller/cache/stores.h"
#include "controller/codec/json/text.h"

namespace egpu::server {

/// Writes objects of the stores. Thread-safe; references must outlive it.
class PageJson {
 public:
  PageJson(const cache::Stores& stores, const allocator::Allocator& cluster) : stores_(stores), cluster_(cluster) {}

  /// {"nodes":[…],"gone":["n1"]}: nodes as in /allocation-map without pods, cards also with "numa", "links", the
  /// indexes of a card's peers by type of link, and in MIG mode "mig": {"slots","media"}. gone: names of no node.
  std::string nodes(const std::set<std::string>& names) const;
  /// Writes nodes() of the first `max` nodes with names after `after`. Sets `after` to the last name, or clears it
  /// if no node follows.
  std::string nodesAfter(std::string& after, std::size_t max) const;
  /// {"claims":[{"claim","class","phase","created","asks","granted","conditions":[…],"pods":[…]}],"gone":["ns/c"]};
  /// those with a remote GPU also have its "endpoint".
  std::string claims(const std::vector<core::ObjectKey>& keys) const;
  /// {"quotas":[{"quota","limits":[{"key","used","hard","text"}],…}],"gone":["ns/q"]}
  std::string quotas(const std::vector<core::ObjectKey>& keys) const;
  /// {"classes":[…]}: all classes.
  std::string classes() const;
  /// {"reservations":[{"claim","node"}]}: all node reservations.
  std::string reservations() const;

 private:
  std::string write(const allocator::AllocationMap& map, const std::vector<std::string>& gone) const;
  void writeTopology(codec::JsonText& j, const allocator::MapCard& card) const;
  void writeClaim(codec::JsonText& j, const cache::Claim& claim) const;
  void writeQuota(codec::JsonText& j, const cache::Quota& quota) const;

  const cache::Stores& stores_;
  const allocator::Allocator& cluster_;
};

}  // namespace egpu::server

// Quota usage of an allocation, and of a request before its cards are chosen. Pure.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "controller/scheduler/cluster.h"
#include "controller/scheduler/quota/quota.h"
#include "controller/scheduler/state/state.h"

namespace egpu::scheduler {

/// Returns the part of an allocation on the card.
QuotaPart quotaPartOf(const CardView& card, const Amount& charged);

/// Returns the parts of the request if all its cards were of this type. For a total to be divided: one part with the
/// whole total. nullopt: no such card could hold it.
std::optional<std::vector<QuotaPart>> partsOn(const CardType& type, const Request& request);

/// Returns for each claim the smallest usage of its request on any card type; types of `models` are preferred if they
/// could hold it. Omits claims with admin access and claims that no card could hold.
std::vector<QuotaAsked> leastAsked(const Cluster& cluster, const std::vector<QuotaClaim>& claims,
                                   const std::vector<Request>& requests, const std::vector<std::string>& models);

}  // namespace egpu::scheduler

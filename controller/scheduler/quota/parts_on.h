// What a request counts as before its cards are chosen. Pure.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "controller/scheduler/cluster.h"
#include "controller/scheduler/quota/quota.h"
#include "controller/scheduler/state/state.h"

namespace egpu::scheduler {

/// What the request would count as, were all of its cards of this type. Of a total that is divided: the whole, as of
/// one card. Nothing: no such card could serve it.
std::optional<std::vector<QuotaPart>> partsOn(const CardType& type, const Request& request);

/// For each claim the least that its request counts as on any type of card; cards of `models` come first if they could
/// serve it. Claims that only observe, or that no card could serve, are left out.
std::vector<QuotaAsked> leastAsked(const Cluster& cluster, const std::vector<QuotaClaim>& claims,
                                   const std::vector<Request>& requests, const std::vector<std::string>& models);

}  // namespace egpu::scheduler

// Bodies of the writes that a scheduler, a kubelet or the controller manager makes; the simulated cluster stands in for
// them.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "api/core/objects.h"

namespace egpu::codec::patch {

/// ResourceClaim /status, merge patch: reservedFor replaced, with uid and resourceVersion. clearAllocation: together
/// with the allocation.
std::string reservedFor(std::string_view uid, std::string_view resourceVersion,
                        const std::vector<core::ResourceClaimConsumer>& consumers, bool clearAllocation);
/// POST body for pods/<name>/binding.
std::string binding(const core::Pod& pod, std::string_view node);
/// Pod /status, strategic merge patch: condition PodScheduled False with reason and message.
std::string podUnschedulable(std::string_view uid, std::string_view reason, std::string_view message,
                             std::string_view now);
/// Pod /status, strategic merge patch: Running, every container ready. hostIP may be empty.
std::string podRunning(const core::Pod& pod, std::string_view podIP, std::string_view hostIP, std::string_view now);
/// Pod /status, strategic merge patch: still Pending, every container waiting with that reason and message.
std::string podWaiting(const core::Pod& pod, std::string_view reason, std::string_view message, std::string_view now);
/// Pod /status, strategic merge patch: Failed, its node being gone (condition DisruptionTarget), as the pod garbage
/// collector writes it.
std::string podOrphaned(std::string_view uid, std::string_view now);
/// Node /status, merge patch: capacity, allocatable, condition Ready, addresses.
std::string nodeStatus(const core::Node& node, std::string_view now);

}  // namespace egpu::codec::patch

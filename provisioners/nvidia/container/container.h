// What a container with NVIDIA's cards gets, and what its host has to have for it: the part of mount and stage that
// is about cards, whoever gives them out.
#pragma once

#include "api/plugin/provisioner.hpp"

namespace egpu::nvidia {

/// Replies the device's cards and NVIDIA_VISIBLE_DEVICES. Cards of this machine: by NVIDIA's CDI devices if its toolkit
/// has described them all, else by device nodes and the driver's files. Of a device none of whose cards is here, a
/// simulated node's: the nodes and CDI devices that the request names. Unavailable, if only some are here.
sdk::Status mountCards(sdk::Call& call, const sdk::Device& device);

/// Makes what the host lacks for mountCards; NO_CHANGE if it lacks nothing or the cards are not here.
sdk::Status stageCards(const sdk::Device& device);

}  // namespace egpu::nvidia

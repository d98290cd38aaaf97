// The part of mount and stage that is about NVIDIA's cards, shared by all plugins: edits for a container, and
// requirements on its host.
#pragma once

#include "api/plugin/provisioner.hpp"

namespace egpu::nvidia {

/// Replies the device's cards and NVIDIA_VISIBLE_DEVICES. For cards of this machine: NVIDIA's CDI devices if its
/// toolkit has described all of them, otherwise device nodes and the driver's files. If none of the cards is on this
/// machine, as on a simulated node: the nodes and CDI devices that the request names. Returns unavailable if only some
/// of the cards are on this machine.
sdk::Status mountCards(sdk::Call& call, const sdk::Device& device);

/// Checks that the host has the device nodes for mountCards. Returns NO_CHANGE if it has, or if the cards are not on
/// this machine.
sdk::Status stageCards(const sdk::Device& device);

}  // namespace egpu::nvidia

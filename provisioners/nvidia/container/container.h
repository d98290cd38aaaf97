// The part of mount and stage that is about NVIDIA's cards, shared by all plugins: edits for a container, and
// requirements on its host.
#pragma once

#include <string>
#include <vector>

#include "api/plugin/provisioner.hpp"

namespace egpu::nvidia {

/// A library that containers get in place of one of the driver's.
struct StandIn {
  std::string name;      ///< name of the driver's library, without version: "libcuda.so"
  std::string path;      ///< path of the stand-in on the host
  std::string driverAt;  ///< path in the container for the driver's own library
};

/// MIG instances that a container gets instead of whole cards.
struct MountedInstances {
  std::vector<std::string> nodes;  ///< device nodes of the instances, in addition to their cards'
  std::vector<std::string> uuids;  ///< uuids of the MIG devices
};

/// Replies the device's cards and NVIDIA_VISIBLE_DEVICES. For cards of this machine: NVIDIA's CDI devices if its
/// toolkit has described all of them, otherwise device nodes and the driver's files. If none of the cards is on this
/// machine, as on a simulated node: the nodes and CDI devices that the request names. Returns unavailable if only some
/// of the cards are on this machine. With stand-ins, NVIDIA's CDI devices are not used, because a runtime applies them
/// after this plugin's edits; unavailable if this machine lacks the library that the first one replaces.
sdk::Status mountCards(sdk::Call& call, const sdk::Device& device, const std::vector<StandIn>& standIns = {});

/// Replies instances of the device's cards, which must be on this machine, and NVIDIA_VISIBLE_DEVICES. NVIDIA's CDI
/// devices are not used, because its toolkit describes the instances of an earlier time.
sdk::Status mountInstances(sdk::Call& call, const sdk::Device& device, const MountedInstances& instances);

/// Checks that the host has the device nodes for mountCards. Returns NO_CHANGE if it has, or if the cards are not on
/// this machine.
sdk::Status stageCards(const sdk::Device& device);

}  // namespace egpu::nvidia

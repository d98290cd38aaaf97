// Node side of `isolation: limiter`: the limiter's libraries in the state folder, by the hash of their content, and a
// folder per device with the files that they share with the agent (limiter/page.h).
//
//   $ELASTICGPU_STATE_DIR/limiter/lib/<hash>/     libcuda.so.1, libnvidia-ml.so.1
//   $ELASTICGPU_STATE_DIR/limiter/devices/<key>/  limits, usage; libraries: the hashes that its containers may use
//
// All functions are thread-safe.
#pragma once

#include <string>
#include <vector>

#include "api/plugin/provisioner.hpp"
#include "provisioners/nvidia/container/container.h"

namespace egpu::gpushare {

/// Returns why this installation can't limit containers; empty if it can. The libraries are in the folder `limiter`
/// beside the folder of the plugins.
std::string whyNoLimiter();

/// Returns why the limiter can't represent the shares; empty if it can.
std::string wrongForLimiter(const sdk::Device& device);

/// Installs the libraries, and creates the device's files with its limits. Existing files stay, because containers have
/// mapped them; other amounts are put into force. `state`: folder $ELASTICGPU_STATE_DIR.
sdk::Status stageLimiter(const std::string& state, const sdk::Device& device);

/// Returns the libraries that containers get in place of the driver's; none if whyNoLimiter() returns a reason.
std::vector<nvidia::StandIn> standIns(const std::string& state);

/// Replies the mounts of the device's files.
void mountLimiterFiles(sdk::Call& call, const std::string& state, const std::string& key);

/// Removes the device's folder, and the libraries that no device uses and that are not this installation's.
sdk::Status unstageLimiter(const std::string& state, const std::string& key);

}  // namespace egpu::gpushare

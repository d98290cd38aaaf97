// Checks the edits that a plugin requests for containers before they reach a CDI file, which a runtime applies as root.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "api/core/container_edits.h"
#include "api/v1alpha/types.h"
#include "controller/base/status.h"

namespace egpu::agent {

/// Host resources that a claim's containers may get. A pattern is an absolute path; a path that ends in '/', for
/// everything below it; a path that ends in '*', for all paths with that prefix; or a CDI device,
/// "vendor.com/class=name" or "vendor.com/class=*".
struct Permitted {
  std::string stateFolder = "/var/lib/elasticgpu";  ///< state folder of the plugins; writable
  std::vector<std::string> more;                    ///< patterns, in addition to those of every plugin
  /// Path of this machine's root folder in this process: "/", or "/host" in a container. Symbolic links are resolved
  /// there, and their targets must be permitted too. Empty: paths are not resolved, as for simulated nodes.
  std::string hostRoot;
  std::string driverRoot;  ///< host folder with the driver's files; "" = the root folder
  std::string systemRoot;  ///< $ELASTICGPU_SYSTEM_ROOT: allowed prefix of host paths, for tests
};

/// Parses the comma-separated patterns of a class's parameter hostPaths. Code::invalid names the first invalid pattern.
base::Result<std::vector<std::string>> parseHostPaths(std::string_view text);

/// Returns the edits with CDI's defaults filled in (permissions "rw", mount options), or Code::invalid with the first
/// edit that is refused. Every plugin may request NVIDIA's device nodes, but of the numbered ones only those of
/// `cards`; libraries from the library folders and the driver's own files, read-only; stateFolder; and the CDI devices
/// of `cards` in nvidia.com/gpu. `permitted` allows more. Plugins can't request hooks: to use one, an operator permits
/// a CDI device whose file contains it.
base::Result<core::ContainerEdits> checkEdits(core::ContainerEdits edits, const Permitted& permitted,
                                              const std::vector<v1alpha::Card>& cards);

}  // namespace egpu::agent

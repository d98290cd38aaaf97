// What a plugin may give to containers: its edits are judged before they reach a CDI file, which a runtime obeys as
// root.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "api/core/container_edits.h"
#include "api/v1alpha/types.h"
#include "controller/base/status.h"

namespace egpu::agent {

/// Which of the host a claim's containers may be given.
/// A pattern is an absolute path, one that ends in '/' for all below it, or one that ends in '*' for all that begin so;
/// or a CDI device, "vendor.com/class=name", or "vendor.com/class=*".
struct Permitted {
  std::string stateFolder = "/var/lib/elasticgpu";  ///< the plugins' own, to be written to
  std::vector<std::string> more;                    ///< patterns, besides what every plugin may give
  /// Where this machine's root is seen from this process: "/", or "/host" in a container. Links are followed there, and
  /// where they lead must be permitted too. Empty: nobody looks, as for nodes that are simulated.
  std::string hostRoot;
  std::string driverRoot;  ///< folder of the host with the driver's files; "" = its root folder
  std::string systemRoot;  ///< $ELASTICGPU_SYSTEM_ROOT: may stand before any of the host's paths, for tests
};

/// The patterns of a class's parameter hostPaths, with commas between. Code::invalid names the one that is none.
base::Result<std::vector<std::string>> parseHostPaths(std::string_view text);

/// The edits with what CDI wants spelled out (permissions "rw", mount options), or Code::invalid with the first that is
/// refused. Every plugin may give: NVIDIA's device nodes, of the numbered ones those of `cards` alone; libraries from
/// the library folders and the driver's own files, to be read; stateFolder; and of nvidia.com/gpu the CDI
/// devices of `cards`. More is for `permitted` to say. A plugin can't ask for a hook:
/// who wants one permits a CDI device whose file, the operator's, has it.
base::Result<core::ContainerEdits> checkEdits(core::ContainerEdits edits, const Permitted& permitted,
                                              const std::vector<v1alpha::Card>& cards);

}  // namespace egpu::agent

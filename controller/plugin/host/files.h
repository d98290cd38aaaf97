// Restricts the files that a plugin's process can access.
#pragma once

#include <string>
#include <vector>

#include "controller/base/status.h"

namespace egpu::plugin::host {

/// The plugin's access to the file system. Paths must exist, be absolute and contain no symbolic links.
struct Files {
  std::vector<std::string> hidden;    ///< can't be opened, including all below except `needed` and `writable` paths
  std::vector<std::string> needed;    ///< can be read, regardless of location
  std::vector<std::string> writable;  ///< writable folders
};

/// True if `path` is `folder` or lies in it.
bool within(const std::string& path, const std::string& folder);

/// True if any user may traverse the folders above all needed and writable paths.
bool reachable(const Files& files);

/// Creates a mount namespace in which hidden paths are covered by empty ones. Later mounts of the host are visible in
/// it. A folder that only root may traverse is covered as well if it contains needed or writable paths; only these
/// remain visible there. Needs CAP_SYS_ADMIN.
base::Status coverHidden(const Files& files);

/// Applies Landlock: hidden paths can't be opened, and only paths below `writable` can be written to. If the kernel
/// supports it, also blocks the network (unless `network`), abstract sockets and signals to other processes. Needs no
/// privileges. `restrictsSignals` (may be null) is set to true if such signals are blocked.
base::Status restrictFiles(const Files& files, bool network, bool* restrictsSignals);

}  // namespace egpu::plugin::host

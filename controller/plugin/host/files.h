// Which files a plugin's process can see.
#pragma once

#include <string>
#include <vector>

#include "controller/base/status.h"

namespace egpu::plugin::host {

/// What a plugin needs of the file system, all of it existing, absolute and without symbolic links.
struct Files {
  std::vector<std::string> hidden;    ///< can't be opened, nor anything beneath; wins over all but `needed`
  std::vector<std::string> needed;    ///< can be read, wherever they lie
  std::vector<std::string> writable;  ///< folders that can be written to
};

/// True if `path` is `folder` or lies in it.
bool within(const std::string& path, const std::string& folder);

/// True if any user may pass through the folders on the way to all that is needed and writable.
bool reachable(const Files& files);

/// A mount namespace in which what is hidden is covered by something empty. Mounts that come later are seen
/// in it. Folders that only root may pass through are covered too where something needed or writable lies in them, which
/// alone is then to be found there. Needs CAP_SYS_ADMIN.
base::Status coverHidden(const Files& files);

/// Landlock: nothing hidden can be opened, nothing be written but beneath `writable`. Where the kernel can, the network
/// (unless `network`), abstract sockets and signals to others go too. Needs no rights. `keepsSignals` (may not be
/// null) becomes true if signals are kept in.
base::Status restrictFiles(const Files& files, bool network, bool* keepsSignals);

}  // namespace egpu::plugin::host

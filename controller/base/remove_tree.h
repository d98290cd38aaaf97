// Removal of folders that less trusted processes have filled, such as containers.
#pragma once

#include <functional>
#include <string>

#include "controller/base/status.h"
#include "controller/base/subprocess.h"

namespace egpu::base {

/// Removes a file, symlink or folder of the folder `parent`, with a folder's content of any depth and amount. Follows
/// no symlink, enters no mount point, and has two folders open at a time. OK if there is nothing of this name.
/// Code::unavailable: an entry remains, with the reason. `limit` is called between steps; its first error ends the
/// removal and is returned. Entries that are gone then stay removed, so that the next call continues.
Status removeTree(const UniqueFd& parent, const std::string& name, const std::function<Status()>& limit);

/// As above, for an absolute path. The folder above must not be writable for less trusted processes.
Status removeTree(const std::string& path, const std::function<Status()>& limit);

}  // namespace egpu::base

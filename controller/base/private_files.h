// Files (mode 0600) and folders (mode 0700) that only their owner may access. No file is opened through a symbolic
// link, because another user could have placed it.
#pragma once

#include <string>

#include "controller/base/status.h"
#include "controller/base/subprocess.h"

namespace egpu::base {

/// Opens the file for reading and writing. Creates it with O_EXCL, or sets the mode of an existing file to 0600. Fails
/// with Code::unavailable if it is a symbolic link, not a regular file, or belongs to another user, also for root.
Result<UniqueFd> openPrivateFile(const std::string& path);

/// Returns the content of the file. Fails like openPrivateFile(), but root may read files of all users, and the mode
/// stays unchanged. Code::notFound if the file does not exist.
Result<std::string> readPrivateFile(const std::string& path);

/// First step of writePrivateFile(): writes the text to a new file in the folder of `path` and calls fsync() on it.
/// Returns the new file's path. The caller must rename it to `path` or remove it.
Result<std::string> writeBeside(const std::string& path, const std::string& text);

/// Replaces the file atomically: writes a new file with an unused name and renames it to `path`. A reader sees the old
/// text or the new one. A symbolic link at `path` is replaced, not followed. The owner of an existing file is kept.
/// Fails with Code::unavailable if `path` is a device, a pipe or a folder, or a link to one, and leaves it unchanged.
Status writePrivateFile(const std::string& path, const std::string& text);

/// Creates the folder and its parents. The mode of an existing folder becomes 0700 if the folder is empty or has an
/// entry named `own`, and is not sticky; otherwise it stays unchanged. Fails with Code::unavailable if other users can
/// then write to the folder (in a sticky folder its group may), or if the folder or a symbolic link to it belongs to a
/// user other than this one and root.
Status makePrivateFolder(const std::string& path, const std::string& own);

}  // namespace egpu::base

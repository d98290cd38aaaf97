// Files and folders for their owner alone (0600, 0700): made anew, never through a symbolic link that somebody else
// has laid there.
#pragma once

#include <string>

#include "controller/base/status.h"
#include "controller/base/subprocess.h"

namespace egpu::base {

/// A file to read and write, and to keep: made with O_EXCL, or opened if it is there, when its mode becomes 0600.
/// Code::unavailable for a symbolic link, what is no regular file, and a file of another user, for root too.
Result<UniqueFd> openPrivateFile(const std::string& path);

/// The whole file, under the same conditions, but root reads everybody's; its mode stays. Code::notFound if there is
/// none.
Result<std::string> readPrivateFile(const std::string& path);

/// The first half of it: the text in a new file beside `path`, on the disk when this returns. Its name, to be renamed to
/// path or removed.
Result<std::string> writeBeside(const std::string& path, const std::string& text);

/// Written beside under a name that nobody has, and renamed: a reader sees all or nothing, a symbolic link of that name
/// is replaced and not followed. An existing file's owner stays its owner. Code::unavailable where a device, a pipe or
/// a folder is, or a link to one: that is left as it is.
Status writePrivateFile(const std::string& path, const std::string& text);

/// Makes the folder and those above it. One that is there is narrowed to its owner if it is empty or holds an entry
/// called `own`: a folder with other things in it stays as it is. Code::unavailable if others may write to it then, for
/// a folder of another user than this one and root, and for a symbolic link of another.
Status makePrivateFolder(const std::string& path, const std::string& own);

}  // namespace egpu::base

// Files in a folder that containers can change.
#pragma once

#include <string>

namespace egpu::agent::sharing {

/// Removes the files, sockets and links in the folder and two levels below. Folders stay. Never follows a link, also
/// if a container replaces a folder by a link meanwhile. Removes at most 1,000 entries of a folder, among them
/// `control`, and enters at most 1,000 folders.
void removeFilesIn(const std::string& folder);

}  // namespace egpu::agent::sharing

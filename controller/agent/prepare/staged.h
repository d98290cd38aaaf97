// What plugins have left on disk for devices: a reboot takes the CDI files, but not this.
#pragma once

#include <set>
#include <string>

namespace egpu::agent {

/// The uids after which something is called in the plugins' state folder, at most three folders down: a plugin calls so
/// what stage leaves there (api/plugin/provisioner.h). Links are not followed, nor is looked into what has such a name:
/// containers may write there. At most 256. A folder that is missing or closed has none.
std::set<std::string> stagedIn(const std::string& stateFolder);

}  // namespace egpu::agent

// What plugins have left on disk for devices: a reboot takes the CDI files, but not this.
#pragma once

#include <set>
#include <stop_token>
#include <string>

#include "controller/base/status.h"

namespace egpu::agent {

/// The uids after which something is called in the plugins' state folder, at most three folders down: a plugin calls so
/// what stage leaves there (api/plugin/provisioner.h). Links are not followed, nor is looked into what has such a name:
/// containers may write there. At most 256. A folder that is missing or closed has none.
std::set<std::string> stagedIn(const std::string& stateFolder);

/// Removes what plugins have set aside there for want of rights, "<uid>.left-…"; uid "": of all devices. It follows no
/// link, enters nothing that something is mounted on, and goes down any depth with two open folders. Code::cancelled: it
/// was stopped, what is left goes when it is asked again. Code::unavailable, with the path: something can't be removed.
base::Status removeLeft(const std::string& stateFolder, const std::string& uid, const std::stop_token& stop);

}  // namespace egpu::agent

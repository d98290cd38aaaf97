// What plugins have left on disk for devices: a reboot takes the CDI files, but not this.
#pragma once

#include <chrono>
#include <cstddef>
#include <set>
#include <stop_token>
#include <string>

#include "controller/base/status.h"

namespace egpu::agent {

/// How much is looked at: names of one folder, of all, and those that are called after devices.
struct Bounds {
  std::size_t inOne = 10'000, inAll = 100'000, ofDevices = 256;
};

/// The uids after which something is called in the plugins' state folder, at most three folders down: a plugin calls so
/// what stage leaves there (api/plugin/provisioner.h). Links are not followed, nor is looked into what has such a name:
/// containers may write there. A folder that is missing or closed has none. What was not looked at, because a folder has
/// too many names or can't be read, is logged: it hides its own names only.
std::set<std::string> stagedIn(const std::string& stateFolder, const Bounds& bounds = {});

/// Removes what plugins have set aside there for want of rights, "<uid>.left-…"; uid "": of all devices. It follows no
/// link, enters nothing that something is mounted on, and goes down any depth with two open folders. Code::unavailable,
/// with the path: something can't be removed. Code::cancelled, Code::deadline: it was stopped, or `most` has passed, since
/// what was left may be without end; the rest goes when it is asked again.
base::Status removeLeft(const std::string& stateFolder, const std::string& uid, const std::stop_token& stop,
                        std::chrono::milliseconds most);

}  // namespace egpu::agent

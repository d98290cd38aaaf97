// State of devices that plugins keep on disk. Unlike the CDI files it survives a reboot.
#pragma once

#include <chrono>
#include <cstddef>
#include <set>
#include <stop_token>
#include <string>

#include "controller/base/status.h"

namespace egpu::agent {

/// Limits of a search: names in one folder, names in all folders, and names of devices.
struct Bounds {
  std::size_t inOne = 10'000, inAll = 100'000, ofDevices = 256;
};

/// Returns the device uids that occur as names in the plugins' state folder, at most three folders deep: plugins use
/// the uid as the name of the state that stage creates (api/plugin/provisioner.h). Symlinks are not followed, and
/// folders with such names are not entered, because containers may write there. A folder that is missing or not
/// accessible contains none. A folder that has too many names or can't be read hides only its own names; beyond
/// Bounds::inAll the rest of the search is skipped. Both are logged.
std::set<std::string> stagedIn(const std::string& stateFolder, const Bounds& bounds = {});

/// Removes the files "<uid>.left-…" that plugins set aside because they lacked permission to delete them; `uid` "": of
/// all devices. Follows no symlink, enters no mount point, and descends to any depth with two open folders.
/// Code::unavailable names a path that can't be removed. Code::cancelled: stopped. Code::deadline: `max` has passed,
/// as the amount is unbounded; the next call continues.
base::Status removeLeft(const std::string& stateFolder, const std::string& uid, const std::stop_token& stop,
                        std::chrono::milliseconds max);

}  // namespace egpu::agent

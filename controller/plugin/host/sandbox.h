// What a plugin's process gives up before it loads the plugin: rights, users, files, system calls.
//
// Each part stands alone and uses what the kernel and the process's own rights allow:
//   user       root: a user of the plugin's own, by its file's name; else the controller's, without capabilities
//   files      a mount namespace (root, else with a user namespace) or Landlock: what is hidden can't be opened, and
//              only a few folders can be written to
//   calls      seccomp: no network, no other process's memory, no mounts, modules, bpf or kexec
//   resources  rlimits; no core dumps; first to go when memory is short
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "controller/base/status.h"

namespace egpu::plugin::host {

/// The part of the system's users that plugins get theirs from (systemd's range for such use), and their common group.
inline constexpr unsigned kFirstUser = 61184;
inline constexpr unsigned kLastUser = 65519;
inline constexpr unsigned kPluginGroup = kFirstUser;

struct Sandbox {
  std::string plugin;               ///< the shared object
  std::string stateDir;             ///< where plugins may keep files; empty = nowhere
  std::string libraries;            ///< folders that may hold libraries of the plugin, as in LD_LIBRARY_PATH
  std::vector<std::string> hidden;  ///< files and folders that must not be read
  uint64_t memory = 0;              ///< bytes of address space; 0 = as inherited, as in the two below
  uint64_t files = 0;               ///< open descriptors
  uint64_t processes = 0;           ///< processes and threads of the plugin's user
  bool network = false;
  bool unixSockets = false;
  bool traceable = false;         ///< stays dumpable, so that its user may look at it in /proc
  std::set<std::string> without;  ///< parts to do without as if the kernel lacked them: user, mounts, landlock, seccomp
};

/// Called once, before any thread. Empty, or a sentence that says what the plugin could still do; an error if the
/// process must not load a plugin.
base::Result<std::string> enter(const Sandbox& sandbox);

}  // namespace egpu::plugin::host

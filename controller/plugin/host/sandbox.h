// Drops privileges of a plugin's process before it loads the plugin: rights, user, files, system calls.
//
// Each part works independently, as far as the kernel and the process's own rights allow:
//    user       root: a user of the plugin's own, by its file's name; otherwise the controller's, without capabilities
//    files      a mount namespace (root, or with a user namespace) or Landlock: hidden paths can't be opened, and only
//               a few folders are writable
//    calls      seccomp: no network, no other process's memory, no mounts, modules, bpf or kexec
//    resources  rlimits; no core dumps; the first process to be killed when memory is short
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "controller/base/status.h"

namespace egpu::plugin::host {

/// Range of user ids for plugins (systemd's range for such use), and the common group of all plugins.
inline constexpr unsigned kFirstUser = 61184;
inline constexpr unsigned kLastUser = 65519;
inline constexpr unsigned kPluginGroup = kFirstUser;

struct Sandbox {
  std::string plugin;               ///< the shared object
  std::string stateDir;             ///< folder for the plugins' files; empty = none
  std::string libraries;            ///< folders that may contain libraries of the plugin, as in LD_LIBRARY_PATH
  std::vector<std::string> hidden;  ///< files and folders that must not be read
  uint64_t memory = 0;              ///< bytes of address space; 0 = inherited, as in the two limits below
  uint64_t files = 0;               ///< open descriptors
  uint64_t processes = 0;           ///< processes and threads of the plugin's user
  bool network = false;
  bool unixSockets = false;
  bool traceable = false;         ///< stays dumpable, so that its user may inspect it in /proc
  std::set<std::string> without;  ///< parts to skip as if the kernel lacked them: user, mounts, landlock, seccomp
};

/// Enters the sandbox. Called once, before any thread starts. Returns an empty text, or a sentence that lists the
/// plugin's remaining possibilities; an error if the process must not load a plugin.
base::Result<std::string> enter(const Sandbox& sandbox);

}  // namespace egpu::plugin::host

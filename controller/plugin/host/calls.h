// Restricts the system calls of a plugin's process.
#pragma once

#include "controller/base/status.h"

namespace egpu::plugin::host {

struct Calls {
  bool network = false;        ///< internet sockets, and netlink, which resolvers need
  bool unixSockets = false;    ///< connections to other processes on this machine
  bool signalsInside = false;  ///< block signals to other processes of this user, because no other part of the sandbox
                               ///< does
};

/// Installs a seccomp filter for this process and its descendants. A refused call fails with EACCES (sockets), ENOSYS
/// (calls that libraries can do without) or EPERM; a call of a foreign architecture kills the process.
base::Status filterCalls(const Calls& calls);

}  // namespace egpu::plugin::host

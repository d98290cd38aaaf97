// Which system calls a plugin's process can make.
#pragma once

#include "controller/base/status.h"

namespace egpu::plugin::host {

struct Calls {
  bool network = false;        ///< internet sockets, and netlink, which resolvers need
  bool unixSockets = false;    ///< connections to other processes of the machine
  bool signalsInside = false;  ///< nothing else keeps signals to other processes of this user back
};

/// A seccomp filter for this process and its descendants. What is refused fails with EACCES (sockets), ENOSYS (what
/// libraries do without) or EPERM; a call of a foreign architecture kills.
base::Status filterCalls(const Calls& calls);

}  // namespace egpu::plugin::host

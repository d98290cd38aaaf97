// The permissions that a plugin requests beyond its sandbox, in a file beside the shared object: libname.yaml beside
// libname.so.
#pragma once

#include <string>
#include <string_view>

#include "controller/base/status.h"

namespace egpu::plugin {

/// Permissions; a plugin without a manifest has none of them.
struct Manifest {
  bool network = false;      ///< internet sockets
  bool unixSockets = false;  ///< connections to other processes of the machine
  bool operator==(const Manifest&) const = default;
};

/// Parses lines "name: true" or "name: false", comments after '#', blank lines and "---". The error names the line and
/// the text.
base::Result<Manifest> parseManifest(std::string_view text);

/// Reads the manifest of a shared object. Both files and their folder must be owned and writable only by root or the
/// user of this process; otherwise the error names the command that fixes it.
base::Result<Manifest> readManifest(const std::string& plugin);

}  // namespace egpu::plugin

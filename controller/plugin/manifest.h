// What a plugin asks for beyond its sandbox: a small file beside the shared object, libname.yaml beside libname.so.
#pragma once

#include <string>
#include <string_view>

#include "controller/base/status.h"

namespace egpu::plugin {

/// Without a manifest a plugin gets nothing of this.
struct Manifest {
  bool network = false;      ///< internet sockets
  bool unixSockets = false;  ///< connections to other processes of the machine
  bool operator==(const Manifest&) const = default;
};

/// Lines "name: true" or "name: false", comments after '#', blank lines and "---". The error names line and words.
base::Result<Manifest> parseManifest(std::string_view text);

/// The manifest of a shared object. Both files, and the folder they lie in, must be in the hands of root or this
/// process's user alone; else the error says how to mend that.
base::Result<Manifest> readManifest(const std::string& plugin);

}  // namespace egpu::plugin

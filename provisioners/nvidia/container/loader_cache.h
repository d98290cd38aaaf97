// /etc/ld.so.cache: which libraries the loader finds by which name.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace egpu::nvidia {

/// A library under one of its names: its soname, or the one that a linker looks for ("libcuda.so").
struct NamedLibrary {
  std::string name;
  std::string path;  ///< absolute
};

/// The libraries for 64-bit programs of this processor, in the cache's order; none if `bytes` are no such cache. Entries
/// that can't be are left out.
std::vector<NamedLibrary> readLoaderCache(std::string_view bytes);

}  // namespace egpu::nvidia

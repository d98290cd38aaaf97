// Reads /etc/ld.so.cache, which maps library names to paths.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace egpu::nvidia {

/// A library under one of its names: its soname, or the name that a linker searches ("libcuda.so").
struct NamedLibrary {
  std::string name;
  std::string path;  ///< absolute
};

/// Returns the libraries for 64-bit programs of this processor, in the cache's order; none if `bytes` is not a cache.
/// Invalid entries are omitted.
std::vector<NamedLibrary> readLoaderCache(std::string_view bytes);

}  // namespace egpu::nvidia

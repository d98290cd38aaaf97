// Writes a .tar.gz in memory.
#pragma once

#include <cstdint>
#include <string>

#include "controller/base/status.h"

namespace egpu::kubectl {

/// Not thread-safe.
class Archive {
 public:
  /// time: modification time of all files, seconds since 1970.
  explicit Archive(int64_t time) : time_(time) {}
  /// Adds a file of mode 0644. name: relative, at most 99 bytes; longer names are cut.
  void add(const std::string& name, const std::string& content);
  /// Returns the compressed archive.
  base::Result<std::string> finish();

 private:
  const int64_t time_;
  std::string tar_;
};

}  // namespace egpu::kubectl

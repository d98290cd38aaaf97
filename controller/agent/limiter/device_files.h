// Files that the agent shares with the limiter's libraries in the containers of one device
// (provisioners/gpushare/limiter/page.h). Containers can write anything into `usage`, and can shorten it, so it is read
// and written by system calls and never mapped.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "controller/base/status.h"
#include "provisioners/gpushare/limiter/page.h"

namespace egpu::agent::limiter {

/// Reads a card's uuid, "GPU-" and 32 hexadecimal digits with hyphens, into the form of the files; nullopt for another.
std::optional<std::vector<uint8_t>> uuidOf(const std::string& text);

/// Not thread-safe. Errors: Code::unavailable with the path.
class DeviceFiles {
 public:
  /// folder: of the device, with `limits` and `usage`.
  explicit DeviceFiles(std::string folder) : folder_(std::move(folder)) {}

  /// Reads both files. After an error, limits() and usage() are those of the last success.
  base::Status read();
  /// Limits in force.
  const egpu_limiter_bank& limits() const { return limits_; }
  const egpu_limiter_usage& usage() const { return usage_; }

  /// Puts limits into force, also for running processes. Waits for no other process: if the plugin writes the limits
  /// now, returns Code::unavailable.
  base::Status limit(const std::vector<egpu_limiter_card>& cards);

  /// Frees the slots with these numbers, if they still belong to their owners at the last read(). Does nothing while a
  /// process holds the lock of the file.
  base::Status freeSlots(const std::vector<uint32_t>& slots);

 private:
  const std::string folder_;
  egpu_limiter_bank limits_{};
  egpu_limiter_usage usage_{};
};

}  // namespace egpu::agent::limiter

// Random ids and jitter, injected so that tests can seed them. The scheduler uses no randomness.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "controller/base/mutex.h"

namespace egpu::base {

/// Random number generator for backoff jitter and object uids. Thread-safe.
class Random {
 public:
  Random();                        ///< seeded by the operating system
  explicit Random(uint64_t seed);  ///< the same sequence for the same seed
  ~Random();
  uint64_t below(uint64_t bound);     ///< uniform in [0, bound); bound 0 → 0
  double unit();                      ///< uniform in [0, 1)
  std::string uuid();                 ///< RFC 4122 version 4, lower case
  std::string suffix(std::size_t n);  ///< n characters of the alphabet that Kubernetes uses for generateName

 private:
  struct Twister;  // std::mt19937_64; defined in ids.cpp because <random> takes long to compile
  Mutex mutex_;
  const std::unique_ptr<Twister> twister_ EGPU_PT_GUARDED_BY(mutex_);
};

/// Returns the 64-bit FNV-1a hash as 16 hex digits. For stable names derived from content, not for security.
std::string hexDigest(std::string_view text);

}  // namespace egpu::base

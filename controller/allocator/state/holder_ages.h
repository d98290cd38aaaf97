// Creation times of the devices that hold capacity. The search for a node to reserve reads them: a holder that has its
// device for long is expected to keep it for long.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "controller/base/mutex.h"
#include "controller/cache/stores.h"

namespace egpu::allocator {

/// Thread-safe, unlike the other parts of the allocator: searches read it without the allocator's lock.
class HolderAges {
 public:
  struct HolderAge {
    int64_t created = 0;  ///< seconds of the wall clock
    std::string device;   ///< name
  };

  void record(const cache::Gpu& device);
  void forget(std::string_view uid);
  /// Nullopt if no device with this uid is known.
  std::optional<HolderAge> find(std::string_view uid) const;
  /// Creation time of the device; nullopt if it is not known.
  std::optional<int64_t> createdAt(std::string_view uid) const;

 private:
  mutable base::SharedMutex mutex_;  ///< locked after the allocator's mutex, or alone
  std::map<std::string, HolderAge, std::less<>> ages_ EGPU_GUARDED_BY(mutex_);  ///< by uid
};

}  // namespace egpu::allocator

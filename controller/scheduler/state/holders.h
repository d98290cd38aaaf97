// Holders of allocations by uid: devices, claims before they have a device, pods. Internal to scheduler/.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "controller/scheduler/state/ids.h"
#include "controller/scheduler/state/large_array.h"
#include "controller/scheduler/state/names.h"

namespace egpu::scheduler {

class Holders {
 public:
  /// Returns kNone if the uid has no allocation.
  DeviceId find(std::string_view uid) const { return find(uid, NameTable::hashOf(uid)); }
  /// Returns the id of a uid, created if new. dropIfIdle() removes an id without allocations.
  DeviceId obtain(std::string_view uid);
  void dropIfIdle(DeviceId id);
  std::string_view uidOf(DeviceId id) const {
    const Record& r = records_[id];
    return r.size == kLong ? std::string_view(longUids_.at(id)) : std::string_view(r.text, r.size);
  }
  /// Number of its card allocations.
  uint32_t cardAllocations(DeviceId id) const { return records_[id].cardAllocations; }
  void countCardAllocation(DeviceId id, int by) { records_[id].cardAllocations += static_cast<uint32_t>(by); }
  void countNodeAllocation(DeviceId id, int by) { records_[id].nodeAllocations += static_cast<uint32_t>(by); }
  std::size_t size() const { return table_.size(); }
  /// Calls f(DeviceId) for all holders.
  template <class F>
  void each(F f) const {
    table_.each(f);
  }

 private:
  static constexpr uint32_t kCapacity = 44;  // holds "claim/" and a uuid
  static constexpr uint32_t kLong = 255;
  struct Record {
    uint32_t cardAllocations = 0;
    uint32_t nodeAllocations : 24 = 0;
    uint32_t size : 8 = 0;  // kLong: the uid is in longUids_
    char text[kCapacity];
  };
  DeviceId find(std::string_view uid, uint32_t hash) const {
    return table_.find(uid, hash, [this](DeviceId id) { return uidOf(id); });
  }

  LargeArray<Record> records_;
  std::vector<DeviceId> freeIds_;
  NameTable table_;
  std::unordered_map<DeviceId, std::string> longUids_;
};

}  // namespace egpu::scheduler

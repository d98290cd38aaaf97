#include "controller/scheduler/state/holders.h"

#include <cstring>

namespace egpu::scheduler {

DeviceId Holders::obtain(std::string_view uid) {
  const uint32_t hash = NameTable::hashOf(uid);
  if (const DeviceId known = find(uid, hash); known != kNone) return known;
  DeviceId id;
  if (freeIds_.empty()) {
    id = static_cast<DeviceId>(records_.size());
    records_.emplace_back();
  } else {
    id = freeIds_.back();
    freeIds_.pop_back();
    records_[id] = Record{};
  }
  Record& r = records_[id];
  if (uid.size() <= kCapacity) {
    r.size = static_cast<uint8_t>(uid.size());
    std::memcpy(r.text, uid.data(), uid.size());
  } else {
    r.size = kLong;
    longUids_.emplace(id, uid);
  }
  table_.insert(hash, id);
  return id;
}

void Holders::dropIfIdle(DeviceId id) {
  const Record& r = records_[id];
  if (r.cardAllocations != 0 || r.nodeAllocations != 0) return;
  table_.erase(NameTable::hashOf(uidOf(id)), id);
  if (r.size == kLong) longUids_.erase(id);
  freeIds_.push_back(id);
}

}  // namespace egpu::scheduler

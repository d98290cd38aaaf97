#include "controller/scheduler/state/names.h"

#include <algorithm>

namespace egpu::scheduler {

char* Arena::obtain(std::size_t size) {
  size = (size + 7) / 8 * 8;
  written_ += size;
  if (size > left_) {
    const std::size_t chunk = std::max(size, std::clamp(written_ / 8, kMinChunk, kMaxChunk));
    chunks_.push_back(std::allocate_shared_for_overwrite<char[]>(LargePages<char>(), chunk));
    next_ = chunks_.back().get();
    left_ = chunk;
  }
  char* at = next_;
  next_ += size;
  left_ -= size;
  return at;
}

std::string_view Arena::store(std::string_view text) {
  if (text.empty()) return {};
  char* at = obtain(text.size());
  std::memcpy(at, text.data(), text.size());
  return {at, text.size()};
}

std::size_t NameTable::slotOf(uint32_t hash, uint32_t id) const {
  std::size_t at = hash & mask();
  while (slots_[at].id != id) at = (at + 1) & mask();
  return at;
}

void NameTable::grow() {
  LargeArray<Slot> old(std::max<std::size_t>(16, 2 * slots_.size()));
  old.swap(slots_);
  for (const Slot& slot : old) {
    if (slot.id == kNone) continue;
    std::size_t at = slot.hash & mask();
    while (slots_[at].id != kNone) at = (at + 1) & mask();
    slots_[at] = slot;
  }
}

void NameTable::insert(uint32_t hash, uint32_t id) {
  if (4 * (count_ + 1) > 3 * slots_.size()) grow();
  std::size_t at = hash & mask();
  while (slots_[at].id != kNone) at = (at + 1) & mask();
  slots_[at] = {hash, id};
  ++count_;
}

void NameTable::erase(uint32_t hash, uint32_t id) {
  // Moves up later entries that can fill the gap, so that no search ends too early.
  std::size_t gap = slotOf(hash, id);
  for (std::size_t at = (gap + 1) & mask(); slots_[at].id != kNone; at = (at + 1) & mask()) {
    const std::size_t home = slots_[at].hash & mask();
    if (((at - home) & mask()) < ((at - gap) & mask())) continue;
    slots_[gap] = slots_[at];
    gap = at;
  }
  slots_[gap] = {};
  --count_;
}

}  // namespace egpu::scheduler

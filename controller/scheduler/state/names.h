// String storage, and look-up of ids by name. Internal to scheduler/.
#pragma once

#include <cstdint>
#include <cstring>
#include <memory>
#include <string_view>
#include <vector>

#include "controller/scheduler/state/ids.h"
#include "controller/scheduler/state/large_array.h"

namespace egpu::scheduler {

/// Append-only memory: data stays in place, and copies of the arena share it. Dropped data is only counted; when
/// wasteful() is true, the owner moves the remaining data to a new arena.
class Arena {
 public:
  Arena() = default;
  /// Shares the existing data; new data goes to separate chunks.
  Arena(const Arena& other) : chunks_(other.chunks_), written_(other.written_), dropped_(other.dropped_) {}
  Arena& operator=(const Arena& other) {
    Arena copy(other);
    return *this = std::move(copy);
  }
  Arena(Arena&&) noexcept = default;
  Arena& operator=(Arena&&) noexcept = default;
  ~Arena() = default;

  /// Returns uninitialised memory, aligned to 8.
  char* obtain(std::size_t size);
  std::string_view store(std::string_view text);
  void drop(std::size_t size) { dropped_ += size; }
  bool wasteful() const { return dropped_ > kWaste && dropped_ > written_ / 2; }

 private:
  // A chunk is an eighth of the data before it, within these bounds: little is wasted, and the chunks of a large
  // cluster span large pages.
  static constexpr std::size_t kMinChunk = std::size_t{1} << 16;
  static constexpr std::size_t kMaxChunk = std::size_t{32} << 20;
  static constexpr std::size_t kWaste = std::size_t{1} << 20;
  std::vector<std::shared_ptr<char[]>> chunks_;
  char* next_ = nullptr;
  std::size_t left_ = 0;
  std::size_t written_ = 0;
  std::size_t dropped_ = 0;
};

/// Maps names to ids. The names are stored elsewhere and read by nameOf(id).
class NameTable {
 public:
  static uint32_t hashOf(std::string_view name) {
    return static_cast<uint32_t>(std::hash<std::string_view>()(name) >> 16);
  }
  template <class NameOf>
  uint32_t find(std::string_view name, uint32_t hash, NameOf nameOf) const {
    return find(hash, [&](uint32_t id) { return nameOf(id) == name; });
  }
  /// Returns the id of this hash for which is(id) is true; also for keys that are not names.
  template <class Is>
  uint32_t find(uint32_t hash, Is is) const {
    if (slots_.empty()) return kNone;
    for (std::size_t at = hash & mask();; at = (at + 1) & mask()) {
      const Slot& slot = slots_[at];
      if (slot.id == kNone) return kNone;
      if (slot.hash == hash && is(slot.id)) return slot.id;
    }
  }
  /// Inserts a name that must not be in the table.
  void insert(uint32_t hash, uint32_t id);
  /// Erases an id that is in the table with this hash.
  void erase(uint32_t hash, uint32_t id);
  void renumber(uint32_t hash, uint32_t from, uint32_t to) { slots_[slotOf(hash, from)].id = to; }
  std::size_t size() const { return count_; }
  /// Calls f(id) for every id, in no particular order.
  template <class F>
  void each(F f) const {
    for (const Slot& slot : slots_)
      if (slot.id != kNone) f(slot.id);
  }

 private:
  struct Slot {
    uint32_t hash = 0;
    uint32_t id = kNone;
  };
  std::size_t mask() const { return slots_.size() - 1; }
  std::size_t slotOf(uint32_t hash, uint32_t id) const;
  void grow();

  LargeArray<Slot> slots_;  // a power of two, at most three quarters in use
  std::size_t count_ = 0;
};

}  // namespace egpu::scheduler

// Attributes of a card that rarely change, in one block of memory. Internal to scheduler/.
#pragma once

#include <cstdint>
#include <string_view>

#include "controller/scheduler/state/names.h"

namespace egpu::scheduler {

/// Stored in an Arena, followed by its strings.
class CardFacts {
 public:
  /// Creates the facts in the arena; valid as long as it.
  static const CardFacts* create(Arena& arena, std::string_view name, std::string_view uuid, int64_t index,
                                 int64_t smCount, uint32_t topology);
  /// Copies the facts to another arena.
  const CardFacts* copyTo(Arena& arena) const { return create(arena, name(), uuid(), index_, smCount_, topology_); }

  std::string_view name() const { return {text(), nameSize_}; }
  std::string_view uuid() const { return {text() + nameSize_, uuidSize_}; }
  int64_t index() const { return index_; }
  int64_t smCount() const { return smCount_; }
  /// Position among the cluster's topologies; kNone = unknown topology.
  uint32_t topology() const { return topology_; }
  std::size_t bytes() const { return sizeof(CardFacts) + nameSize_ + uuidSize_; }

 private:
  CardFacts() = default;
  const char* text() const { return reinterpret_cast<const char*>(this + 1); }

  int64_t index_;
  int64_t smCount_;
  uint32_t topology_;
  uint32_t nameSize_;
  uint32_t uuidSize_;
};

}  // namespace egpu::scheduler

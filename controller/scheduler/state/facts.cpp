#include "controller/scheduler/state/facts.h"

#include <cstring>
#include <new>

namespace egpu::scheduler {

const CardFacts* CardFacts::create(Arena& arena, std::string_view name, std::string_view uuid, int64_t index,
                                   int64_t smCount, uint32_t topology) {
  char* at = arena.obtain(sizeof(CardFacts) + name.size() + uuid.size());
  auto* facts = new (at) CardFacts;
  facts->index_ = index;
  facts->smCount_ = smCount;
  facts->topology_ = topology;
  facts->nameSize_ = static_cast<uint32_t>(name.size());
  facts->uuidSize_ = static_cast<uint32_t>(uuid.size());
  char* text = at + sizeof(CardFacts);
  std::memcpy(text, name.data(), name.size());
  std::memcpy(text + name.size(), uuid.data(), uuid.size());
  return facts;
}

}  // namespace egpu::scheduler

#include "controller/cache/records.h"

#include <cstring>

#include "controller/cache/packed.h"

namespace egpu::cache {
namespace {

uint32_t keyHash(std::string_view namespace_, std::string_view name) {
  return static_cast<uint32_t>(textHash(name) + 31 * textHash(namespace_));
}

std::unique_ptr<char[]> blockOf(std::string_view packed) {
  const auto size = static_cast<uint32_t>(packed.size());
  std::unique_ptr<char[]> block(new char[sizeof size + packed.size()]);  // make_unique would clear it first
  std::memcpy(block.get(), &size, sizeof size);
  std::memcpy(block.get() + sizeof size, packed.data(), packed.size());
  return block;
}

}  // namespace

std::optional<uint32_t> Records::find(std::string_view namespace_, std::string_view name) const {
  std::optional<uint32_t> found;
  keys_.each(keyHash(namespace_, name), [&](uint32_t number) {
    if (packedNamed(at(number), words_, namespace_, name)) found = number;
    return !found;
  });
  return found;
}

std::string_view Records::at(uint32_t number) const {
  const char* const block = blocks_[number].get();
  if (block == nullptr) return {};
  uint32_t size = 0;
  std::memcpy(&size, block, sizeof size);
  return {block + sizeof size, size};
}

uint32_t Records::add(std::string_view namespace_, std::string_view name, std::string_view packed) {
  auto number = end();
  if (free_.empty()) {
    blocks_.emplace_back();
  } else {
    number = free_.back();
    free_.pop_back();
  }
  blocks_[number] = blockOf(packed);
  keys_.insert(keyHash(namespace_, name), number);
  return number;
}

void Records::replace(uint32_t number, std::string_view packed) { blocks_[number] = blockOf(packed); }

void Records::remove(uint32_t number, std::string_view namespace_, std::string_view name) {
  keys_.erase(keyHash(namespace_, name), number);
  blocks_[number].reset();
  free_.push_back(number);
}

}  // namespace egpu::cache

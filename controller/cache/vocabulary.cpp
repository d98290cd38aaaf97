#include "controller/cache/vocabulary.h"

#include <cstring>
#include <functional>

namespace egpu::cache {
namespace {

constexpr std::size_t kBlock = 4096;       // bytes
constexpr std::size_t kMet = 65'536;       // texts remembered while they wait to be met again
constexpr std::size_t kFirstSlots = 1024;  // a power of two, as all numbers of slots

}  // namespace

uint64_t textHash(std::string_view text) {
  // Short texts that differ little leave some bits of the standard library's hash alike.
  const uint64_t hash = std::hash<std::string_view>{}(text);
  const uint64_t mixed = (hash ^ hash >> 32) * 0x9e3779b97f4a7c15U;
  return mixed ^ mixed >> 32;
}

std::optional<uint32_t> Vocabulary::meet(std::string_view text, std::size_t place) {
  if (place >= atPlace_.size()) return look(text);
  auto& last = atPlace_[place];
  if (last < words_.size() && words_[last] == text) return last;
  const auto number = look(text);
  if (number) last = *number;
  return number;
}

std::optional<uint32_t> Vocabulary::look(std::string_view text) {
  if (text.empty() || text.size() > kLongest) return std::nullopt;
  if (slots_.empty()) {
    rehash(kFirstSlots);
    met_.resize(kMet);
  }
  const auto hash = textHash(text);
  const std::size_t mask = slots_.size() - 1;
  std::size_t at = hash & mask;
  for (; slots_[at] != 0; at = (at + 1) & mask)
    if (words_[slots_[at] - 1] == text) return slots_[at] - 1;

  auto& last = met_[(hash >> 32) % kMet];
  const auto mark = static_cast<uint16_t>(hash >> 16 | 1);  // never 0, which is nothing
  if (last != mark || words_.size() == kMost) {
    last = mark;
    return std::nullopt;
  }
  words_.push_back(keep(text));
  const auto number = static_cast<uint32_t>(words_.size() - 1);
  slots_[at] = number + 1;
  if (words_.size() * 2 > slots_.size()) rehash(slots_.size() * 2);
  return number;
}

std::string_view Vocabulary::keep(std::string_view text) {
  if (room_ < text.size()) {
    blocks_.push_back(std::make_unique<char[]>(kBlock));
    room_ = kBlock;
  }
  char* const at = blocks_.back().get() + (kBlock - room_);
  std::memcpy(at, text.data(), text.size());
  room_ -= text.size();
  return {at, text.size()};
}

void Vocabulary::rehash(std::size_t slots) {
  slots_.assign(slots, 0);
  for (uint32_t number = 0; number < words_.size(); ++number) {
    std::size_t at = textHash(words_[number]) & (slots - 1);
    while (slots_[at] != 0) at = (at + 1) & (slots - 1);
    slots_[at] = number + 1;
  }
}

}  // namespace egpu::cache

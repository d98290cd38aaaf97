#include "controller/cache/packed_text.h"

#include <cstring>
#include <memory>

#include "controller/cache/vocabulary.h"

namespace egpu::cache {
namespace {

constexpr std::size_t kPointer = sizeof(void*);

}  // namespace

PackedText::PackedText(std::string_view text) {
  UuidText parsed;
  if (text.size() <= kInPlace) {
    if (!text.empty()) std::memcpy(bytes_.data(), text.data(), text.size());
    bytes_.back() = static_cast<unsigned char>(text.size());
  } else if (UuidText::parse(text, parsed)) {
    std::memcpy(bytes_.data(), parsed.uuid.data(), parsed.uuid.size());
    bytes_.back() = static_cast<unsigned char>(kUuid + parsed.prefix);
  } else {
    const auto* const kept = std::make_unique<std::string>(text).release();
    std::memcpy(bytes_.data(), &kept, kPointer);
    bytes_.back() = kHeap;
  }
}

PackedText& PackedText::operator=(const PackedText& other) {
  if (this == &other) return *this;
  if (other.form() == kHeap) return *this = PackedText(other.heap());
  release();
  bytes_ = other.bytes_;
  return *this;
}

const std::string& PackedText::heap() const {
  const std::string* kept = nullptr;
  std::memcpy(&kept, bytes_.data(), kPointer);
  return *kept;
}

void PackedText::release() {
  if (form() != kHeap) return;
  const std::unique_ptr<const std::string> kept(&heap());
  bytes_ = {};
}

std::string_view PackedText::view(Buffer& room) const {
  if (form() == kHeap) return heap();
  if (form() < kUuid) return {reinterpret_cast<const char*>(bytes_.data()), form()};
  UuidText text;
  text.prefix = static_cast<uint8_t>(form() - kUuid);
  std::memcpy(text.uuid.data(), bytes_.data(), text.uuid.size());
  return text.write(room.data());
}

std::string PackedText::str() const {
  Buffer room;
  return std::string(view(room));
}

std::size_t PackedText::hash() const {
  if (form() == kHeap) return textHash(heap());
  return textHash({reinterpret_cast<const char*>(bytes_.data()), bytes_.size()});
}

bool PackedText::operator==(const PackedText& other) const {
  if (form() == kHeap && other.form() == kHeap) return heap() == other.heap();
  return bytes_ == other.bytes_;
}

}  // namespace egpu::cache

// A name or uid in 24 bytes: short ones and uuids (uuid_text.h) in place, others on the heap. For maps with an entry
// per object, whose keys would otherwise be most of what they hold.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "controller/cache/uuid_text.h"

namespace egpu::cache {

/// A value: texts in, the same texts out. Moved-from it is empty.
class PackedText {
 public:
  PackedText() = default;
  explicit PackedText(std::string_view text);
  PackedText(const PackedText& other) : PackedText() { *this = other; }
  PackedText& operator=(const PackedText& other);
  PackedText(PackedText&& other) noexcept : bytes_(other.bytes_) { other.bytes_ = {}; }
  PackedText& operator=(PackedText&& other) noexcept {
    if (this == &other) return *this;
    release();
    bytes_ = other.bytes_;
    other.bytes_ = {};
    return *this;
  }
  ~PackedText() { release(); }

  /// Room for view().
  using Buffer = std::array<char, UuidText::kLongest>;
  /// The text, valid as long as this and the room are.
  std::string_view view(Buffer& room) const;
  std::string_view view(Buffer&& room) const = delete;
  std::string str() const;
  std::size_t hash() const;
  bool operator==(const PackedText& other) const;

  struct Hash {
    std::size_t operator()(const PackedText& text) const noexcept { return text.hash(); }
  };

 private:
  // The last byte says what the others are: a short text's length; kUuid + the prefix; kHeap: a pointer to a
  // std::string. What is not in use is zero, so equal texts in place are equal bytes.
  static constexpr std::size_t kSize = 24;
  static constexpr std::size_t kInPlace = kSize - 1;
  static constexpr unsigned char kUuid = 64, kHeap = 128;

  unsigned char form() const { return bytes_.back(); }
  const std::string& heap() const;
  void release();

  alignas(std::string*) std::array<unsigned char, kSize> bytes_{};
};
static_assert(sizeof(PackedText) == 24);

}  // namespace egpu::cache

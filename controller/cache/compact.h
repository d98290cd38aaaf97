// Numbers and texts in few bytes. A writer says of every text how it is shortest, without knowing what field it is of:
//
//   a word of the vocabulary         its number           "Bound", "elasticgpu.io/claim", "node-17"
//   a uuid, bare or prefixed         16 bytes             "egpu-6f1c2d3e-0000-4000-8000-000000000001"
//   one of the last uuids again      its place            a claim's device, named after the claim's uid
//   a second in UTC                  from the last one    "2026-01-02T03:04:05Z"
//   a decimal                        the number           a resourceVersion
//   anything else                    as it is
//
// All are exact: a reader gives back every byte.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "controller/cache/uuid_text.h"
#include "controller/cache/vocabulary.h"

namespace egpu::cache {

/// What a writer has written and a reader has read so far, to which texts refer.
struct CompactContext {
  static constexpr std::size_t kUuids = 8;
  std::array<Uuid, kUuids> uuids{};  ///< the last ones, in turn
  std::size_t uuidCount = 0;         ///< all that were met
  int64_t second = 1'735'689'600;    ///< since 1970; starts with 2025
};

/// Appends to a text that it doesn't own; teaches the vocabulary, which must outlive it and what it wrote.
class CompactWriter {
 public:
  CompactWriter(std::string& out, Vocabulary& words) : out_(out), words_(words) {}
  void natural(uint64_t n) {
    while (n >= 0x80) {
      out_.push_back(static_cast<char>(n | 0x80));
      n >>= 7;
    }
    out_.push_back(static_cast<char>(n));
  }
  void integer(int64_t n);
  void text(std::string_view text);

 private:
  bool asUuid(std::string_view text);
  bool asSecond(std::string_view text);
  bool asDecimal(std::string_view text);

  std::string& out_;
  Vocabulary& words_;
  std::size_t texts_ = 0;  ///< written so far
  CompactContext context_;
};

/// Reads, in the same order, what a writer with the same vocabulary wrote, and nothing else.
class CompactReader {
 public:
  CompactReader(std::string_view in, const Vocabulary& words) : in_(in), words_(words) {}
  uint64_t natural() {
    uint64_t n = 0;
    for (unsigned shift = 0; at_ < in_.size() && shift < 64; shift += 7) {
      const auto byte = static_cast<unsigned char>(in_[at_++]);
      n |= static_cast<uint64_t>(byte & 0x7f) << shift;
      if (byte < 0x80) break;
    }
    return n;
  }
  int64_t integer();
  /// Valid until the next call.
  std::string_view text();

 private:
  std::string_view second();
  std::string_view raw(std::size_t size);

  std::string_view in_;
  std::size_t at_ = 0;
  const Vocabulary& words_;
  CompactContext context_;
  std::array<char, 48> text_{};
};

}  // namespace egpu::cache

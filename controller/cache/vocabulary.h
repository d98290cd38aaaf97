// The words that objects repeat — keys, classes, nodes, reasons — kept once, so that a record names them by number.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

namespace egpu::cache {

/// Only grows: a word keeps its number for as long as this lives. Texts that are met once (names, messages with numbers
/// in them) don't become words, and at most kMost do. Not thread-safe: its store's lock protects it.
class Vocabulary {
 public:
  static constexpr std::size_t kMost = std::size_t{1} << 16;
  static constexpr std::size_t kLongest = 256;  ///< bytes of a word

  Vocabulary() = default;
  Vocabulary(const Vocabulary&) = delete;
  Vocabulary& operator=(const Vocabulary&) = delete;

  /// The number of a word; nothing for what isn't one. A text that was met a short while ago becomes one. `place` is
  /// where the text stands among its object's texts: most objects say the same there as the one before, which is found
  /// without hashing.
  std::optional<uint32_t> meet(std::string_view text, std::size_t place);
  /// The word of a number that meet() gave.
  std::string_view word(uint32_t number) const { return words_[number]; }
  std::size_t size() const { return words_.size(); }

 private:
  std::optional<uint32_t> look(std::string_view text);
  std::string_view keep(std::string_view text);
  void rehash(std::size_t slots);

  std::vector<std::string_view> words_;  ///< by number; into blocks_
  std::array<uint32_t, 64> atPlace_{};   ///< the last word at each of the first places
  std::vector<uint32_t> slots_;          ///< number + 1 by hash, open addressing; 0 = free
  std::vector<uint16_t> met_;            ///< by hash: the rest of the hash of the last text that wasn't a word
  std::vector<std::unique_ptr<char[]>> blocks_;
  std::size_t room_ = 0;  ///< bytes left at the end of the last block
};

/// Of a text, the same for the life of the process.
uint64_t textHash(std::string_view text);

}  // namespace egpu::cache

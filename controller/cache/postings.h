// Which objects are found under a value: pairs of a value's hash and an object's number, sorted, eight bytes each.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace egpu::cache {

/// A set of pairs; different values may share a hash, so that who finds an object compares its value. Changes cost
/// the logarithm of the size and the move of a part of one block, however many objects share a value. Not thread-safe.
class Postings {
 public:
  void insert(uint32_t hash, uint32_t object);
  /// Nothing happens if the pair isn't there.
  void erase(uint32_t hash, uint32_t object);
  /// Calls fn(object) → bool (false = enough) for each object of that hash, ascending.
  template <class Fn>
  void each(uint32_t hash, Fn&& fn) const {
    const uint64_t first = pair(hash, 0);
    for (std::size_t b = blockOf(first); b < blocks_.size(); ++b) {
      const auto& block = blocks_[b];
      for (auto it = std::lower_bound(block.begin(), block.end(), first); it != block.end(); ++it)
        if (*it >> 32 != hash || !fn(static_cast<uint32_t>(*it))) return;
    }
  }

 private:
  static constexpr std::size_t kBlock = 256;  // pairs

  static uint64_t pair(uint32_t hash, uint32_t object) { return uint64_t{hash} << 32 | object; }
  /// The only block that may hold the pair.
  std::size_t blockOf(uint64_t pair) const;
  void split(std::size_t b);

  std::vector<std::vector<uint64_t>> blocks_;  ///< none empty
  std::vector<uint64_t> starts_;               ///< a lower bound of each block
};

}  // namespace egpu::cache

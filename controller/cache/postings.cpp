#include "controller/cache/postings.h"

namespace egpu::cache {

std::size_t Postings::blockOf(uint64_t pair) const {
  const auto after = std::upper_bound(starts_.begin(), starts_.end(), pair);
  return after == starts_.begin() ? 0 : static_cast<std::size_t>(after - starts_.begin()) - 1;
}

void Postings::insert(uint32_t hash, uint32_t object) {
  const auto added = pair(hash, object);
  if (blocks_.empty()) {
    blocks_.emplace_back();
    starts_.push_back(0);
  }
  std::size_t b = blockOf(added);
  if (blocks_[b].size() == kBlock) {
    split(b);
    b = blockOf(added);
  }
  auto& block = blocks_[b];
  starts_[b] = std::min(starts_[b], added);
  // Room by the eighth: what stands empty would be the greater part of an index otherwise.
  if (block.size() == block.capacity()) block.reserve(block.size() + block.size() / 8 + 4);
  const auto at = std::lower_bound(block.begin(), block.end(), added);
  if (at == block.end() || *at != added) block.insert(at, added);
}

void Postings::erase(uint32_t hash, uint32_t object) {
  if (blocks_.empty()) return;
  const auto gone = pair(hash, object);
  const std::size_t b = blockOf(gone);
  auto& block = blocks_[b];
  const auto at = std::lower_bound(block.begin(), block.end(), gone);
  if (at == block.end() || *at != gone) return;
  block.erase(at);
  if (!block.empty()) return;
  const auto offset = static_cast<std::ptrdiff_t>(b);
  blocks_.erase(blocks_.begin() + offset);
  starts_.erase(starts_.begin() + offset);
}

void Postings::split(std::size_t b) {
  const auto half = blocks_[b].begin() + kBlock / 2;
  std::vector<uint64_t> upper(half, blocks_[b].end());
  std::vector<uint64_t> lower(blocks_[b].begin(), half);
  const auto offset = static_cast<std::ptrdiff_t>(b);
  starts_.insert(starts_.begin() + offset + 1, upper.front());
  blocks_[b] = std::move(lower);
  blocks_.insert(blocks_.begin() + offset + 1, std::move(upper));
}

}  // namespace egpu::cache

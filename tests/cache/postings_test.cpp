#include "controller/cache/postings.h"

#include <gtest/gtest.h>

#include <random>
#include <set>
#include <utility>

namespace egpu::cache {
namespace {

std::vector<uint32_t> of(const Postings& postings, uint32_t hash) {
  std::vector<uint32_t> found;
  postings.each(hash, [&](uint32_t object) {
    found.push_back(object);
    return true;
  });
  return found;
}

TEST(PostingsTest, HoldsWhatASetOfPairsHolds) {
  std::mt19937 random(7);
  Postings postings;
  std::set<std::pair<uint32_t, uint32_t>> expected;
  const auto pick = [&random] {
    // One hash that most share, a few, and the ends of the range.
    const uint32_t hashes[] = {5, 5, 5, 6, 0, ~uint32_t{0}, static_cast<uint32_t>(random() % 1000)};
    return std::pair<uint32_t, uint32_t>(hashes[random() % std::size(hashes)], random() % 3000);
  };
  for (int step = 0; step < 60'000; ++step) {
    // First it grows, then it shrinks to nothing.
    const bool grow = random() % 100 < (step < 20'000 ? 80u : step < 40'000 ? 40u : 0u);
    auto [hash, object] = pick();
    if (!grow && !expected.empty()) {
      const auto near = expected.lower_bound({hash, object});
      std::tie(hash, object) = near == expected.end() ? *expected.begin() : *near;
    }
    if (grow) {
      postings.insert(hash, object);
      expected.emplace(hash, object);
    } else {
      postings.erase(hash, object);
      expected.erase({hash, object});
    }
    if (step % 97 != 0) continue;
    for (const uint32_t probe : {uint32_t{0}, uint32_t{5}, uint32_t{6}, uint32_t{7}, ~uint32_t{0}}) {
      std::vector<uint32_t> wanted;
      for (auto it = expected.lower_bound({probe, 0}); it != expected.end() && it->first == probe; ++it)
        wanted.push_back(it->second);
      ASSERT_EQ(of(postings, probe), wanted) << step;
    }
  }
  EXPECT_TRUE(expected.empty());
}

TEST(PostingsTest, StopsWhenToldTo) {
  Postings postings;
  for (uint32_t object = 0; object < 1000; ++object) postings.insert(1, object);
  int seen = 0;
  postings.each(1, [&](uint32_t) { return ++seen < 3; });
  EXPECT_EQ(seen, 3);
}

}  // namespace
}  // namespace egpu::cache

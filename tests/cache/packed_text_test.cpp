#include "controller/cache/packed_text.h"

#include <gtest/gtest.h>

#include <unordered_set>
#include <utility>
#include <vector>

namespace egpu::cache {
namespace {

// Around every border between the forms: in place, a uuid, on the heap.
const std::vector<std::string> kTexts = {
    "",
    "c0",
    std::string(22, 'x'),
    std::string(23, 'x'),
    std::string(24, 'x'),
    std::string(41, 'x'),
    std::string(253, 'x'),
    std::string("a\0b", 3),
    "6f1c2d3e-0000-4000-8000-000000000001",
    "6F1C2D3E-0000-4000-8000-000000000001",
    "6f1c2d3e-0000-4000-8000-00000000000g",
    "6f1c2d3e-0000-4000-8000+000000000001",
    "6f1c2d3e-0000-4000-8000-0000000000012",
    "egpu-6f1c2d3e-0000-4000-8000-000000000001",
    "gpu-6f1c2d3e-0000-4000-8000-000000000001",
    "GPU-6f1c2d3e-0000-4000-8000-000000000001",
    "MIG-6f1c2d3e-0000-4000-8000-000000000001",
    "claim/6f1c2d3e-0000-4000-8000-000000000001",
};

TEST(PackedText, GivesBackEveryByte) {
  for (const auto& text : kTexts) {
    const PackedText packed(text);
    PackedText::Buffer room;
    EXPECT_EQ(packed.str(), text);
    EXPECT_EQ(packed.view(room), text);
  }
}

TEST(PackedText, IsEqualWhereTheTextsAre) {
  for (const auto& a : kTexts)
    for (const auto& b : kTexts) EXPECT_EQ(PackedText(a) == PackedText(b), a == b) << a << " and " << b;
  std::unordered_set<PackedText, PackedText::Hash> all;
  for (int round = 0; round < 2; ++round)
    for (const auto& text : kTexts) all.insert(PackedText(text));
  EXPECT_EQ(all.size(), kTexts.size());
}

TEST(PackedText, IsAValue) {
  for (const auto& a : kTexts)
    for (const auto& b : kTexts) {
      PackedText copy(b);
      const PackedText original(a);
      copy = original;
      EXPECT_EQ(copy.str(), a);
      PackedText moved(std::move(copy));
      EXPECT_EQ(copy.str(), "");  // NOLINT(bugprone-use-after-move): promised
      copy = PackedText(b);
      EXPECT_EQ(copy.str(), b);
      copy = std::move(moved);
      EXPECT_EQ(copy.str(), a);
      EXPECT_EQ(moved.str(), "");  // NOLINT(bugprone-use-after-move): promised
      const auto& itself = copy;
      copy = itself;
      EXPECT_EQ(copy.str(), a);
      EXPECT_EQ(original.str(), a);
    }
}

}  // namespace
}  // namespace egpu::cache

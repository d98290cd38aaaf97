// The types that objects are composed of: heap-allocated optionals and small maps.
#include <gtest/gtest.h>

#include <map>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "api/core/heap_optional.h"
#include "api/core/sorted_map.h"

namespace egpu::core {
namespace {

struct Part {
  std::string text;
  int number = 0;
  bool operator==(const Part&) const = default;
};

TEST(HeapOptional, TakesAPointersSizeAndIsAbsentUnlessPut) {
  EXPECT_EQ(sizeof(HeapOptional<Part>), sizeof(void*));
  HeapOptional<Part> part;
  EXPECT_FALSE(part);
  EXPECT_FALSE(part.has_value());
  part.emplace().text = "a";
  ASSERT_TRUE(part);
  EXPECT_EQ(part->text, "a");
  part.emplace();
  EXPECT_EQ(part->text, "");
  part.reset();
  EXPECT_FALSE(part);
}

TEST(HeapOptional, IsCopiedAndComparedByWhatIsThere) {
  HeapOptional<Part> a = Part{"a", 1};
  HeapOptional<Part> b = a;
  EXPECT_EQ(a, b);
  b->number = 2;
  EXPECT_EQ(a->number, 1);
  EXPECT_NE(a, b);
  EXPECT_NE(a, HeapOptional<Part>());
  EXPECT_EQ(HeapOptional<Part>(), std::nullopt);
  EXPECT_NE(HeapOptional<Part>(Part{}), std::nullopt);
  const auto& itself = b;
  b = itself;
  EXPECT_EQ(b->number, 2);
  b = std::move(a);
  EXPECT_EQ(b->number, 1);
  EXPECT_FALSE(a);
}

TEST(HeapOptional, TakesAnOptional) {
  EXPECT_FALSE(HeapOptional<Part>(std::optional<Part>()));
  const HeapOptional<Part> part = std::optional<Part>(Part{"a", 1});
  ASSERT_TRUE(part);
  EXPECT_EQ(*part, (Part{"a", 1}));
}

using Texts = SortedMap<std::string>;

TEST(SortedMap, RetainsTheOrderOfTheKeysAndTheFirstOfEqualOnes) {
  const Texts map = {{"b", "2"}, {"a", "1"}, {"b", "3"}};
  std::string all;
  for (const auto& [key, value] : map) all += key + value;
  EXPECT_EQ(all, "a1b2");
  EXPECT_EQ(map, (Texts{{"a", "1"}, {"b", "2"}}));
  EXPECT_LT((Texts{{"a", "1"}}), map);
}

TEST(SortedMap, DoesWhatStdMapDoes) {
  Texts map;
  std::map<std::string, std::string, std::less<>> like;
  unsigned random = 7;
  for (int i = 0; i < 3000; ++i) {
    random = random * 1103515245 + 12345;
    const std::string key(1, static_cast<char>('a' + random / 65536 % 20)), value = std::to_string(i);
    switch (random / 2097152 % 5) {
      case 0:
        EXPECT_EQ(map.emplace(key, value).second, like.emplace(key, value).second);
        break;
      case 1:
        map[key] = like[key] = value;
        break;
      case 2:
        EXPECT_EQ(map.erase(key), like.erase(key));
        break;
      case 3:
        map.insert_or_assign(key, value);
        like.insert_or_assign(key, value);
        break;
      default:
        EXPECT_EQ(map.insert({key, value}).second, like.insert({key, value}).second);
    }
    ASSERT_EQ(map, Texts(like.begin(), like.end()));
    ASSERT_EQ(map.size(), like.size());
    ASSERT_EQ(map.count(key), like.count(key));
    const auto after = map.lower_bound(key);
    const auto afterLike = like.lower_bound(key);
    ASSERT_EQ(after == map.end(), afterLike == like.end());
    if (after != map.end()) {
      ASSERT_EQ(after->first, afterLike->first);
    }
  }
}

TEST(SortedMap, FindsAndRemoves) {
  Texts map = {{"a", "1"}, {"c", "3"}};
  EXPECT_EQ(map.find("b"), map.end());
  EXPECT_EQ(map.find("c")->second, "3");
  EXPECT_TRUE(map.contains("c"));
  EXPECT_EQ(map.at("a"), "1");
  EXPECT_THROW(map.at("b"), std::out_of_range);
  EXPECT_EQ(map.erase(map.find("a"))->first, "c");
  EXPECT_EQ(erase_if(map, [](const auto& entry) { return entry.second == "3"; }), 1u);
  EXPECT_TRUE(map.empty());
}

}  // namespace
}  // namespace egpu::core

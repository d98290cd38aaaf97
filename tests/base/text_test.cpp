#include "controller/base/text.h"

#include <gtest/gtest.h>

namespace egpu::base {
namespace {

TEST(TextTest, IsTrimmed) {
  EXPECT_EQ(trimmed(" \t a b\r\n"), "a b");
  EXPECT_EQ(trimmed("a"), "a");
  EXPECT_EQ(trimmed(" \n"), "");
  EXPECT_EQ(trimmed(""), "");
}

TEST(TextTest, IsLowered) { EXPECT_EQ(lowered("AZ[az]Ä0"), "az[az]Ä0"); }

TEST(TextTest, IsQuoted) {
  EXPECT_EQ(quoted("a\"\\/\n\r\t\x1b\x7f é"), "\"a\\\"\\\\/\\n\\r\\t\\u001b\\u007f é\"");
  EXPECT_EQ(quoted("\xc2\x85 \xff \xc2"), "\"\\u0085 \xEF\xBF\xBD \xEF\xBF\xBD\"");
  EXPECT_EQ(quoted(""), "\"\"");
}

TEST(TextTest, RetainsBeginningAndEnd) {
  EXPECT_EQ(shortened("as it is", 16), "as it is");
  const auto text = shortened("begins" + std::string(100, '.') + "ends", 32);
  EXPECT_LE(text.size(), 32u);
  EXPECT_EQ(text.substr(0, 6), "begins");
  EXPECT_EQ(text.substr(text.size() - 4), "ends");
  EXPECT_NE(text.find(" … "), std::string::npos);
}

TEST(TextTest, NeverCutsACharacter) {
  std::string euros;
  for (int i = 0; i < 40; ++i) euros += "€";
  for (std::size_t max = 16; max < 60; ++max)
    for (const auto* lead : {"", "x", "xy"}) {
      auto text = shortened(lead + euros, max);
      EXPECT_LE(text.size(), max);
      text.erase(text.find(" … "), 5);
      text.erase(0, std::string(lead).size());
      EXPECT_EQ(text.size() % 3, 0u) << max << lead;
      EXPECT_EQ(text, euros.substr(0, text.size())) << max << lead;
    }
}

}  // namespace
}  // namespace egpu::base

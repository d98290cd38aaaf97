#include "controller/base/printable.h"

#include <gtest/gtest.h>

namespace egpu::base {
namespace {

TEST(Printable, LeavesTextAsItIs) {
  EXPECT_EQ(printable("NVIDIA A100-SXM4 (80GB) ü … 名"), "NVIDIA A100-SXM4 (80GB) ü … 名");
  EXPECT_FALSE(hasControls("ü … 名"));
}

TEST(Printable, EscapesEveryControlCharacter) {
  EXPECT_EQ(printable("A\033[2JB"), "A\\x1b[2JB");
  EXPECT_EQ(printable("a\nb\tc\rd"), "a\\x0ab\\x09c\\x0dd");
  EXPECT_EQ(printable(std::string("a\0b\x7f", 4)), "a\\x00b\\x7f");
  EXPECT_EQ(printable("a\xc2\x9b"
                      "2J"),
            "a\\x9b2J");
  for (int c = 0; c < 0x20; ++c) EXPECT_TRUE(hasControls(std::string(1, static_cast<char>(c)))) << c;
  EXPECT_TRUE(hasControls("\xc2\x80"));
  EXPECT_FALSE(hasControls("\xc2\xa0"));
}

TEST(Printable, SparesOne) { EXPECT_EQ(printable("a\nb\033", '\n'), "a\nb\\x1b"); }

TEST(Printable, ATextThatEndsMidCharacterIsLeft) { EXPECT_EQ(printable("a\xc2"), "a\xc2"); }

}  // namespace
}  // namespace egpu::base

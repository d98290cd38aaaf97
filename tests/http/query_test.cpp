#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "controller/http/http.h"

namespace egpu::http {
namespace {

using ::testing::ElementsAre;
using ::testing::Pair;

TEST(Query, DecodesInOrder) {
  EXPECT_THAT(parseQuery("a=1&b=x%2Cy&a=2&c&d="),
              ElementsAre(Pair("a", "1"), Pair("b", "x,y"), Pair("a", "2"), Pair("c", ""), Pair("d", "")));
  EXPECT_THAT(parseQuery("s=a%3Db+in+%28c%29"), ElementsAre(Pair("s", "a=b in (c)")));
  EXPECT_TRUE(parseQuery("").empty());
  EXPECT_TRUE(parseQuery("&&").empty());
}

TEST(Query, LeavesBrokenEscapesAlone) {
  EXPECT_EQ(percentDecode("100%"), "100%");
  EXPECT_EQ(percentDecode("%4"), "%4");
  EXPECT_EQ(percentDecode("%zz%41+"), "%zzA+");
  EXPECT_EQ(percentDecode("%00"), std::string(1, '\0'));
}

}  // namespace
}  // namespace egpu::http

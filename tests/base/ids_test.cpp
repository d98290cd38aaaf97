#include "controller/base/ids.h"

#include <gtest/gtest.h>

#include <regex>
#include <set>

namespace egpu::base {
namespace {

TEST(Random, uuidsAreVersion4AndDiffer) {
  const std::regex form("[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}");
  Random random;
  std::set<std::string> seen;
  for (int i = 0; i < 1000; ++i) {
    const std::string uuid = random.uuid();
    ASSERT_TRUE(std::regex_match(uuid, form)) << uuid;
    seen.insert(uuid);
  }
  EXPECT_EQ(seen.size(), 1000u);
}

TEST(Random, sameSeedSameSequence) {
  Random a(7), b(7), c(8);
  const std::string first = a.uuid();
  EXPECT_EQ(first, b.uuid());
  EXPECT_NE(first, c.uuid());
  EXPECT_EQ(a.below(1000), b.below(1000));
}

TEST(Random, staysInItsBounds) {
  Random random(1);
  std::set<uint64_t> seen;
  for (int i = 0; i < 1000; ++i) {
    const uint64_t n = random.below(5);
    ASSERT_LT(n, 5u);
    seen.insert(n);
    const double u = random.unit();
    ASSERT_GE(u, 0.0);
    ASSERT_LT(u, 1.0);
  }
  EXPECT_EQ(seen.size(), 5u);
  EXPECT_EQ(random.below(0), 0u);
  EXPECT_EQ(random.below(1), 0u);
}

TEST(Random, suffixesAreForNames) {
  Random random(2);
  EXPECT_EQ(random.suffix(0), "");
  const std::string suffix = random.suffix(200);
  EXPECT_EQ(suffix.size(), 200u);
  // Kubernetes omits vowels and similar characters, so that suffixes form no words.
  EXPECT_EQ(suffix.find_first_not_of("bcdfghjklmnpqrstvwxz2456789"), std::string::npos);
}

TEST(HexDigest, isFnv1a) {
  EXPECT_EQ(hexDigest(""), "cbf29ce484222325");
  EXPECT_EQ(hexDigest("a"), "af63dc4c8601ec8c");
  EXPECT_EQ(hexDigest("foobar"), "85944171f73967e8");
}

}  // namespace
}  // namespace egpu::base

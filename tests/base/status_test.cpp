#include "controller/base/status.h"

#include <gtest/gtest.h>

#include <memory>
#include <set>

namespace egpu::base {
namespace {

TEST(Status, okByDefault) {
  EXPECT_TRUE(Status().ok());
  EXPECT_TRUE(Status::okay().ok());
  EXPECT_EQ(Status().str(), "ok");
}

TEST(Status, containsKindAndMessage) {
  const Status status(Code::conflict, "the object has been modified");
  EXPECT_FALSE(status.ok());
  EXPECT_EQ(status.code(), Code::conflict);
  EXPECT_EQ(status.str(), "conflict: the object has been modified");
}

TEST(Status, everyCodeHasItsOwnName) {
  std::set<std::string_view> names;
  for (int i = 0; i <= static_cast<int>(Code::internal); ++i) names.insert(toString(static_cast<Code>(i)));
  EXPECT_EQ(names.size(), static_cast<std::size_t>(Code::internal) + 1);
}

TEST(Result, holdsAValue) {
  // On the heap: with everything inlined, g++ 12 warns of a read of the variant's other alternative.
  auto result = std::make_unique<Result<std::unique_ptr<int>>>(std::make_unique<int>(7));
  ASSERT_TRUE(result->ok());
  EXPECT_TRUE(result->status().ok());
  EXPECT_EQ(***result, 7);
  const std::unique_ptr<int> moved = *std::move(*result);
  EXPECT_EQ(*moved, 7);
}

TEST(Result, orTheReason) {
  const Result<std::string> result(Status(Code::notFound, "no such claim"));
  EXPECT_FALSE(result.ok());
  EXPECT_EQ(result.status().str(), "not found: no such claim");
}

TEST(Result, mayHoldAStatusLikeType) {
  Result<int> result = 3;
  result = Status(Code::internal, "x");
  EXPECT_FALSE(result);
  result = 4;
  EXPECT_EQ(*result, 4);
}

TEST(ResultDeathTest, anOkStatusIsNoReason) { EXPECT_DEATH((void)Result<int>(Status::okay()), ""); }

}  // namespace
}  // namespace egpu::base

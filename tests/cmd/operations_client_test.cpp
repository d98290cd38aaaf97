#include "controller/cmd/operations_client.h"

#include <gtest/gtest.h>

namespace egpu::cmd {
namespace {

TEST(WithField, StandsThereOnce) {
  EXPECT_EQ(withField("/defrag?format=json&evictable=1", "moves", "3"), "/defrag?format=json&evictable=1&moves=3");
  EXPECT_EQ(withField("/defrag?format=json&moves=5&node=n", "moves", "3"), "/defrag?format=json&node=n&moves=3");
  EXPECT_EQ(withField("/defrag?moves=5&moves=4", "moves", "3"), "/defrag?moves=3");
  EXPECT_EQ(withField("/defrag?moves", "moves", "a b"), "/defrag?moves=a%20b");
  EXPECT_EQ(withField("/defrag?removes=5", "moves", "3"), "/defrag?removes=5&moves=3");
  EXPECT_EQ(withField("/defrag", "moves", "3"), "/defrag?moves=3");
}

}  // namespace
}  // namespace egpu::cmd

#include "controller/codec/move_plan.h"

#include <gtest/gtest.h>

namespace egpu::codec {
namespace {

TEST(MovePlanAnswer, IsReadAsFarAsItIsNeeded) {
  const auto answer = decodeMovePlan(
      R"({"subject":{"claim":"t/w","class":"share","requests":{},"phase":"Pending"},"text":"1 move would make it fit",
          "possible":true,"exact":true,"movable":2,"moves":[{"claim":"t/c","device":"egpu-c","from":{"node":"a"},
          "to":{"fits":true,"node":"b","cards":[]},"evictable":true,"pods":["t/p"]}],"holds":true,"decision":{}})");
  ASSERT_TRUE(answer.ok()) << answer.status().str();
  EXPECT_TRUE(answer->ofClaim && answer->possible && answer->holds);
  EXPECT_EQ(answer->claim + " " + answer->phase, "t/w Pending");
  EXPECT_EQ(answer->text, "1 move would make it fit");
  ASSERT_EQ(answer->moves.size(), 1u);
  const auto& move = answer->moves.front();
  EXPECT_EQ(move.claim + " " + move.device + " " + move.to + " " + move.pods.at(0), "t/c egpu-c b t/p");
}

TEST(MovePlanAnswer, OfWholeCardsHasNoSubject) {
  const auto answer = decodeMovePlan(R"({"text":"none","possible":false,"moves":[],"freedCards":0})");
  ASSERT_TRUE(answer.ok()) << answer.status().str();
  EXPECT_FALSE(answer->ofClaim || answer->possible || answer->holds);
  EXPECT_TRUE(answer->moves.empty());
}

TEST(MovePlanAnswer, AnythingElseIsNone) {
  for (const char* text : {"", "[]", "{}", "404 page not found", R"({"text":"x","possible":1,"moves":[]})",
                           R"({"text":"x","possible":true,"moves":[{"claim":"t/c"}]})",
                           R"({"text":"x","possible":true,"subject":3,"moves":[]})"})
    EXPECT_EQ(decodeMovePlan(text).status().code(), base::Code::malformed) << text;
}

}  // namespace
}  // namespace egpu::codec

#include "controller/agent/usage/prepared.h"

#include <gmock/gmock.h>

#include "tests/agent/prepare/fixture.h"

namespace egpu::agent::usage {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;

class PreparedTest : public PrepareTest {
 protected:
  /// Number of times that the pods were listed for this.
  int asked(const std::set<std::string>& strangers = {}) {
    int lists = 0;
    line.refuses = [&](const kube::HttpRequest& request) {
      lists += request.target.find("/pods") != std::string::npos ? 1 : 0;
      return false;
    };
    EXPECT_TRUE(prepared.learn(strangers, {}).ok());
    line.refuses = nullptr;
    return lists;
  }
  std::map<std::string, std::string> pods(const std::string& claim) {
    for (const auto& share : prepared.shares())
      if (share.claim == claim) return share.pods;
    return {{"not", "prepared"}};
  }
  Prepared prepared{client, folder, world.clock, "n1"};
};

TEST_F(PreparedTest, AShareReportsWhatWasGrantedAndWhoHasIt) {
  EXPECT_THAT(prepared.shares(), IsEmpty());
  EXPECT_EQ(asked({"somebody"}), 0) << "nothing is prepared that could be anybody's";
  const auto claim = claimed("a", "25");
  ASSERT_TRUE(preparer.prepare(claim, {}).ok());
  auto shares = prepared.shares();
  ASSERT_EQ(shares.size(), 1u);
  EXPECT_EQ(shares[0].deviceUid, uidOf(claim));
  EXPECT_EQ(shares[0].namespace_ + "/" + shares[0].claim, "default/a");
  EXPECT_EQ(shares[0].card, deviceOf(claim).spec.cards.at(0).uuid);
  EXPECT_EQ(shares[0].core, 250);
  EXPECT_EQ(shares[0].memory, support::kGi);
  EXPECT_THAT(shares[0].pods, IsEmpty());
  EXPECT_EQ(asked(), 1);
  EXPECT_THAT(pods("a"), ElementsAre(Pair(world.pod("a").metadata.uid, "a")));
  EXPECT_EQ(asked(), 0) << "it is known";
}

TEST_F(PreparedTest, TheApiIsAskedForWhatIsNewAndElseSeldom) {
  const auto a = claimed("a");
  ASSERT_TRUE(preparer.prepare(a, {}).ok());
  EXPECT_EQ(asked(), 1);
  ASSERT_TRUE(preparer.prepare(claimed("b"), {}).ok());
  EXPECT_EQ(asked(), 1) << "another device";
  world.addPod("second", {"a"});
  driver->settle();
  world.schedule("second");
  EXPECT_EQ(asked({"foreign"}), 1);
  EXPECT_EQ(asked({"foreign"}), 0) << "it has nothing here";
  EXPECT_EQ(pods("a").size(), 2u) << "seen by the way";
  EXPECT_EQ(pods("b").size(), 1u);
  world.clock.advance(std::chrono::minutes(10));
  EXPECT_EQ(asked({"foreign"}), 1);
}

TEST_F(PreparedTest, WhatIsUnpreparedIsForgotten) {
  const auto claim = claimed("a");
  ASSERT_TRUE(preparer.prepare(claim, {}).ok());
  EXPECT_EQ(asked(), 1);
  ASSERT_TRUE(folder.withdraw(uidOf(claim)).ok());
  EXPECT_THAT(prepared.shares(), IsEmpty()) << "no container gets it any more";
  ASSERT_TRUE(folder.publish(uidOf(claim)).ok());
  EXPECT_THAT(pods("a"), IsEmpty());
  EXPECT_EQ(asked(), 1);
}

TEST_F(PreparedTest, WhileTheApiIsAwayWhatWasLearnedHolds) {
  ASSERT_TRUE(preparer.prepare(claimed("a"), {}).ok());
  EXPECT_EQ(asked(), 1);
  ASSERT_TRUE(preparer.prepare(claimed("b"), {}).ok());
  apiAway(true);
  EXPECT_FALSE(prepared.learn({}, {}).ok());
  EXPECT_EQ(pods("a").size(), 1u);
  EXPECT_THAT(pods("b"), IsEmpty());
  apiAway(false);
  EXPECT_EQ(asked(), 1);
  EXPECT_EQ(pods("b").size(), 1u);
}

}  // namespace
}  // namespace egpu::agent::usage

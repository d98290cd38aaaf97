// What is seen of cards while they are watched, and how long it is told.
#include <gtest/gtest.h>

#include "provisioners/nvidia/watch.h"
#include "provisioners/nvidia/xids.h"
#include "tests/nvml/fake_nvml.h"

namespace egpu::nvidia {
namespace {

class WatchTest : public ::testing::Test {
 protected:
  /// What the cards say of themselves at that time, and what was seen of them.
  Node judged(std::chrono::seconds at = {}) {
    fake.write();
    for (const std::size_t place : unplugged) fake.unplug(place);
    Node node;
    EXPECT_EQ(readNode([] { return false; }, node).code, EGPU_OK);
    watch.judge(node, Watch::Time() + at);
    watch.follow(node.cards);
    return node;
  }
  using Words = std::vector<std::string>;
  static Words illnesses(const Node& node) {
    Words out;
    for (const Card& card : node.cards) out.push_back(card.illness.substr(0, card.illness.find(':')));
    return out;
  }

  testing::FakeNvml fake{"a100"};
  std::vector<std::size_t> unplugged;
  Watch watch;
};

TEST_F(WatchTest, WhatAResetHasToMendIsToldUntilThen) {
  judged();
  fake.file["devices"][0]["xids"].push_back(119);
  fake.file["devices"][1]["xids"].push_back(92);
  fake.file["devices"][2]["xids"].push_back(4711);
  fake.file["devices"][3]["xids"].push_back(119);
  fake.file["devices"][3]["xids"].push_back(92);
  EXPECT_EQ(illnesses(judged()), (Words{"Xid119", "Xid92", "Xid4711", "Xid119"}));
  EXPECT_EQ(illnesses(judged(std::chrono::hours(24))), (Words{"Xid119", "", "", "Xid119"}));
}

TEST_F(WatchTest, ACardThatComesBackWithoutAResetIsNotWell) {
  judged();
  fake.file["devices"][0]["xids"].push_back(79);
  judged();
  fake.file["devices"][0]["lost"] = true;
  EXPECT_EQ(judged().lost.size(), 1u);
  fake.file["devices"][0].remove("lost");
  EXPECT_EQ(illnesses(judged()), (Words{"Xid79", "", "", ""}));
  // The kernel has let it go: what comes back was started anew.
  fake.file["devices"][0]["lost"] = true;
  unplugged = {0};
  EXPECT_TRUE(judged().lost.empty());
  fake.file["devices"][0].remove("lost");
  unplugged.clear();
  EXPECT_EQ(illnesses(judged()), Words(4));
}

/// It was let go while the driver did not answer, and so kept nobody from loading another one.
TEST_F(WatchTest, WhatWasSeenUnderAnotherVersionOfTheDriverIsForgotten) {
  judged();
  fake.file["devices"][0]["xids"].push_back(119);
  judged();
  EXPECT_TRUE(watch.release());
  EXPECT_EQ(illnesses(judged()), (Words{"Xid119", "", "", ""})) << "that it was let go alone mends nothing";
  EXPECT_TRUE(watch.release());
  fake.file["driver"] = "550.54.14";
  EXPECT_EQ(illnesses(judged()), Words(4));
  fake.file["devices"][1]["xids"].push_back(119);
  EXPECT_EQ(illnesses(judged()), (Words{"", "Xid119", "", ""}));
}

TEST(Xids, OnlyWhatNeedsNoRemedyPasses) {
  for (const unsigned xid : {48U, 61U, 62U, 63U, 64U, 74U, 79U, 95U, 119U, 120U, 140U, 143U})
    EXPECT_FALSE(passes(xid)) << xid;
  for (const unsigned xid : {92U, 94U, 4711U}) EXPECT_TRUE(passes(xid)) << xid;
}

}  // namespace
}  // namespace egpu::nvidia

// Observations of watched cards, and how long they are reported.
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "provisioners/nvidia/watch.h"
#include "provisioners/nvidia/xids.h"
#include "tests/nvml/fake_nvml.h"

namespace egpu::nvidia {
namespace {

class WatchTest : public ::testing::Test {
 protected:
  /// Returns the cards with the errors that the watch has observed.
  NodeCards judged() {
    fake.write();
    for (const std::size_t place : unplugged) fake.unplug(place);
    NodeCards node;
    EXPECT_EQ(readNode([] { return false; }, node).code, EGPU_OK);
    watch.judge(node);
    watch.follow(node.cards);
    return node;
  }
  using Words = std::vector<std::string>;
  static Words illnesses(const NodeCards& node) {
    Words out;
    for (const NvmlCard& card : node.cards) out.push_back(card.illness.substr(0, card.illness.find(':')));
    return out;
  }

  testing::FakeNvml fake{"a100"};
  std::vector<std::size_t> unplugged;
  Watch watch;
};

TEST_F(WatchTest, WhatAResetHasToMendIsReportedUntilThen) {
  judged();
  fake.file["devices"][0]["xids"].push_back(119);
  fake.file["devices"][1]["xids"].push_back(92);
  fake.file["devices"][2]["xids"].push_back(4711);
  fake.file["devices"][3]["xids"].push_back(119);
  fake.file["devices"][3]["xids"].push_back(92);
  for (int round = 0; round < 100; ++round) EXPECT_EQ(illnesses(judged()), (Words{"Xid119", "", "Xid4711", "Xid119"}));
}

/// Earlier, a card with one of these XIDs was offered again after a minute.
TEST_F(WatchTest, XidsThatNeedMoreThanAnotherStartOfTheProgramWithdrawTheCard) {
  for (const unsigned xid : {46U, 109U, 136U, 144U, 149U, 154U, 155U, 156U, 158U, 173U, 4711U}) {
    Watch fresh;
    const auto judge = [&] {
      fake.write();
      NodeCards node;
      EXPECT_EQ(readNode([] { return false; }, node).code, EGPU_OK);
      fresh.judge(node);
      fresh.follow(node.cards);
      return node.cards.at(0).illness;
    };
    EXPECT_EQ(judge(), "");
    fake.file["devices"][0]["xids"].push_back(xid);
    EXPECT_EQ(judge().rfind("Xid" + std::to_string(xid) + ": ", 0), 0U) << xid;
    EXPECT_NE(judge(), "") << xid;
  }
}

TEST_F(WatchTest, TheStrongestActionIsReportedAndEachFurtherErrorShows) {
  judged();
  fake.file["devices"][0]["xids"].push_back(79);
  const auto first = judged().cards.at(0).illness;
  fake.file["devices"][0]["xids"].push_back(46);
  const auto second = judged().cards.at(0).illness;
  EXPECT_EQ(first, illnessOf(79));
  EXPECT_EQ(second, illnessOf(79) + "; errors so far: 2");
  fake.file["devices"][1]["xids"].push_back(46);
  fake.file["devices"][1]["xids"].push_back(79);
  EXPECT_EQ(judged().cards.at(1).illness, illnessOf(79) + "; errors so far: 2");
}

/// A card with an endless series of errors does not change its message at each query, but further errors remain
/// visible.
TEST_F(WatchTest, FurtherErrorsShowHoweverManyThereWere) {
  judged();
  std::set<std::string> messages;
  for (int round = 0; round < 20; ++round) {
    for (int i = 0; i < 50; ++i) fake.file["devices"][0]["xids"].push_back(79);
    messages.insert(judged().cards.at(0).illness);
  }
  EXPECT_EQ(messages.size(), 5U) << "50, 100, 200, 400, 800";
  EXPECT_TRUE(messages.contains(illnessOf(79) + "; errors so far: 800"));
}

/// A program may cause any number of faults of its own.
TEST_F(WatchTest, FaultsOfProgramsHideNoErrorOfACard) {
  judged();
  for (int i = 0; i < 1500; ++i) fake.file["devices"][0]["xids"].push_back(31);
  fake.file["devices"][1]["xids"].push_back(79);
  EXPECT_EQ(illnesses(judged()), (Words{"", "Xid79", "", ""}));
}

/// An agent that starts meanwhile would not know of the error.
TEST_F(WatchTest, AnotherIllnessDoesNotHideAnXid) {
  judged();
  fake.file["devices"][0]["xids"].push_back(79);
  fake.file["devices"][0]["lost"] = true;
  fake.file["devices"][1]["xids"].push_back(46);
  fake.file["devices"][1]["computeMode"] = 2;
  const auto node = judged();
  ASSERT_EQ(node.lost.size(), 1U);
  EXPECT_EQ(node.lost.at(0).event, illnessOf(79));
  EXPECT_EQ(node.cards.at(0).illness.substr(0, 17), "ComputeProhibited");
  EXPECT_EQ(node.cards.at(0).event, illnessOf(46));
}

TEST_F(WatchTest, WhatIsPendingWhenTheDriverIsLetGoIsSeen) {
  judged();
  fake.file["devices"][0]["xids"].push_back(119);
  fake.write();
  EXPECT_TRUE(watch.release());
  EXPECT_EQ(illnesses(judged()), (Words{"Xid119", "", "", ""}));
}

TEST_F(WatchTest, TheDriversRecoveryActionReportsWhatXid154Means) {
  for (std::size_t i = 0; i < 4; ++i) fake.file["devices"][i]["recoveryAction"] = 0;
  judged();
  fake.file["devices"][0]["xids"].push_back(154);
  fake.file["devices"][1]["xids"].push_back(154);
  fake.file["devices"][1]["recoveryAction"] = 2;
  EXPECT_EQ(illnesses(judged()), (Words{"", "RebootNeeded", "", ""}));
  fake.file["devices"][1]["recoveryAction"] = 0;
  EXPECT_EQ(illnesses(judged()), Words(4));
}

TEST_F(WatchTest, ADriverThatAsksNoMoreForARecoveryActionHasEndedIt) {
  for (std::size_t i = 0; i < 4; ++i) fake.file["devices"][i]["recoveryAction"] = 0;
  judged();
  for (std::size_t i = 0; i < 2; ++i) fake.file["devices"][i]["xids"].push_back(95);
  fake.file["devices"][0]["recoveryAction"] = 1;
  EXPECT_EQ(illnesses(judged()), (Words{"ResetNeeded", "Xid95", "", ""}));
  fake.file["devices"][0]["recoveryAction"] = 0;
  EXPECT_EQ(illnesses(judged()), (Words{"", "Xid95", "", ""})) << "of the other one it never asked for anything";
}

TEST_F(WatchTest, ACardThatComesBackWithoutAResetIsNotWell) {
  judged();
  fake.file["devices"][0]["xids"].push_back(79);
  judged();
  fake.file["devices"][0]["lost"] = true;
  EXPECT_EQ(judged().lost.size(), 1u);
  fake.file["devices"][0].remove("lost");
  EXPECT_EQ(illnesses(judged()), (Words{"Xid79", "", "", ""}));
  // The kernel has released the card: after its return it is freshly initialised.
  fake.file["devices"][0]["lost"] = true;
  unplugged = {0};
  EXPECT_TRUE(judged().lost.empty());
  fake.file["devices"][0].remove("lost");
  unplugged.clear();
  EXPECT_EQ(illnesses(judged()), Words(4));
}

/// The library was released while the driver did not answer, so that another driver could be loaded.
TEST_F(WatchTest, WhatWasSeenUnderAnotherVersionOfTheDriverIsForgotten) {
  judged();
  fake.file["devices"][0]["xids"].push_back(119);
  judged();
  EXPECT_TRUE(watch.release());
  EXPECT_EQ(illnesses(judged()), (Words{"Xid119", "", "", ""})) << "the release of the library repairs nothing";
  EXPECT_TRUE(watch.release());
  fake.file["driver"] = "550.54.14";
  EXPECT_EQ(illnesses(judged()), Words(4));
  fake.file["devices"][1]["xids"].push_back(119);
  EXPECT_EQ(illnesses(judged()), (Words{"", "Xid119", "", ""}));
}

TEST(Xids, TheCatalogReportsTheAction) {
  const std::pair<Action, std::vector<unsigned>> rows[] = {
      {Action::ignore, {43, 45, 63, 92, 137, 157}},
      {Action::restartApp, {13, 31, 68, 94}},
      {Action::resetGpu, {46, 48, 61, 62, 64, 74, 95, 109, 119, 120, 136, 140, 143, 144, 149, 155, 156, 158}},
      {Action::rebootNode, {79, 151}},
      {Action::askDriver, {154}},
      {Action::operatorsWord, {0, 1, 142, 173, 4711}}};
  for (const auto& [action, xids] : rows)
    for (const unsigned xid : xids) {
      EXPECT_EQ(actionOf(xid), action) << xid;
      EXPECT_EQ(withdraws(xid), action > Action::restartApp) << xid;
    }
}

TEST(Xids, TheMessageNamesTheAction) {
  const auto hasAdvice = [](unsigned xid, const char* words) {
    return illnessOf(xid).find(words) != std::string::npos;
  };
  EXPECT_TRUE(hasAdvice(46, "nvidia-smi --gpu-reset"));
  EXPECT_TRUE(hasAdvice(79, "reboot the machine"));
  EXPECT_TRUE(hasAdvice(54, "check the card's power and seat"));
  EXPECT_TRUE(hasAdvice(94, "restart the affected program"));
  EXPECT_TRUE(hasAdvice(4711, "once an operator sets annotation elasticgpu.io/repaired"));
}

/// Duplicate rows would hide each other.
TEST(Xids, TheCatalogHasEachXidOnce) {
  std::map<unsigned, int> rows;
#define EGPU_XID(code, action, what) ++rows[code];
#include "provisioners/nvidia/xid_catalog.inc"
#undef EGPU_XID
  for (const auto& [xid, times] : rows) EXPECT_EQ(times, 1) << xid;
  EXPECT_GT(rows.size(), 100U);
}

}  // namespace
}  // namespace egpu::nvidia

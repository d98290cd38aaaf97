// CDI files of another boot, another driver or other minor numbers: their paths may lead to another card.
#include <fstream>

#include "tests/agent/prepare/fixture.h"

namespace egpu::agent {
namespace {

using base::Code;

/// A node whose plugin returns each card's current minor number.
class StaleTest : public PrepareTest {
 protected:
  StaleTest() {
    world.addCard("n1", 1);
    driver->settle();
    plugin.editsOf = [this](const plugin::DeviceRequest& request) {
      plugin::ContainerEdits edits;
      for (const auto& card : request.cards)
        edits.deviceNodes.push_back({"/dev/nvidia" + std::to_string(minors.at(card.uuid)), "", "rw"});
      return edits;
    };
    options.boot = "boot-1";
    options.found = [this](const std::string& card) -> std::optional<PreparerOptions::CurrentCard> {
      if (!answers) return std::nullopt;
      return PreparerOptions::CurrentCard{minors.at(card == "gpu-n1-0" ? "GPU-n1-0" : "GPU-n1-1"), driverVersion};
    };
    restart();
  }
  void restart() { agent = std::make_unique<ClaimPreparer>(client, registry, events, folder, options); }
  cdi::Spec fileOf(const ClaimRef& claim) {
    const auto entry = folder.find(uidOf(claim));
    EXPECT_TRUE(entry.ok() && *entry && (*entry)->ready && (*entry)->spec.ok());
    return entry.ok() && *entry && (*entry)->spec ? *(*entry)->spec : cdi::Spec{};
  }
  std::string nodeOf(const ClaimRef& claim) { return fileOf(claim).edits.deviceNodes.at(0).path; }
  std::string cardOf(const ClaimRef& claim) { return deviceOf(claim).spec.cards.at(0).uuid; }

  std::map<std::string, int64_t> minors{{"GPU-n1-0", 0}, {"GPU-n1-1", 1}};
  std::string driverVersion = "535.104.05";
  bool answers = true;
  std::unique_ptr<ClaimPreparer> agent;
};

TEST_F(StaleTest, AFileStatesForWhatItWasMade) {
  const auto claim = claimed("a");
  ASSERT_TRUE(agent->prepare(claim, {}).ok());
  const auto file = fileOf(claim);
  EXPECT_EQ(file.boot, "boot-1");
  EXPECT_EQ(file.driver, "535.104.05");
  EXPECT_EQ(file.minors, std::vector<int64_t>{minors.at(cardOf(claim))});
  EXPECT_EQ(file.cards.at(0).uuid, cardOf(claim));
}

TEST_F(StaleTest, P5_WhatIsUnchangedIsAnsweredOnceTheMinorsWereReadAgain) {
  const auto claim = claimed("a");
  ASSERT_TRUE(agent->prepare(claim, {}).ok());
  const auto before = fileOf(claim);
  (void)plugin.calls();
  EXPECT_EQ(*agent->prepare(claim, {}), ids(uidOf(claim)));
  EXPECT_EQ(plugin.calls(), Calls{"mount"}) << "which is pure";
  EXPECT_EQ(fileOf(claim), before);
}

/// The plugin sees the exchange.
TEST_F(StaleTest, OtherMinorsMakeTheFileAnew) {
  const auto claim = claimed("a");
  ASSERT_TRUE(agent->prepare(claim, {}).ok());
  const auto own = cardOf(claim);
  std::swap(minors["GPU-n1-0"], minors["GPU-n1-1"]);
  ASSERT_TRUE(agent->prepare(claim, {}).ok());
  EXPECT_EQ(nodeOf(claim), "/dev/nvidia" + std::to_string(minors.at(own))) << "the path of its own card";
  EXPECT_EQ(fileOf(claim).minors, std::vector<int64_t>{minors.at(own)});
  EXPECT_EQ(files().size(), 1U);
}

TEST_F(StaleTest, AnotherDriverOrBootMakesTheFileAnew) {
  const auto claim = claimed("a");
  ASSERT_TRUE(agent->prepare(claim, {}).ok());
  driverVersion = "550.54.14";
  ASSERT_TRUE(agent->prepare(claim, {}).ok());
  EXPECT_EQ(fileOf(claim).driver, "550.54.14");
  options.boot = "boot-2";
  restart();
  ASSERT_TRUE(agent->prepare(claim, {}).ok());
  EXPECT_EQ(fileOf(claim).boot, "boot-2");
  (void)plugin.calls();
  ASSERT_TRUE(agent->prepare(claim, {}).ok());
  EXPECT_EQ(plugin.calls(), Calls{"mount"});
}

TEST_F(StaleTest, WhatCannotBeReadIsRefusedWithTheReason) {
  const auto claim = claimed("a");
  ASSERT_TRUE(agent->prepare(claim, {}).ok());
  plugin.mountAnswers = {plugin::ReplyCode::unavailable, "card GPU-n1-0 is not among those of this machine"};
  const auto answer = agent->prepare(claim, {});
  EXPECT_EQ(answer.status().code(), Code::unavailable);
  EXPECT_TRUE(hasEvent("a", "is not among those of this machine"));
  EXPECT_EQ(files(), Calls{PrepareTest::fileOf(uidOf(claim))}) << "what runs is not touched";
}

/// The runtime restarts containers without a prepare.
TEST_F(StaleTest, RefreshMakesStaleFilesAnewAndLeavesTheOthers) {
  const auto one = claimed("a"), two = claimed("b");
  ASSERT_TRUE(agent->prepare(one, {}).ok());
  ASSERT_TRUE(agent->prepare(two, {}).ok());
  (void)plugin.calls();
  ASSERT_TRUE(agent->refresh({}).ok());
  EXPECT_EQ(plugin.calls(), Calls{});
  driverVersion = "550.54.14";
  std::swap(minors["GPU-n1-0"], minors["GPU-n1-1"]);
  ASSERT_TRUE(agent->refresh({}).ok());
  for (const auto& claim : {one, two}) {
    EXPECT_EQ(fileOf(claim).driver, "550.54.14");
    EXPECT_EQ(nodeOf(claim), "/dev/nvidia" + std::to_string(minors.at(cardOf(claim))));
  }
  (void)plugin.calls();
  ASSERT_TRUE(agent->refresh({}).ok());
  EXPECT_EQ(plugin.calls(), Calls{});
}

/// Cards of two plugins: the file has one version, which differs from that of some cards.
TEST_F(StaleTest, CardsOfTwoDriversMakeNoFileStale) {
  options.found = [](const std::string& card) {
    return card == "gpu-n1-0" ? PreparerOptions::CurrentCard{0, "535.104.05"} : PreparerOptions::CurrentCard{1, "2.1"};
  };
  restart();
  world.addClaim("w", "share", {{"gpu", "2"}});
  world.addPod("w", {"w"});
  driver->settle();
  world.schedule("w");
  ASSERT_TRUE(agent->prepare({"default", "w", world.resourceClaim("w")->metadata.uid}, {}).ok());
  (void)plugin.calls();
  EXPECT_TRUE(agent->refresh({}).ok());
  EXPECT_EQ(plugin.calls(), Calls{});
}

/// No claim is prepared beside an unreadable file: it may hold the card.
TEST_F(StaleTest, L2_RefreshMakesFilesAnewThatCannotBeRead) {
  const auto one = claimed("a"), two = claimed("b"), gone = claimed("c");
  ASSERT_TRUE(agent->prepare(one, {}).ok());
  ASSERT_TRUE(agent->prepare(gone, {}).ok());
  const auto before = fileOf(one);
  for (const auto& claim : {one, gone})
    std::ofstream(folder.path() + "/" + PrepareTest::fileOf(uidOf(claim)), std::ios::trunc) << "{\"cdiVersion\":\"0.3";
  world.removePod("c");
  world.removeClaim("c");
  driver->run();
  EXPECT_EQ(agent->prepare(two, {}).status().code(), Code::unavailable);
  const auto status = agent->refresh({});
  EXPECT_TRUE(status.ok()) << status.str();
  EXPECT_EQ(fileOf(one), before);
  EXPECT_EQ(files(), Calls{PrepareTest::fileOf(uidOf(one))}) << "no device has the other one";
  EXPECT_TRUE(agent->prepare(two, {}).ok());
}

/// A driver that reserves more memory removes no card from the claims that hold it.
TEST_F(StaleTest, SharesThatFillTheirCardAreMadeAnewWhereItHasLess) {
  const auto one = claimed("a", "60"), two = claimed("b", "60");
  const auto third = claimed("c", "30"), fourth = claimed("d", "30");
  for (const auto& claim : {one, two, third, fourth}) ASSERT_TRUE(agent->prepare(claim, {}).ok());
  ASSERT_NE(cardOf(third), cardOf(fourth)) << "two claims on each card";
  driverVersion = "550.54.14";
  options.memoryFound = [](const std::string&) { return int64_t{3} << 29; };  // each has two claims of 1 GiB
  restart();
  const auto status = agent->refresh({});
  EXPECT_TRUE(status.ok()) << status.str();
  for (const auto& claim : {one, two, third, fourth}) EXPECT_EQ(fileOf(claim).driver, "550.54.14");
  // A released device is recreated beside the other one.
  world.removePod("d");
  ASSERT_TRUE(agent->unprepare(fourth, {}).ok());
  world.addPod("d", {"d"});
  driver->settle();
  world.schedule("d");
  const ClaimRef again{"default", "d", world.resourceClaim("d")->metadata.uid};
  EXPECT_EQ(agent->prepare(again, {}).status().code(), Code::invalid);
}

TEST_F(StaleTest, AStaleFileThatCannotBeMadeAnewIsWithdrawn) {
  const auto claim = claimed("a");
  ASSERT_TRUE(agent->prepare(claim, {}).ok());
  driverVersion = "550.54.14";
  plugin.mountAnswers = {plugin::ReplyCode::unavailable, "it starts"};
  EXPECT_EQ(agent->refresh({}).code(), Code::unavailable);
  ASSERT_TRUE(agent->refresh({}).code() == Code::unavailable) << "again, until it is known";
  plugin.mountAnswers = {plugin::ReplyCode::invalid, "it gives whole cards"};
  EXPECT_TRUE(agent->refresh({}).ok());
  EXPECT_EQ(files(), Calls{PrepareTest::fileOf(uidOf(claim)) + ".part"}) << "no container gets another card";
  EXPECT_TRUE(hasEvent("a", "it gives whole cards"));
  plugin.mountAnswers = {};
  ASSERT_TRUE(agent->prepare(claim, {}).ok());
  EXPECT_EQ(fileOf(claim).driver, "550.54.14");
}

TEST_F(StaleTest, WhileNobodyReportsWhatTheNodeHasFilesStay) {
  const auto claim = claimed("a");
  ASSERT_TRUE(agent->prepare(claim, {}).ok());
  answers = false;
  (void)plugin.calls();
  EXPECT_TRUE(agent->refresh({}).ok());
  EXPECT_EQ(plugin.calls(), Calls{});
  EXPECT_EQ(fileOf(claim).driver, "535.104.05");
}

}  // namespace
}  // namespace egpu::agent

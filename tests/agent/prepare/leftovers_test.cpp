#include <fstream>

#include "tests/agent/prepare/fixture.h"

namespace egpu::agent {
namespace {

class LeftoversTest : public PrepareTest {
 protected:
  ClaimRef prepared(const std::string& name) {
    const auto claim = claimed(name);
    EXPECT_TRUE(preparer.prepare(claim, {}).ok());
    (void)plugin.calls();
    return claim;
  }
};

TEST_F(LeftoversTest, L1_WhatNoPodOfThisNodeUsesGoes) {
  prepared("a");
  const auto stays = prepared("b");
  world.removePod("a");
  ASSERT_TRUE(preparer.leftovers({}).ok());
  EXPECT_EQ(files(), Calls{fileOf(uidOf(stays))});
  EXPECT_EQ(plugin.calls(), (Calls{"unmount", "unstage"}));
}

TEST_F(LeftoversTest, L1_WhatRunsStaysAlsoWithoutItsResourceClaim) {
  const auto claim = prepared("a");
  says("a", "running");
  world.json<core::ResourceClaim>({"default", "a"}, R"({"metadata":{"finalizers":null}})");
  support::World::mustOk(world.client.remove<core::ResourceClaim>({"default", "a"}));
  ASSERT_TRUE(preparer.leftovers({}).ok());
  EXPECT_EQ(files(), Calls{fileOf(uidOf(claim))});
  EXPECT_EQ(plugin.calls(), Calls{});
}

TEST_F(LeftoversTest, L1_APodThatIsFinishedUsesNothing) {
  prepared("a");
  world.finishPod("a");
  ASSERT_TRUE(preparer.leftovers({}).ok());
  EXPECT_TRUE(files().empty());
}

TEST_F(LeftoversTest, L1_ClaimAndDeviceAreGone) {
  prepared("a");
  world.removePod("a");
  world.removeClaim("a");
  driver->run();
  ASSERT_TRUE(preparer.leftovers({}).ok());
  EXPECT_TRUE(files().empty());
  EXPECT_EQ(plugin.staged(), 0U);
}

TEST_F(LeftoversTest, L1_WithoutTheApiNothingIsTouched) {
  const auto claim = prepared("a");
  world.removePod("a");
  apiAway(true);
  EXPECT_FALSE(preparer.leftovers({}).ok());
  EXPECT_EQ(files(), Calls{fileOf(uidOf(claim))});
  apiAway(false);
  EXPECT_TRUE(preparer.leftovers({}).ok());
  EXPECT_TRUE(files().empty());
}

TEST_F(LeftoversTest, L1_OneThatCantGoKeepsNoOtherOne) {
  prepared("a");
  prepared("b");
  world.removePod("a");
  world.removePod("b");
  plugin.unmountAnswers = {plugin::ReplyCode::unavailable, "busy"};
  const auto why = preparer.leftovers({});
  EXPECT_FALSE(why.ok());
  EXPECT_NE(why.message().find("busy; and 1 more"), std::string::npos) << why.message();
  EXPECT_EQ(plugin.calls(), (Calls{"unmount", "unmount"}));
  plugin.unmountAnswers = {};
  EXPECT_TRUE(preparer.leftovers({}).ok());
  EXPECT_TRUE(files().empty());
}

TEST_F(LeftoversTest, L2_AnUnreadableFileInUseIsMadeAnew) {
  const auto claim = prepared("a");
  const std::string path = folder.path() + "/" + fileOf(uidOf(claim));
  std::ofstream(path) << "{\"kind\":";
  ASSERT_TRUE(preparer.leftovers({}).ok());
  const auto entry = folder.find(uidOf(claim));
  ASSERT_TRUE(entry.ok() && *entry);
  EXPECT_TRUE((*entry)->ready && (*entry)->spec.ok());
}

TEST_F(LeftoversTest, L2_AnUnreadableFileOfADeviceThatIsGone) {
  std::ofstream(folder.path() + "/" + fileOf("gone")) << "";
  std::ofstream(folder.path() + "/" + fileOf("half") + ".part") << "{";
  ASSERT_TRUE(preparer.leftovers({}).ok());
  EXPECT_TRUE(files().empty());
  EXPECT_EQ(plugin.calls(), (Calls{"unstage", "unstage"}));
}

TEST_F(LeftoversTest, L2_AnUnreadableFileThatNobodyReserves) {
  const auto claim = prepared("a");
  std::ofstream(folder.path() + "/" + fileOf(uidOf(claim))) << "";
  world.removePod("a");
  ASSERT_TRUE(preparer.leftovers({}).ok());
  EXPECT_TRUE(files().empty());
  EXPECT_EQ(plugin.staged(), 0U);
}

TEST_F(LeftoversTest, L2_AnUnreadableFileStaysWithoutTheApi) {
  std::ofstream(folder.path() + "/" + fileOf("x")) << "";
  apiAway(true);
  EXPECT_FALSE(preparer.leftovers({}).ok());
  EXPECT_EQ(files(), Calls{fileOf("x")});
}

TEST_F(LeftoversTest, AfterARebootTheKubeletAsksAgain) {
  const auto claim = prepared("a");
  std::filesystem::remove_all(folder.path());
  ASSERT_TRUE(folder.open().ok());
  ASSERT_TRUE(preparer.leftovers({}).ok());
  ASSERT_TRUE(preparer.prepare(claim, {}).ok());
  EXPECT_EQ(plugin.calls(), (Calls{"stage", "mount"}));
}

}  // namespace
}  // namespace egpu::agent

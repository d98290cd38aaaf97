#include <fstream>

#include "tests/agent/prepare/fixture.h"

namespace egpu::agent {
namespace {

using base::Code;

class UnprepareTest : public PrepareTest {
 protected:
  ClaimRef prepared(const std::string& name) {
    const auto claim = claimed(name);
    EXPECT_TRUE(preparer.prepare(claim, {}).ok());
    (void)plugin.calls();
    return claim;
  }
  void expectGone() {
    EXPECT_EQ(plugin.calls(), (Calls{"unmount", "unstage"}));
    EXPECT_EQ(plugin.staged(), 0U);
    EXPECT_TRUE(files().empty());
  }
};

TEST_F(UnprepareTest, TakesAwayWhatWasPrepared) {
  const auto claim = prepared("a");
  world.removePod("a");
  ASSERT_TRUE(preparer.unprepare(claim, {}).ok());
  expectGone();
  EXPECT_TRUE(preparer.unprepare(claim, {}).ok()) << "again";
  EXPECT_EQ(plugin.calls(), Calls{});
}

/// Otherwise a pod would stay Terminating forever.
TEST_F(UnprepareTest, AnUninstalledPluginBlocksNoClaim) {
  const auto claim = prepared("a");
  world.removePod("a");
  support::FakeRegistry without;
  bool uninstalled = false;
  PreparerOptions later = options;
  later.uninstalled = [&](const std::string& provisioner) {
    EXPECT_EQ(provisioner, plugin.description().name);
    return uninstalled;
  };
  ClaimPreparer next(client, without, events, folder, later);
  EXPECT_EQ(next.unprepare(claim, {}).code(), Code::unavailable) << "a plugin that starts yet is waited for";
  EXPECT_FALSE(files().empty());
  uninstalled = true;
  EXPECT_TRUE(next.unprepare(claim, {}).ok());
  EXPECT_TRUE(files().empty());
  EXPECT_EQ(plugin.calls(), Calls{});
  EXPECT_EQ(plugin.staged(), 1U) << "only the plugin can undo that";
}

TEST_F(UnprepareTest, NeverWhileAPodRunsWithIt) {
  const auto claim = prepared("a");
  setState("a", "running");
  const auto s = preparer.unprepare(claim, {});
  EXPECT_EQ(s.code(), Code::conflict);
  EXPECT_NE(s.message().find("pod default/a runs with it"), std::string::npos);
  EXPECT_EQ(plugin.calls(), Calls{});
  EXPECT_EQ(files(), Calls{fileOf(uidOf(claim))});
  setState("a", "terminated");  // still reserved, and its phase is still Running
  ASSERT_TRUE(preparer.unprepare(claim, {}).ok());
  expectGone();
}

TEST_F(UnprepareTest, NeverWhileAnotherPodOfTheClaimRuns) {
  const auto claim = prepared("a");
  world.addPod("b", {"a"});
  driver->settle();
  world.schedule("b");
  setState("b", "running");
  world.removePod("a");
  EXPECT_EQ(preparer.unprepare(claim, {}).code(), Code::conflict);
  world.removePod("b");
  ASSERT_TRUE(preparer.unprepare(claim, {}).ok());
  expectGone();
}

TEST_F(UnprepareTest, APodOfAnotherNamespaceIsNoUser) {
  const auto claim = prepared("a");
  world.addNamespace("other");
  auto pod = support::World::podOf("a", {"a"}, false);
  pod.metadata.namespace_ = "other";
  pod.nodeName = "n1";
  support::World::must(world.client.create(pod));
  world.removePod("a");
  EXPECT_TRUE(preparer.unprepare(claim, {}).ok());
  expectGone();
}

TEST_F(UnprepareTest, ARunningPodWhoseResourceClaimWasTornOut) {
  const auto claim = prepared("a");
  setState("a", "running");
  world.json<core::ResourceClaim>({"default", "a"}, R"({"metadata":{"finalizers":null}})");
  support::World::mustOk(world.client.remove<core::ResourceClaim>({"default", "a"}));
  EXPECT_EQ(preparer.unprepare(claim, {}).code(), Code::conflict);
}

TEST_F(UnprepareTest, WhenTheApiHasForgottenEverything) {
  const auto claim = prepared("a");
  const auto device = deviceOf(claim).metadata.name;
  world.removePod("a");
  world.removeClaim("a");
  driver->run();
  ASSERT_FALSE(world.exists(device));
  ASSERT_TRUE(preparer.unprepare(claim, {}).ok());
  expectGone();
}

TEST_F(UnprepareTest, WithoutTheApiByTheFileAndTheKubeletsWord) {
  const auto claim = prepared("a");
  apiAway(true);
  ASSERT_TRUE(preparer.unprepare(claim, {}).ok());
  expectGone();
}

TEST_F(UnprepareTest, AStoppedOneTouchesNothing) {
  const auto claim = prepared("a");
  std::stop_source stop;
  stop.request_stop();
  (void)preparer.unprepare(claim, stop.get_token());
  EXPECT_TRUE(plugin.calls().empty() || files().empty()) << "all or nothing";
}

TEST_F(UnprepareTest, U2_APluginThatCantIsAskedAgain) {
  const auto claim = prepared("a");
  world.removePod("a");
  plugin.unmountAnswers = {plugin::ReplyCode::unavailable, "busy"};
  const auto s = preparer.unprepare(claim, {});
  EXPECT_EQ(s.code(), Code::unavailable);
  EXPECT_NE(s.message().find("unmount: "), std::string::npos);
  EXPECT_EQ(files(), Calls{fileOf(uidOf(claim)) + ".part"}) << "no container gets it any more";
  (void)plugin.calls();
  plugin.unmountAnswers = {};
  ASSERT_TRUE(preparer.unprepare(claim, {}).ok());
  expectGone();
}

/// Otherwise the file would stay until the next start and block all other claims of the node.
TEST_F(UnprepareTest, L2_ItsFileThatCantBeRead) {
  const auto claim = prepared("a"), other = prepared("b");
  std::ofstream(folder.path() + "/" + fileOf(uidOf(claim))) << "{";
  std::ofstream(folder.path() + "/" + fileOf("stranger")) << "{";
  setState("a", "running");
  EXPECT_EQ(preparer.unprepare(claim, {}).code(), Code::conflict);
  setState("a", "terminated");
  ASSERT_TRUE(preparer.unprepare(claim, {}).ok());
  EXPECT_EQ(files(), (Calls{fileOf(uidOf(other)), fileOf("stranger")})) << "of others nothing was said";
  EXPECT_EQ(plugin.calls(), Calls{"unstage"});
  EXPECT_EQ(plugin.staged(), 1U);
}

TEST_F(UnprepareTest, L2_ItsFileThatCantBeReadStaysWithoutTheApi) {
  const auto claim = prepared("a");
  std::ofstream(folder.path() + "/" + fileOf(uidOf(claim))) << "{";
  apiAway(true);
  EXPECT_TRUE(preparer.unprepare(claim, {}).ok());
  EXPECT_EQ(files(), Calls{fileOf(uidOf(claim))}) << "nobody can say whose it is; the next start asks";
}

TEST_F(UnprepareTest, OthersStay) {
  const auto a = prepared("a"), b = prepared("b");
  world.removePod("a");
  ASSERT_TRUE(preparer.unprepare(a, {}).ok());
  EXPECT_EQ(files(), Calls{fileOf(uidOf(b))});
  EXPECT_EQ(plugin.staged(), 1U);
}

TEST_F(UnprepareTest, PreparedAgainAfterwards) {
  const auto claim = prepared("a");
  setState("a", "terminated");
  ASSERT_TRUE(preparer.unprepare(claim, {}).ok());
  ASSERT_TRUE(preparer.prepare(claim, {}).ok());
  EXPECT_EQ(files(), Calls{fileOf(uidOf(claim))});
}

}  // namespace
}  // namespace egpu::agent

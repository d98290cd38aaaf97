#include <fcntl.h>
#include <sys/stat.h>

#include <fstream>

#include "controller/agent/prepare/staged.h"
#include "controller/base/subprocess.h"
#include "controller/plugin/hosted_registry.h"
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

TEST_F(LeftoversTest, L1_AClaimThatWasMadeAnewIsAnotherOne) {
  const auto before = claimed("a", "60");
  ASSERT_TRUE(preparer.prepare(before, {}).ok());
  const std::string its = uidOf(before);
  world.removePod("a");
  world.removeClaim("a");
  driver->run();
  const auto now = claimed("a", "60");
  ASSERT_NE(now.uid, before.uid);
  EXPECT_FALSE(preparer.prepare(now, {}).ok()) << "the one before holds the card";
  says("a", "running");
  ASSERT_TRUE(preparer.leftovers({}).ok());
  EXPECT_EQ(files(), Calls{fileOf(its)}) << "never under a running pod";
  says("a", "waiting");
  ASSERT_TRUE(preparer.leftovers({}).ok());
  EXPECT_TRUE(files().empty());
  ASSERT_TRUE(preparer.prepare(now, {}).ok());
  ASSERT_TRUE(preparer.leftovers({}).ok());
  EXPECT_EQ(files(), Calls{fileOf(uidOf(now))}) << "its own file stays while its pod starts";
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

/// A node that was rebooted: no CDI file, but what a plugin keeps on disk under the devices' uids.
class StateOnDiskTest : public LeftoversTest {
 protected:
  StateOnDiskTest() {
    std::filesystem::permissions(scratch.path(), std::filesystem::perms(0755));  // a plugin has another user
    std::filesystem::create_directories(state);
    plugin.onUnstage = [this](const std::string& key) { unstaged.push_back(key); };
    real.permitted.hostRoot = "/";
    real.permitted.stateFolder = state;
  }
  ClaimRef preparedBeforeReboot(const std::string& name) {
    const auto claim = claimed(name);
    keep(uidOf(claim));
    return claim;
  }
  void keep(const std::string& uid) const { std::filesystem::create_directories(state + "/vendor/cache/" + uid); }

  const std::string state = scratch.path() + "/state";
  const std::string gone = "0123abcd-0000-4000-8000-000000000001";
  PreparerOptions real{"n1", {}};
  std::vector<std::string> unstaged;
};

TEST_F(StateOnDiskTest, L4_OfADeviceThatIsGoneIsUnstaged) {
  keep(gone);
  std::filesystem::create_directories(state + "/lib/a/b/" + gone);  // deeper than anybody looks
  ASSERT_TRUE(ClaimPreparer(client, registry, events, folder, real).leftovers({}).ok());
  EXPECT_EQ(plugin.calls(), Calls{"unstage"});
}

TEST_F(StateOnDiskTest, L4_OfADeviceThatNoPodOfThisNodeUsesIsUnstaged) {
  const auto used = preparedBeforeReboot("used"), idle = preparedBeforeReboot("idle");
  world.removePod("idle");
  ASSERT_TRUE(ClaimPreparer(client, registry, events, folder, real).leftovers({}).ok());
  EXPECT_EQ(unstaged, Calls{uidOf(idle)});
}

TEST_F(StateOnDiskTest, L4_WhatIsPreparedStays) {
  ClaimPreparer preparer(client, registry, events, folder, real);
  plugin.edits = {};
  const auto claim = claimed("a");
  keep(uidOf(claim));
  ASSERT_TRUE(preparer.prepare(claim, {}).ok());
  ASSERT_TRUE(preparer.leftovers({}).ok());
  EXPECT_EQ(unstaged, Calls{});
  EXPECT_EQ(files(), Calls{fileOf(uidOf(claim))});
}

TEST_F(StateOnDiskTest, L4_WhatTheKubeletGivesBackThatWasPreparedBefore) {
  ClaimPreparer preparer(client, registry, events, folder, real);
  const auto claim = preparedBeforeReboot("a"), other = preparedBeforeReboot("b");
  says("a", "running");
  ASSERT_TRUE(preparer.unprepare(claim, {}).ok());
  EXPECT_EQ(unstaged, Calls{}) << "never under a running pod";
  says("a", "terminated");
  ASSERT_TRUE(preparer.unprepare(claim, {}).ok());
  EXPECT_EQ(unstaged, Calls{uidOf(claim)});
}

TEST_F(StateOnDiskTest, L4_WithoutTheApiNothingIsTouched) {
  keep(gone);
  ClaimPreparer preparer(client, registry, events, folder, real);
  apiAway(true);
  EXPECT_FALSE(preparer.leftovers({}).ok());
  EXPECT_TRUE(preparer.unprepare({"default", "a", "u"}, {}).ok()) << "the kubelet goes on";
  EXPECT_EQ(unstaged, Calls{});
  apiAway(false);
  EXPECT_TRUE(preparer.leftovers({}).ok());
  EXPECT_EQ(unstaged, Calls{gone});
}

TEST_F(StateOnDiskTest, L4_OnlyUidsCountAndLinksAndTheirFoldersAreNotFollowed) {
  namespace fs = std::filesystem;
  const std::string inside = "0123abcd-0000-4000-8000-000000000002", away = "0123abcd-0000-4000-8000-000000000003";
  keep(gone);
  keep(gone + "/" + inside);  // where a container may write
  keep("GPU-0123abcd-0000-4000-8000-000000000004");
  keep("0123abcd-0000-4000-8000-00000000000/");
  fs::create_directories(scratch.path() + "/elsewhere/" + away);
  fs::create_directory_symlink(scratch.path() + "/elsewhere", state + "/link");
  EXPECT_EQ(stagedIn(state), std::set<std::string>{gone});
  EXPECT_EQ(stagedIn(state + "/none"), std::set<std::string>{});
  for (int i = 0; i < 300; ++i) keep("0123abcd-0000-4000-8000-" + std::to_string(100'000'000'000 + i));
  EXPECT_EQ(stagedIn(state).size(), 256U);
}

TEST_F(StateOnDiskTest, L4_TheLimitersCacheGoesWhateverAContainerLeftInIt) {
  plugin::HostOptions host;
  host.env = {"ELASTICGPU_STATE_DIR=" + state};
  base::SystemClock clock;
  plugin::HostedRegistry plugins({std::string(EGPU_PROVISIONER_DIR) + "/libgpushare.so"}, host, clock, world.random);
  auto* gpushare = plugins.find("gpushare.provisioner.elasticgpu.io", nullptr);
  ASSERT_NE(gpushare, nullptr);
  plugin::DeviceRequest request;
  request.key = gone;
  request.device = "egpu-a";
  request.node = "n1";
  request.parameters = {{"isolation", "hami-core"}};
  request.cards = {{"GPU-1", "A100", 0, 500, 1 << 30, 1 << 30}};
  const std::string cache = state + "/hami-core/cache/" + gone;
  for (const bool spoiled : {false, true}) {
    ASSERT_TRUE(gpushare->stage(request).ok());
    EXPECT_EQ(stagedIn(state), std::set<std::string>{gone});
    std::ofstream(cache + "/usage.cache") << "x";
    if (spoiled) std::filesystem::create_directories(cache + "/of-a-container/below");  // root's, as ours are
    ASSERT_TRUE(ClaimPreparer(client, plugins, events, folder, real).leftovers({}).ok());
    EXPECT_EQ(stagedIn(state), std::set<std::string>{});
    EXPECT_TRUE(std::filesystem::is_empty(state + "/hami-core/cache")) << "nor is anything set aside";
  }
  ASSERT_TRUE(gpushare->stage(request).ok());
  EXPECT_TRUE(std::filesystem::is_empty(cache)) << "the next user finds nothing of the one before";
}

TEST_F(StateOnDiskTest, L5_WhatWasSetAsideGoesWithItsDeviceHoweverDeepAndNothingElse) {
  namespace fs = std::filesystem;
  ClaimPreparer preparer(client, registry, events, folder, real);
  plugin.edits = {};
  const auto claim = claimed("a");
  const std::string its = state + "/vendor/" + uidOf(claim) + ".left-a", other = state + "/vendor/" + gone + ".left-b";
  ASSERT_TRUE(preparer.prepare(claim, {}).ok());
  plugin.onUnstage = [&](const std::string&) {
    fs::create_directories(its + "/0/of-a-container");
    std::ofstream(its + "/0/file") << "x";
  };
  fs::create_directories(other + "/below");
  fs::create_directories(scratch.path() + "/elsewhere/below");
  fs::create_directory_symlink(scratch.path() + "/elsewhere", other + "/link");
  fs::create_directory_symlink(scratch.path() + "/elsewhere", other + "/below/link");
  fs::create_directory_symlink(scratch.path() + "/elsewhere", state + "/" + gone + ".left-c");
  world.removePod("a");
  ASSERT_TRUE(preparer.unprepare(claim, {}).ok());
  EXPECT_FALSE(fs::exists(its));
  EXPECT_TRUE(fs::exists(other));
  ASSERT_TRUE(preparer.leftovers({}).ok());
  EXPECT_FALSE(fs::exists(other));
  EXPECT_FALSE(fs::exists(fs::symlink_status(state + "/" + gone + ".left-c")));
  EXPECT_TRUE(fs::exists(scratch.path() + "/elsewhere/below"));
}

TEST_F(StateOnDiskTest, L5_AnyDepthAndAnyNumberGoes) {
  const std::string left = state + "/" + gone + ".left-a";
  std::filesystem::create_directories(left + "/many");
  for (int i = 0; i < 1500; ++i) std::ofstream(left + "/many/" + std::to_string(i)) << "x";
  for (const char* name : {"0", "1", "2"}) std::ofstream(left + "/" + name) << "names that others are moved up to";
  base::UniqueFd at(::open(left.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  for (int depth = 0; depth < 1000; ++depth) {  // longer than a path may be
    ASSERT_EQ(::mkdirat(at.get(), "down", 0755), 0);
    ASSERT_EQ(::mkdirat(at.get(), "beside", 0755), 0);
    at = base::UniqueFd(::openat(at.get(), "down", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  }
  std::stop_source stopped;
  stopped.request_stop();
  EXPECT_EQ(removeLeft(state, {}, stopped.get_token()).code(), base::Code::cancelled);
  const auto removed = removeLeft(state, {}, {});
  EXPECT_TRUE(removed.ok()) << removed.str();
  EXPECT_TRUE(std::filesystem::is_empty(state));
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

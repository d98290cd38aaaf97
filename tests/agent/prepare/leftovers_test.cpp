#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <fstream>
#include <optional>

#include "controller/agent/prepare/staged.h"
#include "controller/base/subprocess.h"
#include "controller/plugin/hosted_registry.h"
#include "tests/agent/prepare/fixture.h"

namespace egpu::agent {
namespace {

constexpr std::chrono::minutes kLong{1};

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
  ASSERT_TRUE(preparer.garbageCollect({}).ok());
  EXPECT_EQ(files(), Calls{fileOf(uidOf(stays))});
  EXPECT_EQ(plugin.calls(), (Calls{"unmount", "unstage"}));
}

TEST_F(LeftoversTest, L1_WhatRunsStaysAlsoWithoutItsResourceClaim) {
  const auto claim = prepared("a");
  setState("a", "running");
  world.json<core::ResourceClaim>({"default", "a"}, R"({"metadata":{"finalizers":null}})");
  support::World::mustOk(world.client.remove<core::ResourceClaim>({"default", "a"}));
  ASSERT_TRUE(preparer.garbageCollect({}).ok());
  EXPECT_EQ(files(), Calls{fileOf(uidOf(claim))});
  EXPECT_EQ(plugin.calls(), Calls{});
}

TEST_F(LeftoversTest, L1_APodThatIsFinishedUsesNothing) {
  prepared("a");
  world.finishPod("a");
  ASSERT_TRUE(preparer.garbageCollect({}).ok());
  EXPECT_TRUE(files().empty());
}

TEST_F(LeftoversTest, L1_ClaimAndDeviceAreGone) {
  prepared("a");
  world.removePod("a");
  world.removeClaim("a");
  driver->run();
  ASSERT_TRUE(preparer.garbageCollect({}).ok());
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
  setState("a", "running");
  ASSERT_TRUE(preparer.garbageCollect({}).ok());
  EXPECT_EQ(files(), Calls{fileOf(its)}) << "never under a running pod";
  setState("a", "waiting");
  ASSERT_TRUE(preparer.garbageCollect({}).ok());
  EXPECT_TRUE(files().empty());
  ASSERT_TRUE(preparer.prepare(now, {}).ok());
  ASSERT_TRUE(preparer.garbageCollect({}).ok());
  EXPECT_EQ(files(), Calls{fileOf(uidOf(now))}) << "its own file stays while its pod starts";
}

/// No report states that the pod's containers have stopped.
TEST_F(LeftoversTest, L1_NeverUnderAPodThatIsEndingAndStillRuns) {
  const auto before = prepared("a");
  const std::string its = uidOf(before);
  setState("a", "running");
  world.json<core::Pod>({"default", "a"}, R"({"metadata":{"finalizers":["example.com/stays"]}})");
  support::World::mustOk(world.client.remove<core::Pod>({"default", "a"}));
  ASSERT_TRUE(world.pod("a").metadata.deleting());
  world.json<core::ResourceClaim>({"default", "a"}, R"({"metadata":{"finalizers":null}})");
  support::World::mustOk(world.client.remove<core::ResourceClaim>({"default", "a"}));
  driver->settle();
  ASSERT_TRUE(world.resourceClaim("a")) << "it was made anew";
  ASSERT_NE(world.resourceClaim("a")->metadata.uid, before.uid);
  ASSERT_TRUE(preparer.garbageCollect({}).ok());
  EXPECT_EQ(files(), Calls{fileOf(its)});
  setState("a", "terminated");
  ASSERT_TRUE(preparer.garbageCollect({}).ok());
  EXPECT_TRUE(files().empty());
}

TEST_F(LeftoversTest, L1_WithoutTheApiNothingIsTouched) {
  const auto claim = prepared("a");
  world.removePod("a");
  apiAway(true);
  EXPECT_FALSE(preparer.garbageCollect({}).ok());
  EXPECT_EQ(files(), Calls{fileOf(uidOf(claim))});
  apiAway(false);
  EXPECT_TRUE(preparer.garbageCollect({}).ok());
  EXPECT_TRUE(files().empty());
}

TEST_F(LeftoversTest, L1_OneThatCantGoBlocksNoOther) {
  prepared("a");
  prepared("b");
  world.removePod("a");
  world.removePod("b");
  plugin.unmountAnswers = {plugin::ReplyCode::unavailable, "busy"};
  const auto why = preparer.garbageCollect({});
  EXPECT_FALSE(why.ok());
  EXPECT_NE(why.message().find("busy; and 1 more"), std::string::npos) << why.message();
  EXPECT_EQ(plugin.calls(), (Calls{"unmount", "unmount"}));
  plugin.unmountAnswers = {};
  EXPECT_TRUE(preparer.garbageCollect({}).ok());
  EXPECT_TRUE(files().empty());
}

TEST_F(LeftoversTest, L2_AnUnreadableFileInUseIsMadeAnew) {
  const auto claim = prepared("a");
  const std::string path = folder.path() + "/" + fileOf(uidOf(claim));
  std::ofstream(path) << "{\"kind\":";
  ASSERT_TRUE(preparer.garbageCollect({}).ok());
  const auto entry = folder.find(uidOf(claim));
  ASSERT_TRUE(entry.ok() && *entry);
  EXPECT_TRUE((*entry)->ready && (*entry)->spec.ok());
}

TEST_F(LeftoversTest, L2_AnUnreadableFileOfADeviceThatIsGone) {
  std::ofstream(folder.path() + "/" + fileOf("gone")) << "";
  std::ofstream(folder.path() + "/" + fileOf("half") + ".part") << "{";
  ASSERT_TRUE(preparer.garbageCollect({}).ok());
  EXPECT_TRUE(files().empty());
  EXPECT_EQ(plugin.calls(), (Calls{"unstage", "unstage"}));
}

TEST_F(LeftoversTest, L2_AnUnreadableFileThatNobodyReserves) {
  const auto claim = prepared("a");
  std::ofstream(folder.path() + "/" + fileOf(uidOf(claim))) << "";
  world.removePod("a");
  ASSERT_TRUE(preparer.garbageCollect({}).ok());
  EXPECT_TRUE(files().empty());
  EXPECT_EQ(plugin.staged(), 0U);
}

TEST_F(LeftoversTest, L2_AnUnreadableFileStaysWithoutTheApi) {
  std::ofstream(folder.path() + "/" + fileOf("x")) << "";
  apiAway(true);
  EXPECT_FALSE(preparer.garbageCollect({}).ok());
  EXPECT_EQ(files(), Calls{fileOf("x")});
}

/// A node after a reboot: no CDI file, but the plugin's state on disk under the devices' uids.
class StateOnDiskTest : public LeftoversTest {
 protected:
  StateOnDiskTest() {
    std::filesystem::permissions(scratch.path(), std::filesystem::perms(0755));  // a plugin runs as a different user
    std::filesystem::create_directories(state);
    plugin.onUnstage = [this](const std::string& key) { unstaged.push_back(key); };
    real.permitted.hostRoot = "/";
    real.permitted.stateFolder = state;
  }
  ClaimRef preparedBeforeReboot(const std::string& name) {
    const auto claim = claimed(name);
    addFolder(uidOf(claim));
    return claim;
  }
  void addFolder(const std::string& uid) const { std::filesystem::create_directories(state + "/vendor/cache/" + uid); }

  const std::string state = scratch.path() + "/state";
  const std::string gone = "0123abcd-0000-4000-8000-000000000001";
  PreparerOptions real{"n1", {}};
  std::vector<std::string> unstaged;
};

TEST_F(StateOnDiskTest, L4_OfADeviceThatIsGoneIsUnstaged) {
  addFolder(gone);
  std::filesystem::create_directories(state + "/lib/a/b/" + gone);  // deeper than the search
  ASSERT_TRUE(ClaimPreparer(client, registry, events, folder, real).garbageCollect({}).ok());
  EXPECT_EQ(plugin.calls(), Calls{"unstage"});
}

TEST_F(StateOnDiskTest, L4_OfADeviceThatNoPodOfThisNodeUsesIsUnstaged) {
  const auto used = preparedBeforeReboot("used"), idle = preparedBeforeReboot("idle");
  world.removePod("idle");
  ASSERT_TRUE(ClaimPreparer(client, registry, events, folder, real).garbageCollect({}).ok());
  EXPECT_EQ(unstaged, Calls{uidOf(idle)});
}

TEST_F(StateOnDiskTest, L4_WhatIsPreparedStays) {
  ClaimPreparer onDisk(client, registry, events, folder, real);
  plugin.edits = {};
  const auto claim = claimed("a");
  addFolder(uidOf(claim));
  ASSERT_TRUE(onDisk.prepare(claim, {}).ok());
  ASSERT_TRUE(onDisk.garbageCollect({}).ok());
  EXPECT_EQ(unstaged, Calls{});
  EXPECT_EQ(files(), Calls{fileOf(uidOf(claim))});
}

TEST_F(StateOnDiskTest, L4_WhatTheKubeletGivesBackThatWasPreparedBefore) {
  ClaimPreparer onDisk(client, registry, events, folder, real);
  const auto claim = preparedBeforeReboot("a"), other = preparedBeforeReboot("b");
  setState("a", "running");
  ASSERT_TRUE(onDisk.unprepare(claim, {}).ok());
  EXPECT_EQ(unstaged, Calls{}) << "never under a running pod";
  setState("a", "terminated");
  ASSERT_TRUE(onDisk.unprepare(claim, {}).ok());
  EXPECT_EQ(unstaged, Calls{uidOf(claim)});
}

TEST_F(StateOnDiskTest, L4_WithoutTheApiNothingIsTouched) {
  addFolder(gone);
  ClaimPreparer onDisk(client, registry, events, folder, real);
  apiAway(true);
  EXPECT_FALSE(onDisk.garbageCollect({}).ok());
  EXPECT_TRUE(onDisk.unprepare({"default", "a", "u"}, {}).ok()) << "the kubelet goes on";
  EXPECT_EQ(unstaged, Calls{});
  apiAway(false);
  EXPECT_TRUE(onDisk.garbageCollect({}).ok());
  EXPECT_EQ(unstaged, Calls{gone});
}

TEST_F(StateOnDiskTest, L4_OnlyUidsCountAndLinksAndTheirFoldersAreNotFollowed) {
  namespace fs = std::filesystem;
  const std::string inside = "0123abcd-0000-4000-8000-000000000002", away = "0123abcd-0000-4000-8000-000000000003";
  addFolder(gone);
  addFolder(gone + "/" + inside);  // a container may write there
  addFolder("GPU-0123abcd-0000-4000-8000-000000000004");
  addFolder("0123abcd-0000-4000-8000-00000000000/");
  fs::create_directories(scratch.path() + "/elsewhere/" + away);
  fs::create_directory_symlink(scratch.path() + "/elsewhere", state + "/link");
  EXPECT_EQ(stagedIn(state), std::set<std::string>{gone});
  EXPECT_EQ(stagedIn(state + "/none"), std::set<std::string>{});
  for (int i = 0; i < 300; ++i) addFolder("0123abcd-0000-4000-8000-" + std::to_string(100'000'000'000 + i));
  EXPECT_EQ(stagedIn(state).size(), 256U);
}

TEST_F(StateOnDiskTest, AFullFolderHidesItsOwnNamesOnlyAndThatIsReported) {
  namespace fs = std::filesystem;
  for (const char* full : {"/a", "/vendor/a", "/z"}) {  // in any order
    fs::create_directories(state + full);
    for (int i = 0; i < 20; ++i) std::ofstream(state + full + "/" + std::to_string(i));
  }
  addFolder(gone);
  const auto collect = [&](const Bounds& bounds, std::size_t found) {
    ::testing::internal::CaptureStderr();
    EXPECT_EQ(stagedIn(state, bounds).size(), found);
    return ::testing::internal::GetCapturedStderr();
  };
  const std::string words = "not all files that plugins left";
  EXPECT_EQ(collect({30, 100, 1}, 1).find(words), std::string::npos) << "all was seen";
  auto message = collect({10, 100, 1}, 1);
  EXPECT_NE(message.find(words), std::string::npos) << message;
  EXPECT_NE(message.find(": it has too many entries"), std::string::npos) << message;
  EXPECT_NE(collect({30, 50, 1}, 1).find(words), std::string::npos);
  addFolder("0123abcd-0000-4000-8000-000000000002");
  message = collect({30, 100, 1}, 1);
  EXPECT_NE(message.find("/vendor/cache: it has too many entries of devices"), std::string::npos) << message;
}

class LimiterTest : public StateOnDiskTest {
 protected:
  LimiterTest() {
    host.env = {"ELASTICGPU_STATE_DIR=" + state};
    request.key = gone;
    request.device = "egpu-a";
    request.node = "n1";
    request.parameters = {{"isolation", "hami-core"}};
    request.cards = {{"GPU-1", "A100", 0, 500, 1 << 30, 1 << 30}};
  }
  plugin::Provisioner& gpushare() { return *plugins->find("gpushare.provisioner.elasticgpu.io", nullptr); }
  void SetUp() override {
    plugins.emplace(std::vector<std::string>{std::string(EGPU_PROVISIONER_DIR) + "/libgpushare.so"}, host, clock,
                    world.random);
    ASSERT_NE(plugins->find("gpushare.provisioner.elasticgpu.io", nullptr), nullptr);
  }

  base::SystemClock clock;
  plugin::HostOptions host;
  plugin::DeviceRequest request;
  std::optional<plugin::HostedRegistry> plugins;
};

/// The container has the lock mounted and is root there and here; the plugin is not root.
TEST_F(LimiterTest, WhatAContainerMakesOfTheLockIsPutAside) {
  namespace fs = std::filesystem;
  if (::geteuid() != 0) GTEST_SKIP() << "needs root";
  const std::string locks = state + "/hami-core/locks", lock = locks + "/all";
  ASSERT_TRUE(gpushare().stage(request).ok());
  for (const mode_t mode : {0700, 01777, 0}) {
    std::ofstream(lock + "/of-a-container") << "x";
    ASSERT_EQ(::chown(lock.c_str(), 0, 0), 0);
    ASSERT_EQ(::chmod(lock.c_str(), mode), 0);
    const auto reply = gpushare().stage(request);
    EXPECT_TRUE(reply.ok()) << reply.message;
    EXPECT_EQ(fs::status(lock).permissions(), fs::perms::all);
    EXPECT_TRUE(fs::is_empty(lock));
  }
  EXPECT_EQ(std::distance(fs::directory_iterator(locks), {}), 4) << "who has the old ones goes on with them";
  // An operator's own folder, which this plugin may not change.
  fs::remove_all(locks);
  fs::create_directories(lock);
  ASSERT_EQ(::chmod(lock.c_str(), 0755), 0);
  EXPECT_FALSE(gpushare().stage(request).ok());
  ASSERT_EQ(::chmod(lock.c_str(), 01777), 0);
  EXPECT_TRUE(gpushare().stage(request).ok());
}

/// Names in the lock are not devices: a container cannot make the agent search or remove them.
TEST_F(LimiterTest, WhatAContainerPutsIntoTheLockIsNotRead) {
  ASSERT_TRUE(gpushare().stage(request).ok());
  const std::string lock = state + "/hami-core/locks/all", other = "0123abcd-0000-4000-8000-000000000002";
  std::filesystem::create_directories(lock + "/" + other + ".left-a/below");
  std::filesystem::create_directories(lock + "/" + other);
  EXPECT_EQ(stagedIn(state), std::set<std::string>{gone});
  EXPECT_TRUE(removeLeft(state, {}, {}, kLong).ok());
  EXPECT_TRUE(std::filesystem::exists(lock + "/" + other + ".left-a/below"));
}

TEST_F(LimiterTest, L4_TheLimitersCacheGoesWhateverAContainerLeftInIt) {
  const std::string cache = state + "/hami-core/cache/" + gone;
  for (const bool spoiled : {false, true}) {
    ASSERT_TRUE(gpushare().stage(request).ok());
    EXPECT_EQ(stagedIn(state), std::set<std::string>{gone});
    std::ofstream(cache + "/usage.cache") << "x";
    // Owned by root, as the other files.
    if (spoiled) std::filesystem::create_directories(cache + "/of-a-container/below");
    ASSERT_TRUE(ClaimPreparer(client, *plugins, events, folder, real).garbageCollect({}).ok());
    EXPECT_EQ(stagedIn(state), std::set<std::string>{});
    EXPECT_TRUE(std::filesystem::is_empty(state + "/hami-core/cache")) << "nor is anything set aside";
  }
  ASSERT_TRUE(gpushare().stage(request).ok());
  EXPECT_TRUE(std::filesystem::is_empty(cache)) << "the next user finds nothing of the one before";
}

TEST_F(StateOnDiskTest, L5_WhatWasSetAsideGoesWithItsDeviceHoweverDeepAndNothingElse) {
  namespace fs = std::filesystem;
  ClaimPreparer onDisk(client, registry, events, folder, real);
  plugin.edits = {};
  const auto claim = claimed("a");
  const std::string its = state + "/vendor/" + uidOf(claim) + ".left-a", other = state + "/vendor/" + gone + ".left-b";
  ASSERT_TRUE(onDisk.prepare(claim, {}).ok());
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
  ASSERT_TRUE(onDisk.unprepare(claim, {}).ok());
  EXPECT_FALSE(fs::exists(its));
  EXPECT_TRUE(fs::exists(other));
  ASSERT_TRUE(onDisk.garbageCollect({}).ok());
  EXPECT_FALSE(fs::exists(other));
  EXPECT_FALSE(fs::exists(fs::symlink_status(state + "/" + gone + ".left-c")));
  EXPECT_TRUE(fs::exists(scratch.path() + "/elsewhere/below"));
}

/// A container can leave any amount of files: its device is still released.
TEST_F(StateOnDiskTest, U4_DoesNotWaitForWhatTakesTooLongToRemove) {
  PreparerOptions hasty = real;
  hasty.removing = std::chrono::milliseconds(0);
  ClaimPreparer onDisk(client, registry, events, folder, hasty);
  plugin.edits = {};
  const auto claim = claimed("a");
  const std::string left = state + "/vendor/" + uidOf(claim) + ".left-a";
  ASSERT_TRUE(onDisk.prepare(claim, {}).ok());
  plugin.onUnstage = [&](const std::string&) { std::filesystem::create_directories(left + "/below"); };
  world.removePod("a");
  EXPECT_TRUE(onDisk.unprepare(claim, {}).ok());
  EXPECT_TRUE(files().empty());
  EXPECT_TRUE(std::filesystem::exists(left));
  EXPECT_EQ(onDisk.garbageCollect({}).code(), base::Code::unavailable) << "it is to be asked again";
  EXPECT_TRUE(ClaimPreparer(client, registry, events, folder, real).garbageCollect({}).ok());
  EXPECT_FALSE(std::filesystem::exists(left));
}

TEST_F(StateOnDiskTest, L5_AnyDepthAndAnyNumberGoes) {
  const std::string left = state + "/" + gone + ".left-a";
  std::filesystem::create_directories(left + "/many");
  for (int i = 0; i < 1500; ++i) std::ofstream(left + "/many/" + std::to_string(i)) << "x";
  for (const char* name : {"0", "1", "2"}) std::ofstream(left + "/" + name) << "names that others are moved up to";
  base::UniqueFd at(::open(left.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  for (int depth = 0; depth < 1000; ++depth) {  // longer than the maximum path
    ASSERT_EQ(::mkdirat(at.get(), "down", 0755), 0);
    ASSERT_EQ(::mkdirat(at.get(), "beside", 0755), 0);
    at = base::UniqueFd(::openat(at.get(), "down", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  }
  std::stop_source stopped;
  stopped.request_stop();
  EXPECT_EQ(removeLeft(state, {}, stopped.get_token(), kLong).code(), base::Code::cancelled);
  EXPECT_EQ(removeLeft(state, {}, {}, std::chrono::milliseconds(0)).code(), base::Code::deadline);
  EXPECT_TRUE(std::filesystem::exists(left));
  const auto removed = removeLeft(state, {}, {}, kLong);
  EXPECT_TRUE(removed.ok()) << removed.str();
  EXPECT_TRUE(std::filesystem::is_empty(state));
}

/// A container may fill one of them for ever.
TEST_F(StateOnDiskTest, L5_WhatTakesTooLongDoesNotKeepTheOthers) {
  for (int i = 0; i < 20; ++i) {
    std::filesystem::create_directories(state + "/" + gone + ".left-full" + std::to_string(i) + "/below");
    std::filesystem::create_directories(state + "/" + gone + ".left-empty" + std::to_string(i));
  }
  EXPECT_EQ(removeLeft(state, {}, {}, std::chrono::milliseconds(0)).code(), base::Code::deadline);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(state), {}), 20) << "those that need no time are gone";
  EXPECT_TRUE(removeLeft(state, {}, {}, kLong).ok());
  EXPECT_TRUE(std::filesystem::is_empty(state));
}

TEST_F(LeftoversTest, AfterARebootTheKubeletAsksAgain) {
  const auto claim = prepared("a");
  std::filesystem::remove_all(folder.path());
  ASSERT_TRUE(folder.open().ok());
  ASSERT_TRUE(preparer.garbageCollect({}).ok());
  ASSERT_TRUE(preparer.prepare(claim, {}).ok());
  EXPECT_EQ(plugin.calls(), (Calls{"stage", "mount"}));
}

}  // namespace
}  // namespace egpu::agent

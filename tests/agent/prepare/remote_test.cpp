// Remote devices, which have neither node nor cards.
#include <fstream>

#include "controller/codec/patch.h"
#include "tests/agent/prepare/fixture.h"

namespace egpu::agent {
namespace {

using base::Code;

class RemoteDeviceTest : public PrepareTest {
 protected:
  RemoteDeviceTest() {
    world.remote.replySource({{}, {}, "10.0.0.1:7000"});
    world.registry.add(world.remote);
    world.addClass("pool", "Delete", "Immediate", {}, support::World::kRemotePlugin);
    remote.edits = {{{"ELASTICGPU_REMOTE_ENDPOINT", "10.0.0.1:7000"}}, {}, {}, {}};
    registry.add(remote);
  }
  ClaimRef leased(const std::string& name) {
    world.addClaim(name, "pool", {{"gpu", "1"}});
    world.addPod(name, {name});
    driver->settle();
    world.schedule(name);
    return {"default", name, world.resourceClaim(name)->metadata.uid};
  }

  NodePlugin remote{support::World::kRemotePlugin};
};

TEST_F(RemoteDeviceTest, ItIsPreparedOnTheNodeOfThePod) {
  const auto claim = leased("a");
  const auto prepared = preparer.prepare(claim, {});
  ASSERT_TRUE(prepared.ok()) << prepared.status().str();
  EXPECT_EQ(*prepared, ids(uidOf(claim)));
  EXPECT_EQ(remote.calls(), (Calls{"stage", "mount"}));
  EXPECT_EQ(remote.last.source.endpoint, "10.0.0.1:7000");
  EXPECT_EQ(remote.last.capacity.at("remote.provisioner.elasticgpu.io/gpu"), "1");
  EXPECT_TRUE(remote.last.cards.empty());
  const auto again = preparer.prepare(claim, {});
  ASSERT_TRUE(again.ok()) << again.status().str();
  EXPECT_EQ(remote.calls(), Calls{}) << "answered from the file";
  const auto entry = folder.find(uidOf(claim));
  ASSERT_TRUE(entry.ok() && *entry && (*entry)->spec.ok()) << "the file can be read";
  ASSERT_TRUE(preparer.unprepare(claim, {}).ok());
  EXPECT_EQ(remote.calls(), (Calls{"unmount", "unstage"}));
  EXPECT_TRUE(files().empty());
}

TEST_F(RemoteDeviceTest, ItsUnreadableFileIsMadeAnewWhileThePodNeedsIt) {
  const auto claim = leased("a");
  ASSERT_TRUE(preparer.prepare(claim, {}).ok());
  (void)remote.calls();
  std::ofstream(folder.path() + "/" + fileOf(uidOf(claim)), std::ios::trunc) << "{";
  EXPECT_TRUE(preparer.garbageCollect({}).ok());
  EXPECT_EQ(remote.calls(), (Calls{"stage", "mount"})) << "its lease goes on";
  const auto entry = folder.find(uidOf(claim));
  EXPECT_TRUE(entry.ok() && *entry && (*entry)->spec.ok());
}

TEST_F(RemoteDeviceTest, AnUnreadableFileOfAnotherDeviceDoesNotBlockIt) {
  const auto card = claimed("b");
  ASSERT_TRUE(preparer.prepare(card, {}).ok());
  std::ofstream(folder.path() + "/" + fileOf(uidOf(card)), std::ios::trunc) << "{";
  const auto prepared = preparer.prepare(leased("a"), {});
  EXPECT_TRUE(prepared.ok()) << prepared.status().str();
}

TEST_F(RemoteDeviceTest, ACardNeedsAnAllocationOnItsNode) {
  const auto claim = claimed("b");
  auto rc = *world.resourceClaim("b");
  rc.allocation->nodeName.clear();
  const auto text = codec::encode(rc);
  world.json<core::ResourceClaim>({"default", "b"}, R"({"status":{"allocation":null,"reservedFor":null}})", "status");
  world.json<core::ResourceClaim>({"default", "b"}, "{" + text.substr(text.find("\"status\":")), "status");
  const auto prepared = preparer.prepare(claim, {});
  ASSERT_EQ(prepared.status().code(), Code::invalid);
  EXPECT_NE(prepared.status().message().find("is allocated on any node"), std::string::npos)
      << prepared.status().message();
}

}  // namespace
}  // namespace egpu::agent

// The plugin of MIG instances: the instances of a device, the edits of its containers, and refusals.
#include <fstream>
#include <thread>

#include "tests/provisioners/mig_fixture.h"

namespace egpu::plugin::testing {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST_F(MigTest, DescribesItself) {
  EXPECT_EQ(plugin->description().source, "mig");
  EXPECT_EQ(plugin->description().isolation, "Enforced");
  EXPECT_FALSE(plugin->description().resizes);
  EXPECT_EQ(outcomeOf(plugin->validate({})), ReplyCode::ok);
  EXPECT_EQ(outcomeOf(plugin->validate({{"profile", "1g.5gb"}})), ReplyCode::invalid);
  EXPECT_THAT(message, HasSubstr("unknown parameter \"profile\""));
}

TEST_F(MigTest, ProvisionsDevicesWithSlotsOnly) {
  const auto reply = plugin->provision(device("a", "1g.5gb", 0x03));
  EXPECT_EQ(outcomeOf(reply), ReplyCode::ok) << message;
  EXPECT_EQ(reply.isolation, (v1alpha::Isolation{"mig", "Enforced", "Enforced", "Enforced"}));
  EXPECT_EQ(outcomeOf(plugin->provision(device("a", "1g.5gb", 0x03))), ReplyCode::noChange);
  EXPECT_EQ(outcomeOf(plugin->provision(device("a", "1g.5gb", 0x05))), ReplyCode::exists) << "slots are content";
  EXPECT_EQ(outcomeOf(plugin->provision(device("b", "1g.5gb", 0))), ReplyCode::invalid);
  EXPECT_EQ(outcomeOf(plugin->provision(device("b", "", 0x03))), ReplyCode::invalid);
  EXPECT_THAT(message, HasSubstr("must request elasticgpu.io/mig-<profile>"));
  auto two = device("c", "1g.5gb", 1);
  two.cards.push_back(two.cards[0]);
  EXPECT_EQ(outcomeOf(plugin->provision(two)), ReplyCode::invalid);
  EXPECT_THAT(message, HasSubstr("parts of one card, and this device has 2"));
}

TEST_F(MigTest, StageCreatesInstancesAtTheirSlots) {
  ASSERT_EQ(outcomeOf(plugin->stage(device("a", "3g.20gb", 0xf0))), ReplyCode::ok) << message;
  ASSERT_EQ(outcomeOf(plugin->stage(device("b", "1g.5gb", 0x05))), ReplyCode::ok) << message;
  EXPECT_THAT(placements(), ElementsAre("0:1:1", "2:1:1", "4:4:1"));
  EXPECT_EQ(outcomeOf(plugin->stage(device("b", "1g.5gb", 0x05))), ReplyCode::noChange) << message;
  EXPECT_EQ(outcomeOf(plugin->stage(device("b", "1g.5gb", 0x06))), ReplyCode::exists);
  EXPECT_THAT(placements(), ElementsAre("0:1:1", "2:1:1", "4:4:1"));
  EXPECT_THAT(records(), ElementsAre("a", "b"));
  EXPECT_EQ(outcomeOf(plugin->unstage("b")), ReplyCode::ok) << message;
  EXPECT_EQ(outcomeOf(plugin->unstage("b")), ReplyCode::noChange);
  EXPECT_THAT(placements(), ElementsAre("4:4:1"));
  EXPECT_EQ(outcomeOf(plugin->unstage("a")), ReplyCode::ok) << message;
  EXPECT_THAT(placements(), IsEmpty());
  EXPECT_THAT(records(), IsEmpty());
}

TEST_F(MigTest, TheMediaEnginesAreASlot) {
  ASSERT_EQ(outcomeOf(plugin->stage(device("a", "1g.5gb+me", 0x101))), ReplyCode::ok) << message;
  EXPECT_EQ(outcomeOf(plugin->stage(device("b", "1g.5gb+me", 0x02))), ReplyCode::invalid) << "without the engines";
  EXPECT_EQ(outcomeOf(plugin->stage(device("b", "1g.5gb+me", 0x102))), ReplyCode::unavailable);
  EXPECT_THAT(message, HasSubstr("slots the media engines still have an instance of device egpu-a (claim default/a)"));
  EXPECT_THAT(placements(), ElementsAre("0:1:1"));
}

TEST_F(MigTest, SlotsThatAreNoInstancesOfTheProfileAreRefused) {
  EXPECT_EQ(outcomeOf(plugin->stage(device("a", "3g.20gb", 0x3c))), ReplyCode::invalid) << "starts at slot 2";
  EXPECT_THAT(message, HasSubstr("slots 2, 3, 4, 5 are not those of instances of profile 3g.20gb"));
  EXPECT_EQ(outcomeOf(plugin->stage(device("a", "2g.10gb", 0x07))), ReplyCode::invalid);
  EXPECT_EQ(outcomeOf(plugin->stage(device("a", "1g.10gb+gfx", 0x03))), ReplyCode::invalid);
  EXPECT_THAT(message, HasSubstr("has no profile 1g.10gb+gfx; it has 1g.5gb, 2g.10gb"));
  EXPECT_THAT(records(), IsEmpty());
}

TEST_F(MigTest, TheContainerGetsTheNodesOfItsInstances) {
  const auto wanted = device("a", "1g.5gb", 0x03);
  EXPECT_EQ(plugin->mount(wanted, "ns/pod", "main").reply.outcome, ReplyCode::unavailable) << "nothing is created yet";
  ASSERT_EQ(outcomeOf(plugin->stage(wanted)), ReplyCode::ok) << message;
  const auto reply = plugin->mount(wanted, "ns/pod", "main");
  ASSERT_EQ(outcomeOf(reply.reply), ReplyCode::ok) << message;
  std::vector<std::string> nodes;
  for (const auto& node : reply.edits.deviceNodes) nodes.push_back(node.path);
  // Each GPU instance has nine capabilities, the first of them number 3; the instances are 1 and 2.
  EXPECT_THAT(nodes, ElementsAre("/dev/nvidia0", "/dev/nvidiactl", "/dev/nvidia-caps/nvidia-cap12",
                                 "/dev/nvidia-caps/nvidia-cap13", "/dev/nvidia-caps/nvidia-cap21",
                                 "/dev/nvidia-caps/nvidia-cap22"));
  const std::string uuids = "MIG-a1060000-0000-4000-8000-000000000100,MIG-a1060000-0000-4000-8000-000000000200";
  EXPECT_EQ(env(reply.edits, "ELASTICGPU_MIG_INSTANCES"), uuids);
  EXPECT_EQ(env(reply.edits, "NVIDIA_VISIBLE_DEVICES"), uuids) << "this machine has no library of the driver";
  EXPECT_EQ(env(reply.edits, "ELASTICGPU_MIG_PROFILE"), "1g.5gb");
  EXPECT_EQ(env(reply.edits, "ELASTICGPU_ISOLATION"), "mig");
  EXPECT_THAT(reply.edits.cdiDevices, IsEmpty());
  EXPECT_EQ(plugin->mount(wanted, "ns/pod", "main").edits, reply.edits);
  // After a reset of the card.
  withFakeInstances([](FakeInstances& now) { return now = {}, true; });
  EXPECT_EQ(outcomeOf(plugin->mount(wanted, "ns/pod", "main").reply), ReplyCode::unavailable);
  EXPECT_THAT(message, HasSubstr("are not complete on this machine"));
  EXPECT_EQ(outcomeOf(plugin->stage(wanted)), ReplyCode::ok) << message;
  EXPECT_EQ(plugin->mount(wanted, "ns/pod", "main").edits, reply.edits);
}

TEST_F(MigTest, ACardOfAnotherMachineIsSimulated) {
  auto elsewhere = device("a", "1g.5gb", 0x01);
  elsewhere.cards[0].uuid = "GPU-elsewhere";
  EXPECT_EQ(outcomeOf(plugin->stage(elsewhere)), ReplyCode::noChange) << message;
  const auto reply = plugin->mount(elsewhere, "ns/pod", "main");
  EXPECT_EQ(outcomeOf(reply.reply), ReplyCode::ok) << message;
  EXPECT_TRUE(hasNode(reply.edits, "/dev/nvidia0"));
  EXPECT_THAT(reply.edits.cdiDevices, IsEmpty()) << "a whole card is no instance";
  EXPECT_EQ(env(reply.edits, "NVIDIA_VISIBLE_DEVICES"), "void");
  EXPECT_EQ(outcomeOf(plugin->unstage("a")), ReplyCode::noChange);
}

TEST_F(MigTest, TheModeIsNeverSwitched) {
  auto whole = device("a", "1g.5gb", 0x01);
  whole.cards[0].uuid = "GPU-a1060000-0000-4000-8000-000000000001";
  EXPECT_EQ(outcomeOf(plugin->stage(whole)), ReplyCode::unavailable) << "the mode is pending only";
  EXPECT_THAT(message, AllOf(HasSubstr("is not in MIG mode"), HasSubstr("-mig 1")));
  ASSERT_EQ(outcomeOf(plugin->stage(device("b", "1g.5gb", 0x01))), ReplyCode::ok) << message;
  fake.file["devices"][0]["mig"] = 0;  // an administrator switched it, which needs that the instances are gone
  fake.write();
  fake.reboot();
  EXPECT_EQ(outcomeOf(plugin->unstage("b")), ReplyCode::ok) << message;
  EXPECT_THAT(records(), IsEmpty());
}

TEST_F(MigTest, ForeignInstancesAreNamedAndStay) {
  addForeign(0, kThreeSlices, 4);
  EXPECT_EQ(outcomeOf(plugin->stage(device("a", "1g.5gb", 0x0c))), ReplyCode::unavailable);
  EXPECT_THAT(message, AllOf(HasSubstr("slots 2, 3 are occupied by GPU instance 40, which was not created here"),
                             HasSubstr("nvidia-smi mig -dgi")));
  EXPECT_THAT(records(), IsEmpty()) << "a refusal leaves nothing";
  ASSERT_EQ(outcomeOf(plugin->stage(device("a", "1g.5gb", 0x30))), ReplyCode::ok) << message;
  ASSERT_EQ(outcomeOf(plugin->unstage("a")), ReplyCode::ok) << message;
  EXPECT_THAT(placements(), ElementsAre("0:4:1"));
}

TEST_F(MigTest, AForeignInstanceInPlaceOfOursIsNotDestroyed) {
  ASSERT_EQ(outcomeOf(plugin->stage(device("a", "1g.5gb", 0x01))), ReplyCode::ok) << message;
  withFakeInstances([](FakeInstances& now) { return now = {}, true; });  // a reset of the card
  addForeign(0);
  EXPECT_EQ(outcomeOf(plugin->stage(device("a", "1g.5gb", 0x01))), ReplyCode::unavailable);
  EXPECT_THAT(message, HasSubstr("GPU instance 40, which was not created here"));
  EXPECT_THAT(records(), ElementsAre("a")) << "an earlier call had completed the device";
  ASSERT_EQ(outcomeOf(plugin->unstage("a")), ReplyCode::ok) << message;
  EXPECT_THAT(placements(), ElementsAre("0:1:1"));
}

TEST_F(MigTest, WithoutARecordAnInstanceIsForeign) {
  ASSERT_EQ(outcomeOf(plugin->stage(device("a", "1g.5gb", 0x01))), ReplyCode::ok) << message;
  std::filesystem::remove(state.path() + "/mig/a");
  EXPECT_EQ(outcomeOf(plugin->unstage("a")), ReplyCode::noChange);
  EXPECT_EQ(outcomeOf(plugin->stage(device("a", "1g.5gb", 0x01))), ReplyCode::unavailable);
  EXPECT_THAT(message, HasSubstr("which was not created here"));
  EXPECT_THAT(message, HasSubstr("nvidia-smi mig -dgi -i " + std::string(kMigCard) + " -gi "));
  EXPECT_THAT(placements(), ElementsAre("0:1:1"));
  EXPECT_TRUE(withFakeInstances([](FakeInstances& now) {  // the administrator runs the command
    for (FakeInstance& each : now.all) each.exists = 0;
    return true;
  }));
  EXPECT_EQ(outcomeOf(plugin->stage(device("a", "1g.5gb", 0x01))), ReplyCode::ok) << message;
  EXPECT_THAT(placements(), ElementsAre("0:1:1"));
  EXPECT_THAT(records(), ElementsAre("a"));
}

TEST_F(MigTest, AfterARebootTheInstancesAreCreatedAgainAtTheirSlots) {
  ASSERT_EQ(outcomeOf(plugin->stage(device("a", "1g.5gb", 0x14))), ReplyCode::ok) << message;
  ASSERT_EQ(outcomeOf(plugin->stage(device("b", "1g.5gb", 0x01))), ReplyCode::ok) << message;
  fake.reboot();
  EXPECT_THAT(placements(), IsEmpty());
  EXPECT_EQ(plugin->mount(device("a", "1g.5gb", 0x14), "ns/pod", "main").reply.outcome, ReplyCode::unavailable);
  ASSERT_EQ(outcomeOf(plugin->stage(device("a", "1g.5gb", 0x14))), ReplyCode::ok) << message;
  EXPECT_THAT(placements(), ElementsAre("2:1:1", "4:1:1"));
  ASSERT_EQ(outcomeOf(plugin->unstage("b")), ReplyCode::ok) << message;
  EXPECT_THAT(placements(), ElementsAre("2:1:1", "4:1:1"));
  EXPECT_THAT(records(), ElementsAre("a"));
}

TEST_F(MigTest, ARecordOfAnEarlierBootNamesNoInstance) {
  ASSERT_EQ(outcomeOf(plugin->stage(device("a", "1g.5gb", 0x01))), ReplyCode::ok) << message;
  fake.reboot();
  addForeign(0, kOneSlice, 1, 1);  // even with the id that ours had
  EXPECT_EQ(discovered().mig[0].starts.bits, 0x7e);
  EXPECT_EQ(outcomeOf(plugin->stage(device("a", "1g.5gb", 0x01))), ReplyCode::unavailable);
  ASSERT_EQ(outcomeOf(plugin->unstage("a")), ReplyCode::ok) << message;
  EXPECT_THAT(placements(), ElementsAre("0:1:1"));
}

TEST_F(MigTest, AFailedStepLeavesNothing) {
  for (const auto& [function, code] : {std::pair{"nvmlDeviceCreateGpuInstanceWithPlacement", 23},
                                       {"nvmlDeviceCreateGpuInstanceWithPlacement", 4},
                                       {"nvmlGpuInstanceCreateComputeInstance", 23},
                                       {"nvmlDeviceGetMigDeviceHandleByIndex", 999}}) {
    fake.file["devices"][0]["errors"][function] = code;
    fake.write();
    EXPECT_EQ(outcomeOf(plugin->stage(device("a", "1g.5gb", 0x03))), ReplyCode::unavailable) << function;
    if (code == 23) {
      EXPECT_THAT(message, HasSubstr("an instance of 1g.5gb on slots 0 can't be created: the card has no resources"));
    }
    if (code == 4) {
      EXPECT_THAT(message, HasSubstr("/dev/nvidia-caps/nvidia-cap1"));
    }
    EXPECT_THAT(placements(), IsEmpty()) << function;
    EXPECT_THAT(records(), IsEmpty()) << function;
    fake.file["devices"][0].remove("errors");
    fake.write();
  }
  EXPECT_EQ(outcomeOf(plugin->stage(device("a", "1g.5gb", 0x03))), ReplyCode::ok) << message;
}

TEST_F(MigTest, InsufficientResourcesNamesTheInstancesOfTheCard) {
  addForeign(4, kThreeSlices, 4);
  fake.file["devices"][0]["computeSlices"] = 1;
  fake.write();
  EXPECT_EQ(outcomeOf(plugin->stage(device("a", "1g.5gb", 0x01))), ReplyCode::unavailable);
  EXPECT_THAT(message, HasSubstr("its instances are: GPU instance 40 on slots 4, 5, 6, 7"));
}

TEST_F(MigTest, ARunningProgramKeepsItsInstance) {
  ASSERT_EQ(outcomeOf(plugin->stage(device("a", "1g.5gb", 0x01))), ReplyCode::ok) << message;
  fake.file["devices"][0]["processes"].push_back(YAML::Load("[4711, 1048576, 0, 1]"));
  fake.write();
  EXPECT_EQ(outcomeOf(plugin->unstage("a")), ReplyCode::unavailable);
  EXPECT_THAT(message,
              HasSubstr("GPU instance 1 of device egpu-a can't be destroyed: it is in use; end the processes 4711"));
  EXPECT_THAT(records(), ElementsAre("a"));
  fake.file["devices"][0].remove("processes");
  fake.write();
  EXPECT_EQ(outcomeOf(plugin->unstage("a")), ReplyCode::ok) << message;
  EXPECT_THAT(placements(), IsEmpty());
}

TEST_F(MigTest, AHalfDestroyedInstanceIsCompletedOrDestroyed) {
  ASSERT_EQ(outcomeOf(plugin->stage(device("a", "1g.5gb", 0x01))), ReplyCode::ok) << message;
  withFakeInstances([](FakeInstances& now) { return now.all[0].compute[0] = 0, true; });
  EXPECT_EQ(outcomeOf(plugin->stage(device("a", "1g.5gb", 0x01))), ReplyCode::ok) << message;
  EXPECT_THAT(placements(), ElementsAre("0:1:1"));
  withFakeInstances([](FakeInstances& now) { return now.all[0].compute[0] = 0, true; });
  EXPECT_EQ(outcomeOf(plugin->unstage("a")), ReplyCode::ok) << message;
  EXPECT_THAT(placements(), IsEmpty());
}

TEST_F(MigTest, AnUnknownModeKeepsTheRecord) {
  ASSERT_EQ(outcomeOf(plugin->stage(device("a", "1g.5gb", 0x01))), ReplyCode::ok) << message;
  for (const int code : {10, 999}) {
    fake.file["devices"][0]["errors"]["nvmlDeviceGetMigMode"] = code;
    fake.write();
    EXPECT_EQ(outcomeOf(plugin->unstage("a")), ReplyCode::unavailable);
    EXPECT_THAT(message, HasSubstr("its MIG mode is unknown: "));
    EXPECT_EQ(outcomeOf(plugin->stage(device("b", "1g.5gb", 0x02))), ReplyCode::unavailable);
    EXPECT_THAT(message, HasSubstr("its MIG mode is unknown: "));
  }
  EXPECT_THAT(records(), ElementsAre("a")) << "its instance would become foreign";
  fake.file["devices"][0].remove("errors");
  fake.write();
  EXPECT_EQ(outcomeOf(plugin->unstage("a")), ReplyCode::ok) << message;
  EXPECT_THAT(placements(), IsEmpty());
}

TEST_F(MigTest, ALostCardKeepsItsRecord) {
  ASSERT_EQ(outcomeOf(plugin->stage(device("a", "1g.5gb", 0x01))), ReplyCode::ok) << message;
  fake.file["devices"][0]["lost"] = true;
  fake.write();
  EXPECT_EQ(outcomeOf(plugin->unstage("a")), ReplyCode::unavailable);
  EXPECT_THAT(message, HasSubstr("does not reach card"));
  EXPECT_THAT(records(), ElementsAre("a"));
  fake.unplug(0);
  EXPECT_EQ(outcomeOf(plugin->unstage("a")), ReplyCode::ok) << message << ": the card was removed";
  EXPECT_THAT(records(), IsEmpty());
}

TEST_F(MigTest, CallsOfOneCardWaitForEachOther) {
  std::vector<std::thread> threads;
  std::vector<ReplyCode> outcomes(7);
  for (unsigned i = 0; i < outcomes.size(); ++i)
    threads.emplace_back([&, i] {
      const std::string key = std::to_string(i);
      for (int n = 0; n < 5; ++n) {
        plugin->stage(device(key, "1g.5gb", 1U << i));
        outcomes[i] = plugin->stage(device(key, "1g.5gb", 1U << i)).outcome;
        if (n < 4) plugin->unstage(key);
      }
    });
  for (auto& thread : threads) thread.join();
  EXPECT_THAT(outcomes, ::testing::Each(ReplyCode::noChange));
  EXPECT_THAT(placements(), ElementsAre("0:1:1", "1:1:1", "2:1:1", "3:1:1", "4:1:1", "5:1:1", "6:1:1"));
}

}  // namespace
}  // namespace egpu::plugin::testing

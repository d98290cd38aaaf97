// Profiles and foreign instances of cards in MIG mode, as discovery reports them.
#include <fstream>

#include "tests/provisioners/mig_fixture.h"

namespace egpu::plugin::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using v1alpha::MigProfile;

constexpr int64_t kMiB = 1 << 20;

TEST_F(MigTest, ACardInMigModeReportsTheProfilesOfItsDriver) {
  EXPECT_THAT(discovered().mig, ElementsAre(MigProfile{"1g.5gb", 4864 * kMiB, 1, 1, {0x7f}, false},
                                            MigProfile{"2g.10gb", 9984 * kMiB, 2, 2, {0x15}, false},
                                            MigProfile{"3g.20gb", 20096 * kMiB, 3, 4, {0x11}, false},
                                            MigProfile{"4g.20gb", 20096 * kMiB, 4, 4, {0x01}, false},
                                            MigProfile{"7g.40gb", 40448 * kMiB, 7, 8, {0x01}, true},
                                            MigProfile{"1g.5gb+me", 4864 * kMiB, 1, 1, {0x7f}, true},
                                            MigProfile{"1g.10gb", 9984 * kMiB, 1, 2, {0x55}, false}));
  EXPECT_THAT(plugin->discover().gpus, SizeIs(2));
  EXPECT_THAT(plugin->discover().gpus[1].mig, IsEmpty()) << "its mode is pending";
}

TEST_F(MigTest, ACardWhoseModeIsUnknownForNowIsNotOfferedAsAWholeCard) {
  fake.file["devices"][0]["errors"]["nvmlDeviceGetMigMode"] = 10;
  fake.write();
  const auto reply = plugin->discover();
  EXPECT_EQ(outcomeOf(reply.reply), ReplyCode::ok) << message;
  EXPECT_THAT(message, HasSubstr("its MIG mode is unknown: "));
  ASSERT_THAT(reply.gpus, SizeIs(1));
  EXPECT_NE(reply.gpus[0].uuid, kMigCard);
}

TEST_F(MigTest, OlderDriversReportNoNamesOfProfiles) {
  const auto named = discovered().mig;
  fake.file["missing"].push_back("nvmlDeviceGetGpuInstanceProfileInfoV");
  fake.write();
  EXPECT_EQ(discovered().mig, named) << "the names follow from slices and memory";
}

TEST_F(MigTest, WithoutPlacementsTheCardHasNoProfiles) {
  fake.file["devices"][0]["errors"]["nvmlDeviceGetGpuInstancePossiblePlacements_v2"] = 4;
  fake.write();
  EXPECT_THAT(discovered().mig, IsEmpty());
  EXPECT_THAT(message, HasSubstr("is in MIG mode: the driver reports no possible placements of profile 1g.5gb"));
}

TEST_F(MigTest, WithoutAListOfInstancesTheCardHasNoProfiles) {
  fake.file["devices"][0]["errors"]["nvmlDeviceGetGpuInstances"] = 4;
  fake.write();
  EXPECT_THAT(discovered().mig, IsEmpty());
  EXPECT_THAT(message, HasSubstr("its instances are unknown: no permission"));
}

TEST_F(MigTest, ImpossibleProfilesAreLeftOut) {
  auto profiles = fake.file["devices"][0]["migProfiles"] = YAML::Clone(fake.file["each"]["migProfiles"]);
  fake.file["each"].remove("migProfiles");
  profiles[0]["slices"] = 9;
  profiles[1]["starts"] = std::vector<int>{8};
  profiles[2]["name"] = "A B";
  fake.write();
  const auto mig = discovered().mig;
  ASSERT_THAT(mig, SizeIs(5));
  EXPECT_EQ(mig[4].name, "1g.10gb") << "from slices and memory, because the driver's name can't be one";
  EXPECT_THAT(message, HasSubstr("no possible placements of profile 1g.5gb+me"));
}

TEST_F(MigTest, SlotsOfForeignInstancesAreNotOffered) {
  addForeign(4, kThreeSlices, 4);
  const auto mig = discovered().mig;
  ASSERT_THAT(mig, SizeIs(7));
  EXPECT_EQ(mig[0].starts.bits, 0x0f) << "1g.5gb";
  EXPECT_EQ(mig[2].starts.bits, 0x01) << "3g.20gb";
  EXPECT_EQ(mig[4].starts.bits, 0) << "7g.40gb";
  const auto health = plugin->health();
  ASSERT_THAT(health.cards, SizeIs(1));
  EXPECT_TRUE(health.cards[0].healthy) << "the rest of the card is used";
  EXPECT_THAT(health.cards[0].message, HasSubstr("ForeignInstances: GPU instance 40 on slots 4, 5, 6, 7 were not"));
  EXPECT_THAT(health.cards[0].message, HasSubstr(std::string("nvidia-smi mig -dgi -i ") + kMigCard + " -gi 40"));
  fake.reboot();
  EXPECT_EQ(discovered().mig[2].starts.bits, 0x11);
  EXPECT_THAT(plugin->health().cards, IsEmpty());
}

TEST_F(MigTest, AForeignInstanceWithTheMediaEnginesTakesThemFromTheCard) {
  addForeign(0, 20);
  const auto mig = discovered().mig;
  ASSERT_THAT(mig, SizeIs(7));
  EXPECT_EQ(mig[0].starts.bits, 0x7e) << "1g.5gb";
  EXPECT_EQ(mig[5].starts.bits, 0) << "1g.5gb+me";
}

TEST_F(MigTest, OurInstancesAreNotForeign) {
  ASSERT_EQ(outcomeOf(plugin->stage(device("a", "1g.5gb", 0x03))), ReplyCode::ok) << message;
  EXPECT_EQ(discovered().mig[0].starts.bits, 0x7f);
  EXPECT_THAT(plugin->health().cards, IsEmpty());
}

TEST_F(MigTest, AnUnreadableRecordHidesTheProfiles) {
  ASSERT_EQ(outcomeOf(plugin->stage(device("a", "1g.5gb", 0x01))), ReplyCode::ok) << message;
  std::ofstream(state.path() + "/mig/a") << "?";
  EXPECT_THAT(discovered().mig, IsEmpty());
  EXPECT_THAT(message, HasSubstr("/mig/a is damaged"));
  EXPECT_EQ(outcomeOf(plugin->unstage("a")), ReplyCode::unavailable);
  EXPECT_THAT(message, HasSubstr("nvidia-smi mig -lgi"));
  EXPECT_THAT(placements(), ElementsAre("0:1:1")) << "nothing is destroyed";
}

}  // namespace
}  // namespace egpu::plugin::testing

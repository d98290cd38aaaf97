#include "tests/provisioners/plugin_fixture.h"

namespace egpu::plugin::testing {
namespace {

using ::testing::HasSubstr;

const core::StringMap kLimited{{"isolation", "qgpu"}, {"paths", "/dev/qgpu/{device}, /dev/qgpu-ctl"}};

class QgpuTest : public PluginTest {
 protected:
  QgpuTest() : PluginTest("qgpu") {}
};

TEST_F(QgpuTest, DescribesItself) {
  EXPECT_EQ(plugin->description().source, "qGPU");
  EXPECT_EQ(plugin->description().isolation, "Advisory");
}

TEST_F(QgpuTest, RefusesParametersWithTheValidOnes) {
  EXPECT_EQ(outcomeOf(plugin->validate(kLimited)), ReplyCode::ok) << message;
  EXPECT_EQ(outcomeOf(plugin->validate({})), ReplyCode::ok) << message;
  EXPECT_EQ(outcomeOf(plugin->validate({{"isolation", "mps"}})), ReplyCode::invalid);
  EXPECT_THAT(message, HasSubstr("known are none, qgpu"));
  EXPECT_EQ(outcomeOf(plugin->validate({{"isolation", "qgpu"}})), ReplyCode::invalid);
  EXPECT_THAT(message, HasSubstr("needs the parameter paths"));
  for (const char* paths : {"qgpu0", "/etc/passwd", "/dev/../etc/passwd", "/dev/..", "/dev/a,,/dev/b", "/dev/a,"}) {
    EXPECT_EQ(outcomeOf(plugin->validate({{"paths", paths}})), ReplyCode::invalid) << paths;
    EXPECT_THAT(message, HasSubstr("is not a path below /dev")) << paths;
  }
}

TEST_F(QgpuTest, RefusesAmountsBetweenSteps) {
  EXPECT_EQ(outcomeOf(plugin->provision(device("a", {card(0, 120, kGiB)}))), ReplyCode::invalid);
  EXPECT_EQ(outcomeOf(plugin->provision(device("a", {card(0, 100, kGiB + 1)}))), ReplyCode::invalid);
  EXPECT_THAT(message, HasSubstr("steps of 50 milli-cards and 1 GiB"));
  EXPECT_EQ(outcomeOf(plugin->provision(device("a", {card(0, 100, kGiB), card(1, 100, kGiB)}))), ReplyCode::invalid);
  EXPECT_THAT(message, HasSubstr("a share of one card"));
  auto odd = card(0, 1000, 16 * kGiB - 1);
  odd.cardMemory = odd.memory;
  EXPECT_EQ(outcomeOf(plugin->provision(device("whole", {odd}))), ReplyCode::ok) << message;
}

TEST_F(QgpuTest, NamesTheDeviceAndItsFiles) {
  const auto share = device("a", {card(0, 250, 4 * kGiB)}, kLimited);
  const auto reply = plugin->provision(share);
  ASSERT_EQ(outcomeOf(reply), ReplyCode::ok) << message;
  EXPECT_EQ(reply.source, (SourceValues{"qgpu-a", {"/dev/qgpu/qgpu-a", "/dev/qgpu-ctl"}, ""}));
  EXPECT_EQ(reply.isolation, (v1alpha::Isolation{"qgpu", "Soft", "Soft", "Soft"}));
  auto known = share;
  known.source = reply.source;
  const auto again = plugin->provision(known);
  EXPECT_EQ(outcomeOf(again), ReplyCode::noChange) << "the object's values are no part of the content: " << message;
  EXPECT_EQ(again.source, reply.source);
}

TEST_F(QgpuTest, KeepsTheNamesOfAnAdministrator) {
  auto fixed = device("a", {card(3, 250, 4 * kGiB)});
  fixed.source = {"qgpu0", {"/dev/qgpu0"}, ""};
  const auto reply = plugin->mount(fixed, "ns/pod", "main");
  ASSERT_TRUE(reply.reply.ok()) << reply.reply.message;
  EXPECT_EQ(env(reply.edits, "ELASTICGPU_QGPU_DEVICE"), "qgpu0");
  EXPECT_TRUE(hasNode(reply.edits, "/dev/qgpu0"));
  EXPECT_TRUE(hasNode(reply.edits, "/dev/nvidia3"));
  fixed.source.paths = {"/etc/shadow"};
  EXPECT_EQ(plugin->mount(fixed, "ns/pod", "main").reply.outcome, ReplyCode::invalid);
}

TEST_F(QgpuTest, TheContainerGetsTheFilesOfItsShare) {
  const auto reply = plugin->mount(device("a", {card(0, 250, 4 * kGiB)}, kLimited), "ns/pod", "main");
  ASSERT_TRUE(reply.reply.ok()) << reply.reply.message;
  EXPECT_TRUE(hasNode(reply.edits, "/dev/qgpu/qgpu-a"));
  EXPECT_TRUE(hasNode(reply.edits, "/dev/qgpu-ctl"));
  EXPECT_EQ(env(reply.edits, "ELASTICGPU_CORE_0"), "250");
  EXPECT_EQ(env(reply.edits, "ELASTICGPU_MEMORY_0"), std::to_string(4 * kGiB));
  EXPECT_EQ(env(reply.edits, "ELASTICGPU_ISOLATION"), "qgpu");
}

TEST_F(QgpuTest, AnObserverGetsNoShare) {
  const auto eye = device("eye", {card(4, 0, 0)}, kLimited);
  const auto made = plugin->provision(eye);
  EXPECT_EQ(outcomeOf(made), ReplyCode::ok) << message;
  EXPECT_TRUE(made.source.empty());
  EXPECT_FALSE(hasNode(plugin->mount(eye, "ns/pod", "main").edits, "/dev/qgpu-ctl"));
}

}  // namespace
}  // namespace egpu::plugin::testing

#include "tests/provisioners/plugin_fixture.h"

namespace egpu::plugin::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class PhysicalTest : public PluginTest {
 protected:
  PhysicalTest() : PluginTest("physical") {}
};

TEST_F(PhysicalTest, DescribesItself) {
  EXPECT_EQ(plugin->description().source, "physicalGPU");
  EXPECT_EQ(plugin->description().isolation, "Enforced");
}

TEST_F(PhysicalTest, KnowsNoParametersOfItsOwn) {
  EXPECT_EQ(outcomeOf(plugin->validate({{"cardPolicy", "spread"}, {"model", "A100|H100"}})), ReplyCode::ok);
  EXPECT_EQ(outcomeOf(plugin->validate({{"isolation", "mps"}})), ReplyCode::invalid);
  EXPECT_THAT(message, HasSubstr("\"isolation\"; this provisioner knows none of its own"));
}

TEST_F(PhysicalTest, GivesWholeCardsOnly) {
  EXPECT_EQ(outcomeOf(plugin->provision(device("a", {card(0, 1000, 16 * kGiB), card(1, 500, 8 * kGiB)}))),
            ReplyCode::invalid);
  EXPECT_THAT(message, HasSubstr("GPU-1"));
  EXPECT_TRUE(plugin->list().keys.empty());
  const auto two = device("a", {card(4, 1000, 16 * kGiB), card(5, 1000, 16 * kGiB)});
  const auto reply = plugin->provision(two);
  EXPECT_EQ(outcomeOf(reply), ReplyCode::ok);
  EXPECT_EQ(reply.isolation, (v1alpha::Isolation{"whole-card", "Enforced", "Enforced", "Enforced"}));
  EXPECT_EQ(outcomeOf(plugin->provision(two)), ReplyCode::noChange);
  EXPECT_THAT(plugin->list().keys, ElementsAre("a"));
  EXPECT_FALSE(plugin->description().resizes);
  EXPECT_EQ(outcomeOf(plugin->resize(two)), ReplyCode::invalid);
}

TEST_F(PhysicalTest, AnObserverGetsNothingOfItsCardsButSeesThem) {
  const auto eye = device("eye", {card(4, 0, 0), card(6, 0, 0)});
  EXPECT_EQ(outcomeOf(plugin->provision(eye)), ReplyCode::ok) << message;
  const auto reply = plugin->mount(eye, "ns/pod", "main");
  ASSERT_TRUE(reply.reply.ok()) << reply.reply.message;
  EXPECT_TRUE(hasNode(reply.edits, "/dev/nvidia6"));
  EXPECT_EQ(outcomeOf(plugin->deprovision("eye")), ReplyCode::ok) << message;
}

TEST_F(PhysicalTest, TheContainerGetsItsCardsAndNoOther) {
  const auto reply = plugin->mount(device("a", {card(4, 1000, 16 * kGiB), card(6, 1000, 16 * kGiB)}), "ns/pod", "main");
  ASSERT_TRUE(reply.reply.ok()) << reply.reply.message;
  EXPECT_EQ(env(reply.edits, "NVIDIA_VISIBLE_DEVICES"), "GPU-4,GPU-6");
  EXPECT_EQ(env(reply.edits, "ELASTICGPU_CLAIM"), "default/claim");
  for (const char* path : {"/dev/nvidia4", "/dev/nvidia6", "/dev/nvidiactl", "/dev/nvidia-uvm"})
    EXPECT_TRUE(hasNode(reply.edits, path)) << path;
  EXPECT_FALSE(hasNode(reply.edits, "/dev/nvidia5"));
  EXPECT_EQ(reply.edits.deviceNodes.size(), 4u);
  EXPECT_THAT(reply.edits.cdiDevices, ElementsAre("nvidia.com/gpu=GPU-4", "nvidia.com/gpu=GPU-6"));
}

}  // namespace
}  // namespace egpu::plugin::testing

// The mock in process: every script except those that would crash this process (tests/plugin/hosted_test.cpp has
// those).
#include "tests/provisioners/plugin_fixture.h"

namespace egpu::plugin::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class MockTest : public PluginTest {
 protected:
  MockTest() : PluginTest("mock") {}
  ~MockTest() override {
    for (const auto& key : plugin->list().keys) plugin->deprovision(key);
  }
  static DeviceRequest scripted(const std::string& key, core::StringMap parameters) {
    return device(key, {card(0, 100, kGiB)}, std::move(parameters));
  }
};

TEST_F(MockTest, RefusesParametersItCannotPlay) {
  EXPECT_EQ(
      outcomeOf(plugin->validate({{"inProgress", "3"}, {"outcome", "hang"}, {"at", "stage"}, {"env", "A=1;B=2"}})),
      ReplyCode::ok);
  EXPECT_EQ(outcomeOf(plugin->validate({{"outcome", "explode"}})), ReplyCode::invalid);
  EXPECT_THAT(message, HasSubstr("reschedule"));
  EXPECT_EQ(outcomeOf(plugin->validate({{"at", "lunch"}})), ReplyCode::invalid);
  EXPECT_EQ(outcomeOf(plugin->validate({{"times", "-1"}})), ReplyCode::invalid);
  EXPECT_EQ(outcomeOf(plugin->validate({{"latencyMs", "1e3"}})), ReplyCode::invalid);
  EXPECT_EQ(outcomeOf(plugin->validate({{"env", "novalue"}})), ReplyCode::invalid);
  EXPECT_EQ(outcomeOf(plugin->validate({{"latency", "1"}})), ReplyCode::invalid);
  EXPECT_THAT(message, HasSubstr("at, env, inProgress, latencyMs, outcome, prefer, times, veto"));
  EXPECT_EQ(outcomeOf(plugin->validate({{"at", "validate"}, {"outcome", "unavailable"}})), ReplyCode::unavailable);
}

TEST_F(MockTest, PrefersAndVetoesTheNodesThatItsClassNames) {
  ASSERT_TRUE(plugin->description().prefers);
  Wish wish{"default/a", {}, {}};
  for (const auto* node : {"n0", "n1", "n2"}) wish.candidates.push_back({node, {card(0, 100, kGiB)}});
  EXPECT_EQ(outcomeOf(plugin->prefer(wish).reply), ReplyCode::noChange);
  wish.parameters = {{"prefer", "n2"}, {"veto", "n0"}};
  const auto answer = plugin->prefer(wish);
  EXPECT_EQ(answer.reply.outcome, ReplyCode::ok);
  EXPECT_THAT(answer.order, ElementsAre(2));
  EXPECT_THAT(answer.vetoes, ElementsAre(Veto{0, "the class's parameter veto names it"}));
  wish.parameters = {{"at", "prefer"}, {"outcome", "unavailable"}};
  EXPECT_EQ(outcomeOf(plugin->prefer(wish).reply), ReplyCode::unavailable);
}

TEST_F(MockTest, AResizeThatComesLateChangesNothing) {
  ASSERT_TRUE(plugin->description().resizes);
  EXPECT_TRUE(plugin->provision(device("a", {card(0, 100, kGiB)})).ok());
  const auto resized = [this](int64_t core, int64_t number) {
    auto wanted = device("a", {card(0, core, kGiB)});
    wanted.resizeNumber = number;
    return outcomeOf(plugin->resize(wanted));
  };
  EXPECT_EQ(resized(200, 1), ReplyCode::ok);
  EXPECT_EQ(resized(300, 2), ReplyCode::ok);
  EXPECT_EQ(resized(200, 1), ReplyCode::exists);
  EXPECT_EQ(outcomeOf(plugin->provision(device("a", {card(0, 300, kGiB)}))), ReplyCode::noChange);
  EXPECT_EQ(outcomeOf(plugin->provision(device("a", {card(0, 100, kGiB)}))), ReplyCode::exists);
}

TEST_F(MockTest, StaysInProgressForAsLongAsAsked) {
  const auto d = scripted("a", {{"inProgress", "2"}});
  EXPECT_EQ(outcomeOf(plugin->provision(d)), ReplyCode::inProgress);
  EXPECT_THAT(plugin->list().keys, ElementsAre("a")) << "what is under way must be found by list";
  EXPECT_EQ(outcomeOf(plugin->provision(d)), ReplyCode::inProgress);
  EXPECT_TRUE(plugin->provision(d).ok());
  EXPECT_EQ(outcomeOf(plugin->provision(d)), ReplyCode::noChange);
}

TEST_F(MockTest, FailsAsAskedAndLeavesNothing) {
  const std::pair<const char*, ReplyCode> rows[] = {
      {"reschedule", ReplyCode::reschedule},   {"exists", ReplyCode::exists},     {"invalid", ReplyCode::invalid},
      {"unavailable", ReplyCode::unavailable}, {"internal", ReplyCode::internal}, {"throw", ReplyCode::internal},
      {"garbage", ReplyCode::garbage}};
  for (const auto& [script, outcome] : rows) {
    EXPECT_EQ(outcomeOf(plugin->provision(scripted(script, {{"outcome", script}}))), outcome) << script;
    EXPECT_THAT(message, ::testing::Not(IsEmpty())) << script;
  }
  EXPECT_THAT(plugin->list().keys, IsEmpty());
}

TEST_F(MockTest, FailsOnlyAsOftenAsAsked) {
  const auto d = scripted("b", {{"outcome", "unavailable"}, {"times", "2"}});
  EXPECT_EQ(outcomeOf(plugin->provision(d)), ReplyCode::unavailable);
  EXPECT_EQ(outcomeOf(plugin->provision(d)), ReplyCode::unavailable);
  EXPECT_EQ(outcomeOf(plugin->provision(d)), ReplyCode::ok);
}

TEST_F(MockTest, VerbsWithoutParametersFollowTheKey) {
  const auto d = scripted("c", {{"at", "deprovision"}, {"outcome", "unavailable"}, {"times", "1"}});
  EXPECT_EQ(outcomeOf(plugin->provision(d)), ReplyCode::ok);
  EXPECT_EQ(outcomeOf(plugin->deprovision("c")), ReplyCode::unavailable);
  EXPECT_THAT(plugin->list().keys, ElementsAre("c"));
  EXPECT_EQ(outcomeOf(plugin->deprovision("c")), ReplyCode::ok);
  EXPECT_THAT(plugin->list().keys, IsEmpty());
  EXPECT_EQ(outcomeOf(plugin->stage(scripted("s", {{"at", "stage"}, {"outcome", "internal"}}))), ReplyCode::internal);
  EXPECT_EQ(outcomeOf(plugin->mount(scripted("m", {{"at", "mount"}, {"outcome", "unavailable"}}), "p", "c").reply),
            ReplyCode::unavailable);
}

/// Acts as a node's process: another process provisioned the device.
TEST_F(MockTest, OnANodeTheyFollowStage) {
  for (const char* at : {"unmount", "unstage"}) {
    const auto d = scripted("n", {{"at", at}, {"outcome", "unavailable"}, {"times", "1"}});
    const auto both = [&] {
      return std::pair(outcomeOf(plugin->unmount("n", "", "")), outcomeOf(plugin->unstage("n")));
    };
    ASSERT_EQ(outcomeOf(plugin->stage(d)), ReplyCode::ok);
    const bool first = std::string(at) == "unmount";
    EXPECT_EQ(outcomeOf(first ? plugin->unmount("n", "", "") : plugin->unstage("n")), ReplyCode::unavailable) << at;
    EXPECT_EQ(both(), std::pair(ReplyCode::ok, ReplyCode::ok)) << at;
    EXPECT_EQ(both(), std::pair(ReplyCode::ok, ReplyCode::ok)) << "forgotten, " << at;
  }
  EXPECT_THAT(plugin->list().keys, IsEmpty());
}

TEST_F(MockTest, MountAddsTheClassesVariables) {
  const auto reply = plugin->mount(scripted("d", {{"env", "A=1;B=x=y;ELASTICGPU_CARDS=mine"}}), "p", "c");
  ASSERT_TRUE(reply.reply.ok()) << reply.reply.message;
  EXPECT_EQ(env(reply.edits, "A"), "1");
  EXPECT_EQ(env(reply.edits, "B"), "x=y");
  EXPECT_EQ(env(reply.edits, "ELASTICGPU_CARDS"), "mine");
  EXPECT_EQ(env(reply.edits, "ELASTICGPU_DEVICE"), "egpu-d");
}

TEST_F(MockTest, ConflictsAreSeenWhileInProgressToo) {
  EXPECT_EQ(outcomeOf(plugin->provision(scripted("e", {{"inProgress", "5"}}))), ReplyCode::inProgress);
  EXPECT_EQ(outcomeOf(plugin->provision(scripted("e", {{"inProgress", "6"}}))), ReplyCode::exists);
}

}  // namespace
}  // namespace egpu::plugin::testing

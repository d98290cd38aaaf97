// A plugin whose failures have a different text each time (a request's id, a time): each text would cause a write, each
// write an event, each event another call.
#include <gtest/gtest.h>

#include "tests/reconcile/fixture.h"

namespace egpu::reconcile {
namespace {

constexpr const char* kName = "other.example";

/// Fails as configured, until it has been called too often.
class OtherWords final : public plugin::Provisioner {
 public:
  OtherWords() {
    description_.name = kName;
    description_.source = "gpuShare";
  }
  const plugin::Description& description() const override { return description_; }
  plugin::Reply validate(const core::StringMap&) override { return answer(validates); }
  plugin::Reply provision(const plugin::DeviceRequest&) override { return answer(provisions); }
  plugin::Reply deprovision(const std::string&) override { return answer(deprovisions); }
  plugin::ListReply list() override { return {}; }
  plugin::Reply stage(const plugin::DeviceRequest&) override { return {}; }
  plugin::MountReply mount(const plugin::DeviceRequest&, const std::string&, const std::string&) override { return {}; }
  plugin::Reply unmount(const std::string&, const std::string&, const std::string&) override { return {}; }
  plugin::Reply unstage(const std::string&) override { return {}; }

  plugin::ReplyCode validates{}, provisions{}, deprovisions{};
  int calls = 0;

 private:
  static constexpr int kEnough = 200;
  plugin::Reply answer(plugin::ReplyCode outcome) {
    if (outcome == plugin::ReplyCode::ok || ++calls > kEnough) return {};
    return {outcome, "request " + std::to_string(calls) + " failed"};
  }
  plugin::Description description_;
};

class OtherWordsTest : public ReconcileTest {
 protected:
  void SetUp() override {
    ReconcileTest::SetUp();
    world.registry.add(plugin);
  }
  void addClass() { world.addClass("other", "Delete", "Immediate", {}, kName); }
  OtherWords plugin;
};

TEST_F(OtherWordsTest, ProvisionIsNotAskedInALoop) {
  addClass();
  for (const auto outcome :
       {plugin::ReplyCode::internal, plugin::ReplyCode::unavailable, plugin::ReplyCode::inProgress}) {
    plugin.provisions = outcome;
    plugin.calls = 0;
    const auto name = "c" + std::to_string(static_cast<int>(outcome));
    world.addClaim(name, "other", {{"gpu-core", "10"}});
    settle();  // no time passes
    EXPECT_EQ(plugin.calls, 1);
    driver->run(std::chrono::seconds(10));
    EXPECT_GT(plugin.calls, 1);
    EXPECT_LT(plugin.calls, 25);  // progress is polled twice a second
    EXPECT_NE(world.message(name).find("request 1 failed"), std::string::npos) << world.message(name);
    plugin.provisions = {};
    driver->run();
    EXPECT_EQ(world.claim(name).status.phase, "Bound");
  }
}

TEST_F(OtherWordsTest, OutcomesThatAlternateAreNoLoopEither) {
  addClass();
  plugin.provisions = plugin::ReplyCode::internal;
  world.addClaim("a", "other", {{"gpu-core", "10"}});
  for (int i = 0; i < 20; ++i) {
    settle();
    plugin.provisions = i % 2 == 0 ? plugin::ReplyCode::unavailable : plugin::ReplyCode::internal;
  }
  EXPECT_EQ(plugin.calls, 1);
  plugin.provisions = {};
}

TEST_F(OtherWordsTest, ValidateIsNotAskedInALoop) {
  plugin.validates = plugin::ReplyCode::unavailable;
  addClass();
  settle();
  EXPECT_EQ(plugin.calls, 1);
  driver->run(std::chrono::seconds(10));
  EXPECT_GT(plugin.calls, 1);
  EXPECT_LT(plugin.calls, 10);
  plugin.validates = {};
  world.addClaim("a", "other", {{"gpu-core", "10"}});
  driver->run();
  EXPECT_EQ(world.claim("a").status.phase, "Bound");
}

TEST_F(OtherWordsTest, DeprovisionIsNotAskedInALoop) {
  addClass();
  world.addClaim("a", "other", {{"gpu-core", "10"}});
  settle();
  const auto device = deviceOf("a");
  plugin.deprovisions = plugin::ReplyCode::unavailable;
  world.removeClaim("a");
  settle();
  EXPECT_EQ(plugin.calls, 1);
  plugin.deprovisions = {};
  driver->run();
  EXPECT_FALSE(world.exists(device));
}

TEST_F(OtherWordsTest, APluginThatRecoversIsAskedAtOnce) {
  addClass();
  plugin.provisions = plugin::ReplyCode::unavailable;
  world.addClaim("a", "other", {{"gpu-core", "10"}});
  driver->run(std::chrono::minutes(1));  // the backoff is long by now
  plugin.provisions = {};
  world.registry.changed(kName);
  settle();
  EXPECT_EQ(world.claim("a").status.phase, "Bound");
}

}  // namespace
}  // namespace egpu::reconcile

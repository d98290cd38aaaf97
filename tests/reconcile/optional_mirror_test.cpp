// API servers without DeviceTaintRules or PodGroups, or without permission to read them, and servers that get them
// later.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <string>

#include "controller/cache/optional_informer.h"
#include "tests/support/forwarding_transport.h"
#include "tests/support/world.h"

namespace egpu::cache {
namespace {

/// An API server that serves one version of the kind, or none.
class Versions final : public support::ForwardingTransport {
 public:
  using ForwardingTransport::ForwardingTransport;
  std::atomic<int> code{404};             ///< the answer for versions that are not served
  std::atomic<const char*> version = "";  ///< the served version
  std::atomic<int> asked{0};

  base::Result<kube::HttpResponse> perform(const kube::HttpRequest& request, std::stop_token stop) override {
    ++asked;
    auto there = request;
    return is(there) ? ForwardingTransport::perform(there, std::move(stop)) : no();
  }
  base::Result<kube::HttpResponse> stream(const kube::HttpRequest& request,
                                          const std::function<bool(std::string_view)>& data,
                                          std::stop_token stop) override {
    auto there = request;
    return is(there) ? ForwardingTransport::stream(there, data, std::move(stop)) : no();
  }

 private:
  /// The embedded server has one version; its name is replaced here.
  bool is(kube::HttpRequest& request) const {
    if (std::string_view(version.load()).empty()) return false;
    for (const auto& kind : {core::kindOf<core::DeviceTaintRule>, core::kindOf<core::PodGroup>}) {
      const auto start = kube::Client::path(kube::Client::inVersion(kind, version.load()), {});
      if (request.target.rfind(start, 0) != 0) continue;
      request.target = kube::Client::path(kind, {}) + request.target.substr(start.size());
      return true;
    }
    return false;
  }
  base::Result<kube::HttpResponse> no() const {
    kube::HttpResponse answer;
    answer.status = code;
    answer.body = "404 page not found";
    return answer;
  }
};

class OptionalMirrorTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (world.real) GTEST_SKIP();
    core::DeviceTaintRule rule;
    rule.metadata.name = "repair";
    rule.selects = true;
    rule.taint = {"k", "v", "NoExecute"};
    world.must(world.client.create(rule));
  }
  bool sees(bool rule) {
    base::SystemClock real;
    const auto deadline = real.now() + std::chrono::seconds(60);
    while ((store.size() > 0) != rule) {
      if (real.now() > deadline) return false;
      clock.advance(std::chrono::minutes(1));
      real.sleepFor(std::chrono::milliseconds(2), {});
    }
    return true;
  }

  support::World world;
  base::ManualClock clock;
  Versions line{*world.transport};
  kube::Client client{line, clock, world.random, world.metrics, support::Driver::options()};
  Store<core::DeviceTaintRule> store;
  OptionalMirror<core::DeviceTaintRule> mirror{client, store};
};

TEST_F(OptionalMirrorTest, EachVersionIsFollowed) {
  for (const char* version : {"v1", "v1beta2"}) {
    line.version = version;
    Store<core::DeviceTaintRule> rules;
    OptionalMirror<core::DeviceTaintRule> one(client, rules);
    one.start();
    ASSERT_TRUE(one.waitForSync({}));
    EXPECT_EQ(rules.size(), 1U) << version;
    EXPECT_EQ(rules.get({"", "repair"})->taint.effect, "NoExecute");
  }
}

TEST_F(OptionalMirrorTest, PodGroupsAreFoundInEachVersionAndItIsReportedWhetherThereAreAny) {
  core::PodGroup group;
  group.metadata.name = "train";
  group.metadata.namespace_ = "default";
  group.minCount = 3;
  world.addNamespace("default");
  world.must(world.client.create(group));
  for (const char* version : {"v1beta1", "v1alpha3", "v1alpha2", "v1alpha1"}) {
    line.version = version;
    Store<core::PodGroup> groups;
    std::atomic<int> served{-1};
    OptionalMirrorOptions options;
    options.served = [&](bool is) { served = is ? 1 : 0; };
    OptionalMirror<core::PodGroup> one(client, groups, std::move(options));
    one.start();
    ASSERT_TRUE(one.waitForSync({}));
    const bool known = std::string(version) != "v1alpha1";
    EXPECT_EQ(served, known ? 1 : 0) << version;
    EXPECT_EQ(groups.size(), known ? 1U : 0U) << version;
    if (!known) continue;
    EXPECT_EQ(groups.get({"default", "train"})->minCount, 3);
  }
}

TEST_F(OptionalMirrorTest, WithoutTheKindNobodyWaitsAndItIsQueriedSeldom) {
  mirror.start();
  ASSERT_TRUE(mirror.waitForSync({}));
  EXPECT_EQ(store.size(), 0U);
  EXPECT_EQ(line.asked, 2) << "once for each version, and no more while the clock stands";
  line.version = "v1beta2";
  EXPECT_TRUE(sees(true));
}

TEST_F(OptionalMirrorTest, WithoutTheRightNobodyWaits) {
  line.code = 403;
  mirror.start();
  ASSERT_TRUE(mirror.waitForSync({}));
  EXPECT_EQ(store.size(), 0U);
  line.version = "v1";
  EXPECT_TRUE(sees(true));
}

TEST_F(OptionalMirrorTest, AKindThatIsSwitchedOffTakesItsRulesAlong) {
  line.version = "v1";
  mirror.start();
  ASSERT_TRUE(mirror.waitForSync({}));
  ASSERT_EQ(store.size(), 1U);
  line.version = "";
  EXPECT_TRUE(sees(false));
  line.version = "v1";
  EXPECT_TRUE(sees(true)) << "the same object again";
}

TEST_F(OptionalMirrorTest, AServerWithoutAnAnswerIsAskedAgainBeforeAnybodyDecides) {
  line.code = 500;
  mirror.start();
  std::stop_source soon;
  std::jthread waits([&] { EXPECT_FALSE(mirror.waitForSync(soon.get_token())); });
  while (line.asked == 0) std::this_thread::yield();
  soon.request_stop();
  waits.join();
  line.version = "v1";
  EXPECT_TRUE(sees(true));
}

}  // namespace
}  // namespace egpu::cache

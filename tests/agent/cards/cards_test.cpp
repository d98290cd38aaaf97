// The publishing loop: when it queries plugins, when it writes, and how it handles unavailable plugins or API servers.
#include "controller/agent/cards/cards.h"

#include <atomic>
#include <condition_variable>
#include <thread>

#include "tests/agent/cards/fixture.h"
#include "tests/support/fake_plugins.h"

namespace egpu::agent::cards {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

class Vendor final : public plugin::Provisioner {
 public:
  explicit Vendor(std::string name) { description_.name = std::move(name); }
  const plugin::Description& description() const override { return description_; }
  plugin::Reply validate(const core::StringMap&) override { return {}; }
  plugin::Reply provision(const plugin::DeviceRequest&) override { return {}; }
  plugin::Reply deprovision(const std::string&) override { return {}; }
  plugin::ListReply list() override { return {}; }
  plugin::Reply stage(const plugin::DeviceRequest&) override { return {}; }
  plugin::MountReply mount(const plugin::DeviceRequest&, const std::string&, const std::string&) override { return {}; }
  plugin::Reply unmount(const std::string&, const std::string&, const std::string&) override { return {}; }
  plugin::Reply unstage(const std::string&) override { return {}; }
  plugin::DiscoverReply discover() override {
    std::unique_lock lock(mutex_);
    ++asked_;
    released_.wait(lock, [&] { return !hangs_; });
    return answer_.cards;
  }
  plugin::HealthReply health() override {
    std::lock_guard lock(mutex_);
    auto health = answer_.health;
    if (next_) {
      answer_ = *std::exchange(next_, std::nullopt);
      hangs_ = true;
    }
    return health;
  }
  void setAnswer(PluginReport answer) {
    std::lock_guard lock(mutex_);
    answer_ = std::move(answer);
  }
  /// Blocks after the first answer until the test releases it.
  void setAnswers(PluginReport answer, PluginReport next) {
    std::lock_guard lock(mutex_);
    answer_ = std::move(answer);
    next_ = std::move(next);
  }
  void hang(bool hangs) {
    std::lock_guard lock(mutex_);
    hangs_ = hangs;
    released_.notify_all();
  }
  int asked() const {
    std::lock_guard lock(mutex_);
    return asked_;
  }

 private:
  plugin::Description description_;
  mutable std::mutex mutex_;
  std::condition_variable released_;
  PluginReport answer_;
  std::optional<PluginReport> next_;  ///< answers from the next health call on
  bool hangs_ = false;
  int asked_ = 0;
};

class CardsTest : public ApiTest {
 protected:
  void start() {
    CardsOptions options;
    options.publisher.node = "n1";
    options.interval = seconds(15);
    options.publisher.given = given;
    options.publisher.hasClaim = [](const std::string&, const std::string&) { return false; };
    cards = std::make_unique<Cards>(*client, registry, events, clock, random, options);
    cards->start();
  }
  /// Waits until the condition holds. The agent's clock stands still unless `step` advances it.
  template <class F>
  void eventually(F so, milliseconds step = milliseconds(0)) {
    const auto until = std::chrono::steady_clock::now() + seconds(60);
    while (!so()) {
      ASSERT_LT(std::chrono::steady_clock::now(), until);
      std::this_thread::sleep_for(milliseconds(2));
      if (step.count() > 0) clock.advance(step);
    }
  }

  support::FakeRegistry registry;
  decltype(PublisherOptions::given) given;
  Vendor vendor{"vendor.example.com"}, other{"other.example.com"};
  std::unique_ptr<Cards> cards;
};

TEST_F(CardsTest, AllIsPublishedAtOnceAndThenByTheClock) {
  vendor.setAnswer(answer({gpu("GPU-A"), gpu("GPU-B")}));
  registry.add(vendor);
  start();
  eventually([&] { return card("gpu-a") && card("gpu-b") && cards->published(); });
  vendor.setAnswer(answer({gpu("GPU-A"), gpu("GPU-B"), gpu("GPU-C")}));
  eventually([&] { return card("gpu-c").has_value(); }, seconds(1));
  EXPECT_LE(vendor.asked(), 4);
}

TEST_F(CardsTest, AWakeAndAPluginThatComesAreNotWaitedFor) {
  registry.add(vendor);
  start();
  eventually([&] { return cards->published(); });
  vendor.setAnswer(answer({gpu("GPU-A")}));
  cards->wake();
  eventually([&] { return card("gpu-a").has_value(); });
  other.setAnswer(answer({gpu("NPU-A")}));
  registry.add(other);
  eventually([&] { return card("npu-a").has_value(); });
}

TEST_F(CardsTest, WhatAnAdministratorDeletesIsThereAgainAtOnce) {
  vendor.setAnswer(answer({gpu("GPU-A")}));
  registry.add(vendor);
  start();
  eventually([&] { return healthy("gpu-a").status == "True"; });
  const auto before = card("gpu-a")->metadata.uid;
  change("gpu-a", R"({"metadata":{"finalizers":null}})");
  ASSERT_TRUE(admin->remove<Gpu>({"", "gpu-a"}).ok());
  eventually([&] { return card("gpu-a") && card("gpu-a")->metadata.uid != before; });
}

/// Without this limit each write would cause a query, and each query a write.
TEST_F(CardsTest, ACardOfWhichEachReadingIsNewIsWrittenByTheClock) {
  std::atomic<int> readings{0};
  given = [&](const std::stop_token&) {
    return std::vector<health::Given>{{"team/" + std::to_string(++readings), "main", "nvidia.com/gpu", "", {"GPU-A"}}};
  };
  vendor.setAnswer(answer({gpu("GPU-A")}));
  registry.add(vendor);
  start();
  eventually([&] { return healthy("gpu-a").reason == "ForeignUse" && cards->published(); });
  std::this_thread::sleep_for(milliseconds(500));
  EXPECT_LT(readings, 20);
  const int before = readings;
  eventually([&] { return readings > before; }, seconds(1));
}

TEST_F(CardsTest, APluginThatHangsBlocksNoOther) {
  other.hang(true);
  vendor.setAnswer(answer({gpu("GPU-A")}));
  registry.add(other);
  registry.add(vendor);
  start();
  eventually([&] { return card("gpu-a").has_value(); }, milliseconds(100));
  EXPECT_FALSE(cards->published()) << "one is still to answer";
  other.setAnswer(answer({gpu("NPU-A")}));
  other.hang(false);
  eventually([&] { return card("npu-a") && cards->published(); });
}

TEST_F(CardsTest, OnlyThePluginThatFoundACardCanReportThatItIsGone) {
  vendor.setAnswer(answer({gpu("GPU-A"), gpu("GPU-B")}));
  other.setAnswer(answer({}));
  registry.add(vendor);
  registry.add(other);
  start();
  eventually([&] { return cards->published() && cards->store().size() == 2; });
  EXPECT_EQ(cards->whyGone("gpu-a"), "");
  EXPECT_EQ(cards->whyGone("gpu-x"), "") << "nobody ever found it";
  EXPECT_EQ(cards->memoryOf("gpu-a"), 80 * kGiB);
  vendor.setAnswer(answer({gpu("GPU-B")}));
  cards->wake();
  eventually([&] { return cards->whyGone("gpu-a").ends_with("the plugin that discovered it no longer reports it"); });
  EXPECT_EQ(cards->whyGone("gpu-b"), "");
  EXPECT_EQ(cards->memoryOf("gpu-a"), std::nullopt);
  vendor.setAnswer(answer({gpu("GPU-B")}, {{"GPU-A", false, "Lost: it has fallen off the bus; reboot"}}));
  cards->wake();
  eventually([&] { return cards->whyGone("gpu-a") == "does not work: Lost: it has fallen off the bus; reboot"; });
  vendor.setAnswer(failure());
  cards->wake();
  eventually([&] { return cards->whyGone("gpu-a").empty(); });
}

/// Both plugins found the card, but the second one may not have run when the error occurred.
TEST_F(CardsTest, NoOtherPluginReportsThatAnErrorIsOver) {
  other.setAnswer(answer({gpu("GPU-A")}, {{"GPU-A", false, "Xid46: it stopped processing"}}));
  vendor.setAnswer(answer({gpu("GPU-A")}));
  registry.add(other);
  registry.add(vendor);
  start();
  eventually([&] { return healthy("gpu-a").reason == "Xid46" && cards->published(); });
  other.setAnswer(failure());
  vendor.setAnswer(answer({gpu("GPU-A"), gpu("GPU-B")}));
  cards->wake();
  eventually([&] { return healthy("gpu-b").status == "True"; });
  EXPECT_EQ(healthy("gpu-a").reason, "Xid46");
}

TEST_F(CardsTest, AnErrorThatIsReportedWhileThePluginStartsAnewIsNotOverByItsNextWord) {
  vendor.setAnswers(answer({gpu("GPU-A")}, {{"GPU-A", false, "Xid46: it stopped processing"}}),
                    answer({gpu("GPU-A"), gpu("GPU-B")}));
  vendor.hang(true);
  registry.add(vendor);
  start();
  eventually([&] { return vendor.asked() > 0; });
  registry.changed("vendor.example.com");
  vendor.hang(false);
  eventually([&] { return healthy("gpu-a").reason == "Xid46"; });
  vendor.hang(false);
  eventually([&] { return healthy("gpu-b").status == "True"; });
  EXPECT_EQ(healthy("gpu-a").reason, "Xid46");
}

TEST_F(CardsTest, ACardThatIsRefusedSlowsNoOtherDown) {
  transport->refuses = [](const kube::HttpRequest& r) {
    return r.method == kube::Method::post && r.body.find("GPU-A") != std::string::npos;
  };
  vendor.setAnswer(answer({gpu("GPU-A"), gpu("GPU-B")}));
  registry.add(vendor);
  start();
  eventually([&] { return healthy("gpu-b").status == "True" && cards->published(); });
  vendor.setAnswer(answer({gpu("GPU-A"), gpu("GPU-B")}, {{"GPU-B", false, "Xid79: it fell off"}}));
  cards->wake();
  eventually([&] { return healthy("gpu-b").reason == "Xid79"; });  // although the clock stands still
}

TEST_F(CardsTest, AServerThatIsAwayIsTriedAgain) {
  std::atomic<bool> away{true};
  transport->code = 503;
  transport->refuses = [&](const kube::HttpRequest& r) { return away && r.method != kube::Method::get; };
  vendor.setAnswer(answer({gpu("GPU-A")}));
  registry.add(vendor);
  start();
  eventually([&] { return vendor.asked() > 3; }, seconds(1));
  EXPECT_FALSE(card("gpu-a"));
  EXPECT_FALSE(cards->published());
  away = false;
  eventually([&] { return card("gpu-a") && cards->published(); }, seconds(1));
}

}  // namespace
}  // namespace egpu::agent::cards

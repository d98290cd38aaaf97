// Errors that only an event reports: how long the card stays withdrawn, and which actions of an operator end that.
#include <unistd.h>

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "tests/agent/cards/publisher_fixture.h"

namespace egpu::agent::cards {
namespace {

using std::chrono::minutes;
using ::testing::Contains;
using ::testing::HasSubstr;

/// The plugin forgets its XIDs when its process ends; that does not make the card healthy.
class RepairTest : public PublisherTest {
 protected:
  static Answers ill(uint64_t process = 1, const std::string& message = "Xid46: it stopped processing; reset it") {
    auto report = answer({gpu("GPU-A")}, {{"GPU-A", false, message}});
    report.process = process;
    return {{"physical", report}};
  }
  static Answers well(uint64_t process = 1, const std::string& driver = "535.104.05") {
    auto card = gpu("GPU-A");
    card.attributes["driverVersion"] = driver;
    auto report = answer({card});
    report.process = process;
    return {{"physical", report}};
  }
  const core::Condition* needs() {
    last = card("gpu-a");
    for (const auto& condition : last->status.conditions)
      if (condition.type == "NeedsRepair") return &condition;
    return nullptr;
  }
  void setRepaired(const std::string& word) {
    change("gpu-a", R"({"metadata":{"annotations":{"elasticgpu.io/repaired":")" + word + "\"}}}");
  }
  /// Starts another agent, on this boot of the machine.
  void another(const std::string& boot = "boot-1") {
    options.boot = boot;
    agent = std::make_unique<Publisher>(*client, store, events, clock, options);
  }
  uint64_t writes(const Answers& answers) {
    watch();
    const auto before = server->resourceVersion();
    EXPECT_TRUE(agent->publish(answers, {}).ok());
    watch();
    return server->resourceVersion() - before;
  }
  RepairTest() { another(); }

  std::unique_ptr<Publisher> agent;
  std::optional<Gpu> last;
};

TEST_F(RepairTest, AnXidOutlivesTheProcessThatSawIt) {
  writes(ill());
  ASSERT_NE(needs(), nullptr);
  EXPECT_EQ(needs()->reason, "Xid46");
  EXPECT_EQ(needs()->message, "it stopped processing; reset it (of boot boot-1, driver 535.104.05)");
  clock.advance(minutes(60));
  EXPECT_EQ(writes(well(2)), 0u) << "another process of the plugin knows nothing";
  another();
  clock.advance(minutes(60));
  EXPECT_EQ(writes(well(3)), 0u) << "nor does another agent";
  EXPECT_EQ(healthy("gpu-a").reason, "Xid46");
  EXPECT_EQ(healthy("gpu-a").message, "it stopped processing; reset it");
}

/// Two plugins find the card. After a reset one plugin's answer arrives late, and meanwhile the other one reports the
/// card.
TEST_F(RepairTest, EachProcessThatReportedItMayEndIt) {
  writes(ill(1));
  writes(ill(2));
  ASSERT_NE(needs(), nullptr);
  writes(well(3));
  ASSERT_NE(needs(), nullptr);
  writes(well(1));
  EXPECT_EQ(needs(), nullptr);
  EXPECT_EQ(healthy("gpu-a").reason, "Probation");
  writes(ill(2));
  EXPECT_EQ(writes(well(1)), 0u) << "of the next error it has reported nothing";
  EXPECT_EQ(healthy("gpu-a").reason, "Xid46");
}

TEST_F(RepairTest, ARebootOrAnotherDriverEndsIt) {
  writes(ill());
  another("boot-2");
  EXPECT_EQ(writes(well()), 1u);
  EXPECT_EQ(needs(), nullptr);
  EXPECT_EQ(healthy("gpu-a").reason, "Probation");
  clock.advance(minutes(5));
  writes(well());
  EXPECT_EQ(healthy("gpu-a").status, "True");
  writes(ill());
  another("boot-2");
  writes(well(1, "550.54.14"));
  EXPECT_EQ(needs(), nullptr);
  EXPECT_EQ(healthy("gpu-a").reason, "Probation");
}

TEST_F(RepairTest, TheProcessThatSawItMayReportThatItIsOver) {
  writes(ill());
  writes(well());
  EXPECT_EQ(needs(), nullptr);
  EXPECT_EQ(healthy("gpu-a").reason, "Probation");
}

TEST_F(RepairTest, AnOperatorsWordIsTakenOnceAndTheCardIsProbed) {
  writes(ill());
  another();
  writes(well(2));
  setRepaired("Xid79");
  EXPECT_EQ(writes(well(2)), 1u) << "it is only taken off";
  EXPECT_EQ(healthy("gpu-a").reason, "Xid46") << "of another illness";
  EXPECT_THAT(events.taken(), Contains(HasSubstr("NotRepaired: annotation elasticgpu.io/repaired=Xid79")));
  setRepaired("Xid46");
  EXPECT_EQ(writes(well(2)), 2u);
  EXPECT_EQ(healthy("gpu-a").reason, "Probation");
  EXPECT_EQ(card("gpu-a")->metadata.annotation("elasticgpu.io/repaired"), "");
  clock.advance(minutes(5));
  writes(well(2));
  EXPECT_EQ(healthy("gpu-a").status, "True");
  EXPECT_EQ(needs(), nullptr);
}

TEST_F(RepairTest, TheWordEndsWhatThePluginStillReportsAndNotTheNextError) {
  writes(ill());
  setRepaired("Xid46");
  writes(ill());
  EXPECT_EQ(healthy("gpu-a").reason, "Probation");
  EXPECT_EQ(writes(ill()), 0u);
  clock.advance(minutes(5));
  writes(ill());
  EXPECT_EQ(healthy("gpu-a").status, "True");
  writes(ill(1, "Xid46: it stopped processing; reset it; errors so far: 2"));
  EXPECT_EQ(healthy("gpu-a").reason, "Xid46");
  EXPECT_NE(needs(), nullptr);
}

TEST_F(RepairTest, AnotherIllnessInBetweenDoesNotHideIt) {
  writes(ill());
  another();
  writes(ill(2, "NvlinkDown: 2 of its NVLinks are down"));
  EXPECT_EQ(healthy("gpu-a").reason, "NvlinkDown");
  writes(well(2));
  EXPECT_EQ(healthy("gpu-a").reason, "Xid46");
}

TEST_F(RepairTest, TheSameErrorOfAnotherProcessIsAnother) {
  writes(ill());
  setRepaired("Xid46");
  writes(ill());
  clock.advance(minutes(5));
  writes(ill());
  ASSERT_EQ(healthy("gpu-a").status, "True");
  writes(ill(2));
  EXPECT_EQ(healthy("gpu-a").reason, "Xid46") << "that process has not seen the one that the operator meant";
  EXPECT_NE(needs(), nullptr);
}

TEST_F(RepairTest, TheSameErrorAfterAResetIsAnother) {
  writes(ill());
  setRepaired("Xid46");
  writes(ill());
  writes(well());
  writes(ill());
  EXPECT_EQ(healthy("gpu-a").reason, "Xid46");
  EXPECT_NE(needs(), nullptr);
}

/// The plugin reports the error as long as its process lives.
TEST_F(RepairTest, AnErrorThatIsDeclaredOverHidesNothingElse) {
  options.hasClaim = [](const std::string&, const std::string&) { return false; };
  another();
  writes(ill());
  setRepaired("Xid46");
  writes(ill());
  clock.advance(minutes(5));
  auto used = ill();
  used.at("physical").health.processes = {{"GPU-A", getpid(), 1}};
  writes(used);
  EXPECT_EQ(healthy("gpu-a").reason, "ForeignUse");
  auto mig = ill();
  mig.at("physical").cards.gpus.at(0).attributes["migMode"] = "enabled";
  writes(mig);
  EXPECT_EQ(healthy("gpu-a").reason, "MigMode");
  auto down = ill();
  down.at("physical").health.cards.push_back({"GPU-A", false, "NvlinkDown: 2 of its NVLinks are down"});
  writes(down);
  EXPECT_EQ(healthy("gpu-a").reason, "NvlinkDown");
}

TEST_F(RepairTest, AnErrorThatIsReportedBesideAnotherIllnessIsRemembered) {
  auto both = ill();
  both.at("physical")
      .health.cards.insert(both.at("physical").health.cards.begin(),
                           {"GPU-A", false, "ComputeProhibited: no program computes on it"});
  writes(both);
  ASSERT_NE(needs(), nullptr);
  EXPECT_EQ(needs()->reason, "Xid46");
  another();
  writes(ill(2, "ComputeProhibited: no program computes on it"));
  EXPECT_EQ(healthy("gpu-a").reason, "ComputeProhibited");
  writes(well(2));
  EXPECT_EQ(healthy("gpu-a").reason, "Xid46");
}

TEST_F(RepairTest, AWordIsForTheErrorThatTheConditionShowed) {
  writes(ill());
  setRepaired("Xid46");
  (void)events.taken();
  writes(ill(1, "Xid46: it stopped processing; reset it; errors so far: 2"));
  EXPECT_EQ(healthy("gpu-a").reason, "Xid46") << "the operator has not seen the second one";
  EXPECT_THAT(events.taken(), Contains(HasSubstr("NotRepaired: annotation elasticgpu.io/repaired=Xid46 has no "
                                                 "effect: the card has had another error since then")));
  EXPECT_EQ(card("gpu-a")->metadata.annotation("elasticgpu.io/repaired"), "");
}

TEST_F(RepairTest, AWordThatIsWrittenMeanwhileIsHeardAtTheNextReading) {
  writes(ill());
  another();
  writes(well(2));
  setRepaired("Xid79");
  watch();
  bool written = false;
  transport->refuses = [&](const kube::HttpRequest& r) {
    if (r.method == kube::Method::patch && !std::exchange(written, true)) setRepaired("Xid46");
    return false;
  };
  (void)agent->publish(well(2), {});
  ASSERT_TRUE(written);
  EXPECT_EQ(card("gpu-a")->metadata.annotation("elasticgpu.io/repaired"), "Xid46");
  writes(well(2));
  EXPECT_EQ(healthy("gpu-a").reason, "Probation");
}

}  // namespace
}  // namespace egpu::agent::cards

#include "controller/agent/health/health.h"

#include <gtest/gtest.h>

#include "controller/base/timestamp.h"

namespace egpu::agent::health {
namespace {

using core::Condition;
using std::chrono::minutes;
using std::chrono::seconds;

constexpr std::chrono::milliseconds kQuiet = minutes(5);
const base::Clock::Wall kStart{seconds(1'700'000'000)};

std::string at(base::Clock::Wall wall) { return base::rfc3339(wall); }

class HealthTest : public ::testing::Test {
 protected:
  const Condition& judged(const Finding& finding) {
    conditions = judge(conditions, finding, now, kQuiet);
    return *healthyOf(conditions);
  }
  const Finding ill{false, "Xid79", "it has fallen off the bus"}, well{};
  base::Clock::Wall now = kStart;
  std::vector<Condition> conditions{{"Other", "True", "Kept", "", at(kStart), 0}};
};

TEST_F(HealthTest, ACardThatIsWellReportsItOnce) {
  EXPECT_EQ(judged(well), (Condition{"Healthy", "True", "Working", "", at(kStart), 0}));
  now += minutes(1);
  EXPECT_EQ(judged(well).lastTransitionTime, at(kStart));
  EXPECT_EQ(conditions.at(0).reason, "Kept");
}

TEST_F(HealthTest, AnIllCardComesBackAfterQuietMinutes) {
  EXPECT_EQ(judged(ill), (Condition{"Healthy", "False", "Xid79", "it has fallen off the bus", at(kStart), 0}));
  now += minutes(1);
  EXPECT_EQ(judged({false, "EccError", "2 errors"}).lastTransitionTime, at(kStart)) << "it was not well in between";
  const auto quietFrom = now += minutes(1);
  EXPECT_EQ(judged(well).status, "False");
  EXPECT_EQ(judged(well).reason, "Probation");
  EXPECT_NE(judged(well).message.find("EccError"), std::string::npos);
  EXPECT_NE(judged(well).message.find("5 quiet minutes"), std::string::npos);
  now = quietFrom + kQuiet - seconds(1);
  EXPECT_EQ(judged(well).status, "False");
  now = quietFrom + kQuiet;
  EXPECT_EQ(judged(well), (Condition{"Healthy", "True", "Working", "", at(now), 0}));
}

TEST_F(HealthTest, AProbationThatIsNoWholeMinutesIsReportedInSeconds) {
  const auto message = [&](std::chrono::milliseconds quiet) {
    return judge(judge({}, ill, now, quiet), well, now, quiet).at(0).message;
  };
  EXPECT_EQ(message(seconds(90)),
            "It was taken out of use for Xid79; it answers, and is used again after 90 quiet seconds");
  EXPECT_EQ(message(minutes(2)),
            "It was taken out of use for Xid79; it answers, and is used again after 2 quiet minutes");
}

TEST_F(HealthTest, OneThatFailsOnProbationBeginsAnew) {
  judged(ill);
  judged(well);
  now += minutes(4);
  EXPECT_EQ(judged(ill).reason, "Xid79");
  EXPECT_EQ(judged(ill).lastTransitionTime, at(now));
  now += minutes(4);
  judged(well);
  now += minutes(4);
  EXPECT_EQ(judged(well).reason, "Probation") << "quiet for four minutes only";
}

TEST_F(HealthTest, OfACardThatIsGoneTheTimeBeginsAnew) {
  const Finding gone{false, std::string(kCardGone), "its plugin no longer finds it"};
  judged(ill);
  const auto went = now += minutes(60);
  EXPECT_EQ(judged(gone).lastTransitionTime, at(went)) << "it was ill before";
  now += minutes(1);
  EXPECT_EQ(judged(gone).lastTransitionTime, at(went));
}

/// A start time in the future (the clock was set back) or unreadable: the card never becomes healthy at once.
TEST_F(HealthTest, AProbationWhoseTimeCannotBeIsBegunAnew) {
  for (const std::string& since : {std::string("soon"), std::string(), at(kStart + minutes(60))}) {
    conditions = {{"Healthy", "False", "Probation", "It was taken out of use for Xid79", since, 0}};
    EXPECT_EQ(judged(well),
              (Condition{"Healthy", "False", "Probation", "It was taken out of use for Xid79", at(now), 0}));
  }
}

TEST(IllnessTest, HasItsReasonAtItsHead) {
  const auto reason = [](const char* message) { return illness(message).reason; };
  EXPECT_EQ(reason("Xid79: it has fallen off the bus"), "Xid79");
  EXPECT_EQ(illness("Xid79: it has fallen: off").message, "it has fallen: off");
  for (const char* none : {"it fell off the bus", "", ": x", "lower: x", "Two words: x", "A-B: x", "Xid79", "Xid79:x",
                           "Ü: x", "AaaaaaaaaaAaaaaaaaaaAaaaaaaaaaAaaaaaaaaaAaaaaaaaaaAaaaaaaaaaAaaaaa: x"}) {
    EXPECT_EQ(reason(none), "Unhealthy") << none;
    EXPECT_EQ(illness(none).message, none);
  }
  EXPECT_FALSE(illness("").healthy);
}

TEST(IllnessTest, IsFitForACondition) {
  EXPECT_EQ(illness("Bad: \x1b[31mred\n").message, "\\x1b[31mred\\x0a");
  EXPECT_LE(illness(std::string(1 << 20, 'x')).message.size(), 1024u);
}

}  // namespace
}  // namespace egpu::agent::health

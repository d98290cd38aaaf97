#include "controller/cmd/controller_flags.h"

#include <gtest/gtest.h>

#include <chrono>
#include <string>

namespace egpu::cmd {
namespace {

/// Parses one flag. Returns the error message, or an empty string.
std::string parse(CoreOptions& options, const std::string& flag) {
  CLI::App app;
  addController(app, options);
  try {
    app.parse(flag);
  } catch (const CLI::ParseError& error) {
    return error.what();
  }
  return {};
}

TEST(ControllerFlags, ReservationTimesAreThoseOfTheLimitsUnlessSet) {
  CoreOptions options;
  EXPECT_EQ(options.reservationAfter, std::chrono::seconds(scheduler::ReservationLimits{}.after));
  EXPECT_EQ(options.reservationTtl, std::chrono::seconds(scheduler::ReservationLimits{}.ttl));
  EXPECT_EQ(parse(options, "--reservation-after=2m"), "");
  EXPECT_EQ(parse(options, "--reservation-ttl=20m"), "");
  EXPECT_EQ(options.reservationAfter, std::chrono::minutes(2));
  EXPECT_EQ(options.reservationTtl, std::chrono::minutes(20));
}

TEST(ControllerFlags, TooShortDurationsAreRefusedWithTheMinimum) {
  CoreOptions options;
  EXPECT_NE(parse(options, "--gang-timeout=999ms").find("the duration is at least 1s"), std::string::npos);
  EXPECT_NE(parse(options, "--reservation-ttl=4m").find("the duration is at least 5m"), std::string::npos);
}

}  // namespace
}  // namespace egpu::cmd

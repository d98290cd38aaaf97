#include "controller/base/timestamp.h"

#include <gtest/gtest.h>

#include "controller/base/clock.h"

namespace egpu::base {
namespace {

using namespace std::chrono_literals;

TEST(ParseRfc3339, readsWhatIsWrittenAndWhatOthersWrite) {
  const Clock::Wall t(std::chrono::seconds(1767323045));
  EXPECT_EQ(parseRfc3339(rfc3339(t)), t);
  EXPECT_EQ(parseRfc3339(rfc3339Micro(t + 42us)), t + 42us);
  EXPECT_EQ(parseRfc3339("2026-01-02t03:04:05.5z"), t + 500ms);
  EXPECT_EQ(parseRfc3339("2026-01-02T03:04:05.123456789Z"), t + 123456us);
  EXPECT_EQ(parseRfc3339("2026-01-02T04:34:05+01:30"), t);
  EXPECT_EQ(parseRfc3339("2026-01-01T22:04:05-05:00"), t);
  EXPECT_EQ(parseRfc3339("2024-02-29T00:00:00Z"), Timestamp(1709164800s));
  EXPECT_EQ(parseRfc3339("1970-01-01T00:00:00Z"), Timestamp());
  EXPECT_EQ(parseRfc3339("9999-12-31T23:59:60Z"), Timestamp(253402300800s));
  EXPECT_EQ(parseRfc3339("0000-01-01T00:00:00Z"), Timestamp(-62167219200s));
}

TEST(ParseRfc3339, refusesEverythingElse) {
  for (const char* text :
       {"", "2026", "2026-01-02", "2026-01-02T03:04:05", "2026-01-02 03:04:05Z", "2026-13-02T03:04:05Z",
        "2026-02-30T00:00:00Z", "yesterday", "2025-02-29T00:00:00Z", "2026-01-02T24:04:05Z", "2026-01-02T03:60:05Z",
        "2026-01-02T03:04:05.Z", "2026-01-02T03:04:05Zx", "2026-01-02T03:04:05+0100", "2026-01-02T03:04:05+24:00",
        "-026-01-02T03:04:05Z"})
    EXPECT_FALSE(parseRfc3339(text)) << text;
}

}  // namespace
}  // namespace egpu::base

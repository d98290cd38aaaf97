#include "controller/base/log.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <regex>

namespace egpu::base::log {
namespace {

/// Returns the output of one call to standard error.
template <class Fn>
std::string written(Level level, bool json, Fn&& fn) {
  configure(level, json);
  ::testing::internal::CaptureStderr();
  fn();
  const std::string out = ::testing::internal::GetCapturedStderr();
  configure(Level::info, false);
  return out;
}

constexpr const char* kTime = "[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\\.[0-9]{3}Z";

TEST(Log, logfmt) {
  const std::string line = written(Level::info, false, [] { info("claim bound", {{"claim", "ns/a"}, {"core", 100}}); });
  EXPECT_TRUE(std::regex_match(
      line, std::regex(std::string("time=") + kTime + " level=info msg=\"claim bound\" claim=ns/a core=100\n")))
      << line;
}

TEST(Log, oneJsonObjectALine) {
  const std::string line = written(Level::info, true, [] { warn("no fit", {{"claim", "ns/a"}, {"nodes", 3}}); });
  EXPECT_TRUE(std::regex_match(
      line, std::regex(std::string("\\{\"time\":\"") + kTime +
                       "\",\"level\":\"warn\",\"msg\":\"no fit\",\"claim\":\"ns/a\",\"nodes\":\"3\"\\}\n")))
      << line;
}

TEST(Log, valuesCanNotForgeALine) {
  for (const bool json : {false, true}) {
    const std::string line = written(Level::info, json, [] {
      error("a\nlevel=info", {{"v", "x\" level=info\nmsg=\"y\\"}, {"c", "\x01\r"}, {"e", ""}});
    });
    EXPECT_EQ(std::count(line.begin(), line.end(), '\n'), 1) << line;
    EXPECT_NE(line.find("x\\\" level=info\\nmsg=\\\"y\\\\"), std::string::npos) << line;
    EXPECT_EQ(line.find('\x01'), std::string::npos);
    EXPECT_EQ(line.find('\r'), std::string::npos);
  }
}

TEST(Log, belowTheLevelNothingIsWritten) {
  const auto all = [] {
    debug("1");
    info("2");
    warn("3");
    error("4");
  };
  const auto lines = [&](Level level) {
    const std::string out = written(level, false, all);
    return std::count(out.begin(), out.end(), '\n');
  };
  EXPECT_EQ(lines(Level::debug), 4);
  EXPECT_EQ(lines(Level::info), 3);
  EXPECT_EQ(lines(Level::warn), 2);
  EXPECT_EQ(lines(Level::error), 1);
  EXPECT_EQ(lines(Level::off), 0);
}

TEST(Log, levelsByName) {
  Level level = Level::off;
  for (const auto& [text, want] :
       {std::pair{"debug", Level::debug}, std::pair{"info", Level::info}, std::pair{"warn", Level::warn},
        std::pair{"error", Level::error}, std::pair{"off", Level::off}}) {
    EXPECT_TRUE(parseLevel(text, level));
    EXPECT_EQ(level, want);
  }
  level = Level::warn;
  EXPECT_FALSE(parseLevel("loud", level));
  EXPECT_EQ(level, Level::warn);
}

}  // namespace
}  // namespace egpu::base::log

#include "controller/kube/line_framer.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace egpu::kube {
namespace {

std::vector<std::string> feedAll(LineFramer& framer, const std::vector<std::string>& chunks) {
  std::vector<std::string> lines;
  for (const auto& chunk : chunks)
    if (!framer.feed(chunk, [&](std::string_view line) {
          lines.emplace_back(line);
          return true;
        }))
      break;
  return lines;
}

TEST(LineFramer, CutAtEveryPairOfBytesIncludingInsideUtf8) {
  const std::string text = "{\"a\":\"\xc3\xa4\xe2\x82\xac\"}\r\n\n{\"b\":\"\xf0\x9f\x98\x80\"}\n";
  const std::vector<std::string> want{"{\"a\":\"\xc3\xa4\xe2\x82\xac\"}", "{\"b\":\"\xf0\x9f\x98\x80\"}"};
  for (std::size_t i = 0; i <= text.size(); ++i)
    for (std::size_t j = i; j <= text.size(); ++j) {
      LineFramer framer;
      EXPECT_EQ(feedAll(framer, {text.substr(0, i), text.substr(i, j - i), text.substr(j)}), want) << i << " " << j;
      EXPECT_EQ(framer.pending(), 0U);
    }
}

TEST(LineFramer, OneByteAtATime) {
  LineFramer framer;
  std::vector<std::string> chunks;
  for (const char c : std::string("one\ntwo\nthr")) chunks.emplace_back(1, c);
  EXPECT_EQ(feedAll(framer, chunks), (std::vector<std::string>{"one", "two"}));
  EXPECT_EQ(framer.pending(), 3U);  // an incomplete event is never delivered
}

TEST(LineFramer, CapCountsTheWholeLineAcrossChunks) {
  LineFramer fits(8);
  EXPECT_EQ(feedAll(fits, {"1234", "5678\n"}), std::vector<std::string>{"12345678"});
  EXPECT_FALSE(fits.overflowed());
  LineFramer over(8);
  EXPECT_TRUE(feedAll(over, {"1234", "56789\n"}).empty());
  EXPECT_TRUE(over.overflowed());
  LineFramer endless(8);
  EXPECT_TRUE(feedAll(endless, {"123456789"}).empty());  // without a newline the buffer must not grow forever
  EXPECT_TRUE(endless.overflowed());
}

TEST(LineFramer, StopsWhereTheReaderStops) {
  LineFramer framer;
  int seen = 0;
  EXPECT_FALSE(framer.feed("a\nb\nc\n", [&](std::string_view) { return ++seen < 2; }));
  EXPECT_EQ(seen, 2);
  EXPECT_FALSE(framer.overflowed());
}

}  // namespace
}  // namespace egpu::kube

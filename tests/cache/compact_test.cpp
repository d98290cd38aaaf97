// Texts and numbers come back as they were, and take as little room as they can.
#include "controller/cache/compact.h"

#include <gtest/gtest.h>

#include <limits>
#include <random>
#include <vector>

namespace egpu::cache {
namespace {

std::vector<std::string> back(const std::vector<std::string>& texts, Vocabulary& words, std::size_t* size = nullptr) {
  std::string out;
  CompactWriter writer(out, words);
  for (const auto& text : texts) writer.text(text);
  CompactReader reader(out, words);
  std::vector<std::string> read;
  for (std::size_t i = 0; i < texts.size(); ++i) read.emplace_back(reader.text());
  if (size != nullptr) *size = out.size();
  return read;
}

TEST(CompactTest, TextsThatAlmostHaveAFormComeBackToo) {
  const std::vector<std::string> texts{"",
                                       "0",
                                       "00",
                                       "007",
                                       "7",
                                       "-7",
                                       "9223372036854775807",
                                       "9999999999999999999",
                                       "18446744073709551616",
                                       "1.5",
                                       "2026-01-02T03:04:05Z",
                                       "2024-02-29T23:59:59Z",
                                       "2023-02-29T00:00:00Z",
                                       "2026-13-01T00:00:00Z",
                                       "2026-01-02T24:00:00Z",
                                       "2026-01-02T03:04:60Z",
                                       "2026-01-02t03:04:05z",
                                       "2026-01-02T03:04:05+",
                                       "0000-01-01T00:00:00Z",
                                       "9999-12-31T23:59:59Z",
                                       "1969-12-31T23:59:59Z",
                                       "2026-01-02T03:04:05.000000Z",
                                       "2O26-01-02T03:04:05Z",
                                       "6f1c2d3e-0000-4000-8000-00000000000a",
                                       "6F1C2D3E-0000-4000-8000-00000000000A",
                                       "6f1c2d3e-0000-4000-8000-00000000000g",
                                       "6f1c2d3e-0000-4000-8000_00000000000a",
                                       "6f1c2d3e-0000-4000-8000-00000000000",
                                       "6f1c2d3e00000-4000-8000-00000000000a",
                                       "egpu-6f1c2d3e-0000-4000-8000-00000000000a",
                                       "gpu-6f1c2d3e-0000-4000-8000-00000000000a",
                                       "GPU-6f1c2d3e-0000-4000-8000-00000000000b",
                                       "xpu-6f1c2d3e-0000-4000-8000-00000000000a",
                                       "-----6f1c2d3e-0000-4000-8000-00000000000a",
                                       std::string(36, '-'),
                                       std::string(20, 'Z'),
                                       std::string(300, 'x'),
                                       std::string("a\0b", 3),
                                       "é漢",
                                       "\xff"};
  Vocabulary words;
  for (int time = 0; time < 3; ++time) EXPECT_EQ(back(texts, words), texts);
}

TEST(CompactTest, ManyUuidsInOneText) {
  std::mt19937 random(1);
  std::vector<std::string> texts;
  for (int i = 0; i < 200; ++i) {
    const std::string digits(12, static_cast<char>('a' + random() % 6));
    texts.push_back((random() % 2 ? "egpu-" : "") + std::string("6f1c2d3e-000") + std::to_string(random() % 10) +
                    "-4000-8000-" + digits);
  }
  Vocabulary words;
  EXPECT_EQ(back(texts, words), texts);
}

TEST(CompactTest, WhatIsMetAgainIsShort) {
  Vocabulary words;
  std::size_t size = 0;
  const std::vector<std::string> texts{"elasticgpu.io/claim", "6f1c2d3e-0000-4000-8000-00000000000a",
                                       "egpu-6f1c2d3e-0000-4000-8000-00000000000a", "2026-01-02T03:04:05Z",
                                       "2026-01-02T03:04:06Z"};
  back(texts, words);
  back(texts, words, &size);
  EXPECT_LE(size, 1u + 17u + 2u + 6u + 2u);
}

TEST(CompactTest, EveryInteger) {
  std::vector<int64_t> numbers{0, 1, -1, std::numeric_limits<int64_t>::max(), std::numeric_limits<int64_t>::min()};
  for (int bit = 0; bit < 63; ++bit)
    for (const int64_t off : {-1, 0, 1}) numbers.push_back((int64_t{1} << bit) + off);
  for (auto i = numbers.size(); i > 0; --i) numbers.push_back(-(numbers[i - 1] + 1));
  Vocabulary words;
  std::string out;
  CompactWriter writer(out, words);
  for (const auto n : numbers) writer.integer(n);
  CompactReader reader(out, words);
  for (const auto n : numbers) EXPECT_EQ(reader.integer(), n);
  std::string memory;
  CompactWriter(memory, words).integer(int64_t{80} << 30);
  EXPECT_LE(memory.size(), 3u);
}

TEST(VocabularyTest, OnlyWhatIsMetTwiceBecomesAWord) {
  Vocabulary words;
  for (int i = 0; i < 10'000; ++i) words.meet("name-" + std::to_string(i), 0);
  EXPECT_LE(words.size(), 1u);  // but for a rare coincidence of hashes
  EXPECT_FALSE(words.meet("word", 0));
  const auto number = words.meet("word", 0);
  ASSERT_TRUE(number);
  EXPECT_EQ(words.meet("word", 0), number);
  EXPECT_EQ(words.word(*number), "word");
  EXPECT_FALSE(words.meet("", 0));
  for (int time = 0; time < 3; ++time) EXPECT_FALSE(words.meet(std::string(Vocabulary::kLongest + 1, 'x'), 0));
}

TEST(VocabularyTest, HasABound) {
  Vocabulary words;
  const std::size_t more = Vocabulary::kMost + 1000;
  for (std::size_t i = 0; i < more; ++i)
    for (int time = 0; time < 2; ++time) words.meet("word-" + std::to_string(i), i);
  EXPECT_EQ(words.size(), Vocabulary::kMost);
  EXPECT_EQ(words.word(*words.meet("word-17", 17)), "word-17");
  EXPECT_FALSE(words.meet("word-" + std::to_string(more - 1), 1));
}

}  // namespace
}  // namespace egpu::cache

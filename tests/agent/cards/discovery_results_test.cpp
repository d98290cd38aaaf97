#include "controller/agent/cards/discovery_results.h"

#include <functional>

#include "tests/agent/cards/fixture.h"

namespace egpu::agent::cards {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

TEST(MergeTest, ACardBecomesWhatTheApiHolds) {
  auto one = gpu("GPU-Aa", 3);
  one.links = {{"GPU-B", "nvlink", 4}};
  const auto found = merge({{"physical", answer({one})}}, "n1");
  EXPECT_THAT(found.remarks, IsEmpty());
  ASSERT_EQ(found.cards.count("gpu-aa"), 1u);
  const auto& [card, plugin] = found.cards.at("gpu-aa");
  EXPECT_EQ(plugin, "physical");
  v1alpha::Card want;
  want.uuid = "GPU-Aa";
  want.nodeName = "n1";
  want.index = 3;
  want.model = "A100-SXM4-80GB";
  want.smCount = 108;
  want.milliTflops = 312'000;
  want.core = 1000;
  want.memory = 80 * kGiB;
  want.topology = {1, "0000:3b:00.0", {{"GPU-B", "nvlink", 4}}};
  want.attributes = {{"driverVersion", "535.104.05"}};
  EXPECT_EQ(card, want);
}

TEST(MergeTest, OnlyProfilesThatTheApiCanHoldAreTaken) {
  auto one = gpu("GPU-A");
  one.mig = {{"1g.10gb+me", kGiB, 1, 1, {0x7f}, true}, {"MIG 1g", kGiB, 1, 1, {1}, false}};
  const auto found = merge({{"physical", answer({one})}}, "n1");
  EXPECT_THAT(found.cards.at("gpu-a").card.mig, ElementsAre(one.mig.front()));
  EXPECT_THAT(found.remarks, ElementsAre(HasSubstr("has the MIG profile \"MIG 1g\", which is left out")));
}

TEST(MergeTest, OfTwoPluginsTheFirstByNameHasTheCard) {
  auto other = gpu("gpu-a");
  other.model = "other";
  const auto found = merge({{"physical", answer({other, gpu("GPU-C")})}, {"gpushare", answer({gpu("GPU-A")})}}, "n1");
  EXPECT_THAT(found.remarks, IsEmpty());
  EXPECT_THAT(found.cards, SizeIs(2));
  EXPECT_EQ(found.cards.at("gpu-a").plugin, "gpushare");
  EXPECT_EQ(found.cards.at("gpu-a").card.model, "A100-SXM4-80GB");
  EXPECT_EQ(found.cards.at("gpu-c").plugin, "physical");
}

TEST(MergeTest, APluginThatFailsHasNoCards) {
  auto half = failure();
  half.cards.gpus = {gpu("GPU-A")};
  EXPECT_THAT(merge({{"physical", half}}, "n1").cards, IsEmpty());
}

TEST(MergeTest, WhatCannotBeIsRefusedAlone) {
  const std::pair<const char*, std::function<void(plugin::Gpu&)>> rows[] = {
      {"can't name an object", [](auto& g) { g.uuid = ""; }},
      {"can't name an object", [](auto& g) { g.uuid = "GPU A"; }},
      {"can't name an object", [](auto& g) { g.uuid = "GPU/../A"; }},
      {"can't name an object", [](auto& g) { g.uuid = "-GPU"; }},
      {"can't name an object", [](auto& g) { g.uuid = "GPU-\xc3\xa9"; }},
      {"can't name an object", [](auto& g) { g.uuid = "GPU\n-A"; }},
      {"can't name an object", [](auto& g) { g.uuid = std::string(254, 'a'); }},
      {"devices of claims", [](auto& g) { g.uuid = "EGPU-4711"; }},
      {"can't have -1 bytes", [](auto& g) { g.memory = -1; }},
      {"can't have 9223372036854775807 bytes", [](auto& g) { g.memory = INT64_MAX; }},
      {"memory is unknown", [](auto& g) { g.memory = 0; }},
      {"number on the node is unknown", [](auto& g) { g.index = -1; }},
      {"number on the node can't be 1024", [](auto& g) { g.index = 1024; }},
      {"-1 SMs", [](auto& g) { g.smCount = -1; }},
      {"1000001 SMs", [](auto& g) { g.smCount = 1'000'001; }},
      {"rating can't be -5", [](auto& g) { g.milliTflops = -5; }},
      {"NUMA node can't be -2", [](auto& g) { g.numaNode = -2; }},
      {"model \"a\\u001bb\" is no printable",
       [](auto& g) {
         g.model =
             "a\x1b"
             "b";
       }},
      {"PCI address", [](auto& g) { g.pciAddress = "\x7f"; }},
  };
  for (const auto& [words, spoil] : rows) {
    auto bad = gpu("GPU-BAD");
    spoil(bad);
    const auto found = merge({{"physical", answer({gpu("GPU-A"), bad, gpu("GPU-Z")})}}, "n1");
    EXPECT_THAT(found.cards, SizeIs(2)) << words;
    EXPECT_THAT(found.remarks, ElementsAre(AllOf(HasSubstr("of physical is refused: "), HasSubstr(words))));
    EXPECT_EQ(found.remarks.at(0).find_first_of("\n\x1b\x7f"), std::string::npos);
  }
}

TEST(MergeTest, ACardThatIsGivenTwiceCountsOnce) {
  auto other = gpu("gpu-a");
  other.memory = kGiB;
  const auto found = merge({{"physical", answer({gpu("GPU-A"), other})}}, "n1");
  EXPECT_EQ(found.cards.at("gpu-a").card.memory, 80 * kGiB);
  EXPECT_THAT(found.remarks, ElementsAre(HasSubstr("reported twice")));
}

TEST(MergeTest, NoMoreThanANodeCanHave) {
  std::vector<plugin::Gpu> many;
  for (int i = 0; i < 1000; ++i) many.push_back(gpu("GPU-" + std::to_string(i)));
  const auto found = merge({{"physical", answer(many)}}, "n1");
  EXPECT_THAT(found.cards, SizeIs(kMaxCards));
  EXPECT_EQ(found.cards.count("gpu-0") + found.cards.count("gpu-127"), 2u) << "the first of them";
  EXPECT_THAT(found.remarks, SizeIs(33));
  EXPECT_THAT(found.remarks.at(0), HasSubstr("at most 128 cards"));
  EXPECT_EQ(found.remarks.at(32), "further warnings are omitted");
}

TEST(MergeTest, WhatPluginsReportBesideTheirCardsIsStoredOnceAndBounded) {
  auto one = answer({gpu("GPU-A")}), failing = failure();
  one.cards.reply.message = "card 3 is left out: \x1b[31mlost";
  auto longest = answer({});
  longest.cards.reply.message = std::string(1 << 20, 'x');
  const auto found =
      merge({{"a", failing}, {"gpushare", one}, {"physical", one}, {"silent", answer({})}, {"z", longest}}, "n1");
  ASSERT_THAT(found.warnings, SizeIs(2));
  EXPECT_EQ(found.warnings.at(0), "gpushare: card 3 is left out: \\x1b[31mlost");
  EXPECT_LE(found.warnings.at(1).size(), 900u);
  Answers many;
  for (int i = 0; i < 100; ++i) {
    one.cards.reply.message = "words " + std::to_string(i);
    many[one.cards.reply.message] = one;
  }
  EXPECT_THAT(merge(many, "n1").warnings, SizeIs(32));
}

TEST(MergeTest, LinksAndAttributesThatCannotBeAreLeftOut) {
  auto one = gpu("GPU-A");
  one.links = {{"", "nvlink", 1},         {"GPU-B", "", 1},    {"GPU-B", "nvlink", -1},
               {"GPU-B", "nvlink", 1025}, {"GPU\x01", "x", 1}, {"GPU-B", "nvlink", 12}};
  one.attributes = {{"", "x"}, {"a\n", "x"}, {"b", "\x1b"}, {"good", "yes"}, {"long", std::string(254, 'x')}};
  const auto found = merge({{"physical", answer({one})}}, "n1");
  const auto& card = found.cards.at("gpu-a").card;
  EXPECT_THAT(card.topology.links, ElementsAre(v1alpha::CardLink{"GPU-B", "nvlink", 12}));
  EXPECT_EQ(card.attributes, (core::StringMap{{"good", "yes"}}));
  EXPECT_THAT(found.remarks, ElementsAre(HasSubstr("5 links that are left out"), HasSubstr("4 attributes that are")));
  one.links.assign(1000, {"GPU-B", "nvlink", 1});
  EXPECT_THAT(merge({{"physical", answer({one})}}, "n1").cards.at("gpu-a").card.topology.links, SizeIs(256));
}

TEST(ReadingsTest, TheCardsPluginReportsWhatIsUsedOfIt) {
  Answers answers = {{"a", answer({gpu("GPU-A"), gpu("GPU-B", 1), gpu("GPU-C", 2)})}, {"b", answer({gpu("GPU-A")})}};
  answers["a"].health.use = {{"gpu-a", 5, 10, 2}, {"GPU-Z", 1, 1, 1}};
  answers["a"].health.processes = {{"GPU-A", 1, 3, 5}, {"GPU-B", 2, 4, -1}, {"GPU-A", 3, 2, 5}};
  answers["b"].health.use = {{"GPU-A", 99, 99, 9}};
  const auto readings = readingsOf(merge(answers, "n1"), answers);
  ASSERT_EQ(readings.size(), 2u) << "of GPU-C nothing is said";
  EXPECT_EQ(readings[0].name, "gpu-a");
  EXPECT_EQ(readings[0].uuid, "GPU-A");
  EXPECT_EQ(readings[0].memory, 80 * kGiB);
  EXPECT_EQ(readings[0].use, (plugin::CardUse{"gpu-a", 5, 10, 2}));
  EXPECT_EQ(readings[0].processes.size(), 2u);
  EXPECT_EQ(readings[1].use.memory, -1) << "a plugin that tells processes alone";
  EXPECT_EQ(readings[1].use.processes, 1);
  answers["a"].health.reply.outcome = plugin::ReplyCode::unavailable;
  EXPECT_TRUE(readingsOf(merge(answers, "n1"), answers).empty());
}

}  // namespace
}  // namespace egpu::agent::cards

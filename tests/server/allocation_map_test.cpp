#include "controller/server/allocation_map.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <sstream>
#include <string>

#include "api/v1alpha/remote.h"

namespace egpu::server {
namespace {

constexpr int64_t kGi = int64_t{1} << 30;

allocator::MapCard card(int64_t index, std::vector<allocator::MapAllocation> takes) {
  allocator::MapCard c;
  c.name = "gpu-" + std::to_string(index);
  c.uuid = "GPU-" + std::to_string(index);
  c.model = "A100";
  c.index = index;
  c.core = 1000;
  c.memory = 80 * kGi;
  for (const auto& t : takes) {
    c.usedCore += t.core;
    c.usedMemory += t.memory;
  }
  c.allocations = std::move(takes);
  return c;
}

AllocationMap sample() {
  AllocationMap map;
  allocator::MapNode n;
  n.name = "n";
  n.cards = {card(0, {{"egpu-1", "u1", "ns/a", "Bound", 800, 8 * kGi}}),
             card(1, {{"egpu-2", "u2", "ns/\"b\"", "Released", 600, 4 * kGi}}), card(2, {}), card(3, {}), card(4, {})};
  n.cards[4].offered = false;
  n.cards[4].why = "XID 79";
  map.nodes.push_back(n);
  return map;
}

TEST(AllocationMap, BackendAiGivesDecimalSharesPerUuid) {
  auto map = sample();
  map.nodes[0].cards.resize(2);
  EXPECT_EQ(toBackendAi(map), R"({"GPU-0":"0.80","GPU-1":"0.60"})");
  map.nodes[0].cards = {card(0, {{"d", "u", "ns/a", "Bound", 125, 0}}), card(1, {{"d", "u", "ns/a", "Bound", 1000, 0}}),
                        card(2, {})};
  EXPECT_EQ(toBackendAi(map), R"({"GPU-0":"0.125","GPU-1":"1.00","GPU-2":"0.00"})");
}

TEST(AllocationMap, JsonHasFreeClaimsAndTotals) {
  const auto json = toJson(sample());
  EXPECT_NE(json.find(R"("free":{"core":200,"memory":77309411328})"), std::string::npos) << json;
  EXPECT_NE(json.find(R"({"claim":"ns/\"b\"","device":"egpu-2","phase":"Released","core":600,"memory":4294967296})"),
            std::string::npos)
      << json;
  EXPECT_NE(json.find(R"("totals":{"nodes":1,"cards":5,"quarantined":1,"claims":2,"core":5000,"usedCore":1400,)"),
            std::string::npos)
      << json;
  EXPECT_NE(json.find(R"("offered":false,"why":"XID 79")"), std::string::npos) << json;
}

TEST(AllocationMap, PodsStandBesideTheClaimsThatTheyUse) {
  const ClaimPods pods = {{"ns/a", {"ns/p", "ns/q"}}, {"ns/\"b\"", {}}};
  const auto json = toJson(sample(), pods);
  EXPECT_NE(json.find(R"("memory":8589934592,"pods":["ns/p","ns/q"]})"), std::string::npos) << json;
  EXPECT_NE(json.find(R"("memory":4294967296,"pods":[]})"), std::string::npos) << json;
  const auto text = toText(sample(), {}, pods);
  EXPECT_NE(text.find(" ns/a  80%  8Gi  Bound  pods ns/p, ns/q\n"), std::string::npos) << text;
  EXPECT_NE(text.find(" ns/\"b\"  60%  4Gi  Released\n"), std::string::npos) << text;
}

TEST(AllocationMap, WhatIsUsedStandsBesideWhatIsGranted) {
  auto map = sample();
  auto& cards = map.nodes[0].cards;
  cards[0].usage = v1alpha::CardUsage{8 * kGi, 60, {}, ""};
  cards[0].allocations[0].usage = {3 * kGi + 100, 35};
  cards[1].usage = v1alpha::CardUsage{-1, 0, {}, ""};
  cards[1].allocations[0].usage = {-1, -1};              // its plugin does not report usage
  cards[3].usage = v1alpha::CardUsage{kGi, -1, {}, ""};  // used by a process without a claim
  const auto json = toJson(map);
  EXPECT_NE(
      json.find(R"("memory":77309411328},"usage":{"memory":8589934592,"smPercent":60},"claims":[{"claim":"ns/a")"),
      std::string::npos)
      << json;
  EXPECT_NE(json.find(R"("memory":8589934592,"usage":{"memory":3221225572,"smPercent":35}})"), std::string::npos)
      << json;
  EXPECT_NE(json.find(R"("usage":{"smPercent":0},"claims")"), std::string::npos) << json;
  EXPECT_NE(json.find(R"("memory":4294967296,"usage":{}})"), std::string::npos) << json;
  const auto text = toText(map, {false, 10});
  EXPECT_NE(text.find("\n         in use: 60%, 8Gi\n"), std::string::npos) << text;
  EXPECT_NE(text.find(" ns/a  80%  8Gi  Bound  uses 35%, 3Gi\n"), std::string::npos) << text;
  EXPECT_NE(text.find("\n         in use: 0%\n"), std::string::npos) << text;
  EXPECT_NE(text.find(" ns/\"b\"  60%  4Gi  Released\n"), std::string::npos) << text;
  EXPECT_NE(text.find("\n         in use: 1Gi\n"), std::string::npos) << "a card that is used is not folded\n" << text;
  EXPECT_EQ(text.find("free: 2 cards"), std::string::npos) << text;
}

TEST(AllocationMap, RemoteDevicesFollowTheNodes) {
  auto map = sample();
  map.remote = {{"egpu-9", "ns/far", "Bound", "pool", "https://pool.example.com", "10.0.0.1:7000"},
                {"lab-gpu", "", "Available", "lab", "", "10.0.0.9:7000"}};
  const ClaimPods pods{{"ns/far", {"ns/p"}}};
  const auto json = toJson(map, pods);
  EXPECT_NE(
      json.find(R"("remote":[{"device":"egpu-9","phase":"Bound","class":"pool","pool":"https://pool.example.com",)"
                R"("endpoint":"10.0.0.1:7000","claim":"ns/far","pods":["ns/p"]},{"device":"lab-gpu",)"
                R"("phase":"Available","class":"lab","endpoint":"10.0.0.9:7000"}])"),
      std::string::npos)
      << json;
  const auto text = toText(map, {.columns = 0}, pods);
  EXPECT_NE(text.find("remote GPU egpu-9  10.0.0.1:7000 of pool https://pool.example.com  ns/far  Bound  pod ns/p\n"
                      "remote GPU lab-gpu  10.0.0.9:7000  no claim  Available\n"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("; 2 remote GPUs"), std::string::npos) << text;
}

TEST(AllocationMap, AddressesAreShownWithoutSecrets) {
  for (const auto& [address, shown] : std::map<std::string, std::string>{
           {"10.0.0.1:7000", "10.0.0.1:7000"},
           {"https://pool.example.com:7443/v1?token=s3cret#x", "https://pool.example.com:7443"},
           {"https://user:s3cret@pool.example.com", "https://pool.example.com"},
           {"user:s3cret@10.0.0.1:7000/s3cret", "10.0.0.1:7000"},
           {"https://user:s3/cret@pool", "https://…"},
           {"https://user:s3?cret@pool", "https://…"},
           {"[fd00::1]:7000", "[fd00::1]:7000"},
           {"", ""}})
    EXPECT_EQ(v1alpha::withoutSecrets(address), shown) << address;
}

TEST(AllocationMap, WhoOnlyObservesStandsApart) {
  auto map = sample();
  map.nodes[0].cards[2].allocations = {{"egpu-3", "u3", "ns/eye", "Bound", 0, 0}};
  const auto json = toJson(map);
  EXPECT_NE(json.find(R"("phase":"Bound","core":0,"memory":0,"adminAccess":true)"), std::string::npos) << json;
  EXPECT_NE(json.find(R"("claims":2,"core":5000)"), std::string::npos) << json;
  EXPECT_NE(toText(map, {}, {}).find(" ns/eye  admin access  Bound\n"), std::string::npos) << toText(map, {}, {});
  EXPECT_TRUE(map.nodes[0].isUsed());
  map.nodes[0].cards.erase(map.nodes[0].cards.begin(), map.nodes[0].cards.begin() + 2);
  EXPECT_FALSE(map.nodes[0].isUsed()) << "a monitor keeps no node";
}

TEST(AllocationMap, LinesFitTheColumns) {
  auto map = sample();
  for (auto& each : map.nodes[0].cards) each.model = "NVIDIA-A100-SXM4-80GB-custom";
  map.nodes[0].cards[4].why = "the driver says that this card has fallen off the bus (Xid 79) and needs a reset";
  const auto text = toText(map, {});
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const auto cells = std::count_if(line.begin(), line.end(), [](unsigned char c) { return (c & 0xc0) != 0x80; });
    EXPECT_LE(cells, 100) << line;
  }
  EXPECT_NE(text.find("fallen off"), std::string::npos);
}

TEST(AllocationMap, OverfullCardHasNothingFree) {
  auto map = sample();
  map.nodes[0].cards[0].core = 500;
  EXPECT_NE(toJson(map).find(R"("free":{"core":0,)"), std::string::npos);
}

TEST(AllocationMap, TextDrawsBarsAndFoldsEmptyCards) {
  const auto text = toText(sample(), {false, 10});
  EXPECT_NE(text.find("n  5 cards, core 140% of 500%, memory 12Gi of 400Gi"), std::string::npos) << text;
  EXPECT_NE(text.find("2-3"), std::string::npos) << text;
  EXPECT_NE(text.find("free: 2 cards of 80Gi"), std::string::npos) << text;
  EXPECT_NE(text.find("NOT OFFERED (XID 79)"), std::string::npos) << text;
  EXPECT_NE(text.find(" ns/a  80%  8Gi  Bound"), std::string::npos) << text;
  EXPECT_EQ(text.find('\033'), std::string::npos);
  EXPECT_NE(toText(sample(), {true, 10}).find("\033[38;5;"), std::string::npos);
}

TEST(AllocationMap, OnlyNeighboursThatAreAlikeShareALine) {
  auto map = sample();
  auto& cards = map.nodes[0].cards;
  cards.erase(cards.begin(), cards.begin() + 2);
  ASSERT_EQ(cards[0].index, 2);
  cards.resize(2);
  EXPECT_NE(toText(map, {false, 10}).find("free: 2 cards of 80Gi"), std::string::npos);
  cards[1].index = 7;
  EXPECT_EQ(toText(map, {false, 10}).find("free: 2"), std::string::npos) << "cards between them are missing";
  cards[1].index = 3;
  cards[1].memory /= 2;
  EXPECT_EQ(toText(map, {false, 10}).find("free: 2"), std::string::npos) << "unlike memory";
}

TEST(AllocationMap, TextShowsControlCharactersInsteadOfObeyingThem) {
  auto map = sample();
  map.nodes[0].cards[0].model = "A100\033[2J";
  map.nodes[0].cards[1].why = "x\ny";
  map.nodes[0].name =
      "n\xc2\x9b"
      "1";
  const auto text = toText(map, {false, 10});
  EXPECT_EQ(text.find('\033'), std::string::npos) << text;
  EXPECT_NE(text.find("A100\\x1b[2J"), std::string::npos) << text;
  EXPECT_NE(text.find("n\\x9b1"), std::string::npos) << text;
  EXPECT_EQ(toJson(map).find("\xc2\x9b"), std::string::npos);
}

TEST(AllocationMap, ABarIsAsLongAsItsShare) {
  AllocationMap map;
  allocator::MapNode n;
  n.name = "n";
  n.cards = {card(0, {{"d", "u", "ns/a", "Bound", 300, 0}})};
  map.nodes.push_back(n);
  const auto text = toText(map, {false, 10});
  const auto line = text.substr(text.find("A100") + 4);
  const auto bar = line.substr(line.find_first_not_of(' '), 12);
  EXPECT_EQ(std::count(bar.begin(), bar.end(), bar[0]), 3) << text;
}

TEST(AllocationMap, EmptyCellsOfABarShareOneColour) {
  AllocationMap map;
  allocator::MapNode n;
  n.name = "n";
  n.cards = {card(0, {{"d", "u", "ns/a", "Bound", 300, 0}})};
  map.nodes.push_back(n);
  const auto text = toText(map, {true, 10});
  std::size_t grey = 0;
  for (auto at = text.find("\033[38;5;240m"); at != std::string::npos; at = text.find("\033[38;5;240m", at + 1)) ++grey;
  EXPECT_EQ(grey, 2u) << text;  // one run of cells in each of the two bars
  EXPECT_NE(text.find("░░░░░░░\033[0m"), std::string::npos) << text;
}

TEST(AllocationMap, NoTwoClaimsOfANodeHaveTheSameStyle) {
  AllocationMap map;
  allocator::MapNode n;
  n.name = "n";
  std::vector<allocator::MapAllocation> allocations;
  for (int i = 0; i < 30; ++i) allocations.push_back({"d", "u", "ns/c" + std::to_string(i), "Bound", 10, 0});
  n.cards = {card(0, allocations)};
  map.nodes.push_back(n);
  const auto text = toText(map, {false, 200});
  std::set<char> letters;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);)
    if (line.rfind("         ", 0) == 0) letters.insert(line[9]);
  EXPECT_EQ(letters.size(), 30U) << text;
}

TEST(AllocationMap, AmountsAreReadable) {
  AllocationMap map;
  allocator::MapNode n;
  n.name = "n";
  n.cards = {card(0, {{"d", "u", "ns/a", "Bound", 10, 16711156712}})};
  map.nodes.push_back(n);
  EXPECT_NE(toText(map, {false, 10}).find(" 15.6Gi/80Gi"), std::string::npos) << toText(map, {false, 10});
}

TEST(AllocationMap, LinesFitTheColumnsWhateverNamesThereAre) {
  AllocationMap map;
  allocator::MapNode n;
  n.name = std::string(253, 'n');
  n.cards = {card(0, {{"d", "u", std::string(60, 's') + "/" + std::string(181, 'c'), "Bound", 300, 0}})};
  map.nodes.push_back(n);
  for (const bool color : {false, true}) {
    std::istringstream lines(toText(map, {color, 10, 100}));
    for (std::string line; std::getline(lines, line);) {
      while (line.find('\033') != std::string::npos)
        line.erase(line.find('\033'), line.find('m', line.find('\033')) + 1 - line.find('\033'));
      const auto cells = std::count_if(line.begin(), line.end(), [](char c) { return (c & 0xc0) != 0x80; });
      EXPECT_LE(cells, 100) << line;
    }
  }
}

TEST(AllocationMap, EmptyClusterIsATotalOfNothing) {
  EXPECT_EQ(toText({}, {}), "total: 0 nodes, 0 cards, 0 shares; core 0% of 0%, memory 0 of 0\n");
}

}  // namespace
}  // namespace egpu::server

// Discovery of NVIDIA's cards, by both plugins for them, on the nodes of tests/nvml/nodes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <memory>
#include <sstream>

#include "controller/plugin/hosted.h"
#include "controller/plugin/in_process.h"
#include "tests/nvml/fake_nvml.h"

namespace egpu::plugin {

/// For readable failures.
void PrintTo(const CardHealth& card, std::ostream* out) {
  *out << card.uuid << " " << card.healthy << " " << card.message;
}
void PrintTo(const Gpu& g, std::ostream* out) {
  *out << g.uuid << " " << g.model << " index " << g.index << " memory " << g.memory << " SMs " << g.smCount << " NUMA "
       << g.numaNode << " PCI " << g.pciAddress << " mTFLOPS " << g.milliTflops;
  for (const auto& l : g.links) *out << "\n  " << l.type << " × " << l.count << " to " << l.peer;
  for (const auto& [name, value] : g.attributes) *out << "\n  " << name << ": " << value;
}

namespace testing {
namespace {

using std::chrono::milliseconds;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;

constexpr int64_t kMiB = 1 << 20;

class NvidiaTest : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    plugin = loadedInto(registry);
    ASSERT_NE(plugin, nullptr);
  }
  static Provisioner* loadedInto(InProcessRegistry& registry) {
    const base::Status status = registry.load(path());
    EXPECT_TRUE(status.ok()) << status.str();
    return registry.find(std::string(GetParam()) + ".provisioner.elasticgpu.io", nullptr);
  }
  void TearDown() override { leave(); }
  void use(const std::string& node) {
    leave();
    fake = std::make_unique<nvidia::testing::FakeNvml>(node);
  }
  /// Removes all cards, because a plugin stays loaded and watches its cards until none is left.
  void leave() {
    if (!fake) return;
    fake->file = YAML::Load("{}");
    fake->write();
    EXPECT_TRUE(plugin->health().reply.ok());
    fake.reset();
  }
  /// gpushare reports on each card whether its limiter can be used.
  static void expectLimiter(Gpu& card) {
    if (std::string(GetParam()) == "gpushare") card.attributes["limiter"] = "available";
  }
  static std::string path() { return std::string(EGPU_PROVISIONER_DIR) + "/lib" + GetParam() + ".so"; }
  std::string uuid(std::size_t place) const { return fake->file["devices"][place]["uuid"].as<std::string>(); }

  /// Returns the cards and stores the plugin's message in `message`.
  std::vector<Gpu> discovered() {
    const DiscoverReply reply = plugin->discover();
    EXPECT_EQ(reply.reply.outcome, ReplyCode::ok) << reply.reply.message;
    message = reply.reply.message;
    return reply.gpus;
  }
  /// Returns the cards with this change of the file; the change is undone afterwards.
  std::vector<Gpu> discoveredWith(const std::function<void(YAML::Node& file)>& change) {
    const YAML::Node before = YAML::Clone(fake->file);
    change(fake->file);
    fake->write();
    auto out = discovered();
    fake->file = before;
    fake->write();
    return out;
  }

  InProcessRegistry registry{{milliseconds(60'000), milliseconds(60'000)}};
  Provisioner* plugin = nullptr;
  std::unique_ptr<nvidia::testing::FakeNvml> fake;
  std::string message;
};
INSTANTIATE_TEST_SUITE_P(Plugins, NvidiaTest, ::testing::Values("physical", "gpushare"),
                         [](const auto& row) { return row.param; });

TEST_P(NvidiaTest, ADgx1HasItsCubeMesh) {
  use("dgx-1v");
  const int nvlinks[8][8] = {{0, 1, 1, 2, 2, 0, 0, 0}, {1, 0, 2, 1, 0, 2, 0, 0}, {1, 2, 0, 2, 0, 0, 1, 0},
                             {2, 1, 2, 0, 0, 0, 0, 1}, {2, 0, 0, 0, 0, 1, 1, 2}, {0, 2, 0, 0, 1, 0, 2, 1},
                             {0, 0, 1, 0, 1, 2, 0, 2}, {0, 0, 0, 1, 2, 1, 2, 0}};
  const char* pci[] = {"0000:06:00.0", "0000:07:00.0", "0000:0a:00.0", "0000:0b:00.0",
                       "0000:85:00.0", "0000:86:00.0", "0000:89:00.0", "0000:8a:00.0"};
  const auto cards = discovered();
  ASSERT_THAT(cards, SizeIs(8));
  for (std::size_t a = 0; a < 8; ++a) {
    Gpu want{uuid(a), "V100-SXM2-32GB", static_cast<int64_t>(a), (32768 - 307) * kMiB, 80, a < 4 ? 0 : 1,
             pci[a],  125'000};
    for (std::size_t b = 0; b < 8; ++b) {
      if (a == b) continue;
      want.links.push_back({uuid(b), a / 2 == b / 2 ? "single" : a / 4 == b / 4 ? "hostbridge" : "system", 1});
      if (nvlinks[a][b] > 0) want.links.push_back({uuid(b), "nvlink", nvlinks[a][b]});
    }
    want.attributes = {{"cudaComputeCapability", "7.0"},
                       {"cudaDriverVersion", "12.2"},
                       {"driverVersion", "535.104.05"},
                       {"nvmlIndex", std::to_string(a)},
                       {"pcieRoot", a < 4 ? "pci0000:00" : "pci0000:80"}};
    expectLimiter(want);
    EXPECT_EQ(cards[a], want);
  }
  EXPECT_EQ(message, "");
}

TEST_P(NvidiaTest, H100ReachEachOtherThroughTheSwitches) {
  use("h100");
  const auto cards = discovered();
  ASSERT_THAT(cards, SizeIs(8));
  for (std::size_t a = 0; a < 8; ++a) {
    const auto place = fake->file["devices"][a];
    Gpu want{uuid(a), "H100-80GB-HBM3", static_cast<int64_t>(a),        (81559 - 526) * kMiB,
             132,     a < 4 ? 0 : 1,    place["pci"].as<std::string>(), 989'000};
    for (std::size_t b = 0; b < 8; ++b) {
      if (a == b) continue;
      want.links.push_back({uuid(b), a / 4 == b / 4 ? "cpu" : "system", 1});
      want.links.push_back({uuid(b), "nvswitch", 18});
    }
    want.attributes = {{"cudaComputeCapability", "9.0"}, {"cudaDriverVersion", "12.4"},
                       {"driverVersion", "550.54.15"},   {"migMode", "disabled"},
                       {"nvmlIndex", std::to_string(a)}, {"pcieRoot", place["path"][0].as<std::string>()}};
    expectLimiter(want);
    EXPECT_EQ(cards[a], want);
  }
  EXPECT_EQ(message, "");
}

TEST_P(NvidiaTest, MinorNumbersAreNotPlaces) {
  use("a100");
  const auto cards = discovered();
  ASSERT_THAT(cards, SizeIs(4));
  const int64_t minors[] = {2, 3, 0, 1};
  for (std::size_t a = 0; a < 4; ++a) {
    EXPECT_EQ(cards[a].index, minors[a]);
    EXPECT_EQ(cards[a].model, "A100-SXM4-80GB");
    EXPECT_EQ(cards[a].memory, (81920 - 609) * kMiB) << "the reserve is not a whole number of MiB; rounded down";
    EXPECT_EQ(cards[a].smCount, 108);
    EXPECT_EQ(cards[a].milliTflops, 312'000);
  }
  EXPECT_THAT(cards[0].links,
              ElementsAre(GpuLink{uuid(1), "multiple", 1}, GpuLink{uuid(1), "nvlink", 4}, GpuLink{uuid(2), "system", 1},
                          GpuLink{uuid(2), "nvlink", 4}, GpuLink{uuid(3), "system", 1}, GpuLink{uuid(3), "nvlink", 4}));
  EXPECT_EQ(cards[2].links[4], (GpuLink{uuid(3), "cpu", 1}));
}

TEST_P(NvidiaTest, MigModeIsReported) {
  use("a100-mig");
  const auto cards = discovered();
  ASSERT_THAT(cards, SizeIs(2));
  EXPECT_EQ(cards[0].attributes.at("migMode"), "enabled");
  EXPECT_EQ(cards[0].attributes.count("pendingMigMode"), 0u);
  EXPECT_EQ(cards[0].smCount, 98);
  EXPECT_EQ(cards[0].memory, (40960 - 581) * kMiB);
  EXPECT_THAT(cards[0].links, ElementsAre(GpuLink{uuid(1), "hostbridge", 1})) << "a card in MIG mode has no peers";
  EXPECT_EQ(cards[1].attributes.at("migMode"), "disabled");
  EXPECT_EQ(cards[1].attributes.at("pendingMigMode"), "enabled");
  EXPECT_EQ(cards[1].smCount, 108);
}

TEST_P(NvidiaTest, CardsOfDifferentKindsStandSideBySide) {
  use("mixed");
  const auto cards = discovered();
  ASSERT_THAT(cards, SizeIs(4));
  EXPECT_EQ(cards[0].model, "RTX-A6000");
  EXPECT_EQ(cards[0].milliTflops, 154'800);
  EXPECT_EQ(cards[0].smCount, 84);
  EXPECT_EQ(cards[0].numaNode, -1);
  EXPECT_EQ(cards[0].links[1], (GpuLink{uuid(1), "nvlink", 4}));
  EXPECT_EQ(cards[2].model, "L4");
  EXPECT_EQ(cards[2].smCount, 58);
  EXPECT_EQ(cards[2].attributes.count("migMode"), 0u);
  EXPECT_EQ(cards[3].model, "GeForce-RTX-4090");
  EXPECT_EQ(cards[3].milliTflops, 128 * 3105 * 1024 / 1000) << "SMs × clock × operations";
  EXPECT_EQ(cards[3].pciAddress, "10000:01:00.0");
  EXPECT_EQ(cards[3].attributes.at("pcieRoot"), "pci10000:00");
}

/// A missing symbol makes its field unknown, and no other.
TEST_P(NvidiaTest, AMissingSymbolIsAMissingField) {
  use("dgx-1v");
  const auto whole = discovered();
  const auto without = [&](std::initializer_list<const char*> symbols) {
    return discoveredWith([&](YAML::Node& file) {
      for (const char* symbol : symbols) file["missing"].push_back(symbol);
    });
  };
  const auto expect = [&](std::initializer_list<const char*> symbols, const std::function<void(Gpu&)>& change) {
    auto want = whole;
    for (Gpu& card : want) change(card);
    EXPECT_EQ(without(symbols), want) << *symbols.begin();
  };
  expect({"nvmlSystemGetDriverVersion"}, [](Gpu& g) { g.attributes.erase("driverVersion"); });
  expect({"nvmlSystemGetCudaDriverVersion_v2"}, [](Gpu& g) { g.attributes.erase("cudaDriverVersion"); });
  expect({"nvmlDeviceGetMinorNumber"}, [](Gpu&) {});  // the kernel also reports it
  expect({"nvmlDeviceGetMigMode", "nvmlDeviceGetMaxClockInfo", "nvmlDeviceGetP2PStatus"}, [](Gpu&) {});
  expect({"nvmlDeviceGetNvLinkRemoteDeviceType"}, [](Gpu&) {});
  expect({"nvmlDeviceGetNumGpuCores"}, [](Gpu& g) { g.smCount = 0; });
  expect({"nvmlDeviceGetName", "nvmlDeviceGetMaxClockInfo"}, [](Gpu& g) { g.model = "", g.milliTflops = 0; });
  expect({"nvmlDeviceGetName"}, [](Gpu& g) { g.model = "", g.milliTflops = 80 * 1530 * 1024 / 1000; });
  expect({"nvmlDeviceGetCudaComputeCapability"},
         [](Gpu& g) { g.smCount = 0, g.attributes.erase("cudaComputeCapability"); });
  expect({"nvmlDeviceGetMemoryInfo", "nvmlDeviceGetMemoryInfo_v2"}, [](Gpu& g) { g.memory = 0; });
  EXPECT_THAT(message, HasSubstr(uuid(7) + ": its memory is unknown: the driver is too old to report it"));
  const auto dropLinks = [](bool nvlinks) {
    return [nvlinks](Gpu& g) {
      std::erase_if(g.links, [&](const GpuLink& l) { return (l.type == "nvlink") == nvlinks; });
    };
  };
  expect({"nvmlDeviceGetTopologyCommonAncestor"}, dropLinks(false));
  expect({"nvmlDeviceGetNvLinkState"}, dropLinks(true));
  expect({"nvmlDeviceGetPciInfo_v3"}, [&](Gpu& g) {
    dropLinks(true)(g);
    g.pciAddress = "", g.numaNode = -1, g.attributes.erase("pcieRoot");
  });
  EXPECT_THAT(without({"nvmlDeviceGetUUID"}), IsEmpty());
  EXPECT_THAT(message, HasSubstr("card 0 is left out: the driver is too old to report it"));
}

TEST_P(NvidiaTest, DriversWithoutTheSecondMemoryInfoReportNothingOfAReserve) {
  use("a100");
  const auto cards = discoveredWith([](YAML::Node& file) { file["missing"].push_back("nvmlDeviceGetMemoryInfo_v2"); });
  ASSERT_THAT(cards, SizeIs(4));
  EXPECT_EQ(cards[0].memory, 81920 * kMiB);
}

TEST_P(NvidiaTest, SwitchesOfDriversThatDoNotReportWhatTheyReachAreTakenToReachAll) {
  use("h100");
  const auto whole = discovered();
  EXPECT_EQ(discoveredWith([](YAML::Node& file) { file["missing"].push_back("nvmlDeviceGetP2PStatus"); }), whole);
}

TEST_P(NvidiaTest, ALostCardIsReportedAndTheOthersAreThere) {
  use("a100");
  EXPECT_THAT(plugin->health().cards, IsEmpty());
  fake->file["devices"][1]["lost"] = true;
  fake->write();
  const auto cards = discovered();
  ASSERT_THAT(cards, SizeIs(3));
  EXPECT_EQ(cards[1].uuid, uuid(2));
  EXPECT_THAT(message, HasSubstr("card 1 is left out: it has fallen off the bus; reboot"));
  for (const auto& card : cards)
    for (const auto& link : card.links) EXPECT_NE(link.peer, uuid(1));
  auto health = plugin->health();
  ASSERT_THAT(health.cards, SizeIs(1));
  EXPECT_EQ(health.cards[0].uuid, uuid(1));
  EXPECT_FALSE(health.cards[0].healthy);
  EXPECT_THAT(health.cards[0].message, HasSubstr("fallen off the bus"));

  fake->unplug(1);
  EXPECT_THAT(discovered(), SizeIs(3));
  EXPECT_THAT(plugin->health().cards, IsEmpty()) << "no longer there at all";

  fake->file["devices"][1].remove("lost");
  fake->write();
  EXPECT_THAT(discovered(), SizeIs(4));
  EXPECT_EQ(message, "");
}

/// Errors that the card counts are reported until the count is zero again.
TEST_P(NvidiaTest, WhatACardCountsOfItsErrorsIsReported) {
  use("a100");
  struct CardRow {
    const char *fault, *value;
    bool usable;
    const char *words, *action;
  };
  const CardRow rows[] = {
      {"remapFailed", "true", false, "RowRemapFailed: a memory row is broken", "replaced"},
      {"ecc", "3", true, "EccErrors: memory errors that ECC could not correct, 3 since the driver was",
       "restart the affected programs"},
      {"remapPending", "true", true, "MemoryRepairPending: ", "--gpu-reset"},
      {"retiredPending", "1", true, "MemoryRepairPending: ", "--gpu-reset"},
      {"recoveryAction", "1", false, "ResetNeeded: the driver asks for a reset", "--gpu-reset"},
      {"recoveryAction", "2", false, "RebootNeeded: the driver asks for a reboot", "reboot"},
      {"recoveryAction", "3", false, "DrainNeeded: ", "end the programs that use several cards"},
      {"recoveryAction", "4", false, "ResetNeeded: the card works at reduced capacity", "--gpu-reset"},
      {"recoveryAction", "5", false, "ResetNeeded: ", "--gpu-reset"},
      {"recoveryAction", "77", false, "RecoveryNeeded: the driver asks for recovery action 77", "see"}};
  for (const CardRow& row : rows) {
    fake->file["devices"][2][row.fault] = row.value;
    fake->write();
    const auto health = plugin->health();
    ASSERT_THAT(health.cards, SizeIs(1)) << row.words;
    EXPECT_EQ(health.cards[0].uuid, uuid(2));
    EXPECT_EQ(health.cards[0].healthy, row.usable) << row.words;
    EXPECT_THAT(health.cards[0].message, AllOf(::testing::StartsWith(row.words), HasSubstr(row.action)));
    EXPECT_THAT(discovered(), SizeIs(4)) << "it is there";
    fake->file["devices"][2].remove(row.fault);
    fake->write();
    EXPECT_THAT(plugin->health().cards, IsEmpty()) << row.words;
  }
}

TEST_P(NvidiaTest, TheComputeModeIsReported) {
  use("a100");
  constexpr int kDefault = 0, kProhibited = 2, kExclusiveProcess = 3;
  fake->file["devices"][1]["computeMode"] = kExclusiveProcess;
  fake->file["devices"][2]["computeMode"] = kProhibited;
  fake->write();
  const auto cards = discovered();
  EXPECT_EQ(cards.at(0).attributes.count("computeMode"), 0U);
  EXPECT_EQ(cards.at(1).attributes.at("computeMode"), "exclusiveProcess");
  EXPECT_EQ(cards.at(2).attributes.at("computeMode"), "prohibited");
  const auto health = plugin->health();
  ASSERT_THAT(health.cards, SizeIs(1));
  EXPECT_EQ(health.cards[0].uuid, uuid(2));
  EXPECT_THAT(health.cards[0].message, AllOf(::testing::StartsWith("ComputeProhibited: "), HasSubstr("-c DEFAULT")));
  fake->file["devices"][2]["computeMode"] = kDefault;
  fake->write();
  EXPECT_THAT(plugin->health().cards, IsEmpty());
}

/// NVML reports no memory for integrated cards.
TEST_P(NvidiaTest, CardsWithUnifiedMemoryArePublishedWithTheMachines) {
  constexpr int kNotSupported = 3;
  use("a100");
  const std::string meminfo = std::string(getenv("ELASTICGPU_SYSTEM_ROOT")) + "/proc/meminfo";
  for (const char* name : {"NVIDIA GB10", "NVIDIA Thor", "Orin (nvgpu)"}) {
    fake->file["devices"][0]["name"] = name;
    fake->file["devices"][0]["errors"]["nvmlDeviceGetMemoryInfo"] = kNotSupported;
    fake->file["devices"][0]["errors"]["nvmlDeviceGetMemoryInfo_v2"] = kNotSupported;
    fake->write();
    EXPECT_EQ(discovered().at(0).memory, 0);
    EXPECT_THAT(message, HasSubstr("its memory is the machine's, which /proc/meminfo does not report"));
    std::ofstream(meminfo) << "MemTotal:       125544500 kB\nMemFree:        1 kB\n";
    const auto card = discovered().at(0);
    std::filesystem::remove(meminfo);
    EXPECT_EQ(card.memory, 125544500 / 1024 * kMiB) << name;
    EXPECT_EQ(card.attributes.at("unifiedMemory"), "true");
    EXPECT_EQ(message, "");
    EXPECT_EQ(plugin->health().use.at(0).memory, -1) << "unknown";
  }
  fake->file["devices"][0]["name"] = "NVIDIA A30";
  fake->write();
  EXPECT_EQ(discovered().at(0).memory, 0) << "of another model that is a fault";
  EXPECT_THAT(message, HasSubstr("its memory is unknown: not supported"));
}

TEST_P(NvidiaTest, AGh200HasMemoryOfItsOwnThatTheMachineTakesToo) {
  use("a100");
  fake->file["devices"][0]["name"] = "NVIDIA GH200 480GB";
  fake->write();
  const auto card = discovered().at(0);
  EXPECT_EQ(card.memory, (85899345920 - 637927424) / kMiB * kMiB);
  EXPECT_EQ(card.attributes.at("unifiedMemory"), "true");
}

TEST_P(NvidiaTest, AnIllnessComesBeforeWhatOnlyWaitsForAReset) {
  use("a100");
  discovered();
  auto card = fake->file["devices"][1];
  card["ecc"] = 2;
  card["remapPending"] = true;
  fake->write();
  const auto usable = plugin->health();
  ASSERT_THAT(usable.cards, SizeIs(1));
  EXPECT_TRUE(usable.cards[0].healthy);
  EXPECT_THAT(usable.cards[0].message,
              AllOf(HasSubstr("EccErrors: "), HasSubstr("taken out of use at the next reset")));
  card["xids"].push_back(95);
  fake->write();
  const auto ill = plugin->health();
  ASSERT_THAT(ill.cards, SizeIs(1));
  EXPECT_FALSE(ill.cards[0].healthy);
  EXPECT_THAT(ill.cards[0].message, ::testing::StartsWith("Xid95: "));
}

TEST_P(NvidiaTest, AnXidIsReportedOnceAgainAndAgain) {
  use("a100");
  fake->file["devices"][0]["xids"].push_back(79);
  fake->write();
  discovered();
  EXPECT_THAT(plugin->health().cards, IsEmpty()) << "it was before";
  // Application errors of all kinds do not affect the card's health.
  for (const int application : {13, 31, 43, 45, 63, 68, 92, 94, 137})
    fake->file["devices"][1]["xids"].push_back(application);
  fake->write();
  EXPECT_THAT(plugin->health().cards, IsEmpty());
  fake->file["devices"][1]["xids"].push_back(119);
  fake->file["devices"][3]["xids"].push_back(4711);
  fake->write();
  for (int i = 0; i < 3; ++i) {
    const auto health = plugin->health();
    ASSERT_THAT(health.cards, SizeIs(2));
    EXPECT_EQ(health.cards[0], (CardHealth{uuid(1), false,
                                           "Xid119: its system processor does not answer the driver; end what runs on "
                                           "the card, take the agent off the node (label elasticgpu.io/agent=false), "
                                           "then nvidia-smi --gpu-reset"}));
    EXPECT_EQ(health.cards[1].uuid, uuid(3));
    EXPECT_THAT(health.cards[1].message, ::testing::StartsWith("Xid4711: the driver reports an error"));
  }
}

/// An XID that arrives while another card disappears is not lost with the old event set.
TEST_P(NvidiaTest, XidsAreStillSeenWhenTheCardsChange) {
  use("a100");
  discovered();
  fake->file["devices"][0]["lost"] = true;
  fake->file["devices"][3]["xids"].push_back(95);
  fake->write();
  discovered();
  const auto lost = plugin->health();
  ASSERT_THAT(lost.cards, SizeIs(2));
  EXPECT_THAT(lost.cards[0].message, ::testing::StartsWith("Lost: "));
  EXPECT_THAT(lost.cards[1].message, ::testing::StartsWith("Xid95: "));
  fake->file["devices"][2]["xids"].push_back(62);
  fake->write();
  EXPECT_THAT(plugin->health().cards, SizeIs(3)) << "the last card by NVML's count is watched, too";
}

TEST_P(NvidiaTest, ALinkThatGoesDownIsSeenAtBothEndsOrAtTheSwitch) {
  use("a100");
  discovered();
  EXPECT_THAT(plugin->health().cards, IsEmpty());
  fake->file["devices"][0]["linksDown"] = 2;
  fake->write();
  const auto one = plugin->health();
  ASSERT_THAT(one.cards, SizeIs(1));
  EXPECT_THAT(one.cards[0].message, ::testing::StartsWith("NvlinkDown: 2 of its NVLinks are down"));
  fake->file["devices"][0].remove("linksDown");
  fake->write();
  EXPECT_THAT(plugin->health().cards, IsEmpty());
}

TEST_P(NvidiaTest, WhatComputesOnACardIsReported) {
  use("a100");
  EXPECT_THAT(plugin->health().processes, IsEmpty());
  fake->file["devices"][1]["processes"] = YAML::Load("[[4711, 1048576], [12, 18446744073709551615]]");
  fake->write();
  EXPECT_THAT(plugin->health().processes,
              ElementsAre(CardProcess{uuid(1), 4711, kMiB, 0}, CardProcess{uuid(1), 12, -1, 0}));
  const auto now = plugin->health().processes;
  fake->file["missing"].push_back("nvmlDeviceGetComputeRunningProcesses_v3");
  fake->write();
  EXPECT_EQ(plugin->health().processes, now) << "as drivers before 510 tell it, R470 among them";
  fake->file["missing"].push_back("nvmlDeviceGetComputeRunningProcesses_v2");
  fake->write();
  EXPECT_THAT(plugin->health().processes, IsEmpty());
}

TEST_P(NvidiaTest, WhatIsUsedOfACardIsReported) {
  use("a100");
  fake->file["each"]["sm"] = 0;
  fake->file["devices"][1]["sm"] = 72;
  fake->file["devices"][1]["processes"] = YAML::Load("[[4711, 1048576, 40], [12, 2097152], [13, 3145728, 200]]");
  fake->write();
  const auto health = plugin->health();
  EXPECT_THAT(health.use, ElementsAre(CardUse{uuid(0), 0, 0, 0}, CardUse{uuid(1), 6 * kMiB, 72, 3},
                                      CardUse{uuid(2), 0, 0, 0}, CardUse{uuid(3), 0, 0, 0}));
  EXPECT_THAT(health.processes, ElementsAre(CardProcess{uuid(1), 4711, kMiB, 40}, CardProcess{uuid(1), 12, 2 * kMiB, 0},
                                            CardProcess{uuid(1), 13, 3 * kMiB, -1}))
      << "the newest sample counts, no sample is nothing, and 200 % can't be";
}

/// NVML lists them separately: the other list has only their server.
TEST_P(NvidiaTest, ClientsOfAnMpsServerAreReported) {
  use("a100");
  fake->file["devices"][1]["processes"] = YAML::Load("[[99, 1048576, 80]]");
  fake->file["devices"][1]["mpsProcesses"] = YAML::Load("[[4711, 2097152], [99, 1048576], [12, 18446744073709551615]]");
  fake->write();
  const auto health = plugin->health();
  EXPECT_THAT(health.processes, ElementsAre(CardProcess{uuid(1), 99, kMiB, 80},
                                            CardProcess{uuid(1), 4711, 2 * kMiB, -1}, CardProcess{uuid(1), 12, -1, -1}))
      << "each once, and what of the SMs is whose is not known";
  EXPECT_EQ(health.use.at(1).processes, 3);
  fake->file["missing"].push_back("nvmlDeviceGetMPSComputeRunningProcesses_v3");
  fake->write();
  EXPECT_EQ(plugin->health().processes, health.processes) << "as drivers before 510 tell it";
  fake->file["missing"].push_back("nvmlDeviceGetMPSComputeRunningProcesses_v2");
  fake->write();
  EXPECT_THAT(plugin->health().processes, ElementsAre(CardProcess{uuid(1), 99, kMiB, 80}));
}

TEST_P(NvidiaTest, UseThatTheLibraryDoesNotReportIsUnknown) {
  use("a100");
  fake->file["each"]["sm"] = 101;  // invalid
  fake->file["devices"][0]["processes"] = YAML::Load("[[4711, 1048576, 40]]");
  fake->file["missing"].push_back("nvmlDeviceGetProcessUtilization");
  fake->write();
  auto health = plugin->health();
  EXPECT_EQ(health.use.at(0), (CardUse{uuid(0), kMiB, -1, 1}));
  EXPECT_THAT(health.processes, ElementsAre(CardProcess{uuid(0), 4711, kMiB, -1}));
  for (const char* symbol : {"nvmlDeviceGetUtilizationRates", "nvmlDeviceGetComputeRunningProcesses_v3",
                             "nvmlDeviceGetComputeRunningProcesses_v2"})
    fake->file["missing"].push_back(symbol);
  fake->file["devices"][0]["used"] = int64_t{1} << 60;
  fake->write();
  health = plugin->health();
  EXPECT_EQ(health.use.at(0), (CardUse{uuid(0), -1, -1, -1}));
  EXPECT_THAT(health.processes, IsEmpty());
  EXPECT_THAT(health.cards, IsEmpty()) << "and nothing else is";
}

/// Drivers before 510 report only total and used.
TEST_P(NvidiaTest, WithoutTheNewerMemoryInfoAllThatIsTakenCountsAsUsed) {
  use("a100");
  fake->file["missing"].push_back("nvmlDeviceGetMemoryInfo_v2");
  fake->file["each"]["reserved"] = 5 * kMiB;
  fake->file["devices"][0]["used"] = 2 * kMiB;
  fake->write();
  EXPECT_EQ(plugin->health().use.at(0).memory, 7 * kMiB);
}

/// The other cards stay healthy, although their links to the missing card are down.
TEST_P(NvidiaTest, LinksToACardThatIsGoneAreNotDown) {
  use("a100");
  EXPECT_THAT(plugin->health().cards, IsEmpty());
  fake->file["devices"][0]["lost"] = true;
  fake->write();
  const auto health = plugin->health();
  ASSERT_THAT(health.cards, SizeIs(1));
  EXPECT_EQ(health.cards[0].uuid, uuid(0));
}

/// The link was never up: other cards of the model show the expected number.
TEST_P(NvidiaTest, ALinkToASwitchThatWasNeverUpIsDown) {
  use("h100");
  fake->file["devices"][5]["linksDown"] = 18;
  fake->write();
  const auto health = plugin->health();
  ASSERT_THAT(health.cards, SizeIs(1));
  EXPECT_EQ(health.cards[0].uuid, uuid(5));
  EXPECT_THAT(health.cards[0].message, ::testing::StartsWith("NvlinkDown: 18 "));
}

TEST_P(NvidiaTest, WorkingNodesOfAllKindsAreHealthy) {
  for (const char* node : {"dgx-1v", "h100", "a100", "a100-mig", "mixed"}) {
    use(node);
    discovered();
    EXPECT_THAT(plugin->health().cards, IsEmpty()) << node;
    fake->file["devices"][0]["xids"].push_back(31);
    fake->write();
    EXPECT_THAT(plugin->health().cards, IsEmpty()) << node;
  }
}

TEST_P(NvidiaTest, WithoutTheSymbolsNothingIsKnownOfErrors) {
  use("dgx-1v");
  for (const char* symbol :
       {"nvmlDeviceGetTotalEccErrors", "nvmlDeviceGetRemappedRows", "nvmlDeviceGetRetiredPagesPendingStatus",
        "nvmlEventSetCreate", "nvmlEventSetFree", "nvmlDeviceRegisterEvents", "nvmlEventSetWait_v2"})
    fake->file["missing"].push_back(symbol);
  fake->file["each"]["ecc"] = 1;
  fake->file["each"]["retiredPending"] = 1;
  fake->write();
  EXPECT_THAT(discovered(), SizeIs(8));
  EXPECT_THAT(plugin->health().cards, IsEmpty());
}

/// The driver is exchanged under an agent that has NVML open.
TEST_P(NvidiaTest, WhatIsHeldOpenIsLetGoWhenTheDriverDoesNotAnswer) {
  use("a100");
  discovered();
  fake->file["errors"]["nvmlDeviceGetCount_v2"] = 18;
  fake->write();
  const auto reply = plugin->health();
  EXPECT_EQ(reply.reply.outcome, ReplyCode::unavailable);
  EXPECT_THAT(reply.reply.message, HasSubstr("of different versions"));
  fake->file.remove("errors");
  fake->write();
  EXPECT_TRUE(plugin->health().reply.ok());
  fake->file["devices"][1]["xids"].push_back(119);
  fake->write();
  EXPECT_THAT(plugin->health().cards, SizeIs(1)) << "it is watched again";
}

TEST_P(NvidiaTest, ADriverThatIsUnloadedTakesWhatWasSeenAlong) {
  use("a100");
  discovered();
  fake->file["devices"][1]["xids"].push_back(119);
  fake->write();
  EXPECT_THAT(plugin->health().cards, SizeIs(1));
  const auto away = [&](bool unloaded) {
    fake->file["errors"]["nvmlInit_v2"] = 9;
    fake->write();
    for (std::size_t i = 0; unloaded && i < 4; ++i) fake->unplug(i);
    EXPECT_EQ(plugin->health().reply.outcome, ReplyCode::unavailable);
    fake->file.remove("errors");
    fake->write();
  };
  away(false);
  EXPECT_THAT(plugin->health().cards, SizeIs(1)) << "the kernel has the cards: it is the same driver";
  away(true);
  EXPECT_THAT(plugin->health().cards, IsEmpty());
}

TEST_P(NvidiaTest, ACardThatIsLostWhileItIsReadIsLost) {
  use("a100");
  fake->file["devices"][2]["errors"]["nvmlDeviceGetMemoryInfo_v2"] = 15;
  fake->file["devices"][2]["errors"]["nvmlDeviceGetMemoryInfo"] = 15;
  fake->write();
  EXPECT_THAT(discovered(), SizeIs(3));
  EXPECT_THAT(plugin->health().cards, ElementsAre(CardHealth{uuid(2), false, "Lost: " + message}));
}

TEST_P(NvidiaTest, ACardThatNvmlDoesNotCountIsLost) {
  use("a100");
  fake->file["count"] = 3;
  fake->write();
  EXPECT_THAT(discovered(), SizeIs(3));
  EXPECT_THAT(message, HasSubstr(uuid(3) + ": NVML does not count it"));
  EXPECT_THAT(plugin->health().cards, SizeIs(1));
}

TEST_P(NvidiaTest, WithoutALibraryThereIsNoDriverAndNoCard) {
  EXPECT_THAT(discovered(), IsEmpty());
  EXPECT_THAT(message, AllOf(HasSubstr("no NVIDIA driver"), HasSubstr("libnvidia-ml.so.1")));
  EXPECT_TRUE(plugin->health().reply.ok());
}

TEST_P(NvidiaTest, WithoutALibraryCardsThatTheKernelHasAreNotGone) {
  use("a100");
  fake->uninstall();
  for (const auto& reply : {plugin->discover().reply, plugin->health().reply}) {
    EXPECT_EQ(reply.outcome, ReplyCode::unavailable);
    EXPECT_THAT(reply.message, AllOf(HasSubstr("no NVIDIA driver"), HasSubstr("the kernel has 4 of its cards")));
  }
}

TEST_P(NvidiaTest, ADriverThatDoesNotStartIsAskedAgain) {
  use("a100");
  const std::pair<int, const char*> rows[] = {{9, "the kernel module is not loaded"},
                                              {18, "of different versions"},
                                              {4, "no permission"},
                                              {777, "NVML answered 777"}};
  for (const auto& [code, why] : rows) {
    fake->file["errors"]["nvmlInit_v2"] = code;
    fake->write();
    const auto reply = plugin->discover();
    EXPECT_EQ(reply.reply.outcome, ReplyCode::unavailable);
    EXPECT_THAT(reply.reply.message, HasSubstr(why));
    EXPECT_THAT(reply.gpus, IsEmpty());
  }
  fake->file.remove("errors");
  fake->write();
  EXPECT_THAT(discovered(), SizeIs(4));
}

TEST_P(NvidiaTest, ASlowDriverIsNoEmptyNode) {
  use("dgx-1v");
  fake->file["slow"]["nvmlDeviceGetUUID"] = 300;  // ms
  fake->write();
  InProcessRegistry impatient{{milliseconds(1'000), milliseconds(1'000)}};
  const auto reply = loadedInto(impatient)->discover();
  EXPECT_EQ(reply.reply.outcome, ReplyCode::unavailable);
  EXPECT_THAT(reply.reply.message, HasSubstr("of 8 cards read in time"));
}

TEST_P(NvidiaTest, WhatCannotBeIsLeftUnknownWithWords) {
  use("a100");
  const auto whole = discovered();
  const auto first = [&](const char* field, const char* value) {
    const auto cards = discoveredWith([&](YAML::Node& file) { file["devices"][0][field] = value; });
    EXPECT_THAT(cards, SizeIs(4)) << field;
    for (std::size_t i = 1; i < cards.size(); ++i) EXPECT_EQ(cards[i], whole[i]) << field;
    return cards.empty() ? Gpu{} : cards.front();
  };
  EXPECT_EQ(first("memory", "18446744073709551615").memory, 0);
  EXPECT_THAT(message, HasSubstr("it can't have 18446744073709551615 bytes"));
  EXPECT_EQ(first("memory", "0").memory, 0);
  EXPECT_EQ(first("reserved", "9223372036854775808").memory, 0);
  EXPECT_THAT(message, HasSubstr("of which 9223372036854775808 are reserved"));
  EXPECT_EQ(first("cores", "4294967295").smCount, 0);
  EXPECT_THAT(message, HasSubstr("its SMs are unknown"));
  EXPECT_EQ(first("minor", "2147483648").index, -1);
  EXPECT_THAT(message, HasSubstr("its minor number is unknown: it can't be 2147483648"));
  EXPECT_EQ(first("numa", "99999").numaNode, -1);
  EXPECT_EQ(first("name", "NVIDIA \x01|\x7f card").model, "?-?-card");
  const auto clock = discoveredWith([](YAML::Node& file) {
    file["each"]["name"] = "Unheard Of";
    file["each"]["clock"] = 4294967295u;
  });
  EXPECT_EQ(clock.at(0).milliTflops, 0);
  EXPECT_THAT(message, HasSubstr("its rating is unknown"));
}

TEST_P(NvidiaTest, CardsThatCannotBeNamedAreLeftOut) {
  use("a100");
  for (const char* bad : {"", "-GPU", "GPU 1", "GPU/../1", "GPU-\xc3\xa9"}) {
    EXPECT_THAT(discoveredWith([&](YAML::Node& file) { file["devices"][3]["uuid"] = bad; }), SizeIs(3)) << bad;
    EXPECT_THAT(message, HasSubstr("can't name a card")) << bad;
  }
  EXPECT_THAT(discoveredWith([&](YAML::Node& file) { file["devices"][3]["uuid"] = uuid(0); }), SizeIs(3));
  EXPECT_THAT(message, HasSubstr("is reported twice"));
  EXPECT_THAT(discoveredWith([](YAML::Node& file) { file["unterminated"] = true; }), IsEmpty());
}

TEST_P(NvidiaTest, ACountBeyondReasonIsCut) {
  use("a100");
  const auto cards = discoveredWith([](YAML::Node& file) { file["count"] = 2147483648; });
  EXPECT_THAT(cards, SizeIs(4));
  EXPECT_THAT(message, HasSubstr("counts 2147483648 cards; the first 64 are taken"));
}

/// In its own process and sandbox the plugin sees the same cards, and may open the files that the driver's library
/// opens.
TEST_P(NvidiaTest, ThePluginsProcessMayDiscover) {
  use("h100");
  for (const char* path : {"/dev/null", "/dev/zero", "/proc/driver", "/sys/bus"}) fake->file["opens"].push_back(path);
  fake->write();
  base::SystemClock clock;
  base::Random random;
  HostOptions options;
  options.env = fake->environment();
  HostedProvisioner hosted(path(), options, clock, random, [](HostedProvisioner&) {});
  ASSERT_TRUE(hosted.waitFirstAttempt());
  ASSERT_TRUE(hosted.readiness().ok()) << hosted.readiness().message;
  const auto reply = hosted.discover();
  EXPECT_EQ(reply.reply.outcome, ReplyCode::ok) << reply.reply.message;
  EXPECT_EQ(reply.gpus, discovered());
  fake->file["devices"][0]["lost"] = true;
  fake->write();
  EXPECT_EQ(hosted.discover().gpus, discovered());
  EXPECT_EQ(hosted.health().cards, plugin->health().cards);
  EXPECT_THAT(hosted.health().cards, SizeIs(1));
}

}  // namespace
}  // namespace testing
}  // namespace egpu::plugin

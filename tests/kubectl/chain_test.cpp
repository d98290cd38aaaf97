// The chain of `kubectl egpu why`, from objects.
#include "controller/kubectl/why/chain.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <fstream>
#include <regex>

#include "controller/kubectl/output.h"

namespace egpu::kubectl {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::IsEmpty;

Json condition(const char* type, const char* status, const char* reason, const char* message) {
  return {{"type", type},
          {"status", status},
          {"reason", reason},
          {"message", message},
          {"lastTransitionTime", "2026-01-02T03:04:05Z"}};
}

/// A bound claim with its pod: each step is done.
Evidence bound() {
  Evidence e;
  e.kind = "pod";
  e.space = "team";
  e.name = "p";
  e.pod = {{"metadata", {{"name", "p"}}}, {"spec", {{"nodeName", "n"}}}, {"status", {{"phase", "Running"}}}};
  ClaimEvidence c;
  c.space = "team";
  c.name = "c";
  c.usedByPod = true;
  c.claim = {{"metadata", {{"uid", "u"}}},
             {"status",
              {{"phase", "Bound"}, {"nodeName", "n"}, {"elasticGPUName", "egpu-u"}, {"capacity", {{"core", "30%"}}}}}};
  c.device = {{"metadata", {{"name", "egpu-u"}, {"uid", "d"}}},
              {"spec", {{"nodeName", "n"}, {"cards", {{{"name", "card"}}}}}}};
  c.cards = {{{"metadata", {{"name", "card"}}}, {"spec", {{"allocations", {{"d", {{"core", 300}, {"memory", 0}}}}}}}}};
  c.resourceClaim = {{"status", {{"allocation", {{"x", 1}}}, {"reservedFor", {{{"name", "p"}}}}}}};
  c.node = {{"status", {{"conditions", Json::array({condition("Ready", "True", "KubeletReady", "")})}}}};
  e.claims = {c};
  return e;
}

std::string stopOf(const Evidence& e) {
  const auto chain = chainsOf(e).front();
  return chain.stopsAt < 0 ? "" : chain.steps[static_cast<std::size_t>(chain.stopsAt)].step;
}

TEST(Chain, IsDoneForARunningPod) {
  const auto chain = chainsOf(bound()).front();
  EXPECT_EQ(chain.stopsAt, -1);
  EXPECT_THAT(chain.help, IsEmpty());
  for (const auto& step : chain.steps) EXPECT_EQ(step.state, StepState::done) << step.step;
}

TEST(Chain, StopsAtTheFirstObstacleBehindThePod) {
  auto e = bound();
  e.pod["status"]["phase"] = "Pending";
  e.claims[0].claim["status"] = {{"phase", "Pending"},
                                 {"conditions", Json::array({condition("Bound", "False", "NoFit", "no node")})}};
  e.claims[0].device = nullptr;
  e.claims[0].cards.clear();
  e.claims[0].resourceClaim = nullptr;
  e.claims[0].node = nullptr;
  EXPECT_EQ(stopOf(e), "decision");
  const auto chain = chainsOf(e).front();
  EXPECT_GT(chain.steps[2].since, 0);
  EXPECT_THAT(chain.help, Contains(HasSubstr("kubectl egpu try -n team c")));
}

TEST(Chain, NamesCardsWithoutAnEntry) {
  auto e = bound();
  e.claims[0].cards[0]["spec"]["allocations"] = Json::object();
  EXPECT_EQ(stopOf(e), "ledger");
  EXPECT_THAT(chainsOf(e).front().steps[3].message, HasSubstr("card"));
}

TEST(Chain, OfARemoteDeviceNeedsNeitherCardsNorNode) {
  auto e = bound();
  auto& c = e.claims[0];
  c.claim["status"] = {{"phase", "Bound"}, {"elasticGPUName", "egpu-u"}};
  c.device["spec"] = {{"remote", {{"endpoint", "https://user:SECRET@10.0.0.1:7000/gpu?key=SECRET"}}}};
  c.cards.clear();
  c.node = nullptr;
  const auto done = chainsOf(e).front();
  EXPECT_EQ(done.stopsAt, -1);
  EXPECT_THAT(done.steps[3].message, HasSubstr("uses no card"));
  EXPECT_EQ(std::count_if(done.steps.begin(), done.steps.end(),
                          [](const auto& step) { return step.message == "Bound: https://10.0.0.1:7000"; }),
            1)
      << "without parts that can be secrets";
  c.claim["status"] = {{"phase", "Pending"},
                       {"conditions", Json::array({condition("Bound", "False", "NoFit", "pool p is full")})}};
  c.device["spec"]["remote"] = Json::object();
  c.resourceClaim = nullptr;
  e.pod["status"]["phase"] = "Pending";
  EXPECT_EQ(stopOf(e), "device");
  EXPECT_THAT(chainsOf(e).front().help, Contains(HasSubstr("add GPUs to its pool")));
}

TEST(Chain, StopsAtAMissingResourceClaim) {
  auto e = bound();
  e.claims[0].resourceClaim = nullptr;
  EXPECT_EQ(stopOf(e), "ResourceClaim");
}

TEST(Chain, StopsAtANodeThatIsNotReady) {
  auto e = bound();
  e.claims[0].node["status"]["conditions"][0]["status"] = "Unknown";
  EXPECT_EQ(stopOf(e), "node");
}

TEST(Chain, StopsAtADeviceThatItsContainersHaveLost) {
  for (const char* type : {"AccessLost", "IsolationBypassed"}) {
    auto e = bound();
    e.claims[0].claim["status"]["conditions"] =
        Json::array({condition(type, "True", type == std::string("AccessLost") ? "MpsServerFault" : type, "a fault")});
    EXPECT_EQ(stopOf(e), "device") << type;
    const auto chain = chainsOf(e).front();
    EXPECT_EQ(chain.steps.back().state, StepState::failed);
    EXPECT_EQ(chain.steps.back().message, "a fault");
    EXPECT_GT(chain.steps.back().since, 0);
    EXPECT_FALSE(chain.help.empty());
    e.claims[0].claim["status"]["conditions"][0]["status"] = "False";
    EXPECT_EQ(stopOf(e), "") << type;
  }
}

TEST(Chain, StopsAtAnUnhealthyCard) {
  auto e = bound();
  e.claims[0].cards[0]["status"]["conditions"] = Json::array({condition("Healthy", "False", "Xid79", "lost")});
  EXPECT_EQ(stopOf(e), "device");
}

TEST(Chain, StopsAtThePodWhenItsClaimIsDone) {
  auto e = bound();
  e.pod["status"] = {{"phase", "Pending"},
                     {"conditions", Json::array({condition("PodScheduled", "False", "Unschedulable", "0/2 nodes")})}};
  EXPECT_EQ(stopOf(e), "pod");
}

TEST(Chain, IsUnknownWhereTheUserHasNoRight) {
  auto e = bound();
  e.claims[0].device = nullptr;
  e.claims[0].cards.clear();
  e.claims[0].node = nullptr;
  e.claims[0].unreadable = {{"device", "forbidden"}, {"node", "forbidden"}};
  const auto chain = chainsOf(e).front();
  EXPECT_EQ(chain.stopsAt, -1);
  EXPECT_EQ(chain.steps[3].state, StepState::unknown);
  EXPECT_EQ(chain.steps[5].state, StepState::unknown);
}

TEST(Help, KnowsEveryReason) {
  std::ifstream file(EGPU_SOURCE_DIR "/api/v1alpha/keys.h");
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  const auto begin = text.find("namespace reason {"), end = text.find("}  // namespace reason");
  ASSERT_NE(begin, std::string::npos);
  const auto reasons = text.substr(begin, end - begin);
  const std::regex name("= *\"(\\w+)\"|\\n *\"(\\w+)\"");
  const auto unknown = helpFor("NoSuchReason", "ns", "c");
  std::size_t found = 0;
  for (std::sregex_iterator it(reasons.begin(), reasons.end(), name), none; it != none; ++it, ++found) {
    const auto reason = (*it)[1].matched ? (*it)[1].str() : (*it)[2].str();
    EXPECT_NE(helpFor(reason, "ns", "c"), unknown) << reason;
  }
  EXPECT_GT(found, 30U);
}

TEST(Ages, AreKubectls) {
  const std::pair<int64_t, const char*> cases[] = {
      {45, "45s"},    {119, "119s"},     {120, "2m"},     {312, "5m12s"},    {1800, "30m"},   {10'799, "179m"},
      {10'800, "3h"}, {12'000, "3h20m"}, {86'400, "24h"}, {180'000, "2d2h"}, {864'000, "10d"}};
  for (const auto& [seconds, text] : cases) EXPECT_EQ(ageOf(1000, 1000 + seconds), text);
  EXPECT_EQ(ageOf(0, 5), "<unknown>");
}

TEST(Tables, AlignByWhatATerminalShows) {
  KubectlTable table;
  table.column("NAME");
  table.column("STATE");
  table.column("NODE", KubectlTable::Show::wide);
  table.row({"a", toned("Done", Tone::good, true), "n"});
  table.row({"longer", "", "m"});
  EXPECT_EQ(table.text({}), "NAME     STATE\na        \033[32mDone\033[0m\nlonger   <none>\n");
  EXPECT_THAT(table.text({.output = "wide"}), HasSubstr("NODE"));
  OutputFlags bare;
  bare.noHeaders = true;
  EXPECT_THAT(table.text(bare), testing::StartsWith("a        "));
}

}  // namespace
}  // namespace egpu::kubectl

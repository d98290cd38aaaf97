// The replay of traces: the protocol on a trace small enough to compute by hand, FGD's score, and refused input.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "bench/openb/churn.h"
#include "bench/openb/fgd.h"
#include "bench/openb/replay.h"
#include "bench/openb/scheduled.h"
#include "bench/openb/trace.h"

namespace egpu::bench::openb {
namespace {

/// A temporary folder that is removed with the test.
class Folder {
 public:
  Folder() : path_(std::filesystem::temp_directory_path() / ("egpu-openb-" + std::to_string(getpid()))) {
    std::filesystem::create_directories(path_);
  }
  ~Folder() { std::filesystem::remove_all(path_); }
  std::string write(const std::string& name, const std::string& text) const {
    std::ofstream(path_ / name) << text;
    return path_ / name;
  }

 private:
  std::filesystem::path path_;
};

const char* const kNodes =
    "sn,cpu_milli,memory_mib,gpu,model\n"
    "x,16000,65536,2,T4\n"
    "y,16000,65536,2,V100\n"
    "z,8000,65536,0,\n";
const char* const kPods =
    "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos\n"
    "p0,1000,1024,1,600,,LS\n"         // 0
    "p1,1000,1024,1,500,,LS\n"         // 1
    "p2,1000,1024,2,1000,,LS\n"        // 2
    "p3,1000,1024,1,1000,T4,LS\n"      // 3
    "p4,20000,1024,0,0,,BE\n"          // 4: more CPU than any node has
    "p5,1000,1024,1,500,T4|V100,LS\n"  // 5
    "p6,1000,1024,1,300,A10,LS\n";     // 6: no such card here
// 4 cards: each arriving pod of 1000 is 25 %.
const char* const kOrder = "8\n0 1 2 3 4 5 6 0\n1 0 2\n";

struct TraceFiles {
  Folder folder;
  std::string nodes, pods, order;
  explicit TraceFiles(const std::string& n = kNodes, const std::string& p = kPods, const std::string& o = kOrder)
      : nodes(folder.write("nodes.csv", n)), pods(folder.write("pods.csv", p)), order(folder.write("order", o)) {}
  Trace read() const { return readTrace(nodes, pods, order); }
};

// binpack/binpack. Ranks: y before x. p0 (600) goes to y's card 0. p1 (500) does not fit beside it, so it goes to y's
// card 1, because y is the fuller node; p2 goes to both cards of x; p3 needs a whole T4: none is left (arrived
// 600+500+2000+1000 = 4100 of 4000); p4 fits nowhere; p5 goes beside p1; p6 has no model; p0 again: y has 400 left on
// card 0.
TEST(OpenbReplay, FollowsTheProtocol) {
  const TraceFiles files;
  const Trace trace = files.read();
  Policies policies;
  ASSERT_TRUE(findPolicies("binpack", policies));
  Scheduled placer(trace, policies);
  const Result result = replay(trace, placer);
  ASSERT_TRUE(result.firstFailure.has_value());
  EXPECT_DOUBLE_EQ(*result.firstFailure, 102.5);
  EXPECT_EQ(result.failed, (std::array<int64_t, 6>{1, 2, 1, 0, 0, 0}));
  EXPECT_DOUBLE_EQ(result.allocated[15].value(), 15);    // 600 of 4000 arrived
  EXPECT_DOUBLE_EQ(result.allocated[28].value(), 27.5);  // 1100: rounds up
  EXPECT_DOUBLE_EQ(result.allocated[78].value(), 77.5);
  EXPECT_DOUBLE_EQ(result.allocated[103].value(), 77.5);  // p3 and p4 at 102.5: the mean of two equal values
  EXPECT_DOUBLE_EQ(result.allocated[115].value(), 90);
  EXPECT_FALSE(result.allocated[100].has_value());
  EXPECT_EQ(toJson("binpack", result, 8, false).substr(0, 134),
            "{\"policy\": \"binpack\", \"alloc95\": null, \"alloc100\": null, \"alloc130\": null, \"first_failure\": "
            "102.5000, \"failed\": {\"cpu\": 1, \"share\": 2,");
}

TEST(OpenbReplay, CpuAndMemoryAreUsedUp) {
  const TraceFiles files("sn,cpu_milli,memory_mib,gpu,model\nx,3000,2048,4,T4\n",
                         "cpu_milli,memory_mib,num_gpu,gpu_milli\n1000,1024,1,100\n1000,1,0,0\n1000,0,4,1000\n",
                         "5\n0 0 0 1 1\n0\n");
  const Trace trace = files.read();
  Policies policies;
  ASSERT_TRUE(findPolicies("spread", policies));
  EXPECT_EQ(policies.card, "spread");
  Scheduled placer(trace, policies);
  Fgd fgd(trace);
  for (Placer* each : {static_cast<Placer*>(&placer), static_cast<Placer*>(&fgd)}) {
    const Result result = replay(trace, *each);
    EXPECT_EQ(result.failed[1], 1);  // memory suffices for two
    EXPECT_EQ(result.failed[0], 2);  // CPU suffices for one, but no memory is left
    EXPECT_DOUBLE_EQ(*result.firstFailure, 7.5);
  }
}

// All typical pods ask for half a card. y has a card with 600 free and a whole one, x has two whole ones. Half a card
// on the 600: F rises from 0 to 100; on a whole card: F stays 0. 100 · sigmoid(−0.1) = 47.5 against 50: so a whole card
// of the lowest rank, y, is chosen.
TEST(OpenbFgd, TakesWhereFewestFragmentsComeUp) {
  Trace trace;
  trace.nodes = {{"x", 16000, 65536, 2, "T4", 1}, {"y", 16000, 65536, 2, "T4", 0}};
  trace.pods.assign(99, {0, 0, 1, 500, {}});
  trace.pods.push_back({0, 0, 1, 400, {}});
  trace.pods.push_back({0, 0, 2, 1000, {}});
  Fgd fgd(trace);
  const auto place = [&](std::size_t pod) {
    const auto seat = fgd.choose(trace.pods[pod], {});
    if (seat) fgd.take(trace.pods[pod], 0, *seat);
    return seat;
  };
  const auto first = place(99);  // onto y, which then has 600 and 1000 free
  ASSERT_TRUE(first);
  ASSERT_TRUE(place(0));  // onto y's whole card: no fragments, and the lowest rank
  ASSERT_TRUE(place(100)) << "x is whole still";
  EXPECT_FALSE(place(100));
  ASSERT_TRUE(place(0));
  ASSERT_TRUE(place(0));
  EXPECT_FALSE(place(0));  // 100 is left of y's first card
  fgd.giveBack(trace.pods[99], 0, *first);
  EXPECT_EQ(place(0)->cards, first->cards);
}

// Parts of the largest capacity of a node, z's 4000 of CPU and 8 cards.
TEST(OpenbBestFit, TakesWhereTheLeastIsLeft) {
  Trace trace;
  trace.nodes = {{"x", 1000, 1, 4, "T4", 0}, {"y", 1500, 1, 3, "T4", 1}, {"z", 4000, 1, 8, "T4", 2}};
  trace.pods = {{500, 0, 1, 400, {}}, {500, 0, 1, 500, {}}, {0, 0, 1, 300, {}},
                {0, 0, 1, 800, {}},   {0, 0, 1, 150, {}},   {0, 0, 4, 1000, {}}};
  BestFit fit(trace);
  const auto place = [&](std::size_t pod) {
    const auto seat = fit.choose(trace.pods[pod], {});
    if (seat) fit.take(trace.pods[pod], 0, *seat);
    return seat ? std::pair(seat->node, seat->cards.front()) : std::pair(std::size_t{99}, std::size_t{0});
  };
  using At = std::pair<std::size_t, std::size_t>;
  EXPECT_EQ(place(0), At(0, 0)) << "71 hundredths on x and on y, 8 on z";
  EXPECT_EQ(place(1), At(0, 0)) << "beside it: the card with the least room";
  EXPECT_EQ(place(2), At(0, 1));
  EXPECT_EQ(place(3), At(0, 2));
  EXPECT_EQ(place(4), At(0, 2)) << "200 are left of it, of the one before 700";
  EXPECT_EQ(place(5), At(2, 0)) << "no other node has four";
}

// One node of two cards. At any moment two halves are in use, and the next half arrives before one of them departs. A
// pod of two cards thus never finds both free, unless the node is reserved for it.
TEST(OpenbChurn, ALargePodIsNotStarvedBySmallOnes) {
  std::string pods = "cpu_milli,memory_mib,num_gpu,gpu_milli,creation_time,deletion_time\n";
  for (int i = 0; i < 100; ++i)
    pods += "0,0,1,900," + std::to_string(1000 * i) + "," + std::to_string(1000 * i + 1700) + "\n";
  pods += "0,0,2,1000,50500,51000\n";
  const TraceFiles files("sn,cpu_milli,memory_mib,gpu,model\nx,3000,2048,2,T4\n", pods, "1\n0\n0\n");
  const Trace trace = files.read();
  Policies policies;
  ASSERT_TRUE(findPolicies("binpack", policies));
  ChurnOptions options;
  options.load = 0.8;  // one copy
  options.warmUp = 0;
  options.measured = 100'000;
  std::array<ChurnResult, 2> results;
  for (const int64_t after : {-1, 600}) {
    options.reserveAfter = after;
    Scheduled ledger(trace, policies);
    results[after < 0 ? 0 : 1] = churn(trace, ledger, ledger, options);
  }
  const auto& [never, reserving] = results;
  EXPECT_EQ(never.copies, 1);
  EXPECT_EQ(never.sizes[3].pods, 1);
  EXPECT_GT(reserving.sizes[3].mean, 600);
  EXPECT_LT(reserving.sizes[3].mean, 600 + 900 + 1700);
  EXPECT_GT(never.sizes[3].mean, reserving.sizes[3].mean);
  EXPECT_EQ(never.sizes[1].mean, 0);
  EXPECT_GT(reserving.sizes[1].mean, 0);
}

ChurnResult churned(const std::string& nodes, const std::string& pods, const ChurnOptions& options) {
  const TraceFiles files("sn,cpu_milli,memory_mib,gpu,model\n" + nodes,
                         "cpu_milli,memory_mib,num_gpu,gpu_milli,qos,creation_time,deletion_time\n" + pods,
                         nodes.find('\n') + 1 == nodes.size() ? "1\n0\n0\n" : "1\n0\n0 1\n");
  const Trace trace = files.read();
  Policies policies;
  findPolicies("binpack", policies);
  Scheduled ledger(trace, policies);
  return churn(trace, ledger, ledger, options);
}

// One card, which a best effort pod uses from 0 on. Another pod arrives at 1000 for 500 seconds. Without preemption it
// waits until 4000. With preemption the first pod loses 1000 seconds of work and starts over at 1500. If both pods are
// best effort, the second one waits.
TEST(OpenbChurn, PreemptionLetsInWhoComesBeforeAndCountsWhatIsLost) {
  const std::string first = "0,0,1,1000,BE,0,4000\n";
  ChurnOptions options;
  options.warmUp = 0;
  options.measured = 10'000;
  options.load = 0.1;  // one copy
  for (const bool preempts : {false, true}) {
    options.preempts = preempts;
    const auto after = churned("x,3000,2048,1,T4\n", first + "0,0,1,1000,LS,1000,1500\n0,0,0,0,LS,0,10001\n", options);
    EXPECT_EQ(after.evicted, preempts ? 1 : 0);
    EXPECT_NEAR(after.lost, preempts ? 10 : 0, 0.1);
    EXPECT_NEAR(after.allocated, preempts ? 55 : 45, 0.1);
    EXPECT_EQ(after.sizes[2].p99, preempts ? 500 : 3000);
    const auto alike = churned("x,3000,2048,1,T4\n", first + "0,0,1,1000,BE,1000,1500\n0,0,0,0,LS,0,10001\n", options);
    EXPECT_EQ(alike.evicted, 0);
    EXPECT_EQ(alike.sizes[2].p99, 3000);
  }
}

// Two nodes of two cards. After 1000 seconds a long best effort pod has a card of each node. A pod that needs both
// cards of a node waits for thousands of seconds, or for the first search after 600 seconds: searches are 900 apart.
TEST(OpenbChurn, MovesLetInWhoHasWaited) {
  std::string pods = "0,0,1,1000,BE,0,9500\n0,0,1,1000,BE,0,1000\n0,0,1,1000,BE,0,9500\n0,0,1,1000,BE,0,1000\n";
  pods += "0,0,2,1000,LS,1500,2000\n0,0,0,0,LS,0,10001\n";
  ChurnOptions options;
  options.warmUp = 0;
  options.measured = 10'000;
  options.load = 0.1;
  options.reserveAfter = -1;
  const auto without = churned("x,3000,2048,2,T4\ny,3000,2048,2,T4\n", pods, options);
  EXPECT_EQ(without.moved, 0);
  EXPECT_GT(without.sizes[3].p99, 3000);
  options.moves = true;
  const auto with = churned("x,3000,2048,2,T4\ny,3000,2048,2,T4\n", pods, options);
  EXPECT_EQ(with.moved, 1);
  EXPECT_EQ(with.evicted, 0);
  EXPECT_GE(with.sizes[3].p99, 600);
  EXPECT_LE(with.sizes[3].p99, 1500);
  EXPECT_GT(with.lost, 1);
  EXPECT_EQ(without.lost, 0);
}

// No pod waits if there is capacity for all: allocated equals offered, for every placer.
TEST(OpenbChurn, WithoutWaitsAllThatIsAskedForIsAllocated) {
  std::string pods = "cpu_milli,memory_mib,num_gpu,gpu_milli,creation_time,deletion_time\n";
  for (int i = 0; i < 40; ++i)
    pods += "10,1,1,500," + std::to_string(25 * i) + "," + std::to_string(25 * i + 300) + "\n0,1,0,0,5,10\n";
  const TraceFiles files("sn,cpu_milli,memory_mib,gpu,model\nx,16000,65536,8,T4\ny,16000,65536,8,T4\n", pods,
                         "2\n0 1\n1 0\n");
  const Trace trace = files.read();
  Policies policies;
  ASSERT_TRUE(findPolicies("fragmentation", policies));
  ChurnOptions options;
  options.load = 0.6;
  options.warmUp = 500;
  options.measured = 7200;
  Scheduled scheduled(trace, policies), ledger(trace, policies), other(trace, policies);
  Fgd fgd(trace);
  BestFit fit(trace);
  const ChurnResult first = churn(trace, scheduled, scheduled, options);
  EXPECT_EQ(first.copies, 2);
  EXPECT_NEAR(first.offered, 60, 5);
  EXPECT_EQ(first.hourly.size(), 2u);
  for (const ChurnResult& each : {first, churn(trace, ledger, fgd, options), churn(trace, other, fit, options)}) {
    EXPECT_NEAR(each.allocated, each.offered, 1e-6);
    EXPECT_NEAR((each.hourly[0] + each.hourly[1]) / 2, each.allocated, 1e-6);
    for (const ChurnResult::OfSize& of : each.sizes) EXPECT_EQ(of.mean + of.p99, 0);
  }
}

std::string whatIsWrong(const std::string& nodes, const std::string& pods, const std::string& order) {
  const TraceFiles files(nodes, pods, order);
  try {
    files.read();
  } catch (const BadTrace& bad) {
    const std::string text = bad.what();
    return text.substr(text.rfind('/') + 1);
  }
  return "nothing";
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  return text.replace(text.find(from), from.size(), to);
}

TEST(OpenbTrace, ReportsWhatIsWrongWithAFile) {
  EXPECT_EQ(whatIsWrong(kNodes, kPods, kOrder), "nothing");
  EXPECT_EQ(whatIsWrong(replaced(kNodes, "16000,65536,2,T4", "16000,65536,two,T4"), kPods, kOrder),
            "nodes.csv: line 2: gpu: \"two\" is no whole number");
  EXPECT_EQ(whatIsWrong(replaced(kNodes, "y,16000", "x,16000"), kPods, kOrder),
            "nodes.csv: line 3: sn: \"x\" is there twice");
  EXPECT_EQ(whatIsWrong(replaced(kNodes, "cpu_milli", "cpu"), kPods, kOrder),
            "nodes.csv: line 1: there is no column \"cpu_milli\"");
  EXPECT_EQ(whatIsWrong(kNodes, replaced(kPods, "p2,1000,1024,2,1000", "p2,1000,1024,2,900"), kOrder),
            "pods.csv: line 4: gpu_milli: several cards are always 1000 each");
  EXPECT_EQ(whatIsWrong(kNodes, replaced(kPods, "1,600,,LS", "1,1600,,LS"), kOrder),
            "pods.csv: line 2: gpu_milli: 1600 is not within 1 … 1000");
  EXPECT_EQ(whatIsWrong(kNodes, replaced(kPods, "1,600,,LS", "1,600,LS"), kOrder),
            "pods.csv: line 2: 6 fields where the header has 7");
  EXPECT_EQ(whatIsWrong(kNodes, replaced(kPods, "T4|V100", "T4||V100"), kOrder),
            "pods.csv: line 7: gpu_spec: \"T4||V100\" names an empty model");
  EXPECT_EQ(whatIsWrong(kNodes, kPods, "3\n0 1\n0 1 2\n"), "order: line 2: 2 arrivals where line 1 says 3");
  EXPECT_EQ(whatIsWrong(kNodes, kPods, "1\n7\n0 1 2\n"), "order: line 2: row: 7 is not within 0 … 6");
  EXPECT_EQ(whatIsWrong(kNodes, kPods, "1\n0\n0 1\n"), "order: line 3: 2 ranks for 3 nodes");
  EXPECT_EQ(whatIsWrong(kNodes, kPods, "1\n0\n0 1 1\n"), "order: line 3: rank: 1 is there twice");
  EXPECT_EQ(whatIsWrong(kNodes, kPods, "1\n0\n"), "order: line 2: the ranks of the nodes are missing");
  const std::string timed = "cpu_milli,memory_mib,num_gpu,gpu_milli,creation_time,deletion_time\n1,1,1,1,20,10\n";
  EXPECT_EQ(whatIsWrong(kNodes, timed, "1\n0\n0 1 2\n"),
            "pods.csv: line 2: deletion_time: 10 is not within 20 … 1099511627776");
  EXPECT_THROW(readTrace("/nowhere/nodes.csv", "", ""), BadTrace);
}

/// Runs the program and returns its exit status and output.
std::pair<int, std::string> run(const std::string& arguments) {
  const std::string command = std::string(EGPU_BIN_DIR) + "/openb " + arguments + " 2>&1";
  FILE* pipe = popen(command.c_str(), "r");
  std::string out;
  char text[256];
  while (std::fgets(text, sizeof text, pipe) != nullptr) out += text;
  const int status = pclose(pipe);
  return {WEXITSTATUS(status), out};
}

TEST(OpenbProgram, PrintsOneLineOfJsonForEveryPolicy) {
  const TraceFiles files;
  const std::string where = "--nodes " + files.nodes + " --pods " + files.pods + " --order " + files.order;
  std::vector<std::string> names = policyNames();
  names.push_back("fgd");
  names.push_back("bestfit");
  names.push_back("binpack/topology");
  names.push_back("fragmentation --classes trace");
  for (const std::string& name : names) {
    const auto [status, out] = run(where + " --policy " + name);
    EXPECT_EQ(status, 0) << out;
    EXPECT_EQ(out.find("{\"policy\": \"" + name.substr(0, name.find(' ')) + "\", \"alloc95\": "), 0u) << out;
    EXPECT_EQ(out.find('\n'), out.size() - 1) << out;
    EXPECT_NE(out.find("\"decisions_per_s\": "), std::string::npos) << out;
  }
}

TEST(OpenbProgram, RefusesWhatItCannotUse) {
  const TraceFiles files;
  const std::string where = "--nodes " + files.nodes + " --pods " + files.pods + " --order " + files.order;
  const std::pair<std::string, std::string> cases[] = {
      {where, "--policy: is missing"},
      {where + " --policy best", "\"best\" is none of fgd, bestfit, binpack, compact-first, fragmentation"},
      {where + " --policy binpack --classes guessed", "\"guessed\" is neither learned nor trace"},
      {where + " --policy fgd --classes learned", "it does not learn"},
      {where + " --policy binpack --departures", "--load: is missing"},
      {where + " --policy binpack --load 1", "only with --departures"},
      {where + " --policy binpack --moves", "--preempt and --moves: only with --departures"},
      {where + " --policy fgd --departures --load 1 --preempt", "fgd is not the scheduler's, and knows neither"},
      {where + " --policy binpack --departures --load much", "--load: \"much\" is no number above 0 and up to 2"},
      {where + " --policy binpack --departures --load 1 --reserve-after 0", "--reserve-after: \"0\" is no number"},
      {where + " --policy binpack --departures --load 1", "no creation_time and deletion_time"},
      {where + " --policy", "--policy: its value is missing"},
      {where + " --policy binpack --fast yes", "--fast: no such option"},
      {where + " --policy binpack --nodes x", "--nodes: is given twice"},
      {"--nodes /nowhere --pods " + files.pods + " --order " + files.order + " --policy binpack", "can't be opened"}};
  for (const auto& [arguments, why] : cases) {
    const auto [status, out] = run(arguments);
    EXPECT_EQ(status, 2) << arguments;
    EXPECT_NE(out.find(why), std::string::npos) << out;
  }
}

}  // namespace
}  // namespace egpu::bench::openb

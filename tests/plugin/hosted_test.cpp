// One plugin in its host process: effects of each zoo member on its callers, and that the process is restarted.
#include "controller/plugin/hosted.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

#include "tests/plugin/zoo.h"

namespace egpu::plugin {
namespace {

namespace fs = std::filesystem;
using std::chrono::milliseconds;
using testing::builtIn;
using testing::device;
using testing::eventually;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::zoo;

bool alive(pid_t pid) {
  std::ifstream stat("/proc/" + std::to_string(pid) + "/stat");
  std::string field;
  for (int i = 0; i < 3; ++i) stat >> field;
  return stat && field != "Z" && field != "X";
}

std::size_t openDescriptors() {
  std::size_t n = 0;
  for ([[maybe_unused]] const auto& entry : fs::directory_iterator("/proc/self/fd")) ++n;
  return n;
}

std::string contents(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream out;
  out << in.rdbuf();
  return out.str();
}

/// A plugin whose back-off passes only when the test advances the clock.
class HostedTest : public ::testing::Test {
 protected:
  HostedTest() {
    options.deadlines = {milliseconds(20'000), milliseconds(20'000)};
    options.grace = milliseconds(50);
  }
  ~HostedTest() override {
    plugin.reset();
    int status;
    EXPECT_EQ(waitpid(-1, &status, WNOHANG), -1) << "a child process, or a zombie, is left";
  }
  HostedProvisioner& start(const std::string& path) {
    plugin = std::make_unique<HostedProvisioner>(path, options, clock, random, [](HostedProvisioner&) {});
    plugin->waitFirstAttempt();
    return *plugin;
  }
  /// Advances the clock past the n-th back-off, once the supervisor waits for it.
  void passBackoff(uint64_t n) {
    ASSERT_TRUE(eventually([&] { return plugin->backoff().first >= n; }));
    clock.advance(plugin->backoff().second);
  }
  bool up() {
    return eventually([&] { return plugin->readiness().ok(); });
  }
  void killIt() {
    const pid_t pid = plugin->pid();
    ASSERT_GT(pid, 0);
    ASSERT_EQ(kill(pid, SIGKILL), 0);
  }

  HostOptions options;
  base::ManualClock clock;
  base::Random random{1};
  std::unique_ptr<HostedProvisioner> plugin;
};

TEST_F(HostedTest, CallsReachThePluginAndComeBack) {
  auto& p = start(builtIn("physical"));
  ASSERT_TRUE(p.readiness().ok()) << p.readiness().message;
  EXPECT_EQ(p.description().name, "physical.provisioner.elasticgpu.io");
  EXPECT_EQ(p.provision(device("a")).outcome, ReplyCode::ok);
  EXPECT_EQ(p.provision(device("a")).outcome, ReplyCode::noChange);
  EXPECT_THAT(p.list().keys, ::testing::ElementsAre("a"));
  const MountReply mounted = p.mount(device("a"), "ns/pod", "main");
  EXPECT_TRUE(mounted.reply.ok());
  EXPECT_THAT(mounted.edits.cdiDevices, ::testing::ElementsAre("nvidia.com/gpu=GPU-0"));
  const Reply refused = p.validate({{"x", "y"}});
  EXPECT_EQ(refused.outcome, ReplyCode::invalid);
  EXPECT_THAT(refused.message, HasSubstr("\"x\""));
}

TEST_F(HostedTest, ManyThreadsAtOnce) {
  auto& p = start(zoo("good"));
  std::atomic<int> good{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 16; ++t)
    threads.emplace_back([&, t] {
      for (int i = 0; i < 100; ++i) {
        const std::string key = std::to_string(t) + "-" + std::to_string(i);
        const MountReply reply = p.mount(device(key), "ns/pod", "main");
        good += reply.reply.ok() && reply.edits.env.at(0).second == "egpu-" + key;  // answers must not be mixed up
      }
    });
  for (auto& t : threads) t.join();
  EXPECT_EQ(good, 1600);
  EXPECT_EQ(p.starts(), 1u);
}

TEST_F(HostedTest, ALargeRequestGoesThroughAndATooLargeOneIsRefused) {
  auto& p = start(zoo("good"));
  EXPECT_TRUE(p.validate({{"x", std::string(4 << 20, 'x')}}).ok());
  EXPECT_EQ(p.validate({{"x", std::string(17 << 20, 'x')}}).outcome, ReplyCode::invalid);
  EXPECT_TRUE(p.validate({}).ok());
  EXPECT_EQ(p.starts(), 1u);
}

TEST_F(HostedTest, AHangTimesOutAndTheProcessIsReplaced) {
  options.deadlines.slow = milliseconds(20);
  auto& p = start(zoo("hangs"));
  const pid_t hung = p.pid();
  EXPECT_EQ(p.provision(device("a")).outcome, ReplyCode::timeout);
  ASSERT_TRUE(eventually([&] {  // on a busy machine a call may time out before the process begins it
    (void)p.provision(device("a"));
    return !p.readiness().ok();
  }));
  EXPECT_EQ(p.readiness().outcome, ReplyCode::timeout);
  EXPECT_THAT(p.readiness().message, HasSubstr("killed because provision ignored its deadline"));
  EXPECT_FALSE(alive(hung));
  const Reply meanwhile = p.validate({});
  EXPECT_EQ(meanwhile.outcome, ReplyCode::unavailable);
  EXPECT_THAT(meanwhile.message, HasSubstr("provision ignored"));
  passBackoff(1);
  ASSERT_TRUE(up());
  EXPECT_EQ(p.starts(), 2u);
  EXPECT_TRUE(p.validate({}).ok());
}

TEST_F(HostedTest, HangsDoNotHoldUpOtherCalls) {
  options.deadlines.slow = milliseconds(600'000);
  auto& p = start(zoo("hangs"));
  std::vector<std::thread> hanging;
  for (int i = 0; i < 8; ++i) hanging.emplace_back([&p, i] { p.provision(device(std::to_string(i))); });
  ASSERT_TRUE(eventually([&] { return p.outstanding() == 8; }));
  for (int i = 0; i < 20; ++i) EXPECT_TRUE(p.validate({}).ok());
  EXPECT_EQ(p.outstanding(), 8u);
  EXPECT_EQ(p.starts(), 1u);
  p.retire("the test is over");
  for (auto& t : hanging) t.join();
}

TEST_F(HostedTest, ALateAnswerIsDropped) {
  options.grace = milliseconds(600'000);
  options.deadlines.slow = milliseconds(20);
  auto& p = start(zoo("late"));
  EXPECT_EQ(p.provision(device("a")).outcome, ReplyCode::timeout);
  ASSERT_TRUE(eventually([&] { return p.lateAnswers() == 1; }));
  EXPECT_EQ(p.outstanding(), 0u);
  EXPECT_TRUE(p.validate({}).ok()) << "the answer after it is not mistaken";
  EXPECT_EQ(p.starts(), 1u);
}

struct Fall {
  const char* plugin;
  ReplyCode outcome;
  const char* why;
};
class FallsTest : public HostedTest, public ::testing::WithParamInterface<Fall> {};

TEST_P(FallsTest, IsSeenByItsCallerAndReplaced) {
  auto& p = start(zoo(GetParam().plugin));
  ASSERT_TRUE(p.readiness().ok()) << p.readiness().message;
  const Reply reply = p.provision(device("a"));
  EXPECT_EQ(reply.outcome, GetParam().outcome) << reply.message;
  EXPECT_THAT(reply.message, HasSubstr(GetParam().why));
  EXPECT_EQ(p.readiness().outcome, GetParam().outcome);
  EXPECT_EQ(p.readiness().message, reply.message);
  passBackoff(1);
  ASSERT_TRUE(up());
  EXPECT_TRUE(p.validate({}).ok());
}

INSTANTIATE_TEST_SUITE_P(Zoo, FallsTest,
                         ::testing::Values(Fall{"crashes", ReplyCode::crashed, "was killed by signal 11"},
                                           Fall{"crashes", ReplyCode::crashed, "during provision: about to fall"},
                                           Fall{"exits", ReplyCode::crashed, "exited with status 0 during provision"},
                                           Fall{"garbage_frames", ReplyCode::garbage, "data that is not a frame"},
                                           Fall{"wrong_answers", ReplyCode::garbage, "a call that was not made"}),
                         [](const auto& row) { return row.param.plugin + std::to_string(row.index); });

TEST_F(HostedTest, GarbageInAWellFormedAnswerCostsOnlyThatCall) {
  auto& p = start(zoo("garbage_code"));
  EXPECT_EQ(p.provision(device("a")).outcome, ReplyCode::garbage);
  EXPECT_EQ(p.mount(device("a"), "p", "c").reply.outcome, ReplyCode::garbage);
  EXPECT_TRUE(p.mount(device("a"), "p", "c").edits == ContainerEdits{}) << "nothing of it is passed on";
  EXPECT_TRUE(p.validate({}).ok());
  EXPECT_EQ(p.starts(), 1u);
}

TEST_F(HostedTest, AnEscapedExceptionCostsOnlyThatCall) {
  auto& p = start(zoo("throws"));
  EXPECT_EQ(p.provision(device("a")).outcome, ReplyCode::garbage);
  EXPECT_TRUE(p.validate({}).ok());
  EXPECT_EQ(p.starts(), 1u);
}

TEST_F(HostedTest, AFloodOfOutputAndOfAnswersIsBounded) {
  auto& p = start(zoo("floods"));
  const ListReply list = p.list();
  EXPECT_EQ(list.reply.outcome, ReplyCode::garbage);
  EXPECT_THAT(list.reply.message, HasSubstr("8 MiB"));
  EXPECT_TRUE(p.provision(device("a")).ok());
  EXPECT_EQ(p.starts(), 1u);
}

TEST_F(HostedTest, AllCallsUnderWayLearnOfACrash) {
  options.deadlines.slow = milliseconds(600'000);
  auto& p = start(zoo("hangs"));
  std::vector<ReplyCode> outcomes(4);
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < outcomes.size(); ++i)
    threads.emplace_back([&, i] { outcomes[i] = p.provision(device(std::to_string(i))).outcome; });
  ASSERT_TRUE(eventually([&] { return p.outstanding() == 4; }));
  killIt();
  for (auto& t : threads) t.join();
  EXPECT_THAT(outcomes, ::testing::Each(ReplyCode::crashed));
}

TEST_F(HostedTest, ShutdownEndsCallsUnderWay) {
  options.deadlines.slow = milliseconds(600'000);
  auto& p = start(zoo("hangs"));
  const pid_t pid = p.pid();
  ReplyCode outcome = ReplyCode::ok;
  std::thread caller([&] { outcome = p.provision(device("a")).outcome; });
  ASSERT_TRUE(eventually([&] { return p.outstanding() == 1; }));
  p.retire("the test is over");
  caller.join();
  EXPECT_EQ(outcome, ReplyCode::crashed);
  EXPECT_EQ(p.validate({}).outcome, ReplyCode::unavailable);
  EXPECT_EQ(p.readiness().message, "the test is over");
  EXPECT_TRUE(eventually([&] { return !alive(pid); }));
}

TEST_F(HostedTest, BackoffGrowsWithJitterUpToItsBound) {
  options.backoffFirst = milliseconds(1000);
  options.maxBackoff = milliseconds(8000);
  auto& p = start(zoo("crashes_at_load"));
  EXPECT_FALSE(p.described());
  int64_t whole = 1000;
  for (uint64_t n = 1; n <= 6; ++n) {
    ASSERT_TRUE(eventually([&] { return p.backoff().first == n; }));
    EXPECT_GE(p.backoff().second.count(), whole / 2) << n;
    EXPECT_LE(p.backoff().second.count(), whole) << n;
    EXPECT_EQ(p.starts(), n) << "it waits for the clock";
    clock.advance(p.backoff().second);
    whole = std::min<int64_t>(whole * 2, 8000);
  }
  EXPECT_THAT(p.readiness().message, HasSubstr("signal 6"));
}

TEST_F(HostedTest, BackoffBeginsAnewAfterAStableTime) {
  options.backoffFirst = milliseconds(1000);
  options.stableAfter = milliseconds(60'000);
  auto& p = start(zoo("good"));
  for (uint64_t n = 1; n <= 3; ++n) {
    killIt();
    passBackoff(n);
    ASSERT_TRUE(up());
  }
  EXPECT_GE(p.backoff().second, milliseconds(2000)) << "three falls in a row";
  clock.advance(milliseconds(60'000));
  killIt();
  ASSERT_TRUE(eventually([&] { return p.backoff().first == 4; }));
  EXPECT_LE(p.backoff().second, milliseconds(1000)) << "it had been up for a minute";
}

TEST_F(HostedTest, APluginThatBecomesAnotherIsRefused) {
  auto& p = start(zoo("other_name_later"));
  ASSERT_TRUE(p.readiness().ok());
  const Description first = p.description();
  killIt();
  passBackoff(1);
  ASSERT_TRUE(eventually([&] { return p.readiness().outcome == ReplyCode::garbage; }));
  EXPECT_THAT(p.readiness().message, HasSubstr("its description changed"));
  EXPECT_EQ(p.description(), first);
}

TEST_F(HostedTest, AHostThatCannotBeRunIsReported) {
  options.hostBinary = "/nonexistent/egpu-plugin-host";
  auto& p = start(zoo("good"));
  EXPECT_EQ(p.readiness().outcome, ReplyCode::unavailable);
  EXPECT_THAT(p.readiness().message, HasSubstr("No such file"));
}

TEST_F(HostedTest, AHangAtLoadEndsWithTheStartTimeout) {
  options.startTimeout = milliseconds(100);
  auto& p = start(zoo("hangs_at_load"));
  EXPECT_EQ(p.readiness().outcome, ReplyCode::timeout);
  EXPECT_THAT(p.readiness().message, HasSubstr("did not start within 100 ms"));
}

TEST_F(HostedTest, ProcessesThatThePluginLeftBehindAreKilled) {
  const std::string file = ::testing::TempDir() + "/left-behind-" + std::to_string(getpid());
  auto& p = start(zoo("forks"));
  DeviceRequest d = device("a");
  d.node = file;
  EXPECT_EQ(p.provision(d).outcome, ReplyCode::crashed);
  pid_t left = 0;
  std::ifstream(file) >> left;
  ASSERT_GT(left, 0);
  EXPECT_TRUE(eventually([&] { return !alive(left); }));
  fs::remove(file);
}

TEST_F(HostedTest, NeitherDescriptorsNorSecretsReachThePlugin) {
  setenv("KUBE_TOKEN_OF_THE_TEST", "secret", 1);
  setenv("ELASTICGPU_OF_THE_TEST", "wanted", 1);
  const std::string file = ::testing::TempDir() + "/kept-open-" + std::to_string(getpid());
  std::FILE* open = std::fopen(file.c_str(), "w");  // without close-on-exec, as some libraries open files
  ASSERT_NE(open, nullptr);
  options.traceable = true;
  auto& p = start(zoo("good"));
  const std::string proc = "/proc/" + std::to_string(p.pid());
  const std::string environment = contents(proc + "/environ");
  EXPECT_THAT(environment, Not(HasSubstr("KUBE_TOKEN_OF_THE_TEST")));
  EXPECT_THAT(environment, HasSubstr("ELASTICGPU_OF_THE_TEST=wanted"));
  std::size_t seen = 0;
  for (const auto& entry : fs::directory_iterator(proc + "/fd")) {
    ++seen;
    std::error_code ignored;
    EXPECT_NE(fs::read_symlink(entry.path(), ignored).string(), file);
  }
  EXPECT_GE(seen, 4u);
  std::fclose(open);
  fs::remove(file);
  unsetenv("KUBE_TOKEN_OF_THE_TEST");
  unsetenv("ELASTICGPU_OF_THE_TEST");
}

TEST_F(HostedTest, APluginThatClosesItsOutputOccupiesNobody) {
  auto& p = start(zoo("closes_output"));
  ASSERT_TRUE(p.provision(device("a")).ok());
  ASSERT_TRUE(p.list().reply.ok());
  const uint64_t before = p.rounds();
  std::this_thread::sleep_for(milliseconds(200));
  EXPECT_LE(p.rounds(), before + 10) << "nothing happens, so nothing wakes the supervisor";
  EXPECT_TRUE(p.list().reply.ok());
  EXPECT_EQ(p.starts(), 1u);
}

TEST_F(HostedTest, ClosingCancelsCallsUnderWay) {
  const std::string mark = ::testing::TempDir() + "/cancelled-" + std::to_string(getpid());
  options.deadlines.slow = milliseconds(600'000);
  options.closeGrace = milliseconds(600'000);
  auto& p = start(zoo("waits"));
  Reply reply;
  std::thread caller([&] { reply = p.provision(device("a", {{"mark", mark}})); });
  EXPECT_TRUE(eventually([&] { return contents(mark) == "begun"; }));
  p.close();
  caller.join();
  EXPECT_EQ(reply.outcome, ReplyCode::unavailable) << reply.message;
  EXPECT_EQ(contents(mark), "begun, cancelled") << reply.message;
  EXPECT_EQ(p.starts(), 1u);
  EXPECT_THAT(p.provision(device("b")).message, HasSubstr("the controller is stopping"));
  fs::remove(mark);
}

TEST_F(HostedTest, ClosingEndsAPluginThatGoesOnRegardless) {
  const std::string mark = ::testing::TempDir() + "/regardless-" + std::to_string(getpid());
  options.deadlines.slow = milliseconds(600'000);
  options.closeGrace = milliseconds(50);
  auto& p = start(zoo("waits"));
  const pid_t pid = p.pid();
  Reply reply;
  std::thread caller([&] { reply = p.provision(device("a", {{"mark", mark}, {"regardless", "yes"}})); });
  EXPECT_TRUE(eventually([&] { return contents(mark) == "begun"; }));
  p.close();
  caller.join();
  EXPECT_EQ(reply.outcome, ReplyCode::unavailable);
  EXPECT_THAT(reply.message, HasSubstr("stopped with the controller"));
  EXPECT_TRUE(eventually([&] { return !alive(pid); }));
  EXPECT_EQ(p.starts(), 1u) << "none is started any more";
  fs::remove(mark);
}

TEST_F(HostedTest, RestartsLeakNoDescriptors) {
  start(zoo("good"));
  const std::size_t before = openDescriptors();
  for (uint64_t n = 1; n <= 10; ++n) {
    killIt();
    passBackoff(n);
    ASSERT_TRUE(up());
  }
  EXPECT_EQ(openDescriptors(), before);
}

TEST_F(HostedTest, WhatAPluginLeavesBehindDoesNotPileUp) {
  prctl(PR_SET_CHILD_SUBREAPER, 1);  // as the first process of a container
  auto& p = start(zoo("leaves_orphans"));
  const auto none = [] {
    siginfo_t dead{};
    return waitid(P_ALL, 0, &dead, WEXITED | WNOHANG | WNOWAIT) == 0 && dead.si_pid == 0;
  };
  for (int i = 0; i < 5; ++i) {
    EXPECT_TRUE(p.provision(device("a")).ok());
    EXPECT_TRUE(eventually([&] { return p.list().reply.ok() && none(); }));
  }
  EXPECT_EQ(p.starts(), 1u);
  prctl(PR_SET_CHILD_SUBREAPER, 0);
}

TEST_F(HostedTest, TheMockRemembersAcrossACrash) {
  const std::string state = ::testing::TempDir() + "/mock-" + std::to_string(getpid());
  fs::create_directory(state);
  options.env = {"ELASTICGPU_STATE_DIR=" + state};
  auto& p = start(builtIn("mock"));
  EXPECT_EQ(p.provision(device("kept")).outcome, ReplyCode::ok);
  const core::StringMap script{{"outcome", "crash"}, {"times", "1"}};
  EXPECT_EQ(p.provision(device("falls", script)).outcome, ReplyCode::crashed);
  passBackoff(1);
  ASSERT_TRUE(up());
  EXPECT_THAT(p.list().keys, ::testing::ElementsAre("kept"));
  EXPECT_EQ(p.provision(device("falls", script)).outcome, ReplyCode::ok) << "only the first call crashes";
  EXPECT_EQ(p.provision(device("kept")).outcome, ReplyCode::noChange);
  EXPECT_EQ(p.deprovision("kept").outcome, ReplyCode::ok);
  EXPECT_THAT(p.list().keys, ::testing::ElementsAre("falls"));
  fs::remove_all(state);
}

}  // namespace
}  // namespace egpu::plugin

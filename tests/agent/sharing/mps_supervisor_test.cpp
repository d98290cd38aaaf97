#include "controller/agent/sharing/mps_supervisor.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <memory>

#include "tests/agent/prepare/fixture.h"
#include "tests/agent/sharing/fake_programs.h"

namespace egpu::agent::sharing {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

class MpsSupervisorTest : public PrepareTest {
 protected:
  MpsSupervisorTest() {
    settings.node = "n1";
    settings.commands = {state, hostRoot, ""};
    settings.daemon.proc = proc;
    settings.daemon.boot = "boot-1";
    restartAgent();
    plugin.edits.deviceNodes.clear();
    plugin.editsOf = [this](const plugin::DeviceRequest&) {
      return plugin::ContainerEdits{{}, {}, {{pipe, "/tmp/nvidia-mps", {"rw", "bind"}}}, {}};
    };
    onNode.permitted.stateFolder = state;
    onNode.beforeStage = [this](const Gpu& device, const std::stop_token& stop) {
      auto its = device;
      its.status.isolation = v1alpha::Isolation{"mps", "Soft", "Soft", "None"};
      return supervisor->requireFor(its, stop);
    };
    preparer = std::make_unique<ClaimPreparer>(client, registry, events, folder, onNode);
  }
  /// A new agent with the folders of the last one. The processes continue.
  void restartAgent() {
    supervisor.reset();
    losses = std::make_unique<AccessLosses>(users, cards, client, clock, proc);
    supervisor = std::make_unique<MpsSupervisor>(programs, clock, folder, cards, *losses, client, events, settings);
  }
  /// A claim with isolation mps that is prepared on the card.
  ClaimRef prepared(const std::string& name, const std::string& core = "10") {
    const auto claim = claimed(name, core, {{"isolation", "mps"}});
    const auto done = preparer->prepare(claim, {});
    EXPECT_TRUE(done.ok()) << done.status().str();
    return claim;
  }
  void round() {
    cards.observed(world.gpu("gpu-n1-0"));
    supervisor->round({});
  }
  /// Removes the pod, the claim and its files, so that the daemon may be ended.
  void release(const ClaimRef& claim) {
    world.removePod(claim.name);
    EXPECT_TRUE(preparer->unprepare(claim, {}).ok());
    world.unreserve(claim.name, claim.name);
    world.removeClaim(claim.name);
    driver->settle();
  }
  void roundsUntilIdle() {
    round();
    clock.advance(settings.idle);
    round();
  }
  /// Adds a process of the claim's pod that began this long ago, and has loaded these files. The machine was booted an
  /// hour before the clock's start.
  void addClient(const std::string& claim, int64_t pid, std::chrono::seconds age,
                 const std::string& library = "/usr/lib64/libcuda.so.550.54") {
    const auto start =
        std::chrono::duration_cast<std::chrono::seconds>((clock.wall() - age).time_since_epoch()).count();
    const auto ticks = static_cast<uint64_t>(start - boot) * static_cast<uint64_t>(::sysconf(_SC_CLK_TCK));
    writeText(proc + "/stat", "cpu 1 2 3\nbtime " + std::to_string(boot) + "\n");
    writeProcess(proc, pid, {"/usr/bin/python3"}, {}, ticks);
    const auto folderOf = proc + "/" + std::to_string(pid);
    writeText(folderOf + "/cgroup", "0::/kubepods/burstable/pod" + world.pod(claim).metadata.uid + "/c\n");
    writeText(folderOf + "/maps", "7f00-7f01 r-xp 0 08:01 5 " + library + "\n");
  }
  void endProcess(int64_t pid) { std::filesystem::remove_all(proc + "/" + std::to_string(pid)); }
  /// Losses that the card reports, by device uid.
  auto lost() { return world.gpu("gpu-n1-0").status.accessLost; }
  /// A round of the supervisor, after the agent has seen its last writes.
  void later(std::chrono::milliseconds time) {
    clock.advance(time);
    round();
  }
  std::vector<std::string> eventsAbout(const std::string& reason) const {
    std::vector<std::string> out;
    for (const auto& each : events.lines())
      if (each.find(" " + reason + " ") != std::string::npos) out.push_back(each);
    return out;
  }

  int64_t boot = 1'700'000'000 - 3'600;  ///< by the wall clock
  const std::string card = "GPU-n1-0";
  const std::string proc = scratch.path() + "/proc", state = scratch.path() + "/state",
                    hostRoot = scratch.path() + "/host", pipe = state + "/mps/" + card;
  FakePrograms programs{proc, hostRoot};
  SteppingClock clock;
  cache::Store<Gpu> cards;
  usage::Prepared users{client, folder, clock, "n1"};
  std::unique_ptr<AccessLosses> losses;
  MpsSupervisorOptions settings;
  std::unique_ptr<MpsSupervisor> supervisor;
  PreparerOptions onNode{"n1", {}};
  std::unique_ptr<ClaimPreparer> preparer;
};

TEST_F(MpsSupervisorTest, TheFirstClaimStartsADaemonInExclusiveMode) {
  prepared("a");
  EXPECT_THAT(programs.calls(),
              ElementsAre("nvidia-smi -i GPU-n1-0 --query-gpu=compute_mode --format=csv,noheader",
                          "nvidia-smi -i GPU-n1-0 -c EXCLUSIVE_PROCESS", "mount", "start -f -multiuser-server"));
  EXPECT_EQ(FakePrograms::valueOf(programs.started.env, "CUDA_VISIBLE_DEVICES"), card);
  EXPECT_EQ(FakePrograms::valueOf(programs.started.env, "CUDA_MPS_PIPE_DIRECTORY"), pipe);
  EXPECT_EQ(plugin.staged(), 1u);
  prepared("b");
  round();
  EXPECT_THAT(programs.calls(), IsEmpty()) << "the daemon serves both claims";
}

TEST_F(MpsSupervisorTest, DevicesWithAnotherModeNeedNoDaemon) {
  auto device = deviceOf(claimed("a"));
  EXPECT_TRUE(supervisor->requireFor(device, {}).ok());
  device.status.isolation = v1alpha::Isolation{"limiter", "Soft", "Soft", "Soft"};
  EXPECT_TRUE(supervisor->requireFor(device, {}).ok());
  EXPECT_THAT(programs.calls(), IsEmpty());
}

TEST_F(MpsSupervisorTest, ADaemonOfAnOperatorIsNeverChanged) {
  std::filesystem::create_directories(pipe);
  writeProcess(proc, 77, {"/usr/bin/nvidia-cuda-mps-control", "-f"}, {"CUDA_MPS_PIPE_DIRECTORY=" + pipe}, 5);
  const auto claim = prepared("a");
  round();
  release(claim);
  roundsUntilIdle();
  EXPECT_THAT(programs.calls(), IsEmpty());
  EXPECT_TRUE(std::filesystem::exists(proc + "/77"));
}

TEST_F(MpsSupervisorTest, TheSocketOfAnEndedDaemonIsNoDaemon) {
  writeText(pipe + "/control", "");
  prepared("a");
  EXPECT_THAT(programs.calls(), Contains("start -f -multiuser-server"));
}

TEST_F(MpsSupervisorTest, ADaemonThatEndsIsStartedAgainAndTheCardAndItsClaimsReportIt) {
  prepared("a");
  const auto ended = std::to_string(programs.lastPid());
  programs.calls();
  programs.end(programs.lastPid());
  round();
  EXPECT_THAT(programs.calls(), Contains("start -f -multiuser-server"));
  const auto message = HasSubstr("the MPS daemon of card GPU-n1-0 on node n1 ended (process " + ended +
                                 ") and was started again: programs that used the card have lost it");
  EXPECT_THAT(eventsAbout("MpsDaemonRestarted"),
              ElementsAre(AllOf(HasSubstr("gpu-n1-0 Warning"), message), AllOf(HasSubstr("a Warning"), message)));
  round();
  EXPECT_THAT(programs.calls(), IsEmpty());
}

TEST_F(MpsSupervisorTest, AClaimHasLostTheCardUntilItsOldProgramsHaveEnded) {
  const auto a = prepared("a"), b = prepared("b");
  addClient("a", 100, std::chrono::seconds(60));
  addClient("b", 200, std::chrono::seconds(60), "/usr/lib64/libc.so.6");
  programs.end(programs.lastPid());
  later(std::chrono::seconds(2));
  ASSERT_EQ(lost().size(), 1u) << "the program of b does not use the driver";
  const auto loss = lost().at(uidOf(a));
  EXPECT_EQ(loss.reason, "MpsDaemonRestarted");
  EXPECT_THAT(loss.message, HasSubstr("programs that used the card have lost it; restart them"));
  EXPECT_EQ(loss.since, "2023-11-14T22:13:22Z");
  addClient("a", 101, std::chrono::seconds(0));
  later(std::chrono::seconds(2));
  EXPECT_EQ(lost().size(), 1u) << "the old program runs beside the new one";
  endProcess(100);
  later(std::chrono::seconds(2));
  EXPECT_THAT(lost(), IsEmpty());
}

TEST_F(MpsSupervisorTest, ALossLastsWhenTheWallClockIsSet) {
  const auto a = prepared("a");
  addClient("a", 100, std::chrono::seconds(60));
  programs.end(programs.lastPid());
  later(std::chrono::seconds(2));
  ASSERT_EQ(lost().count(uidOf(a)), 1u);
  writeText(proc + "/stat", "btime " + std::to_string(boot + 3'600) + "\n");  // the kernel changes the time of the boot
  later(std::chrono::seconds(2));
  EXPECT_EQ(lost().count(uidOf(a)), 1u) << "its program is still the one that lost the card";
}

TEST_F(MpsSupervisorTest, AClaimWithoutProgramsLosesNothing) {
  prepared("a");
  programs.end(programs.lastPid());
  later(std::chrono::seconds(2));
  EXPECT_THAT(eventsAbout("MpsDaemonRestarted"), Not(IsEmpty()));
  EXPECT_THAT(lost(), IsEmpty());
}

TEST_F(MpsSupervisorTest, WhileNoProgramCanUseTheCardAllItsClaimsHaveLostIt) {
  const auto a = prepared("a");
  programs.end(programs.lastPid());
  programs.failing = {"start"};
  later(std::chrono::seconds(2));
  ASSERT_EQ(lost().count(uidOf(a)), 1u);
  EXPECT_EQ(lost().at(uidOf(a)).reason, "MpsDaemonFailed");
  EXPECT_THAT(lost().at(uidOf(a)).message, HasSubstr("has no MPS daemon, and the agent can't start one"));
  addClient("a", 100, std::chrono::seconds(1));
  programs.failing.clear();
  later(std::chrono::minutes(2));
  EXPECT_EQ(lost().at(uidOf(a)).reason, "MpsDaemonRestarted") << "its program does not get the card back";
  endProcess(100);
  later(std::chrono::seconds(2));
  EXPECT_THAT(lost(), IsEmpty());
}

TEST_F(MpsSupervisorTest, AFaultIsALossUntilTheServerAcceptsPrograms) {
  const auto a = prepared("a");
  programs.isFaulty = true;
  later(std::chrono::seconds(2));
  ASSERT_EQ(lost().count(uidOf(a)), 1u) << "also without a program, because new ones are rejected";
  EXPECT_EQ(lost().at(uidOf(a)).reason, "MpsServerFault");
  addClient("a", 100, std::chrono::seconds(60));
  programs.isFaulty = false;
  later(settings.faultInterval);
  EXPECT_EQ(lost().size(), 1u) << "its program is still the one that lost the card";
  endProcess(100);
  later(std::chrono::seconds(2));
  EXPECT_THAT(lost(), IsEmpty());
}

TEST_F(MpsSupervisorTest, ALossOutlivesTheAgentButNotThePreparation) {
  const auto a = prepared("a");
  addClient("a", 100, std::chrono::seconds(60));
  programs.end(programs.lastPid());
  later(std::chrono::seconds(2));
  restartAgent();
  later(std::chrono::seconds(2));
  EXPECT_EQ(lost().size(), 1u);
  release(a);
  later(std::chrono::seconds(2));
  EXPECT_THAT(lost(), IsEmpty());
}

TEST_F(MpsSupervisorTest, APodThatReplacedAnotherOneLosesTheCardToo) {
  const auto a = prepared("a");
  ASSERT_TRUE(users.learn({}, {}).ok());
  world.addPod("next", {"a"});
  driver->settle();
  world.schedule("next");
  world.removePod("a");
  driver->settle();
  addClient("next", 100, std::chrono::seconds(60));
  programs.end(programs.lastPid());
  later(std::chrono::seconds(2));
  EXPECT_EQ(lost().count(uidOf(a)), 1u) << "the pods were listed before it was there";
}

TEST_F(MpsSupervisorTest, ALossThatCantBeWrittenIsWrittenByTheNextAgent) {
  const auto a = prepared("a");
  addClient("a", 100, std::chrono::seconds(60));
  cards.observed(world.gpu("gpu-n1-0"));
  programs.end(programs.lastPid());
  line.code = 403;
  line.refuses = [](const kube::HttpRequest& request) { return request.method == kube::Method::patch; };
  round();
  EXPECT_THAT(lost(), IsEmpty());
  line.refuses = nullptr;
  restartAgent();
  later(std::chrono::seconds(2));
  EXPECT_EQ(lost().count(uidOf(a)), 1u);
}

TEST_F(MpsSupervisorTest, TheAgentKnowsWhichComputeModeItHasSet) {
  EXPECT_FALSE(supervisor->hasSetComputeMode(card));
  const auto claim = prepared("a");
  EXPECT_TRUE(supervisor->hasSetComputeMode(card));
  release(claim);
  roundsUntilIdle();
  EXPECT_FALSE(supervisor->hasSetComputeMode(card));
  programs.modes[card] = "Exclusive_Process";
  prepared("b");
  EXPECT_FALSE(supervisor->hasSetComputeMode(card)) << "an administrator has set it";
}

TEST_F(MpsSupervisorTest, RestartsHaveABackoffThatGrows) {
  prepared("a");
  int starts = 0;
  for (int i = 0; i < 40; ++i) {
    programs.end(programs.lastPid());
    programs.calls();
    round();
    for (const auto& call : programs.calls()) starts += call == "start -f -multiuser-server" ? 1 : 0;
    clock.advance(std::chrono::seconds(1));
  }
  EXPECT_THAT(starts, ::testing::AllOf(::testing::Ge(4), ::testing::Le(8)));
}

TEST_F(MpsSupervisorTest, AClaimStartsAnEndedDaemonBeforeTheNextRoundDoes) {
  prepared("a");
  programs.end(programs.lastPid());
  prepared("b");
  EXPECT_THAT(eventsAbout("MpsDaemonRestarted"), Contains(HasSubstr("a Warning")));
}

TEST_F(MpsSupervisorTest, ARestartedAgentFindsItsDaemonAndRestoresTheCardAfterTheLastClaim) {
  const auto claim = prepared("a");
  programs.calls();
  restartAgent();
  round();
  EXPECT_THAT(programs.calls(), IsEmpty());
  release(claim);
  roundsUntilIdle();
  EXPECT_THAT(programs.calls(),
              ElementsAre("nvidia-cuda-mps-control < quit", "nvidia-smi -i GPU-n1-0 -c DEFAULT", "unmount"));
  roundsUntilIdle();
  EXPECT_THAT(programs.calls(), IsEmpty()) << "the card is restored once";
}

TEST_F(MpsSupervisorTest, ADaemonThatWasStartedButNotRecordedBelongsToTheAgent) {
  prepared("a");
  const DaemonRecords records(state + "/mps-daemons");
  auto record = records.read(card);
  ASSERT_TRUE(record.ok() && record->has_value());
  (*record)->pid = 0;
  ASSERT_TRUE(records.write(**record).ok());
  programs.calls();
  restartAgent();
  round();
  EXPECT_THAT(programs.calls(), IsEmpty());
  EXPECT_EQ((*records.read(card))->pid, programs.lastPid());
}

TEST_F(MpsSupervisorTest, TheDaemonStaysWhileAClaimOrTheCardsModeNeedsIt) {
  const auto first = prepared("a"), second = prepared("b");
  programs.calls();
  release(first);
  roundsUntilIdle();
  EXPECT_THAT(programs.calls(), IsEmpty());
  ASSERT_TRUE(folder.withdraw(uidOf(second)).ok());
  ASSERT_TRUE(folder.removePart(uidOf(second)).ok());
  roundsUntilIdle();
  EXPECT_THAT(programs.calls(), IsEmpty()) << "the card has the mode mps";
}

TEST_F(MpsSupervisorTest, ADaemonThatDoesNotQuitIsKilled) {
  const auto claim = prepared("a");
  const auto pid = std::to_string(programs.lastPid());
  programs.calls();
  programs.ignoresQuit = true;
  release(claim);
  roundsUntilIdle();
  EXPECT_THAT(programs.calls(), ElementsAre("nvidia-cuda-mps-control < quit", "signal 15 to " + pid,
                                            "signal 9 to " + pid, "nvidia-smi -i GPU-n1-0 -c DEFAULT", "unmount"));
  EXPECT_FALSE(std::filesystem::exists(pipe + "/control")) << "a plugin would take it for a daemon";
}

TEST_F(MpsSupervisorTest, ACardThatCantBeRestoredIsRestoredLater) {
  const auto claim = prepared("a");
  release(claim);
  programs.failing = {"nvidia-smi"};
  roundsUntilIdle();
  EXPECT_EQ(programs.modes[card], kExclusiveProcess);
  programs.failing.clear();
  clock.advance(settings.maxBackoff);
  round();
  EXPECT_EQ(programs.modes[card], "DEFAULT");
}

/// Containers with version 2 can write to the folder of the sockets.
TEST_F(MpsSupervisorTest, FoldersOfAContainerDoNotKeepTheCard) {
  const auto claim = prepared("a");
  base::UniqueFd at(::open(pipe.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  for (int depth = 0; depth < 900; ++depth) {  // longer than the maximum path
    ASSERT_EQ(::mkdirat(at.get(), "down", 0755), 0);
    at = base::UniqueFd(::openat(at.get(), "down", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  }
  at.reset();
  release(claim);
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit few{300, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &few), 0);
  roundsUntilIdle();
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_EQ(programs.modes[card], "DEFAULT");
  EXPECT_FALSE(std::filesystem::exists(pipe));
}

/// A container with version 2 can replace the daemon's socket by its own.
TEST_F(MpsSupervisorTest, AContainerThatAnswersForTheDaemonDoesNotOccupyTheAgent) {
  prepared("a");
  for (int i = 0; i < 1000; ++i) programs.serverList += std::to_string(i) + "\nno number; quit\n";
  later(settings.faultInterval);
  EXPECT_EQ(programs.serversAsked, 4) << "a daemon has few servers";
  programs.serversAsked = 0;
  programs.whileAsked = [this] { clock.advance(std::chrono::seconds(14)); };
  for (int i = 0; i < 10; ++i) later(settings.faultInterval);
  EXPECT_EQ(programs.serversAsked, 4) << "the next question comes after ten times as long as the answers took";
}

TEST_F(MpsSupervisorTest, ADaemonThatTheAgentEndedIsNotReportedToTheNextClaim) {
  const auto claim = prepared("a");
  release(claim);
  programs.failing = {"nvidia-smi"};
  roundsUntilIdle();
  programs.failing.clear();
  clock.advance(settings.maxBackoff);
  restartAgent();
  prepared("b");
  round();
  EXPECT_THAT(eventsAbout("MpsDaemonRestarted"), IsEmpty());
}

TEST_F(MpsSupervisorTest, AnEndThatOneAgentSawIsReportedByTheNext) {
  prepared("a");
  programs.end(programs.lastPid());
  programs.failing = {"start"};
  round();
  restartAgent();
  programs.failing.clear();
  round();
  EXPECT_THAT(eventsAbout("MpsDaemonRestarted"), Contains(HasSubstr("a Warning")));
  restartAgent();
  round();
  EXPECT_EQ(eventsAbout("MpsDaemonRestarted").size(), 2u) << "the card and the claim, once";
}

TEST_F(MpsSupervisorTest, TheDaemonLimitsAllClientsToTheLargestShare) {
  const auto memory = "get_default_device_pinned_mem_limit", percentage = "get_default_active_thread_percentage";
  const auto claim = prepared("a");
  EXPECT_EQ(programs.limits[memory], "1024M");
  EXPECT_EQ(programs.limits[percentage], "10");
  prepared("b", "30");
  EXPECT_EQ(programs.limits[percentage], "30");
  programs.end(programs.lastPid());
  programs.limits.clear();
  round();
  EXPECT_EQ(programs.limits[percentage], "30") << "the next daemon has the limits, too";
}

TEST_F(MpsSupervisorTest, AVersion3DaemonWithoutTheLimitsFailsThePrepare) {
  programs.knowsVersion3 = true;
  const auto done = preparer->prepare(claimed("a", "10", {{"isolation", "mps"}}), {});
  EXPECT_THAT(done.status().message(),
              HasSubstr("the limits of the MPS clients of card GPU-n1-0 on node n1 can't be set: MPS reports the "
                        "pinned-memory-limit \"namespace\" after it was set to 1024"));
  EXPECT_THAT(programs.calls(), Contains("start -f -p 3 -m"));
  EXPECT_EQ(plugin.staged(), 0u);
}

TEST_F(MpsSupervisorTest, AVersion2DaemonWithoutTheLimitsServesContainersThatHaveThem) {
  programs.forgetsLimits = true;
  prepared("a");
  EXPECT_EQ(plugin.staged(), 1u);
}

TEST_F(MpsSupervisorTest, AFaultOfAServerIsReportedOnce) {
  prepared("a");
  programs.isFaulty = true;
  for (int i = 0; i < 3; ++i, clock.advance(settings.faultInterval)) round();
  EXPECT_THAT(eventsAbout("MpsServerFault"),
              ElementsAre(HasSubstr("gpu-n1-0 Warning"),
                          AllOf(HasSubstr("a Warning"), HasSubstr("a program caused a fatal fault on card GPU-n1-0"))));
  programs.isFaulty = false;
  round();
  programs.isFaulty = true;
  clock.advance(settings.faultInterval);
  round();
  EXPECT_EQ(eventsAbout("MpsServerFault").size(), 4u) << "the next fault";
}

TEST_F(MpsSupervisorTest, AnExclusiveCardStaysExclusive) {
  programs.modes[card] = "Exclusive_Process";
  const auto claim = prepared("a");
  release(claim);
  roundsUntilIdle();
  EXPECT_THAT(programs.calls(), Not(Contains(HasSubstr(" -c "))));
}

TEST_F(MpsSupervisorTest, AProhibitedCardIsNotChanged) {
  programs.modes[card] = "Prohibited";
  const auto claim = claimed("a", "10", {{"isolation", "mps"}});
  const auto done = preparer->prepare(claim, {});
  EXPECT_THAT(done.status().message(), HasSubstr("the compute mode of card GPU-n1-0 is PROHIBITED"));
  EXPECT_EQ(plugin.staged(), 0u);
  EXPECT_EQ(programs.modes[card], "Prohibited");
}

TEST_F(MpsSupervisorTest, ADriverWithoutMultiuserServersIsServedToo) {
  programs.knowsMultiuser = false;
  prepared("a");
  EXPECT_THAT(programs.calls(), Contains("start -f"));
}

TEST_F(MpsSupervisorTest, AFailedStartIsReportedAndRepeatedOnlyAfterABackoff) {
  programs.failing = {"start"};
  const auto claim = claimed("a", "10", {{"isolation", "mps"}});
  const auto message = HasSubstr(
      "card GPU-n1-0 on node n1 has no MPS daemon, and the agent can't start one: "
      "the MPS daemon of card GPU-n1-0 ended at its start: no card");
  EXPECT_THAT(preparer->prepare(claim, {}).status().message(), message);
  EXPECT_TRUE(hasEvent("a", "the MPS daemon of card GPU-n1-0 ended at its start"));
  programs.calls();
  EXPECT_THAT(preparer->prepare(claim, {}).status().message(), message);
  EXPECT_THAT(programs.calls(), IsEmpty());
  programs.failing.clear();
  clock.advance(settings.maxBackoff);
  EXPECT_TRUE(preparer->prepare(claim, {}).ok());
  EXPECT_THAT(eventsAbout("MpsDaemonRestarted"), IsEmpty()) << "no program has lost the card";
}

TEST_F(MpsSupervisorTest, WithoutNvidiasProgramsTheMessageNamesThem) {
  std::filesystem::remove(hostRoot + "/usr/bin/nvidia-cuda-mps-control");
  const auto done = preparer->prepare(claimed("a", "10", {{"isolation", "mps"}}), {});
  EXPECT_THAT(done.status().message(), HasSubstr("nvidia-cuda-mps-control is not installed on the node"));
}

TEST_F(MpsSupervisorTest, AfterARebootTheDaemonIsStartedWithoutAReport) {
  prepared("a");
  programs.end(programs.lastPid());
  programs.mounted.clear();
  programs.modes.clear();
  programs.calls();
  settings.daemon.boot = "boot-2";
  restartAgent();
  round();
  EXPECT_THAT(programs.calls(), ElementsAre(HasSubstr("--query-gpu=compute_mode"), HasSubstr("-c EXCLUSIVE_PROCESS"),
                                            "mount", "start -f -multiuser-server"));
  EXPECT_THAT(eventsAbout("MpsDaemonRestarted"), IsEmpty());
}

TEST_F(MpsSupervisorTest, ServersThatAnEndedDaemonLeftAreKilled) {
  prepared("a");
  programs.end(programs.lastPid());
  writeProcess(proc, 99, {"/usr/bin/nvidia-cuda-mps-server"},
               {"CUDA_MPS_PIPE_DIRECTORY=" + pipe, "ELASTICGPU_MPS_DAEMON=" + card}, 5);
  programs.calls();
  round();
  EXPECT_THAT(programs.calls(), Contains("signal 9 to 99"));
}

TEST_F(MpsSupervisorTest, AnEndedAgentLeavesItsDaemons) {
  prepared("a");
  programs.calls();
  supervisor->start();
  supervisor->stop();
  supervisor.reset();
  EXPECT_THAT(programs.calls(), IsEmpty());
  EXPECT_TRUE(std::filesystem::exists(proc + "/" + std::to_string(programs.lastPid())));
}

}  // namespace
}  // namespace egpu::agent::sharing

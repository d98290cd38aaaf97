// The controller dies before and after every write and every plugin effect of a workload, and a second controller takes
// over.
#include <gtest/gtest.h>

#include "tests/crash/workload.h"
#include "tests/support/forwarding_transport.h"

namespace egpu::crash {
namespace {

struct Died {};

/// Counts writes and effects; the process dies at the chosen one.
class DeathPoint {
 public:
  int at = -1;         ///< number of the write, from 0; -1 = immortal
  bool after = false;  ///< the write still reaches the server
  int count = 0;
  bool dead = false;
  std::vector<std::string> names;

  template <class F>
  auto pass(const std::string& name, const F& effect) -> decltype(effect()) {
    if (dead) throw Died();
    const bool here = count == at;
    ++count;
    names.push_back(name);
    if (!here) return effect();
    if (after) (void)effect();
    dead = true;
    throw Died();
  }
};

class MortalTransport final : public support::ForwardingTransport {
 public:
  MortalTransport(kube::Transport& next, DeathPoint& death) : ForwardingTransport(next), death_(death) {}
  base::Result<kube::HttpResponse> perform(const kube::HttpRequest& request, std::stop_token stop) override {
    if (death_.dead) throw Died();
    if (request.method == kube::Method::get) return ForwardingTransport::perform(request, stop);
    return death_.pass(std::string(kube::toString(request.method)) + " " + request.target,
                       [&] { return ForwardingTransport::perform(request, stop); });
  }

 private:
  DeathPoint& death_;
};

struct Run {
  std::string picture, problem;
  int writes = 0;
  std::vector<std::string> names;
};

Run run(const std::vector<Act>& acts, int at, bool after) {
  Run result;
  World world;
  furnish(world);
  const auto from = std::to_string(world.server->resourceVersion());
  DeathPoint death;
  death.at = at;
  death.after = after;
  MortalTransport transport(*world.transport, death);
  // A plugin's effect is a crash point like a write: the process dies before the effect, or before it receives the
  // result.
  world.plugin.before = world.remote.before = [&] {
    if (death.dead) throw Died();
    if (death.count == death.at && !death.after) {
      death.dead = true;
      throw Died();
    }
  };
  world.plugin.after = world.remote.after = [&] {
    const bool here = death.count == death.at && death.after;
    ++death.count;
    death.names.push_back("plugin");
    if (!here) return;
    death.dead = true;
    throw Died();
  };
  std::unique_ptr<support::Driver> driver;
  const auto start = [&] {
    world.registry.forgetListeners();
    driver.reset();
    driver = std::make_unique<support::Driver>(*world.server, transport, world.registry, world.clock);
    driver->start();
    driver->settle();
  };
  int deaths = 0;
  const auto live = [&](const std::function<void()>& what) {
    try {
      what();
    } catch (const Died&) {
      ++deaths;
      death.dead = false;
      death.at = -1;
      if (auto broken = world.violation(); !broken.empty() && result.problem.empty())
        result.problem = "when it died: " + broken;
      start();
      driver->run();
    }
  };
  try {
    live(start);
    for (const auto& act : acts) {
      act.run(world);
      live([&] { driver->run(); });
      if (auto broken = world.garbage(); !broken.empty() && result.problem.empty())
        result.problem = act.what + ": " + broken;
    }
    if (auto over = overCommitSince(world, from); !over.empty() && result.problem.empty())
      result.problem = "over-committed: " + over;
    result.picture = world.picture();
  } catch (const std::exception& error) {
    if (result.problem.empty()) result.problem = error.what();
  }
  if (at >= 0 && deaths != 1 && result.problem.empty()) result.problem = "did not die";
  result.writes = death.count;
  result.names = death.names;
  world.registry.forgetListeners();
  driver.reset();
  return result;
}

/// alsoBefore: also die before each write. That leaves the same state as a death after the previous write; it only
/// happens later.
void everyWrite(const std::vector<Act>& acts, int atLeast, bool alsoBefore = true) {
  const auto reference = run(acts, -1, false);
  ASSERT_EQ(reference.problem, "");
  ASSERT_GT(reference.writes, atLeast) << "the workload is not what it was";
  for (int at = 0; at < reference.writes; ++at)
    for (const bool after : {false, true}) {
      if (!after && !alsoBefore) continue;
      const auto result = run(acts, at, after);
      const auto where =
          std::string(after ? "after" : "before") + " write " + std::to_string(at) + " (" + reference.names[at] + ")";
      EXPECT_EQ(result.problem, "") << where;
      EXPECT_EQ(result.picture, reference.picture) << where;
    }
  testing::Test::RecordProperty("writes", reference.writes);
}

TEST(CrashTest, EveryWriteBeforeAndAfterConvergesToTheSameWorld) { everyWrite(workload(), 60); }
TEST(CrashTest, W0_EveryWriteOfClaimsForResourceClaimsOfOthers) { everyWrite(askedForByOthers(), 20); }
TEST(CrashTest, W3b_EveryWriteOfRemoteGpus) { everyWrite(remoteGpus(), 40); }
TEST(CrashTest, EveryWriteWhereATenantTearsOutWhatHisPodCameBy) { everyWrite(tornOut(), 30); }

TEST(CrashTest, C15_EveryWriteWhereClaimsAreResized) { everyWrite(resizes(), 50); }
TEST(CrashTest, R1_EveryWriteWhereCardsChange) { everyWrite(cardsChange(), 20); }

TEST(CrashTest, EveryWriteWhereClaimsFreeCapacityForOthers) { everyWrite(preemption(), 60); }

TEST(CrashTest, C13_EveryWriteWhereClaimsMove) { everyWrite(moves(), 30); }

TEST(CrashTest, C14_EveryWriteOfGangs) { everyWrite(gangs(), 60, false); }
TEST(CrashTest, C14_EveryWriteOfPodGroups) { everyWrite(podGroups(), 40, false); }

TEST(CrashTest, C14_V1_EveryWriteWhereClaimsFreeCapacityForGangs) { everyWrite(gangPreemption(), 80, false); }

TEST(CrashTest, C6_V1_EveryWriteWhereClaimsFreeCapacityForAPodsClaims) { everyWrite(podPreemption(), 60, false); }

TEST(CrashTest, EveryWriteWhereClaimsHaveAlternativesOrObserve) { everyWrite(alternatives(), 50); }

/// The watch loses, repeats or delays an event, or restarts with a stale list. The final state is the same.
void watchFault(const std::function<void(support::Driver&, int)>& inject, int events) {
  std::string reference;
  for (int at = -1; at < events; ++at) {
    World world;
    furnish(world);
    support::Driver driver(*world.server, *world.transport, world.registry, world.clock);
    if (at >= 0) inject(driver, at);
    driver.start();
    driver.settle();
    for (const auto& act : workload()) {
      act.run(world);
      driver.run();
    }
    driver.run();
    EXPECT_EQ(world.garbage(), "") << "event " << at;
    if (at < 0)
      reference = world.picture();
    else
      EXPECT_EQ(world.picture(), reference) << "event " << at;
    world.registry.forgetListeners();
  }
}

TEST(WatchFaultTest, LostDeviceEvents) {
  watchFault([](support::Driver& d, int at) { d.gpus.faults.lose = at; }, 40);
}
TEST(WatchFaultTest, LostDeviceEventsAndAStaleList) {
  watchFault(
      [](support::Driver& d, int at) {
        d.gpus.faults.lose = at;
        d.gpus.faults.staleList = true;
      },
      40);
}
TEST(WatchFaultTest, RepeatedDeviceEvents) {
  watchFault([](support::Driver& d, int at) { d.gpus.faults.repeat = at; }, 40);
}
TEST(WatchFaultTest, DelayedDeviceEvents) {
  watchFault([](support::Driver& d, int at) { d.gpus.faults.delay = at; }, 40);
}
TEST(WatchFaultTest, LostClaimEvents) {
  watchFault([](support::Driver& d, int at) { d.claims.faults.lose = at; }, 24);
}
TEST(WatchFaultTest, LostClaimEventsAndAStaleList) {
  watchFault(
      [](support::Driver& d, int at) {
        d.claims.faults.lose = at;
        d.claims.faults.staleList = true;
      },
      24);
}
TEST(WatchFaultTest, RepeatedAndDelayedClaimEvents) {
  watchFault(
      [](support::Driver& d, int at) {
        d.claims.faults.repeat = at;
        d.claims.faults.delay = at + 1;
      },
      24);
}
TEST(WatchFaultTest, LostRepeatedAndDelayedResourceClaimAndPodEvents) {
  watchFault(
      [](support::Driver& d, int at) {
        d.resourceClaims.faults.lose = at;
        d.pods.faults.repeat = at;
      },
      12);
  watchFault(
      [](support::Driver& d, int at) {
        d.pods.faults.lose = at;
        d.resourceClaims.faults.delay = at;
      },
      12);
}

}  // namespace
}  // namespace egpu::crash

// Two controllers at once without leader election: the real code on two threads, with every call gated, in every
// interleaving of up to three switches. `../support/driver.h` reads watches only when a controller is idle, so the
// suspended controller acts on older state.
#include <gtest/gtest.h>

#include <condition_variable>
#include <mutex>
#include <thread>

#include "tests/crash/workload.h"
#include "tests/support/forwarding_transport.h"

namespace egpu::crash {
namespace {

/// Determines which controller may call the server: 0 for plan[0] calls, then 1 for plan[1], then 0 for plan[2], then 1
/// until it ends, then 0 until it ends.
class Gate {
 public:
  Gate(std::vector<int> plan, std::function<void(int)> onSwitch)
      : plan_(std::move(plan)), onSwitch_(std::move(onSwitch)) {
    used_.resize(plan_.size());
  }

  void call(int who) {
    std::unique_lock lock(mutex_);
    while (segment_ < plan_.size() && used_[segment_] >= plan_[segment_] && static_cast<int>(segment_ % 2) == who)
      next();
    changed_.wait(lock, [&] { return current() == who; });
    // The next segment may have length 0.
    while (segment_ < plan_.size() && used_[segment_] >= plan_[segment_]) {
      next();
      changed_.wait(lock, [&] { return current() == who; });
    }
    if (segment_ < plan_.size()) ++used_[segment_];
  }
  void finished(int who) {
    std::lock_guard lock(mutex_);
    done_[who] = true;
    if (segment_ < plan_.size() && static_cast<int>(segment_ % 2) == who) next();
    changed_.notify_all();
  }
  bool exhausted(std::size_t segment) const { return used_[segment] >= plan_[segment]; }

 private:
  int current() const {
    int who = segment_ < plan_.size() ? static_cast<int>(segment_ % 2) : static_cast<int>(plan_.size() % 2);
    return done_[who] ? 1 - who : who;
  }
  void next() {
    onSwitch_(static_cast<int>(segment_));
    ++segment_;
    changed_.notify_all();
  }

  const std::vector<int> plan_;
  const std::function<void(int)> onSwitch_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::size_t segment_ = 0;
  std::vector<int> used_;
  bool done_[2] = {false, false};
};

class GatedTransport final : public support::ForwardingTransport {
 public:
  GatedTransport(kube::Transport& next, int who) : ForwardingTransport(next), who_(who) {}
  Gate* gate = nullptr;
  base::Result<kube::HttpResponse> perform(const kube::HttpRequest& request, std::stop_token stop) override {
    if (gate != nullptr) gate->call(who_);
    return ForwardingTransport::perform(request, std::move(stop));
  }

 private:
  const int who_;
};

struct Scenario {
  std::function<void(World&)> before;         ///< changes that one controller completes before the run
  std::function<void(World&)> start;          ///< changes that both controllers see at the start of the run
  std::function<void(World&, int)> onSwitch;  ///< users' action at the n-th switch
  std::function<void(World&)> end;            ///< after both have ended; then the world must become idle
  std::function<std::string(World&)> expect;
  int stride = 1;  ///< number of calls between possible switches
};

void explore(const Scenario& scenario) {
  World world;
  world.addNamespace("default");
  world.addNode("n1");
  world.addCard("n1", 0);
  world.addCard("n1", 1);
  world.addClass("share");
  int runs = 0;
  // Runs one interleaving and returns which segments were used up.
  const auto interleave = [&](const std::vector<int>& plan) {
    ++runs;
    std::vector<bool> exhausted(plan.size(), false);
    const auto from = std::to_string(world.server->resourceVersion());
    std::string problem;
    const auto note = [&](const std::string& what) {
      if (!what.empty() && problem.empty()) problem = what;
    };
    world.registry.forgetListeners();
    {
      GatedTransport transports[2] = {{*world.transport, 0}, {*world.transport, 1}};
      std::unique_ptr<support::Driver> drivers[2];
      for (int i : {0, 1}) {
        drivers[i] = std::make_unique<support::Driver>(*world.server, transports[i], world.registry, world.clock);
        drivers[i]->start();
      }
      if (scenario.before) scenario.before(world);
      drivers[0]->settle();
      drivers[1]->settle();
      scenario.start(world);
      drivers[0]->poll();
      drivers[1]->poll();
      Gate gate(plan, [&](int n) {
        note(world.violation());
        if (scenario.onSwitch) scenario.onSwitch(world, n);
      });
      std::string failures[2];
      {
        std::vector<std::jthread> threads;
        for (int i : {0, 1}) {
          transports[i].gate = &gate;
          threads.emplace_back([&, i] {
            try {
              drivers[i]->settle();
            } catch (const std::exception& error) {
              failures[i] = error.what();
            }
            gate.finished(i);
          });
        }
      }
      for (int i : {0, 1}) {
        transports[i].gate = nullptr;
        note(failures[i]);
      }
      for (std::size_t i = 0; i < plan.size(); ++i) exhausted[i] = gate.exhausted(i);
      try {
        if (scenario.end) scenario.end(world);
        for (int round = 0; round < 4; ++round)
          for (auto& driver : drivers) driver->run();
        note(world.garbage());
        note(overCommitSince(world, from));
        note(scenario.expect(world));
        // Resets to the empty world.
        for (const auto& claim : World::must(world.client.listAll<cache::Claim>({})))
          (void)world.client.remove<cache::Claim>(core::keyOf(claim.metadata));
        for (int round = 0; round < 4; ++round)
          for (auto& driver : drivers) driver->run();
        note(world.garbage());
        for (const auto& gpu : World::must(world.client.listAll<cache::Gpu>({})))
          if (gpu.isDevice() || !gpu.spec.allocations.empty()) note("left behind: " + gpu.metadata.name);
      } catch (const std::exception& error) {
        note(error.what());
      }
      world.registry.forgetListeners();
    }
    EXPECT_EQ(problem, "") << "plan " << plan[0] << " " << plan[1] << " " << plan[2] << "\n" << world.picture();
    return exhausted;
  };
  constexpr int kMax = 64;
  for (int a = 0; a < kMax; a += scenario.stride) {
    bool usedA = false;
    for (int b = 0; b < kMax; b += scenario.stride) {
      bool usedB = false;
      for (int c = 0; c < kMax; c += scenario.stride) {
        const auto used = interleave({a, b, c});
        if (::testing::Test::HasFailure()) return;
        usedA = used[0];
        usedB = used[1];
        if (!used[2]) break;
      }
      if (!usedB) break;
    }
    if (!usedA) break;
  }
  ::testing::Test::RecordProperty("interleavings", runs);
  EXPECT_GT(runs, 100) << "the gate does not bite";
}

std::string boundOnBoth(World& world) {
  if (world.claim("c").status.phase != "Bound") return "not bound: " + world.reason("c");
  for (const char* card : {"gpu-n1-0", "gpu-n1-1"})
    if (world.gpu(card).spec.allocations.size() != 1) return std::string("entries on ") + card;
  return {};
}

TEST(InterleavingTest, TwoCardBind) {
  Scenario scenario;
  scenario.start = [](World& world) { world.addClaim("c", "share", {{"gpu", "2"}}); };
  scenario.expect = boundOnBoth;
  explore(scenario);
}

void resizeWhile(const std::function<void(World&, int)>& users, const std::function<std::string(World&)>& expect) {
  Scenario scenario;
  scenario.before = [](World& world) {
    if (!world.client.get<cache::Class>({"", "flex"}).ok())
      world.addClass("flex", "Delete", "Immediate", {{"resizable", "true"}});
    world.addClaim("c", "flex", {{"gpu", "1"}, {"gpu-core", "50"}});
  };
  scenario.start = [users](World& world) { users(world, -1); };
  scenario.onSwitch = users;
  scenario.expect = expect;
  explore(scenario);
}

TEST(InterleavingTest, C15_ResizedTwice) {
  const auto ask = [](World& world, const std::string& core) {
    (void)world.client.patch<cache::Claim>(
        {"default", "c"}, kube::PatchType::merge,
        R"({"spec":{"resources":{"requests":{"elasticgpu.io/gpu-core":")" + core + R"("}}}})", {});
  };
  resizeWhile(
      [ask](World& world, int n) {
        if (n == -1) ask(world, "90");
        if (n == 0) ask(world, "20");
        if (n == 1) ask(world, "70");
      },
      [](World& world) -> std::string {
        const auto card = world.gpu("gpu-n1-0").spec.allocations;
        const auto asked = world.claim("c").spec.requests.at("elasticgpu.io/gpu-core");
        if (world.claim("c").status.requests.at("elasticgpu.io/gpu-core") != asked) return "not in force";
        if (card.size() != 1 || card.begin()->second.core != 10 * std::stoi(asked)) return "not in the ledger";
        return {};
      });
}

/// A gang of two on two cards, one of which another claim may get first: either the whole gang is bound or none of it
/// holds a card.
TEST(InterleavingTest, C14_AGangBesideAnother) {
  Scenario scenario;
  scenario.stride = 3;
  scenario.start = [](World& world) {
    for (const auto* name : {"a", "b"})
      world.addMember(name, "share", {{"gpu", "1"}}, {{"elasticgpu.io/gang", "g"}, {"elasticgpu.io/gang-size", "2"}});
  };
  scenario.onSwitch = [](World& world, int n) {
    if (n == 0) world.addClaim("c", "share", {{"gpu", "1"}});
  };
  scenario.end = [](World& world) { world.clock.advance(std::chrono::minutes(2)); };
  scenario.expect = [](World& world) -> std::string {
    const auto bound = [&](const std::string& name) { return world.claim(name).status.phase == "Bound"; };
    if (bound("a") != bound("b")) return "half of it is bound";
    if (!world.client.get<cache::Claim>({"default", "c"}).ok())
      return bound("a") ? "" : "not bound: " + world.message("a");
    if (bound("a") == bound("c")) return "a: " + world.message("a") + ", c: " + world.message("c");
    std::size_t entries = 0;
    for (const char* card : {"gpu-n1-0", "gpu-n1-1"}) entries += world.gpu(card).spec.allocations.size();
    return entries == (bound("a") ? 2u : 1u) ? "" : "something is held for who waits";
  };
  explore(scenario);
}

TEST(InterleavingTest, Release) {
  Scenario scenario;
  scenario.before = [](World& world) { world.addClaim("c", "share", {{"gpu", "2"}}); };
  scenario.start = [](World& world) { world.removeClaim("c"); };
  scenario.expect = [](World& world) -> std::string {
    return world.client.get<cache::Claim>({"default", "c"}).ok() ? "the claim is still there" : "";
  };
  explore(scenario);
}

TEST(InterleavingTest, ClaimDeletedAndRecreated) {
  Scenario scenario;
  scenario.start = [](World& world) { world.addClaim("c", "share", {{"gpu", "2"}}); };
  const auto again = [](World& world) {
    if (!world.client.get<cache::Claim>({"default", "c"}).ok()) world.addClaim("c", "share", {{"gpu", "2"}});
  };
  scenario.onSwitch = [again](World& world, int n) {
    if (n == 0) (void)world.client.remove<cache::Claim>({"default", "c"});
    if (n > 0) again(world);
  };
  scenario.end = again;
  scenario.expect = [again](World& world) -> std::string {
    const auto claim = world.client.get<cache::Claim>({"default", "c"});
    if (!claim.ok()) return {};  // its deletion is only now complete
    return boundOnBoth(world);
  };
  explore(scenario);
}

}  // namespace
}  // namespace egpu::crash

// A world with one node of two cards, one class per policy, and a controller that moves when told.
#pragma once

#include <memory>
#include <string>

#include "tests/support/world.h"

namespace egpu::reconcile {

using support::kGi;

class ReconcileTest : public ::testing::Test {
 protected:
  void SetUp() override {
    world.addNamespace("default");
    world.addNode("n1");
    world.addCard("n1", 0);
    world.addCard("n1", 1);
    world.addClass("share");
    world.addClass("keep", "Retain");
    world.addClass("late", "Delete", "WaitForFirstConsumer");
    start();
  }
  void TearDown() override {
    if (driver) {
      driver->run();
      EXPECT_EQ(world.garbage(), "");
    }
    world.registry.forgetListeners();
  }
  /// A fresh process on the same world.
  void start(std::chrono::milliseconds summaryDelay = std::chrono::milliseconds(-1)) {
    world.registry.forgetListeners();
    driver.reset();
    driver =
        std::make_unique<support::Driver>(world.handler(), *world.transport, world.registry, world.clock, summaryDelay);
    driver->start();
    driver->settle();
  }
  /// The same over another line to the server.
  void startOver(kube::Transport& line) {
    world.registry.forgetListeners();
    driver.reset();
    driver = std::make_unique<support::Driver>(world.handler(), line, world.registry, world.clock);
    driver->start();
    driver->settle();
  }
  /// How many events begin so: "<object> <type> <reason> …".
  int64_t told(const std::string& start) const {
    const auto lines = driver->events.lines();
    return std::count_if(lines.begin(), lines.end(), [&](const auto& line) { return line.rfind(start, 0) == 0; });
  }
  void settle() { driver->settle(); }
  /// Writes that the API server has seen, as versions.
  uint64_t writes() const { return world.writes(); }
  std::string deviceOf(const std::string& claim) { return "egpu-" + world.claim(claim).metadata.uid; }

  support::World world;
  std::unique_ptr<support::Driver> driver;
};

}  // namespace egpu::reconcile

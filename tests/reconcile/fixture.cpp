#include "tests/reconcile/fixture.h"

#include <algorithm>

namespace egpu::reconcile {

void ReconcileTest::SetUp() {
  world.addNamespace("default");
  world.addNode("n1");
  world.addCard("n1", 0);
  world.addCard("n1", 1);
  world.addClass("share");
  world.addClass("keep", "Retain");
  world.addClass("late", "Delete", "WaitForFirstConsumer");
  start();
}

void ReconcileTest::TearDown() {
  if (driver) {
    driver->run();
    EXPECT_EQ(world.garbage(), "");
  }
  world.registry.forgetListeners();
}

void ReconcileTest::start(std::chrono::milliseconds summaryDelay) {
  world.registry.forgetListeners();
  driver.reset();
  driver =
      std::make_unique<support::Driver>(world.handler(), *world.transport, world.registry, world.clock, summaryDelay);
  driver->start();
  driver->settle();
}

void ReconcileTest::startOver(kube::Transport& line) {
  world.registry.forgetListeners();
  driver.reset();
  driver = std::make_unique<support::Driver>(world.handler(), line, world.registry, world.clock);
  driver->start();
  driver->settle();
}

int64_t ReconcileTest::countEvents(const std::string& start) const {
  const auto lines = driver->events.lines();
  return std::count_if(lines.begin(), lines.end(), [&](const auto& line) { return line.rfind(start, 0) == 0; });
}

void ReconcileTest::runPod(const std::string& pod, const std::vector<std::string>& claims) {
  world.addPod(pod, claims);
  settle();
  world.schedule(pod);
  settle();
}

}  // namespace egpu::reconcile

// A world with one node of two cards, one class per policy, and a controller that acts only when the test lets it.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tests/support/world.h"

namespace egpu::reconcile {

using support::kGi;

class ReconcileTest : public ::testing::Test {
 protected:
  void SetUp() override;
  void TearDown() override;
  /// Starts a new controller process on the same world.
  void start(std::chrono::milliseconds summaryDelay = std::chrono::milliseconds(-1));
  /// Starts a new controller process with another connection to the server.
  void startOver(kube::Transport& line);
  /// Number of events that begin with the text "<object> <type> <reason> …".
  int64_t countEvents(const std::string& start) const;
  void settle() { driver->settle(); }
  /// Adds a pod of these claims, and schedules it.
  void runPod(const std::string& pod, const std::vector<std::string>& claims);
  /// Number of writes that the API server has accepted, as versions.
  uint64_t writes() const { return world.writes(); }
  std::string deviceOf(const std::string& claim) { return "egpu-" + world.claim(claim).metadata.uid; }

  support::World world;
  std::unique_ptr<support::Driver> driver;
};

}  // namespace egpu::reconcile

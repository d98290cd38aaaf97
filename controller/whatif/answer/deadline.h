// Deadline of a question, and the stop request of its caller.
#pragma once

#include <chrono>
#include <stop_token>

#include "controller/base/clock.h"
#include "controller/scheduler/explain.h"

namespace egpu::whatif {

/// The clock must outlive it.
class Deadline {
 public:
  /// Thrown by pause() once the deadline has passed or the caller has stopped; caught by the service.
  struct Passed {};

  Deadline(const base::Clock& clock, std::chrono::seconds time, std::stop_token stop)
      : clock_(clock), until_(clock.now() + time), stop_(std::move(stop)) {}

  bool isStopped() const { return stop_.stop_requested(); }
  bool hasPassed() const { return isStopped() || clock_.now() >= until_; }
  /// Returns a function that throws Passed. The scheduler calls it between decisions; work on a copy can be abandoned
  /// at any point. The deadline must outlive it.
  scheduler::Pause pause() const {
    return [this] {
      if (hasPassed()) throw Passed{};
    };
  }

 private:
  const base::Clock& clock_;
  const base::Clock::Steady until_;
  const std::stop_token stop_;
};

}  // namespace egpu::whatif

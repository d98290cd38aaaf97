// Simulation of two limited programs on one card that the driver shares by time slices. The programs' budgets are the
// limiter's own code (bucket.h, egpu_limiter_next_factor); the card, the programs and the agent are simulated, in
// simulated time. Deterministic.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace egpu::bench {

/// Durations of a program's kernels, in nanoseconds, repeated in this order.
using Kernels = std::vector<int64_t>;

struct SharesSetting {
  uint32_t cores[2] = {300, 700};  ///< milli-cards
  Kernels kernels[2];
  double noise = 0.02;         ///< relative error of the measured utilisation
  int64_t period = 250000000;  ///< between two factors of the agent, ns
  bool corrected = true;       ///< false: the factor stays 1
};

/// Percent of the time that the card worked for each program.
struct Shares {
  double percent[2] = {};
};

/// Simulates 20 s, of which the first 5 do not count.
Shares simulateShares(const SharesSetting& setting);

struct NamedKernels {
  std::string name;
  Kernels first, second;
};

/// Small (30 us), 2 ms, 40 ms and mixed kernels, and small ones against large ones.
std::vector<NamedKernels> shareCases();

}  // namespace egpu::bench

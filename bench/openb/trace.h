// A trace: nodes, pods and the order in which they arrive. Read from files of the form of Alibaba's
// cluster-trace-gpu-v2023 (openb).
//
//   nodes   CSV with a header: sn, cpu_milli, memory_mib, gpu (cards), model
//   pods    CSV with a header: name, cpu_milli, memory_mib, num_gpu, gpu_milli, gpu_spec (models, split at |; empty:
//           any), creation_time and deletion_time (seconds); the last three may be missing, further columns are not
//           read
//   order   line 1: how many arrive
//           line 2: their row numbers in the pods file, from 0
//           line 3: of each node, in the nodes file's order, its rank among equals
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

namespace egpu::bench::openb {

struct Node {
  std::string name;
  int64_t cpuMilli = 0;
  int64_t memoryMib = 0;
  int64_t cards = 0;
  std::string model;
  int64_t rank = 0;  ///< of equal nodes the lowest goes first; unique
};

struct Pod {
  int64_t cpuMilli = 0;
  int64_t memoryMib = 0;
  int64_t cards = 0;
  int64_t milli = 0;                ///< of each card, 1 … 1000; of several cards 1000; 0 without cards
  std::vector<std::string> models;  ///< sorted; empty = any
  int64_t creation = 0;             ///< seconds from where the trace begins
  int64_t deletion = 0;             ///< not before creation; both 0 where the file does not say
  bool bestEffort = false;          ///< qos BE; the file may not say
  bool operator==(const Pod&) const = default;
};

struct Trace {
  std::vector<Node> nodes;
  std::vector<Pod> pods;
  std::vector<std::size_t> arrivals;  ///< positions in pods
};

/// What is wrong with a file: its name, the line and the field.
class BadTrace : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Throws BadTrace.
Trace readTrace(const std::string& nodes, const std::string& pods, const std::string& order);

}  // namespace egpu::bench::openb

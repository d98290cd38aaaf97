// A trace: nodes, pods and the order of their arrivals. The files have the format of Alibaba's cluster-trace-gpu-v2023
// (openb).
//
//   nodes   CSV with a header: sn, cpu_milli, memory_mib, gpu (cards), model
//   pods    CSV with a header: name, cpu_milli, memory_mib, num_gpu, gpu_milli, gpu_spec (models, split at |; empty:
//           any), creation_time and deletion_time (seconds); the last three may be missing, other columns are
//           ignored
//   order   line 1: number of arrivals
//           line 2: their row numbers in the pods file, from 0
//           line 3: the rank of each node among equals, in the nodes file's order
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

namespace egpu::bench::openb {

struct TraceNode {
  std::string name;
  int64_t cpuMilli = 0;
  int64_t memoryMib = 0;
  int64_t cards = 0;
  std::string model;
  int64_t rank = 0;  ///< unique; among equal nodes the lowest rank is chosen
};

struct TracePod {
  int64_t cpuMilli = 0;
  int64_t memoryMib = 0;
  int64_t cards = 0;
  int64_t milli = 0;                ///< per card, 1 … 1000; 1000 if there are several cards; 0 without cards
  std::vector<std::string> models;  ///< sorted; empty = any
  int64_t creation = 0;             ///< seconds since the beginning of the trace
  int64_t deletion = 0;             ///< not before creation; both are 0 if the file has no times
  bool bestEffort = false;          ///< qos BE; false if the file has no such column
  bool operator==(const TracePod&) const = default;
};

struct Trace {
  std::vector<TraceNode> nodes;
  std::vector<TracePod> pods;
  std::vector<std::size_t> arrivals;  ///< positions in pods
};

/// Describes the error in a file: its name, the line and the field.
class BadTrace : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Throws BadTrace.
Trace readTrace(const std::string& nodes, const std::string& pods, const std::string& order);

}  // namespace egpu::bench::openb

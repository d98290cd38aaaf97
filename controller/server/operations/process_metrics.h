// Metrics of the process itself, under the names that all Prometheus clients use.
#pragma once

#include "controller/base/metrics.h"

namespace egpu::server {

/// Not thread-safe.
class ProcessMetrics {
 public:
  /// Sets process_cpu_seconds_total, process_resident_memory_bytes, process_virtual_memory_bytes, process_open_fds,
  /// process_max_fds, process_threads and process_start_time_seconds from /proc. A value that can't be read stays
  /// unchanged.
  void update(base::Metrics& metrics);

 private:
  double cpuSeconds_ = 0;  ///< CPU seconds counted so far
};

}  // namespace egpu::server

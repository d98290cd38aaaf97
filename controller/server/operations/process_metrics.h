// The process's own figures, under the names that every Prometheus client gives them.
#pragma once

#include "controller/base/metrics.h"

namespace egpu::server {

/// Not thread-safe.
class ProcessMetrics {
 public:
  /// Sets process_cpu_seconds_total, process_resident_memory_bytes, process_virtual_memory_bytes, process_open_fds,
  /// process_max_fds, process_threads and process_start_time_seconds from /proc; what can't be read stays as it was.
  void update(base::Metrics& metrics);

 private:
  double cpuSeconds_ = 0;  ///< counted so far
};

}  // namespace egpu::server

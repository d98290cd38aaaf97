// Shared by the benchmarks: abort on errors, clock and processor time.
#pragma once

#include <sys/resource.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <utility>

#include "controller/base/status.h"

namespace egpu::bench {

/// Prints the status and aborts the program unless it is OK.
inline void must(const base::Status& s) {
  if (s.ok()) return;
  std::fprintf(stderr, "%s\n", s.str().c_str());
  std::abort();
}
template <class T>
T must(base::Result<T> r) {
  must(r.status());
  return std::move(*r);
}

inline double secondsSince(std::chrono::steady_clock::time_point from) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - from).count();
}

/// Seconds of processor time that this process has used so far: all threads, user and system.
inline double cpuSeconds() {
  rusage u{};
  ::getrusage(RUSAGE_SELF, &u);
  return static_cast<double>(u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
         static_cast<double>(u.ru_utime.tv_usec + u.ru_stime.tv_usec) * 1e-6;
}

}  // namespace egpu::bench

// Error output of commands.
#pragma once

#include <cstdio>
#include <string>

#include "controller/base/status.h"

namespace egpu::cmd {

/// Prints "error: WHAT: WHY" to standard error. Returns the exit status.
inline int fail(const std::string& what, const base::Status& why, int exitStatus = 1) {
  std::fprintf(stderr, "error: %s%s%s\n", what.c_str(), what.empty() ? "" : ": ", why.message().c_str());
  return exitStatus;
}

}  // namespace egpu::cmd

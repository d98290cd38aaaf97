// How a command says that it can't go on.
#pragma once

#include <cstdio>
#include <string>

#include "controller/base/status.h"

namespace egpu::cmd {

/// "error: WHAT: WHY" on standard error; the exit status.
inline int fail(const std::string& what, const base::Status& why, int exitStatus = 1) {
  std::fprintf(stderr, "error: %s%s%s\n", what.c_str(), what.empty() ? "" : ": ", why.message().c_str());
  return exitStatus;
}

}  // namespace egpu::cmd

// Runs a credential plugin, as kubectl does (client.authentication.k8s.io).
#pragma once

#include <chrono>
#include <cstddef>
#include <stop_token>
#include <string>

#include "controller/base/status.h"
#include "controller/codec/exec_credential.h"
#include "controller/kube/config/endpoint.h"
#include "controller/kube/config/environment.h"

namespace egpu::kube {

/// What a run may take; a child that goes beyond it is killed with all it started.
struct ExecLimits {
  std::chrono::milliseconds time{60'000};
  std::size_t output = std::size_t{1} << 20;  ///< bytes of standard output
};

/// Blocks until the plugin has answered, its time is up or a stop. It gets this process's environment, its own
/// variables and KUBERNETES_EXEC_INFO, no terminal and no input; what it prints on standard error is told in the error
/// if it fails. Every failure is Code::unavailable (nothing was asked of the API server), and names the command;
/// Code::cancelled after a stop.
base::Result<codec::ExecCredential> runExecPlugin(const ExecPlugin& plugin, const Endpoint& endpoint,
                                                  const ExecLimits& limits, std::stop_token stop);

}  // namespace egpu::kube

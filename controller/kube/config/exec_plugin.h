// Runs a credential plugin as kubectl does (client.authentication.k8s.io).
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

/// Limits of a run; a plugin that exceeds one is killed with its descendants.
struct ExecLimits {
  std::chrono::milliseconds time{60'000};
  std::size_t output = std::size_t{1} << 20;  ///< bytes of standard output
};

/// Blocks until the plugin has answered, its time is up, or a stop. The plugin gets this process's environment, its own
/// variables and KUBERNETES_EXEC_INFO, but no terminal and no input. If it fails, the error contains its standard
/// error. All failures are Code::unavailable (no request was sent to the API server) and name the command;
/// Code::cancelled after a stop.
base::Result<codec::ExecCredential> runExecPlugin(const ExecPlugin& plugin, const Endpoint& endpoint,
                                                  const ExecLimits& limits, std::stop_token stop);

}  // namespace egpu::kube

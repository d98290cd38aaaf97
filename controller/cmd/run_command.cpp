#include <cstdio>

#include "controller/base/log.h"
#include "controller/cmd/compose.h"
#include "controller/cmd/options.h"
#include "controller/cmd/signals.h"
#include "controller/kube/config/kubeconfig.h"
#include "controller/kube/transport/curl_transport.h"

namespace egpu::cmd {

int runCommand(const RunOptions& options) {
  const Signals signals;
  const auto endpoint = kube::loadEndpoint({options.kubeconfig, options.context}, kube::Environment::process());
  if (!endpoint) {
    std::fprintf(stderr, "error: %s\n", endpoint.status().message().c_str());
    return 1;
  }
  base::SystemClock clock;
  base::Random random;
  auto transport = kube::curlTransport(*endpoint, clock);
  if (!transport) {
    std::fprintf(stderr, "error: %s: %s\n", endpoint->origin.c_str(), transport.status().message().c_str());
    return 1;
  }
  Core core(**transport, clock, random, options.controller);
  base::log::info("starting", {{"server", endpoint->server}, {"configuration", endpoint->origin}});
  if (auto s = core.start(); !s.ok()) {
    std::fprintf(stderr, "error: --ops-listen: %s\n", s.message().c_str());
    return 1;
  }
  if (auto s = core.announce(); !s.ok()) {
    std::fprintf(stderr, "error: --write-ops-address: %s\n", s.message().c_str());
    return 1;
  }
  const int signal = signals.wait();
  base::log::info("stopping", {{"signal", signal}});
  core.stop();
  return 0;
}

}  // namespace egpu::cmd

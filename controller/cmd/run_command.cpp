#include <unistd.h>

#include <cstdio>
#include <optional>
#include <string>
#include <thread>

#include "controller/base/log.h"
#include "controller/cmd/compose.h"
#include "controller/cmd/fail.h"
#include "controller/cmd/options.h"
#include "controller/cmd/signals.h"
#include "controller/kube/config/kubeconfig.h"
#include "controller/kube/transport/curl_transport.h"

namespace egpu::cmd {

namespace {

std::string hostName() {
  char name[256] = {};
  return ::gethostname(name, sizeof name - 1) == 0 && name[0] != '\0' ? name : "unknown";
}

/// Applies the defaults of leader election: on in a cluster, where replicas are common; off elsewhere.
std::optional<kube::LeaderElectionOptions> election(const RunOptions& options, const kube::Endpoint& endpoint,
                                                    base::Random& random) {
  if (!options.leaderElect.value_or(endpoint.inCluster)) return std::nullopt;
  auto lease = options.lease;
  if (lease.namespace_.empty()) lease.namespace_ = endpoint.namespace_;
  if (lease.identity.empty()) lease.identity = kube::electionIdentity(hostName(), random);
  return lease;
}

CoreOptions controllerOptions(const RunOptions& options, const kube::Endpoint& endpoint, base::Random& random) {
  CoreOptions out = options.controller;
  for (const auto& file :
       {options.kubeconfig, endpoint.tokenFile, endpoint.clientKeyFile, endpoint.clientCertificateFile})
    if (!file.empty()) out.pluginHidden.push_back(file);
  out.election = election(options, endpoint, random);
  return out;
}

/// Announces a started controller. Stops it on a signal or a fatal error. Returns the exit status.
int untilStopped(Core& core, const Signals& signals) {
  // On another thread, so that a signal ends the process even if the API server does not answer.
  base::Status announced;
  std::jthread announcing([&](std::stop_token stop) {
    announced = core.announce(stop);
    if (!announced.ok() && !stop.stop_requested()) signals.wake();
  });
  const int signal = signals.wait();
  announcing.request_stop();
  announcing.join();
  base::log::info("stopping", {{"signal", signal}});
  core.stop();
  if (core.leaseLost()) return kLeaseLost;
  return announced.ok() || announced.code() == base::Code::cancelled ? 0 : fail("", announced);
}

}  // namespace

int runCommand(const RunOptions& options) {
  if (!options.controller.opsAuth && !http::isLoopback(options.controller.opsListen)) {
    std::fprintf(stderr,
                 "error: --ops-auth=off: %s can be reached from other machines, where anyone could read all "
                 "allocations. Leave it on, or use --ops-listen=127.0.0.1:9440\n",
                 options.controller.opsListen.c_str());
    return 2;
  }
  const Signals signals;
  const auto endpoint = kube::loadEndpoint({options.kubeconfig, options.context}, kube::Environment::process());
  if (!endpoint) return fail("", endpoint.status());
  base::SystemClock clock;
  base::Random random;
  auto transport = kube::curlTransport(*endpoint, clock);
  if (!transport) return fail(endpoint->origin, transport.status());
  auto asCaller = kube::curlTransport(kube::withoutCredentials(*endpoint), clock);
  if (!asCaller) return fail(endpoint->origin, asCaller.status());
  const CoreOptions controller = controllerOptions(options, *endpoint, random);
  if (controller.election)
    if (auto s = controller.election->check(); !s.ok()) return fail("", s, 2);
  Core core(**transport, clock, random, controller, asCaller->get());
  base::log::info("starting", {{"server", endpoint->server}, {"configuration", endpoint->origin}});
  if (auto s = core.start([&signals] { signals.wake(); }); !s.ok()) return fail("", s);
  return untilStopped(core, signals);
}

}  // namespace egpu::cmd

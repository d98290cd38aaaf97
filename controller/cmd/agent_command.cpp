#include "controller/base/log.h"
#include "controller/cmd/agent.h"
#include "controller/cmd/fail.h"
#include "controller/cmd/signals.h"
#include "controller/kube/config/kubeconfig.h"
#include "controller/kube/transport/curl_transport.h"

namespace egpu::cmd {

int agentCommand(AgentOptions options) {
  const Signals signals;
  const auto endpoint = kube::loadEndpoint({options.kubeconfig, options.context}, kube::Environment::process());
  if (!endpoint) return fail("", endpoint.status());
  for (const auto& file :
       {options.kubeconfig, endpoint->tokenFile, endpoint->clientKeyFile, endpoint->clientCertificateFile})
    if (!file.empty()) options.pluginHidden.push_back(file);
  options.pluginHidden.push_back(options.kubeletFolder);
  base::SystemClock clock;
  base::Random random;
  auto transport = kube::curlTransport(*endpoint, clock);
  if (!transport) return fail(endpoint->origin, transport.status());
  Agent agent(**transport, clock, random, options);
  base::log::info("starting",
                  {{"node", options.nodeName}, {"server", endpoint->server}, {"configuration", endpoint->origin}});
  if (auto s = agent.start(); !s.ok()) return fail("", s);
  const int signal = signals.wait();
  base::log::info("stopping", {{"signal", signal}});
  agent.stop();
  return 0;
}

}  // namespace egpu::cmd

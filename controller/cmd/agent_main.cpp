// elastic-gpu-agent: converts flags to options.
#include <CLI/CLI.hpp>
#include <chrono>
#include <exception>
#include <string>

#include "api/v1alpha/host_paths.h"
#include "api/v1alpha/validation.h"
#include "controller/base/printable.h"
#include "controller/cmd/agent.h"
#include "controller/cmd/flags.h"
#include "controller/cmd/operations_client.h"

namespace {

using namespace egpu;

constexpr int kUsage = 2;

void addNode(CLI::App& app, cmd::AgentOptions& o) {
  app.add_option("--node-name", o.nodeName, "Name of the Node that this machine is")
      ->envname("NODE_NAME")
      ->required()
      ->check([](const std::string& name) {
        return v1alpha::isDnsSubdomain(name) ? std::string()
                                             : "\"" + base::printable(name) + "\" is not the name of a node";
      });
  app.add_option("--kubelet-dir", o.kubeletFolder,
                 "The kubelet's root folder, at the same path as for the kubelet; plugins_registry and "
                 "plugins/elasticgpu.io in it are used")
      ->capture_default_str();
  app.add_option("--cdi-root", o.cdiFolder, "Folder of CDI specs that the container runtime reads")
      ->capture_default_str();
  app.add_option("--host-root", o.hostRoot,
                 "Where a container sees the host's files: /host has /host/usr, /host/dev, … (default: this is "
                 "the host)")
      ->check(CLI::ExistingDirectory);
  app.add_option("--driver-root", o.driverRoot,
                 "Folder of the host with NVIDIA's driver where it is not installed on the host itself: "
                 "/run/nvidia/driver (GPU operator), /home/kubernetes/bin/nvidia (GKE)")
      ->check([](const std::string& path) {
        return v1alpha::isCleanPath(path) && path != "/" ? std::string()
                                                         : "\"" + base::printable(path) + "\" is not an absolute path";
      });
  cmd::addDuration(app, "--probation", o.probation,
                   "How long a card that was unhealthy, or in foreign use, must be healthy before it is used again");
}

void addUsage(CLI::App& app, cmd::AgentOptions& o) {
  cmd::addDuration(app, "--usage-interval", o.usageEvery,
                   "Minimum interval between usage updates of a card's status, written only if usage changed "
                   "noticeably; 0s = never");
}

void addAddresses(CLI::App& app, cmd::AgentOptions& o) {
  app.add_option("--ops-listen", o.opsListen,
                 "Address of /metrics; [::]:PORT = all of both families; port 0 = any free one")
      ->capture_default_str();
  app.add_option("--probes-listen", o.probesListen, "Address of /healthz, /livez and /readyz, and nothing else")
      ->capture_default_str();
  app.add_option("--write-ops-address", o.writeOpsAddress, "Write the real operations address to this file");
  app.add_option("--write-probes-address", o.writeProbesAddress, "Write the real probes address to this file");
}

int execute(int argc, char** argv) {
  CLI::App app{"Elastic GPU's agent: the cards of a node, and its kubelet's DRA driver"};
  app.set_version_flag("--version", EGPU_VERSION);
  app.footer("Exit status: 0 after SIGTERM or SIGINT, 1 an error, 2 wrong usage.");
  cmd::AgentOptions options;
  cmd::LogOptions log;
  addNode(app, options);
  app.add_option("--kubeconfig", options.kubeconfig,
                 "Kubeconfig file (default: KUBECONFIG, ~/.kube/config, the pod's service account)");
  app.add_option("--context", options.context, "Context of the kubeconfig (default: its current one)");
  cmd::addPlugins(app, options.plugins, options.pluginLimits);
  app.add_option("--plugin-state", options.pluginState,
                 "Folder of plugins' files for containers, at the same path on the host")
      ->envname("ELASTICGPU_STATE_DIR")
      ->capture_default_str();
  addUsage(app, options);
  addAddresses(app, options);
  cmd::addLog(app, log);
  app.failure_message([](const CLI::App*, const CLI::Error& e) {
    return "error: " + base::printable(e.what(), '\n') + "\nelastic-gpu-agent --help lists the flags.\n";
  });
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    return app.exit(e) == 0 ? 0 : kUsage;
  }
  cmd::configureLog(log);
  return cmd::agentCommand(options);
}

}  // namespace

int main(int argc, char** argv) try { return execute(argc, argv); } catch (const std::exception& e) {
  cmd::printError(e.what());
  return 1;
}

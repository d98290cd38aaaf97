#include <stdlib.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <set>
#include <system_error>
#include <utility>
#include <vector>

#include "controller/base/files.h"
#include "controller/base/log.h"
#include "controller/base/private_files.h"
#include "controller/cmd/compose.h"
#include "controller/cmd/fail.h"
#include "controller/cmd/options.h"
#include "controller/cmd/signals.h"
#include "controller/cmd/standalone/kubeconfig_file.h"
#include "controller/http/http.h"
#include "controller/kube/transport/curl_transport.h"
#include "controller/standalone/apiserver/loopback_guard.h"
#include "controller/standalone/apiserver/server.h"
#include "controller/standalone/sim/admission.h"
#include "controller/standalone/sim/cluster.h"

namespace egpu::cmd {

namespace {

namespace log = base::log;

/// Folder for the files of the simulated nodes' plugins: in the data folder, or temporary. Root's plugins run as users
/// of their own without access to the data folder; their files are beside it, in FOLDER.plugins.
class PluginState {
 public:
  base::Status open(const std::string& data) {
    if (!data.empty()) {
      path_ = ::geteuid() == 0 ? besideData(data) : data + "/plugins";
      return base::makePrivateFolder(path_, ".");
    }
    std::string pattern = (std::filesystem::temp_directory_path() / "elastic-gpu-XXXXXX").string();
    if (::mkdtemp(pattern.data()) == nullptr)
      return base::Status(base::Code::unavailable, "no temporary folder can be made");
    path_ = pattern;
    temporary_ = true;
    return base::Status::okay();
  }
  ~PluginState() {
    std::error_code ignored;
    if (temporary_) std::filesystem::remove_all(path_, ignored);
  }
  const std::string& path() const { return path_; }

 private:
  static std::string besideData(const std::string& data) {
    auto path = std::filesystem::absolute(data).lexically_normal().string();
    while (path.size() > 1 && path.back() == '/') path.pop_back();
    path += ".plugins";
    std::error_code error;  // location in an earlier version
    if (!std::filesystem::exists(path, error)) std::filesystem::rename(data + "/plugins", path, error);
    return path;
  }

  std::string path_;
  bool temporary_ = false;
};

/// Checks for a loopback address. The embedded server has no authentication, so only this machine may reach it and the
/// endpoints that show its objects.
bool onlyHere(const char* flag, const std::string& address, const char* what) {
  if (http::isLoopback(address)) return true;
  std::fprintf(stderr, "error: %s: %s is not a loopback address; %s. Use 127.0.0.1:PORT\n", flag, address.c_str(),
               what);
  return false;
}

/// Reports the addresses in the kubeconfig and on standard output, so that standard error contains only log lines.
base::Status writeKubeconfig(const StandaloneOptions& options, const std::string& url, const Core& core) {
  std::string hint;
  if (!options.writeKubeconfig.empty()) {
    const auto current = addToKubeconfig(options.writeKubeconfig, url);
    if (!current) return current.status();
    hint = "  (export KUBECONFIG=" + options.writeKubeconfig;
    if (*current != kKubeconfigName) hint += "; kubectl --context " + std::string(kKubeconfigName);
    hint += ")";
  }
  std::printf("API server:  %s%s\noperations:  http://%s\npage:        http://%s/\nprobes:      http://%s\n",
              url.c_str(), hint.c_str(), core.opsAddress().c_str(), core.opsAddress().c_str(),
              core.probesAddress().c_str());
  std::fflush(stdout);
  return base::Status::okay();
}

/// Options of a controller that shares its machine and files with the embedded server.
CoreOptions controllerOptions(const StandaloneOptions& options, const std::string& pluginState) {
  CoreOptions out = options.controller;
  out.pluginState = pluginState;
  out.opsAuth = false;
  for (const auto& file : {options.data, options.writeKubeconfig})
    if (!file.empty()) out.pluginHidden.push_back(file);
  return out;
}

/// Runs the controller and the simulated nodes on the embedded server at `url` until a signal arrives. Returns the exit
/// status.
int runCluster(const StandaloneOptions& options, const std::string& url, std::vector<sim::SimNode> nodes,
               const Signals& signals, base::Clock& clock, base::Random& random) {
  kube::Endpoint endpoint;
  endpoint.server = url;
  endpoint.origin = "standalone";
  auto transport = kube::curlTransport(endpoint, clock);
  if (!transport) return fail("API server", transport.status());
  PluginState state;
  if (auto s = state.open(options.data); !s.ok()) return fail("--data", s);
  Core core(**transport, clock, random, controllerOptions(options, state.path()), transport->get());
  kube::EventRecorder simEvents(core.client(), "simulated-node");
  const auto& served = options.controller;
  std::set<std::string> others(served.extender.schedulers.begin(), served.extender.schedulers.end());
  others.insert(served.schedulers.begin(), served.schedulers.end());
  others.erase("default-scheduler");  // the simulated cluster runs this one itself
  sim::Cluster cluster(std::move(nodes), core.client(), core.plugins(), simEvents, clock,
                       {(options.data.empty() ? state.path() : options.data) + "/cdi", state.path()},
                       std::move(others));
  log::info("publishing the simulated nodes", {{"file", options.nodes}});
  if (auto s = cluster.publish({}); !s.ok()) return fail("publishing the nodes", s);
  if (auto s = core.start(); !s.ok()) return fail("", s);
  cluster.start();
  if (auto s = writeKubeconfig(options, url, core); !s.ok()) return fail("--write-kubeconfig", s);
  if (auto s = core.announce(); !s.ok()) return fail("", s);

  const int signal = signals.wait();
  log::info("stopping", {{"signal", signal}});
  core.plugins().close();  // the simulated kubelet calls them too
  cluster.stop();
  core.stop();
  simEvents.stop();
  return 0;
}

}  // namespace

int standaloneCommand(const StandaloneOptions& options) {
  const Signals signals;
  if (!onlyHere("--listen", options.listen, "the embedded API server has no authentication") ||
      !onlyHere("--ops-listen", options.controller.opsListen, "the embedded API server knows no callers"))
    return 2;
  const auto yaml = base::readFile(options.nodes);
  if (!yaml) return fail("--nodes", yaml.status());
  auto nodes = sim::parseNodes(*yaml);
  if (!nodes) return fail("--nodes: " + options.nodes, nodes.status());

  base::SystemClock clock;
  base::Random random;
  apiserver::Options serverOptions;
  serverOptions.dataDirectory = options.data;
  serverOptions.admission.push_back(sim::admitPod);
  auto server = apiserver::Server::create(serverOptions, clock, random);
  if (!server) return fail(options.data.empty() ? "API server" : "--data", server.status());
  apiserver::LoopbackGuard guard(**server);
  auto listener = http::listen(options.listen, guard);
  if (!listener) return fail("--listen", listener.status());
  const int status = runCluster(options, "http://" + (*listener)->address(), std::move(*nodes), signals, clock, random);
  (*listener)->stop();
  return status;
}

}  // namespace egpu::cmd

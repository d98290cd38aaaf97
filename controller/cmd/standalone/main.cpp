// elastic-gpu-standalone: an embedded API server, simulated nodes and the controller in one process.
#include <CLI/CLI.hpp>
#include <exception>
#include <string>

#include "controller/base/printable.h"
#include "controller/cmd/controller_flags.h"
#include "controller/cmd/flags.h"
#include "controller/cmd/operations_client.h"
#include "controller/cmd/options.h"

namespace {

using namespace egpu;

constexpr int kUsage = 2;

int execute(int argc, char** argv) {
  CLI::App app{"Runs everything here: an embedded API server for kubectl, simulated nodes, the controller"};
  app.set_version_flag("--version", EGPU_VERSION);
  cmd::StandaloneOptions o;
  cmd::LogOptions log;
  app.add_option("--nodes", o.nodes, "YAML file of the simulated nodes")->required()->check(CLI::ExistingFile);
  app.add_option(
      "--data", o.data,
      "Folder that keeps the state over restarts, for its owner alone; root's plugins keep theirs in FOLDER.plugins "
      "(default: in memory)");
  app.add_option("--listen", o.listen, "Address of the API server, loopback; port 0 = any free one")
      ->capture_default_str();
  app.add_option("--write-kubeconfig", o.writeKubeconfig,
                 "Add context elastic-gpu-standalone to this kubeconfig, or make it; its other contexts and its "
                 "current context stay");
  cmd::addController(app, o.controller);
  cmd::addExtender(app, o.controller.extender);
  cmd::addLog(app, log);
  app.failure_message([](const CLI::App* /*app*/, const CLI::Error& e) {
    return "error: " + base::printable(e.what(), '\n') + "\nelastic-gpu-standalone --help lists the flags.\n";
  });
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    return app.exit(e) == 0 ? 0 : kUsage;
  }
  cmd::configureLog(log);
  return cmd::standaloneCommand(o);
}

}  // namespace

int main(int argc, char** argv) try { return execute(argc, argv); } catch (const std::exception& e) {
  egpu::cmd::printError(e.what());
  return 1;
}

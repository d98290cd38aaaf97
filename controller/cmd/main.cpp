// elastic-gpu-controller: converts flags to options; one command per invocation.
#include <CLI/CLI.hpp>
#include <cstdint>
#include <cstdio>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "controller/base/printable.h"
#include "controller/cmd/controller_flags.h"
#include "controller/cmd/execute_beside.h"
#include "controller/cmd/flags.h"
#include "controller/cmd/operations_client.h"
#include "controller/cmd/options.h"

namespace {

using namespace egpu;

constexpr int kUsage = 2;
constexpr std::string_view kStandalone = "standalone";

/// Flag for the authorization of callers by the API server.
void addCallers(CLI::App& app, cmd::CoreOptions& o) {
  app.add_option_function<std::string>(
         "--ops-auth", [&o](const std::string& mode) { o.opsAuth = mode == "on"; },
         "Whether callers of the operations address need a token of a user that may get elasticgpus (all but "
         "probes and /metrics); off only on a loopback address")
      ->check(CLI::IsMember({"on", "off"}))
      ->default_str("on");
}

/// Flags with the credentials of commands that query the controller.
void addCaller(CLI::App& app, cmd::CallerOptions& o) {
  auto* token = app.add_option("--token", o.token, "Bearer token to send, as from kubectl create token");
  auto* file = app.add_option("--token-file", o.tokenFile, "File with the bearer token to send");
  auto* kubeconfig =
      app.add_option("--kubeconfig", o.kubeconfig, "Send the token of this kubeconfig's current context");
  auto* context =
      app.add_option("--context", o.context, "Send the token of this context (of --kubeconfig, else as kubectl)");
  token->excludes(file)->excludes(kubeconfig)->excludes(context);
  file->excludes(kubeconfig)->excludes(context);
}

void addElection(CLI::App& app, cmd::RunOptions& o) {
  app.add_flag_function(
      "--leader-elect{true}", [&o](int64_t yes) { o.leaderElect = yes > 0; },
      "Work only while holding a Lease, so that one replica is active; =false: work always (default: true in a pod, "
      "else "
      "false)");
  app.add_option("--leader-elect-resource-name", o.lease.name, "Name of the Lease")->capture_default_str();
  app.add_option("--leader-elect-resource-namespace", o.lease.namespace_,
                 "Its namespace (default: the pod's or the context's)");
  app.add_option("--leader-elect-identity", o.lease.identity,
                 "Holder identity of this process, which must be unique (default: host name and a random id)");
  cmd::addDuration(app, "--leader-elect-lease-duration", o.lease.leaseDuration,
                   "How long a standby sees the lease unrenewed before it takes over");
  cmd::addDuration(app, "--leader-elect-renew-deadline", o.lease.renewDeadline,
                   "How long the leader continues without a renewal before it ends with status 3");
  cmd::addDuration(app, "--leader-elect-retry-period", o.lease.retryPeriod,
                   "Time between attempts to get or renew the lease");
}

/// Adds a flag that becomes a parameter of the question.
CLI::Option* addField(CLI::App& app, cmd::QuestionOptions& o, const std::string& flag, const std::string& field,
                      const std::string& what) {
  return app
      .add_option_function<std::string>(
          flag, [&o, field](const std::string& value) { o.fields.emplace_back(field, value); }, what)
      ->take_all()
      ->allow_extra_args(false)
      ->trigger_on_parse();  // so that steps keep their order
}

/// Flags common to the commands that query a running controller.
void addAsking(CLI::App& app, std::string& server, std::string& color, std::string& output,
               const std::vector<std::string>& outputs) {
  app.add_option("-o,--output", output, "What to print; tables have at most 100 columns unless wide")
      ->check(CLI::IsMember(outputs))
      ->capture_default_str();
  app.add_option("--color", color, "Colours in tables")
      ->check(CLI::IsMember({"auto", "always", "never"}))
      ->capture_default_str();
  app.add_option("--server", server, "The controller's operations address")
      ->envname("EGPU_SERVER")
      ->capture_default_str();
}

/// Adds the flags that show or execute a plan.
void addPlan(CLI::App& sub, cmd::DefragOptions& o) {
  auto* plan = sub.add_flag_function(
      "--plan", [](int64_t) {},
      "Show which claims to move, and which pods are evicted for it; nothing is changed (the default)");
  sub.add_flag("--execute", o.execute,
               "Evict their pods, one at a time, planning again after each, with the permissions of --kubeconfig and "
               "--context (default: as kubectl); a claim that outlives its pod is first annotated for the move")
      ->excludes(plan);
  addField(sub, o.question, "--moves", "moves",
           "Maximum number of moves to free whole cards, up to 1000 (default: 100)");
  sub.footer(
      "The plan is made by the running controller on a copy of what it knows. Without --execute nothing is changed.");
}

CLI::App* addDefrag(CLI::App& app, cmd::DefragOptions& o) {
  auto& question = o.question;
  question.question = "defrag";
  auto* sub =
      app.add_subcommand("defrag", "Which claims to move so that one fits, or, without any, whole cards become free");
  const auto field = [&](const std::string& flag, const std::string& parameter, const std::string& text) {
    return addField(*sub, question, flag, parameter, text);
  };
  field("CLAIM", "claim", "An existing ElasticGPUClaim");
  field("-n,--namespace", "namespace", "Namespace of claims that name none (default: default)");
  sub->add_option("-f,--file", question.file,
                  "Hypothetical claims, as YAML or JSON, several documents too; - = standard input");
  field("--class", "class", "Class of a hypothetical claim");
  field("--gpu", "gpu", "Its number of cards: whole ones, or the other amounts of each");
  field("--gpu-core", "gpu-core", "Its percent of a card");
  field("--gpu-memory", "gpu-memory", "Its memory: 8Gi; a bare number is GiB");
  field("--tflops", "tflops", "Its TFLOPS, instead of --gpu-core");
  field("--node", "node", "On this node only");
  field("--card", "card", "On this card only (an ElasticGPU's name)");
  addAsking(*sub, question.server, question.color, question.output, {"table", "wide", "json", "yaml"});
  addCaller(*sub, question.caller);
  addPlan(*sub, o);
  return sub;
}

CLI::App* addRun(CLI::App& app, cmd::RunOptions& o, cmd::LogOptions& log) {
  auto* sub = app.add_subcommand("run", "Run the controller against a Kubernetes cluster");
  sub->footer("Exit status: 0 after SIGTERM or SIGINT, 1 an error, 2 wrong usage, 3 the lease was lost.");
  sub->add_option("--kubeconfig", o.kubeconfig,
                  "Kubeconfig file (default: KUBECONFIG, ~/.kube/config, the pod's service account)");
  sub->add_option("--context", o.context, "Context of the kubeconfig (default: its current one)");
  cmd::addController(*sub, o.controller);
  cmd::addExtender(*sub, o.controller.extender);
  addCallers(*sub, o.controller);
  addElection(*sub, o);
  cmd::addLog(*sub, log);
  return sub;
}

CLI::App* addJournal(CLI::App& app, cmd::JournalOptions& o) {
  auto* sub = app.add_subcommand("journal", "Show a decision journal, or what another policy would have decided");
  sub->add_option("FOLDER", o.folder, "The folder that --journal named")->required()->check(CLI::ExistingDirectory);
  sub->add_option("--claim", o.claim, "Only decisions for this claim: NAMESPACE/NAME");
  sub->add_flag("--all", o.all, "Also changes of nodes, cards and allocations");
  auto* replay =
      sub->add_flag("--replay", o.replay, "Repeat the decisions: exit status 1 if any differs from the record");
  sub->add_option("--policy", o.policy, "Under this policy instead: a nodePolicy, a preset, or NODEPOLICY/CARDPOLICY")
      ->needs(replay);
  sub->add_option("-o,--output", o.output, "What to print")
      ->check(CLI::IsMember({"table", "json"}))
      ->capture_default_str();
  return sub;
}

/// Returns the arguments, with "help COMMAND" replaced by "COMMAND --help".
std::vector<const char*> withHelp(int argc, char** argv) {
  std::vector<const char*> args(argv, argv + argc);
  if (argc < 2 || std::string_view(argv[1]) != "help") return args;
  args.erase(args.begin() + 1);
  args.push_back("--help");
  return args;
}

/// Reports an unknown command by name, because the parser would only report a missing one.
bool isCommand(const CLI::App& app, const std::string& name) {
  std::string known;
  for (const auto* each : app.get_subcommands(nullptr)) {
    if (each->get_name() == name) return true;
    known += (known.empty() ? "" : ", ") + each->get_name();
  }
  cmd::printError("unknown command \"" + name + "\"; known are " + known);
  return false;
}

int execute(int argc, char** argv) {
  CLI::App app{"Elastic GPU: claims of shares of GPUs, and of whole ones, for Kubernetes"};
  app.set_version_flag("--version", EGPU_VERSION);
  app.require_subcommand(1);
  cmd::LogOptions log;

  cmd::RunOptions run;
  auto* runApp = addRun(app, run, log);
  // Not parsed here: main() executes elastic-gpu-standalone.
  app.add_subcommand(std::string(kStandalone),
                     "Run everything here: an embedded API server for kubectl, simulated nodes, the controller");

  cmd::DefragOptions defrag;
  const auto* defragApp = addDefrag(app, defrag);
  cmd::JournalOptions journal;
  addJournal(app, journal);

  app.failure_message([](const CLI::App* at, const CLI::Error& e) {
    const auto command =
        at->get_subcommands().empty() ? std::string() : " " + at->get_subcommands().front()->get_name();
    return "error: " + base::printable(e.what(), '\n') + "\nelastic-gpu-controller" + command +
           " --help lists the flags.\n";
  });
  app.add_subcommand("help", "Show what a command does and its flags: help [COMMAND]");
  const auto args = withHelp(argc, argv);
  if (args.size() > 1 && args[1] == kStandalone) return cmd::executeBeside("elastic-gpu-standalone", args);
  if (args.size() > 1 && args[1][0] != '-' && !isCommand(app, args[1])) return kUsage;
  try {
    app.parse(static_cast<int>(args.size()), args.data());
  } catch (const CLI::ParseError& e) {
    return app.exit(e) == 0 ? 0 : kUsage;
  }
  cmd::configureLog(log);
  if (*runApp) return cmd::runCommand(run);
  if (*defragApp) return cmd::defragCommand(defrag);
  return cmd::journalCommand(journal);
}

}  // namespace

int main(int argc, char** argv) try { return execute(argc, argv); } catch (const std::exception& e) {
  cmd::printError(e.what());
  return 1;
}

// kubectl-egpu: converts flags to options; one verb per invocation. kubectl runs it as `kubectl egpu VERB`.
#include <CLI/CLI.hpp>
#ifdef EGPU_STATIC
#include <nss.h>
#endif
#include <cstdint>
#include <cstdio>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "controller/base/log.h"
#include "controller/base/printable.h"
#include "controller/billing/bill.h"
#include "controller/kubectl/completion.h"
#include "controller/kubectl/output.h"
#include "controller/kubectl/verbs.h"

namespace {

using namespace egpu::kubectl;

constexpr const char* kFooter =
    "Exit status: 0 done, 1 an error, 2 wrong usage, 3 answered in the negative (check found an error, try does not "
    "fit, drain-card left a claim).";

/// The values of the flags of all verbs.
struct AllOptions {
  MapOptions map;
  WhyOptions why;
  TopOptions top;
  QuestionOptions fit, attempt;
  DrainCardOptions drainCard;
  CheckOptions check;
  BundleOptions bundle;
  BillOptions bill;
  std::string name;  ///< why: NAME after the kind
  std::string shell;
};

void addSeconds(CLI::App& app, const std::string& flag, std::chrono::seconds& o, const std::string& what) {
  app.add_option_function<int64_t>(
         flag, [&o](const int64_t& s) { o = std::chrono::seconds(s); }, what)
      ->transform(CLI::AsNumberWithUnit(std::map<std::string, int64_t>{{"s", 1}, {"m", 60}, {"h", 3600}},
                                        CLI::AsNumberWithUnit::UNIT_REQUIRED))
      ->check([](const std::string& s) {
        return s.front() == '-' || s == "0" ? "valid are durations above 0, such as 30s" : "";
      })
      ->type_name("DURATION")
      ->default_str(std::to_string(o.count()) + "s");
}

void addClient(CLI::App& app, ClientFlags& o, bool everywhere) {
  app.add_option("--kubeconfig", o.kubeconfig, "Kubeconfig file (default: as kubectl)");
  app.add_option("--context", o.context, "Context of the kubeconfig (default: its current one)");
  app.add_option("-n,--namespace", o.namespace_, "Namespace (default: the context's)");
  if (everywhere) app.add_flag("-A,--all-namespaces", o.allNamespaces, "All namespaces");
  app.add_option("--as", o.asUser, "User to impersonate");
  app.add_option("--as-group", o.asGroup, "Group to impersonate; repeatable")->allow_extra_args(false);
  app.add_option("--token", o.token, "Bearer token, instead of the kubeconfig's credentials");
  app.add_option("-s,--server", o.server, "Address of the API server, instead of the kubeconfig's");
}

void addOutput(CLI::App& app, OutputFlags& o, std::vector<std::string> more = {}) {
  std::vector<std::string> outputs = {"wide", "json", "yaml"};
  outputs.insert(outputs.end(), more.begin(), more.end());
  app.add_option("-o,--output", o.output, "Output instead of a table")->check(CLI::IsMember(outputs));
  app.add_flag("--no-headers", o.noHeaders, "Tables without headers and notes");
  app.add_option("--color", o.color, "Colours; auto: on a terminal, unless NO_COLOR is set")
      ->check(CLI::IsMember({"auto", "always", "never"}))
      ->capture_default_str();
}

CLI::App* addVerb(CLI::App& app, const std::string& name, const std::string& what, VerbOptions& o,
                  bool everywhere = false, const std::vector<std::string>& outputs = {}) {
  auto* sub = app.add_subcommand(name, what);
  addOutput(*sub, o.output, outputs);
  addClient(*sub, o.client, everywhere);
  sub->footer(kFooter);
  return sub;
}

/// Adds a flag that becomes a parameter of the question.
void addField(CLI::App& app, QuestionOptions& o, const std::string& flag, const std::string& field,
              const std::string& what) {
  app.add_option_function<std::string>(
         flag, [&o, field](const std::string& value) { o.fields.emplace_back(field, value); }, what)
      ->take_all()
      ->allow_extra_args(false)
      ->trigger_on_parse();  // so that steps keep their order
}

void addAmounts(CLI::App& app, QuestionOptions& o) {
  addField(app, o, "--gpu", "gpu", "Number of cards: whole ones, or the other amounts of each");
  addField(app, o, "--gpu-core", "gpu-core", "Percent of a card");
  addField(app, o, "--gpu-memory", "gpu-memory", "Memory: 8Gi; a bare number is GiB");
  addField(app, o, "--tflops", "tflops", "TFLOPS, instead of --gpu-core");
  addField(app, o, "--mig", "mig", "MIG instances of one profile, instead of amounts: 2x1g.10gb");
  addField(app, o, "--node", "node", "On this node only");
}

void addQuestions(CLI::App& app, AllOptions& o) {
  auto* fit =
      addVerb(app, "fit", "How many more claims fit: of each class, or one, of their usual or a given size", o.fit);
  addField(*fit, o.fit, "CLASS", "class", "A class (default: each)");
  addAmounts(*fit, o.fit);
  auto* attempt =
      addVerb(app, "try", "Where a Pod, a claim or a whole Deployment would go, and what changes would do", o.attempt);
  addField(*attempt, o.attempt, "CLAIM", "claim", "An existing ElasticGPUClaim");
  attempt->add_option(
      "-f,--filename", o.attempt.file,
      "Manifests: claims, Pods, Deployments, StatefulSets, Jobs and others, or a question; - = standard input");
  attempt->add_flag("--explain", o.attempt.explain, "How many nodes and cards each stage leaves, and why");
  addField(*attempt, o.attempt, "--class", "class",
           "Class of a claim of the amounts below (default: the default class)");
  addAmounts(*attempt, o.attempt);
  addField(*attempt, o.attempt, "--card", "card", "On this card only (an ElasticGPU's name)");
  addField(*attempt, o.attempt, "--top", "top", "How many of the fitting nodes to show (default: 5)");
  addField(*attempt, o.attempt, "--names", "names", "How many rejected nodes and cards to name per stage (default: 5)");
  addField(*attempt, o.attempt, "--drain", "drain",
           "Step: empty this node; repeatable, as all steps, which are tried in their order");
  addField(*attempt, o.attempt, "--add", "add",
           "Step: add nodes, NAME,like=NODE[,count=N] or NAME,model=M,cards=N,memory=16Gi[,tflops=N][,count=N]");
  addField(*attempt, o.attempt, "--release", "release", "Step: release this claim, [NAMESPACE/]CLAIM");
  addField(*attempt, o.attempt, "--resize", "resize",
           "Step: resize a claim, [NAMESPACE/]CLAIM,gpu-core=40[,gpu-memory=8Gi]; amounts that are not named stay");
}

void addBill(CLI::App& app, BillOptions& o) {
  auto* bill = app.add_subcommand("bill", "Card-seconds per namespace, class, claim and pod, from a decision journal");
  addOutput(*bill, o.output, {"csv", "opencost"});
  bill->add_option("FOLDER", o.folders, "The folder that --journal of the controller named, or one of each replica")
      ->check(CLI::ExistingDirectory);
  bill->add_option("--controller", o.controller,
                   "Address of the controller's operations, such as http://localhost:9440, to ask in place of folders; "
                   "with -n, the right to list elasticgpuclaims of the namespace is sufficient");
  bill->add_option("--kubeconfig", o.client.kubeconfig, "Kubeconfig file with the token for it (default: as kubectl)");
  bill->add_option("--context", o.client.context, "Context of the kubeconfig (default: its current one)");
  bill->add_option("--token", o.client.token, "Bearer token for it, instead of the kubeconfig's");
  bill->add_option("--from", o.from, "Begin: a date, or a time such as 2026-01-31T12:00:00Z (default: the journal's)");
  bill->add_option("--to", o.to, "End, which is not included (default: the journal's)");
  bill->add_option("--by", o.by, "Fields of the rows, separated by commas (default: namespace,class,claim,pod)")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->check(CLI::IsMember(egpu::billing::BillFields::names()));
  bill->add_option("--price", o.prices, "Price of a card for an hour, or MODEL=PRICE; repeatable")
      ->allow_extra_args(false);
  bill->add_option("-n,--namespace", o.namespace_, "Only rows of this namespace (default: all rows)");
  bill->add_option("--cluster", o.cluster, "Name of the cluster, for -o opencost");
  bill->footer(kFooter);
}

void addVerbs(CLI::App& app, AllOptions& o) {
  auto* map = addVerb(app, "map", "Every node and card, with its claims and the pods that use them", o.map, false,
                      {"bars", "backendai"});
  map->add_option("--node", o.map.node, "Only this node");
  map->add_flag("--idle", o.map.idle, "Only nodes without a claim");
  auto* why = addVerb(app, "why", "State of a pod or a claim, since when, and the remedies", o.why);
  why->add_option("POD|CLAIM", o.why.subject, "NAME, pod/NAME, claim/NAME, or pod or claim before the NAME")
      ->required();
  why->add_option("NAME", o.name, "The name, if the word before is pod or claim");
  auto* top = addVerb(app, "top", "Use of the bound claims beside their grants", o.top, true);
  top->add_option("CLAIM", o.top.claim, "Only this claim");
  top->add_flag("-w,--watch", o.top.watch, "Print again at each interval, until interrupted");
  addSeconds(*top, "--interval", o.top.interval, "Time between two tables");
  addQuestions(app, o);
  auto* drain = addVerb(app, "drain-card", "Take a card out of use: its claims, their pods, and where they would go",
                        o.drainCard);
  drain->add_option("CARD", o.drainCard.card, "An ElasticGPU's name: kubectl egpu map -o wide")->required();
  auto* execute = drain->add_flag("--execute", o.drainCard.execute,
                                  "Keep new claims off the card, and evict the pods, one at a time");
  drain->add_flag("--undo", o.drainCard.undo, "Offer the card again")->excludes(execute);
  addSeconds(*drain, "--timeout", o.drainCard.timeout, "Time until --execute ends with an error");
  auto* check = addVerb(app, "check", "Whether cluster and installation are as Elastic GPU needs them", o.check);
  check->add_flag("--wait", o.check.wait, "Repeat until there is no error, or the time is over");
  addSeconds(*check, "--timeout", o.check.timeout, "Time for --wait");
  auto* bundle = addVerb(app, "bundle", "Archive for a bug report, without secrets", o.bundle);
  bundle->add_option("--file", o.bundle.file,
                     "Archive to write; - = standard output (default: egpu-bundle-TIME.tar.gz)");
  bundle->add_option("--logs", o.bundle.logLines, "Lines of log per pod of the installation; 0 = none")
      ->check(CLI::Range(0, 100'000))
      ->capture_default_str();
  addBill(app, o.bill);
  auto* completion = app.add_subcommand("completion", "Completion script for a shell");
  completion->add_option("SHELL", o.shell, "bash, zsh or fish")
      ->required()
      ->check(CLI::IsMember({"bash", "zsh", "fish"}));
}

int dispatch(const CLI::App& app, AllOptions& o) {
  if (!o.name.empty()) o.why.subject += "/" + o.name;
  const auto name = app.get_subcommands().front()->get_name();
  if (name == "map") return mapVerb(o.map);
  if (name == "why") return whyVerb(o.why);
  if (name == "top") return topVerb(o.top);
  if (name == "fit") return fitVerb(o.fit);
  if (name == "try") return tryVerb(o.attempt);
  if (name == "drain-card") return drainCardVerb(o.drainCard);
  if (name == "check") return checkVerb(o.check);
  if (name == "bundle") return bundleVerb(o.bundle);
  if (name == "bill") return billVerb(o.bill);
  printText(completionScript(o.shell));
  return kDone;
}

/// Flags and verbs that the completion offers.
Grammar grammarOf(const CLI::App& app) {
  Grammar grammar;
  for (const auto* sub : app.get_subcommands(nullptr)) {
    auto& flags = grammar[sub->get_name()];
    flags.description = sub->get_description();
    for (const auto* option : sub->get_options()) {
      if (option->get_lnames().empty()) continue;
      flags.flags.push_back(
          {"--" + option->get_lnames().front(), option->get_description(), option->get_items_expected() > 0});
    }
  }
  return grammar;
}

/// Reports an unknown verb by name, because the parser would only report a missing one.
bool isVerb(const CLI::App& app, const std::string& name) {
  std::string known;
  for (const auto* each : app.get_subcommands(nullptr)) {
    if (each->get_name() == name) return true;
    known += (known.empty() ? "" : ", ") + each->get_name();
  }
  fail("unknown verb \"" + name + "\"; known are " + known);
  return false;
}

/// A statically linked program cannot load the system's modules for other sources of names, such as systemd's.
void limitNameSources() {
#ifdef EGPU_STATIC
  __nss_configure_lookup("hosts", "files dns");
  __nss_configure_lookup("passwd", "files");
#endif
}

int execute(int argc, char** argv) {
  limitNameSources();
  egpu::base::log::configure(egpu::base::log::Level::off, false);
  CLI::App app{"Asks about GPUs of Elastic GPU, with your own rights at the API server"};
  app.name("kubectl egpu");
  app.set_version_flag("--version", EGPU_VERSION);
  app.require_subcommand(1);
  app.footer(kFooter);
  AllOptions options;
  addVerbs(app, options);
  std::vector<std::string> args(argv + 1, argv + argc);
  const std::string_view called(argv[0]);
  const bool completes = called.ends_with("kubectl_complete-egpu");
  if (completes || (!args.empty() && args.front() == "__complete"))
    return complete(grammarOf(app), {args.begin() + (completes ? 0 : 1), args.end()});
  if (args.empty()) args.emplace_back("help");  // as kubectl does
  if (args.front() == "help") {
    args.erase(args.begin());
    args.emplace_back("--help");
  }
  if (!args.front().starts_with("-") && !isVerb(app, args.front())) return kUsage;
  app.failure_message([](const CLI::App* at, const CLI::Error& e) {
    const auto verb = at->get_subcommands().empty() ? std::string() : " " + at->get_subcommands().front()->get_name();
    return "error: " + egpu::base::printable(e.what(), '\n') + "\nkubectl egpu" + verb + " --help lists the flags.\n";
  });
  try {
    app.parse(std::vector<std::string>(args.rbegin(), args.rend()));
  } catch (const CLI::ParseError& e) {
    return app.exit(e) == 0 ? kDone : kUsage;
  }
  return dispatch(app, options);
}

}  // namespace

int main(int argc, char** argv) try { return execute(argc, argv); } catch (const std::exception& e) {
  return egpu::kubectl::fail(e.what());
}

// B10: measures how full a trace's cluster gets under a policy, and how fast; or how long pods wait in it. Prints one
// line of JSON.
//
//   openb --nodes FILE --pods FILE --order FILE --policy NAME [--classes learned|trace] [--curve]
//   openb … --departures --load LOAD [--reserve-after SECONDS|never] [--preempt] [--moves]
//
// openb/trace.h describes the files. NAME: a node policy, a preset, NODE/CARD, fgd or bestfit. --classes sets what the
// fragmentation policy knows of the demand: `learned` from the pods as they arrive, or, for comparison with published
// figures, the trace's own distribution beforehand (which fgd always has). --curve adds allocated % by arrived %, 0 …
// 130. --departures lets pods arrive and depart (openb/churn.h); --load is the requested part of the cards, such as 0.9
// or 1.1. Exits 2 if an argument or a file is invalid.
#include <charconv>
#include <cstdio>
#include <map>
#include <memory>
#include <set>
#include <string>

#include "bench/openb/churn.h"
#include "bench/openb/fgd.h"
#include "bench/openb/replay.h"
#include "bench/openb/scheduled.h"
#include "bench/openb/trace.h"

namespace egpu::bench::openb {
namespace {

constexpr const char* kUsage =
    "usage: openb --nodes FILE --pods FILE --order FILE --policy NAME [--classes learned|trace] [--curve]\n"
    "       openb ... --departures --load LOAD [--reserve-after SECONDS|never] [--preempt] [--moves]\n";

/// Describes an invalid argument.
struct BadArgument {
  std::string why;
};

struct Arguments {
  std::map<std::string, std::string> given;
  bool curve = false, departures = false, preempt = false, moves = false, help = false;

  bool has(const std::string& name) const { return given.count(name) != 0; }
  const std::string& of(const std::string& name) const { return given.at(name); }
};

Arguments readArguments(int argc, char** argv) {
  const std::set<std::string> known = {"--nodes",   "--pods", "--order",        "--policy",
                                       "--classes", "--load", "--reserve-after"};
  Arguments all;
  for (int i = 1; i < argc; ++i) {
    std::string name = argv[i], value;
    bool* flag = name == "--curve"                  ? &all.curve
                 : name == "--departures"           ? &all.departures
                 : name == "--preempt"              ? &all.preempt
                 : name == "--moves"                ? &all.moves
                 : name == "--help" || name == "-h" ? &all.help
                                                    : nullptr;
    if (flag != nullptr) {
      *flag = true;
      continue;
    }
    if (const auto at = name.find('='); at != std::string::npos) {
      value = name.substr(at + 1);
      name.resize(at);
    } else if (i + 1 < argc) {
      value = argv[++i];
    } else {
      throw BadArgument{name + ": its value is missing"};
    }
    if (known.count(name) == 0) throw BadArgument{name + ": no such option"};
    if (!all.given.emplace(name, value).second) throw BadArgument{name + ": is given twice"};
  }
  if (all.help) return all;
  for (const char* name : {"--nodes", "--pods", "--order", "--policy"})
    if (!all.has(name)) throw BadArgument{std::string(name) + ": is missing"};
  if (all.departures && !all.has("--load")) throw BadArgument{"--load: is missing"};
  if (!all.departures && (all.has("--load") || all.has("--reserve-after")))
    throw BadArgument{"--load and --reserve-after: only with --departures"};
  if (!all.departures && (all.preempt || all.moves)) throw BadArgument{"--preempt and --moves: only with --departures"};
  if (all.departures && all.curve) throw BadArgument{"--curve: not with --departures"};
  return all;
}

double numberOf(const Arguments& all, const std::string& name, double max) {
  const std::string& text = all.of(name);
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || !(value > 0) || value > max) {
    char why[64];
    std::snprintf(why, sizeof why, "\" is no number above 0 and up to %g", max);
    throw BadArgument{name + ": \"" + text + why};
  }
  return value;
}

ChurnOptions churnOptions(const Arguments& all) {
  ChurnOptions options;
  options.load = numberOf(all, "--load", 2);
  options.preempts = all.preempt;
  options.moves = all.moves;
  if (!all.has("--reserve-after")) return options;
  options.reserveAfter =
      all.of("--reserve-after") == "never" ? -1 : static_cast<int64_t>(numberOf(all, "--reserve-after", 1e9));
  return options;
}

/// The placer that chooses nodes, and the ledger in which pods are taken.
struct Placing {
  std::unique_ptr<Scheduled> ledger;
  std::unique_ptr<Placer> other;  ///< null: the ledger itself

  Placer& placer() const { return other ? *other : *ledger; }
};

Placing placing(const Arguments& all, const Trace& trace, const Policies& policies) {
  const std::string& policy = all.of("--policy");
  Placing made{std::make_unique<Scheduled>(trace, policies), nullptr};
  if (policy == "fgd") made.other = std::make_unique<Fgd>(trace);
  if (policy == "bestfit") made.other = std::make_unique<BestFit>(trace);
  if (all.has("--classes") && all.of("--classes") == "trace") made.ledger->teach();
  return made;
}

Policies policiesOf(const Arguments& all) {
  const std::string& policy = all.of("--policy");
  const bool published = policy == "fgd" || policy == "bestfit";
  if (all.has("--classes") && all.of("--classes") != "learned" && all.of("--classes") != "trace")
    throw BadArgument{"--classes: \"" + all.of("--classes") + "\" is neither learned nor trace"};
  if (published && all.has("--classes") && all.of("--classes") == "learned")
    throw BadArgument{"--classes: " + policy + " is given the trace's classes: it does not learn"};
  if (published && (all.preempt || all.moves))
    throw BadArgument{"--preempt and --moves: " + policy + " is not the scheduler's, and knows neither"};
  Policies policies{"binpack", "binpack"};
  if (published || findPolicies(policy, policies)) return policies;
  std::string known = "fgd, bestfit";
  for (const std::string& each : policyNames()) known += ", " + each;
  throw BadArgument{"--policy: \"" + policy + "\" is none of " + known + " and no NODE/CARD pair"};
}

int run(int argc, char** argv) try {
  const Arguments all = readArguments(argc, argv);
  if (all.help) {
    std::fputs(kUsage, stdout);
    return 0;
  }
  const Policies policies = policiesOf(all);
  const ChurnOptions options = all.departures ? churnOptions(all) : ChurnOptions{};
  const Trace trace = readTrace(all.of("--nodes"), all.of("--pods"), all.of("--order"));
  const Placing who = placing(all, trace, policies);
  const std::string line =
      all.departures ? toJson(all.of("--policy"), options, churn(trace, *who.ledger, who.placer(), options))
                     : toJson(all.of("--policy"), replay(trace, who.placer()), trace.arrivals.size(), all.curve);
  std::printf("%s\n", line.c_str());
  return 0;
} catch (const BadArgument& bad) {
  std::fprintf(stderr, "openb: %s\n%s", bad.why.c_str(), kUsage);
  return 2;
} catch (const BadTrace& bad) {
  std::fprintf(stderr, "openb: %s\n", bad.what());
  return 2;
}

}  // namespace
}  // namespace egpu::bench::openb

int main(int argc, char** argv) { return egpu::bench::openb::run(argc, argv); }

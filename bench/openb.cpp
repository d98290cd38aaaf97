// B10: how full a trace's cluster gets under a policy, and how fast. Prints one line of JSON.
//
//   openb --nodes FILE --pods FILE --order FILE --policy NAME [--classes learned|trace] [--curve]
//
// Files: openb/trace.h. NAME: a node policy, a preset, NODE/CARD, or fgd. --classes says what the fragmentation policy
// knows of the demand: what it learns from the pods as they arrive, or, for comparison with published figures, the
// trace's own distribution beforehand (which fgd always has). --curve adds allocated % by arrived %, 0 … 130. Exits 2
// if an argument or a file is no good.
#include <cstdio>
#include <map>
#include <memory>
#include <string>

#include "bench/openb/fgd.h"
#include "bench/openb/replay.h"
#include "bench/openb/scheduled.h"
#include "bench/openb/trace.h"

namespace egpu::bench::openb {
namespace {

constexpr const char* kUsage =
    "usage: openb --nodes FILE --pods FILE --order FILE --policy NAME [--classes learned|trace] [--curve]\n";

int refuse(const std::string& why) {
  std::fprintf(stderr, "openb: %s\n%s", why.c_str(), kUsage);
  return 2;
}

int run(int argc, char** argv) {
  std::map<std::string, std::string> given;
  bool curve = false;
  for (int i = 1; i < argc; ++i) {
    std::string name = argv[i], value;
    if (name == "--help" || name == "-h") {
      std::fputs(kUsage, stdout);
      return 0;
    }
    if (name == "--curve") {
      curve = true;
      continue;
    }
    if (const auto at = name.find('='); at != std::string::npos) {
      value = name.substr(at + 1);
      name.resize(at);
    } else if (i + 1 < argc) {
      value = argv[++i];
    } else {
      return refuse(name + ": its value is missing");
    }
    if (name != "--nodes" && name != "--pods" && name != "--order" && name != "--policy" && name != "--classes")
      return refuse(name + ": no such option");
    if (!given.emplace(name, value).second) return refuse(name + ": is given twice");
  }
  for (const char* name : {"--nodes", "--pods", "--order", "--policy"})
    if (given.count(name) == 0) return refuse(std::string(name) + ": is missing");
  const std::string policy = given["--policy"];
  const bool fgd = policy == "fgd";
  const std::string classes = given.count("--classes") > 0 ? given["--classes"] : fgd ? "trace" : "learned";
  if (classes != "learned" && classes != "trace")
    return refuse("--classes: \"" + classes + "\" is neither learned nor trace");
  if (fgd && classes == "learned") return refuse("--classes: fgd is given the trace's classes: it does not learn");
  Policies policies;
  if (!fgd && !findPolicies(policy, policies)) {
    std::string known = "fgd";
    for (const std::string& each : policyNames()) known += ", " + each;
    return refuse("--policy: \"" + policy + "\" is none of " + known + " and no NODE/CARD pair");
  }
  try {
    const Trace trace = readTrace(given["--nodes"], given["--pods"], given["--order"]);
    std::unique_ptr<Placer> placer;
    if (fgd) {
      placer = std::make_unique<Fgd>(trace);
    } else {
      auto scheduled = std::make_unique<Scheduled>(trace, policies);
      if (classes == "trace") scheduled->teach();
      placer = std::move(scheduled);
    }
    const Result result = replay(trace, *placer);
    std::printf("%s\n", toJson(policy, result, trace.arrivals.size(), curve).c_str());
    return 0;
  } catch (const BadTrace& bad) {
    std::fprintf(stderr, "openb: %s\n", bad.what());
    return 2;
  }
}

}  // namespace
}  // namespace egpu::bench::openb

int main(int argc, char** argv) { return egpu::bench::openb::run(argc, argv); }

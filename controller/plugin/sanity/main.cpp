// egpu-sanity: tests a provisioner plugin against the contract of api/plugin/provisioner.h and reports the results.
#include <stdlib.h>

#include <cstdio>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "controller/base/log.h"
#include "controller/plugin/sanity/checks.h"

namespace {

using egpu::plugin::sanity::SanityOptions;

constexpr std::string_view kUsage =
    "usage: egpu-sanity [flags] PLUGIN.so\n"
    "Checks a provisioner plugin against the contract of api/plugin/provisioner.h. Exit status 0: all checks pass, 1: "
    "a check fails,\n"
    "2: the plugin does not load, 64: wrong flags.\n"
    "  --param NAME=VALUE   a parameter of the class (repeatable)\n"
    "  --core N             milli-cards of each card (default 1000, the whole card)\n"
    "  --memory BYTES       bytes of each card (default 17179869184)\n"
    "  --cards N            cards of a device, 1 to 8 (default 1)\n"
    "  --model NAME         their model\n"
    "  --profile NAME       profile of a MIG instance of one memory slot, which each device has on its card\n"
    "  --only CHECK         this check alone (repeatable); --list names them\n"
    "  --cycles N           lifecycles of the leak check (default 1000); more find smaller leaks\n"
    "  --host PATH          egpu-plugin-host (default: beside this program)\n"
    "  --verbose            shows the log of the plugin\n"
    "  --list               lists the checks\n";

int wrongUsage(const std::string& what) {
  std::fprintf(stderr, "egpu-sanity: %s\n%s", what.c_str(), kUsage.data());
  return 64;
}

bool parseNumber(const std::string& text, int64_t max, int64_t& out) {
  if (text.empty() || text.size() > 18 || text.find_first_not_of("0123456789") != std::string::npos) return false;
  out = std::stoll(text);
  return out <= max;
}

/// A folder that is deleted when the program ends.
struct TemporaryFolder {
  TemporaryFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "egpu-sanity-XXXXXX").string();
    if (mkdtemp(name.data())) path = name;
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    if (!path.empty()) std::filesystem::remove_all(path, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  std::string path;
};

/// Returns why `--only` can't use the name; empty: valid.
std::string unknownCheck(const std::string& name) {
  std::string known;
  for (const auto& check : egpu::plugin::sanity::checks()) {
    if (check.name == name) return {};
    known += (known.empty() ? "" : ", ") + check.name;
  }
  return "--only: there is no check " + name + "; known are " + known;
}

int runChecks(const SanityOptions& options, const std::vector<std::string>& only) {
  egpu::plugin::sanity::PluginUnderTest subject(options);
  if (const auto state = subject.plugin().readiness(); !state.ok()) {
    std::printf("FAIL  load                   %s\n0 passed, 1 failed\n", state.message.c_str());
    return 2;
  }
  const auto& d = subject.plugin().description();
  std::printf("%s %s (%s, %s)\n", d.name.c_str(), d.version.c_str(), d.source.c_str(), d.isolation.c_str());
  int passed = 0;
  int failed = 0;
  for (const auto& check : egpu::plugin::sanity::checks()) {
    bool wanted = only.empty();
    for (const auto& name : only) wanted = wanted || name == check.name;
    if (!wanted) continue;
    const std::string wrong = check.run(subject);
    wrong.empty() ? ++passed : ++failed;
    std::printf("%s  %-22s %s%s%s\n", wrong.empty() ? "pass" : "FAIL", check.name.c_str(), check.promise.c_str(),
                wrong.empty() ? "" : "\n      ", wrong.c_str());
    std::fflush(stdout);
  }
  std::printf("%d passed, %d failed\n", passed, failed);
  return failed == 0 && passed > 0 ? 0 : 1;
}

struct CommandLine {
  SanityOptions options;
  std::vector<std::string> only;
  bool verbose = false;
};

/// Applies a flag with a value. Returns the error; empty: valid.
std::string takeFlag(const std::string& flag, const std::string& value, CommandLine& out) {
  SanityOptions& options = out.options;
  int64_t number = 0;
  if (flag == "--param") {
    const auto equals = value.find('=');
    if (equals == 0 || equals == std::string::npos) return "--param takes NAME=VALUE, not " + value;
    options.parameters[value.substr(0, equals)] = value.substr(equals + 1);
  } else if (flag == "--model") {
    options.model = value;
  } else if (flag == "--profile") {
    options.profile = value;
  } else if (flag == "--host") {
    options.hostBinary = value;
  } else if (flag == "--only") {
    out.only.push_back(value);
    return unknownCheck(value);
  } else if (flag == "--core") {
    if (!parseNumber(value, 1000, options.core)) return "--core takes 0 to 1000, not " + value;
  } else if (flag == "--memory") {
    if (!parseNumber(value, int64_t{1} << 50, options.memory)) return "--memory takes bytes, not " + value;
  } else if (flag == "--cards") {
    if (!parseNumber(value, 8, number) || number < 1) return "--cards takes 1 to 8, not " + value;
    options.cards = static_cast<int>(number);
  } else if (flag == "--cycles") {
    if (!parseNumber(value, 1'000'000, number) || number < 1) return "--cycles takes 1 to 1000000, not " + value;
    options.cycles = static_cast<int>(number);
  } else {
    return "unknown flag " + flag;
  }
  return {};
}

/// Returns the exit status if the program must end here.
std::optional<int> readCommandLine(int argc, char** argv, CommandLine& out) {
  for (int i = 1; i < argc; ++i) {
    const std::string flag = argv[i];
    if (flag == "--help") return std::fputs(kUsage.data(), stdout), 0;
    if (flag == "--list") {
      for (const auto& check : egpu::plugin::sanity::checks())
        std::printf("%-22s %s\n", check.name.c_str(), check.promise.c_str());
      return 0;
    }
    if (flag == "--verbose") {
      out.verbose = true;
    } else if (flag.rfind("--", 0) == 0) {
      if (i + 1 == argc) return wrongUsage(flag + " needs a value");
      if (const std::string wrong = takeFlag(flag, argv[++i], out); !wrong.empty()) return wrongUsage(wrong);
    } else if (out.options.path.empty()) {
      out.options.path = flag;
    } else {
      return wrongUsage("one plugin at a time");
    }
  }
  if (out.options.path.empty()) return wrongUsage("a plugin is required");
  return std::nullopt;
}

}  // namespace

int main(int argc, char** argv) {
  CommandLine given;
  if (const auto status = readCommandLine(argc, argv, given)) return *status;
  using egpu::base::log::Level;
  egpu::base::log::configure(given.verbose ? Level::debug : Level::off, false);
  // AddressSanitizer's quarantine of freed memory would look like a leak.
  const char* sanitizer = getenv("ASAN_OPTIONS");  // single-threaded here
  setenv("ASAN_OPTIONS",
         (std::string(sanitizer ? sanitizer : "") + ":quarantine_size_mb=0:thread_local_quarantine_size_kb=0").c_str(),
         1);
  const TemporaryFolder state;
  if (state.path.empty()) return wrongUsage("cannot make a temporary folder");
  given.options.stateDir = state.path;
  return runChecks(given.options, given.only);
}

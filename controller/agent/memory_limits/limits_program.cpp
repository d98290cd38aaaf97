#include "controller/agent/memory_limits/limits_program.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <sstream>
#include <system_error>

#include "api/v1alpha/keys.h"
#include "controller/base/files.h"
#include "controller/base/ids.h"
#include "controller/base/private_files.h"

namespace egpu::agent::memory_limits {

namespace {

using base::Code;
using base::Result;
using base::Status;

constexpr const char* kName = "driver-limits";
/// NVML initializes the driver, which takes seconds on nodes with many cards.
constexpr std::chrono::seconds kTimeout{15};
/// The kubelet waits two minutes for a container to be created.
constexpr int kHookTimeoutSeconds = 60;
constexpr const char* kPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

Status failed(const std::string& what) { return {Code::unavailable, what + ": " + strerrordesc_np(errno)}; }

Status makeFolder(const std::string& path) {
  return ::mkdir(path.c_str(), 0700) == 0 || errno == EEXIST ? Status::okay() : failed("cannot make " + path);
}

/// Reads "problem DEVICE TEXT" lines.
std::vector<Problem> problemsIn(const std::string& output) {
  std::vector<Problem> out;
  std::istringstream in(output);
  for (std::string line; std::getline(in, line);) {
    std::istringstream words(line);
    std::string kind, device, text;
    if (!(words >> kind >> device) || kind != "problem" || !std::getline(words >> std::ws, text)) continue;
    out.push_back({device == "-" ? "" : device, text});
  }
  return out;
}

}  // namespace

Result<std::string> LimitsProgram::install() const {
  const auto content = base::readFile(options_.source);
  if (!content)
    return Status(Code::unavailable, "the program for memory limits is not installed: " + content.status().message());
  if (const auto wrong = records_.open(); !wrong.empty()) return Status(Code::unavailable, wrong);
  const auto hash = folder() + "/" + base::hexDigest(*content);
  const auto path = hash + "/" + kName;
  struct stat info {};
  if (::lstat(path.c_str(), &info) == 0 && static_cast<std::size_t>(info.st_size) == content->size()) return path;
  for (const auto& each : {folder(), hash})
    if (auto s = makeFolder(each); !s.ok()) return s;
  const auto draft = base::writeBeside(path, *content);
  if (!draft) return draft.status();
  if (::chmod(draft->c_str(), 0700) != 0 || ::rename(draft->c_str(), path.c_str()) != 0)
    return failed("cannot write " + path);
  return path;
}

void LimitsProgram::removeOthers() const {
  const auto current = install();
  if (!current) return;
  std::error_code error;
  for (const auto& each : std::filesystem::directory_iterator(folder(), error))
    if (each.path() != std::filesystem::path(*current).parent_path()) std::filesystem::remove_all(each.path(), error);
}

/// Environment in which the program finds NVML.
Result<std::vector<std::string>> LimitsProgram::environment() const {
  std::vector<std::string> out{std::string("PATH=") + kPath, "LANG=C"};
  const auto libraries = sharing::driverLibraryPath(options_.host);
  if (!libraries) return libraries.status();
  if (!libraries->empty()) out.push_back("LD_LIBRARY_PATH=" + *libraries);
  out.insert(out.end(), options_.env.begin(), options_.env.end());
  return out;
}

Result<std::vector<core::Hook>> LimitsProgram::hooksFor(const std::string& deviceUid) const {
  const auto path = install();
  if (!path) return path.status();
  const auto env = environment();
  if (!env) return env.status();
  std::vector<core::Hook> out;
  for (const auto& [hook, verb] : {std::pair("createRuntime", "create"), std::pair("poststop", "remove")})
    out.push_back({hook, *path, {kName, verb, options_.host.state, deviceUid}, *env, kHookTimeoutSeconds});
  return out;
}

bool LimitsProgram::hasHooks(const core::ContainerEdits& edits) const {
  return std::any_of(edits.hooks.begin(), edits.hooks.end(),
                     [this](const auto& hook) { return hook.path.starts_with(folder() + "/"); });
}

Result<std::string> LimitsProgram::run(const std::string& verb, const std::vector<std::string>& words) const {
  const auto path = install();
  if (!path) return path.status();
  const auto env = environment();
  if (!env) return env.status();
  sharing::HostProgram program{*path, {verb, options_.host.state}, *env, {}};
  program.arguments.insert(program.arguments.end(), words.begin(), words.end());
  return programs_.run(program, kTimeout);
}

Result<std::vector<Problem>> LimitsProgram::apply() const {
  const auto output = run("apply", {});
  if (!output) return output.status();
  return problemsIn(*output);
}

Result<std::vector<Problem>> LimitsProgram::release(const std::vector<std::string>& deviceUids) const {
  const auto output = run("release", deviceUids);
  if (!output) return output.status();
  return problemsIn(*output);
}

Result<std::vector<ContainerUse>> LimitsProgram::usage() const {
  const auto output = run("usage", {});
  if (!output) return output.status();
  std::vector<ContainerUse> out;
  std::istringstream in(*output);
  for (std::string line; std::getline(in, line);) {
    std::istringstream words(line);
    std::string kind;
    ContainerUse use;
    if (words >> kind >> use.device >> use.card >> use.used >> std::ws && kind == "used" &&
        std::getline(words, use.cgroup))
      out.push_back(std::move(use));
  }
  return out;
}

Result<std::map<std::string, std::string>> LimitsProgram::probe(const std::set<std::string>& cards) const {
  const auto output = run("probe", {cards.begin(), cards.end()});
  if (!output) return output.status();
  std::map<std::string, std::string> out;
  std::istringstream in(*output);
  for (std::string line; std::getline(in, line);)
    if (const auto blank = line.find(' '); blank != std::string::npos && cards.count(line.substr(0, blank)) > 0)
      out[line.substr(0, blank)] = line.substr(blank + 1);
  return out;
}

}  // namespace egpu::agent::memory_limits

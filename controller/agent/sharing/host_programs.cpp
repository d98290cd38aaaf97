#include "controller/agent/sharing/host_programs.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <optional>
#include <system_error>
#include <utility>

#include "controller/base/printable.h"
#include "controller/base/text.h"

namespace egpu::agent::sharing {

namespace {

using base::Code;
using base::Result;
using base::Status;
using base::UniqueFd;
using Deadline = std::chrono::steady_clock::time_point;

constexpr std::size_t kMaxInput = 4096, kMaxOutput = 1 << 20, kMaxQuoted = 512;
constexpr const char* kCgroup = "/elastic-gpu-mps";  ///< cgroup of the daemons, below the root

Status unavailableFor(const std::string& what) { return {Code::unavailable, what + ": " + strerrordesc_np(errno)}; }

/// Names the cgroups for daemons. With cgroup v2 all daemons have one cgroup of their own; with v1 they are in the root
/// of each hierarchy.
void leaveCgroups(const std::string& root, ChildPlan& plan) {
  if (root.empty()) return;
  if (::access((root + "/cgroup.controllers").c_str(), F_OK) == 0) {
    plan.cgroupFolder = root + kCgroup;
    plan.cgroupFiles = {plan.cgroupFolder + "/cgroup.procs"};
    return;
  }
  std::error_code error;
  for (const auto& hierarchy : std::filesystem::directory_iterator(root, error))
    if (auto file = hierarchy.path().string() + "/cgroup.procs"; ::access(file.c_str(), F_OK) == 0)
      plan.cgroupFiles.push_back(std::move(file));
}

Result<ChildPlan> planFor(const NodeProgramsOptions& options) {
  ChildPlan plan;
  if (!options.entersHost) return plan;
  auto namespaces = hostNamespaces(options.proc);
  if (!namespaces) return namespaces.status();
  plan.namespaces = std::move(*namespaces);
  return plan;
}

void setProgram(const HostProgram& program, ChildPlan& plan) {
  plan.argv = program.arguments;
  plan.argv.insert(plan.argv.begin(), program.path);
  plan.env = program.env;
}

/// Returns the read end of a pipe that contains the text.
UniqueFd pipeWith(const std::string& text) {
  int ends[2];
  if (text.size() > kMaxInput || pipe2(ends, O_CLOEXEC) != 0) return {};
  UniqueFd out(ends[0]);
  const UniqueFd in(ends[1]);
  if (::write(in.get(), text.data(), text.size()) != static_cast<ssize_t>(text.size())) return {};
  return out;
}

/// Reads until the end of the output; nullopt after the deadline.
std::optional<std::string> readAll(int fd, Deadline deadline) {
  std::string out;
  char buffer[4096];
  for (;;) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now()).count();
    if (left <= 0) return std::nullopt;
    pollfd ready{fd, POLLIN, 0};
    if (::poll(&ready, 1, static_cast<int>(left)) <= 0) continue;
    const auto n = ::read(fd, buffer, sizeof buffer);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return out;
    out.append(buffer, std::min(static_cast<std::size_t>(n), kMaxOutput - std::min(kMaxOutput, out.size())));
  }
}

}  // namespace

Result<std::string> NodePrograms::run(const HostProgram& program, std::chrono::milliseconds timeout) {
  auto plan = planFor(options_);
  if (!plan) return plan.status();
  setProgram(program, *plan);
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return unavailableFor("a pipe can't be created");
  const UniqueFd output(ends[0]);
  UniqueFd outputOfChild(ends[1]);
  const UniqueFd input = pipeWith(program.input);
  if (!input) return Status(Code::unavailable, "the input of " + program.path + " can't be prepared");
  plan->input = input.get();
  plan->output = outputOfChild.get();
  const auto child = startChild(*plan);
  if (!child) return child.status();
  outputOfChild.reset();
  const auto text = readAll(output.get(), std::chrono::steady_clock::now() + timeout);
  if (!text) killChild(child->child);
  const int status = reap(child->child);
  if (!text)
    return Status(Code::unavailable,
                  program.path + " did not end within " + std::to_string(timeout.count() / 1000) + " s");
  if (status != 0)
    return Status(Code::unavailable,
                  program.path + (status < 0 ? " was killed" : " exited with status " + std::to_string(status)) + ": " +
                      base::shortened(base::printable(std::string(base::trimmed(*text))), kMaxQuoted));
  return *text;
}

Result<int64_t> NodePrograms::startDaemon(const HostProgram& program, const DaemonPaths& paths) {
  auto plan = planFor(options_);
  if (!plan) return plan.status();
  setProgram(program, *plan);
  leaveCgroups(options_.cgroups, *plan);
  plan->isDaemon = true;
  plan->sharedMemory = paths.sharedMemory;
  plan->withoutLinks = paths.sockets;
  const UniqueFd input(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  const UniqueFd output(::open(paths.log.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (!input || !output) return unavailableFor(paths.log);
  plan->input = input.get();
  plan->output = output.get();
  const auto child = startChild(*plan);
  if (!child) return child.status();
  reap(child->child);
  return int64_t{child->worker};
}

Result<int> NodePrograms::changeMount(ChildPlan::Action action, const std::string& folder, const std::string& options) {
  auto plan = planFor(options_);
  if (!plan) return plan.status();
  plan->action = action;
  plan->folder = folder;
  plan->options = options;
  const auto child = startChild(*plan);
  if (!child) return child.status();
  const int status = reap(child->child);
  if (status < 0) return Status(Code::unavailable, "the process that changes the mount " + folder + " was killed");
  return status;
}

Result<bool> NodePrograms::hasTmpfs(const std::string& folder) {
  const auto status = changeMount(ChildPlan::Action::findTmpfs, folder, "");
  if (!status) return status.status();
  return *status == kIsMounted;
}

Status NodePrograms::mountTmpfs(const std::string& folder, const std::string& options) {
  return changeMount(ChildPlan::Action::mountTmpfs, folder, options).status();
}

Status NodePrograms::unmount(const std::string& folder) {
  return changeMount(ChildPlan::Action::unmount, folder, "").status();
}

void NodePrograms::signal(int64_t pid, int number) { ::kill(static_cast<pid_t>(pid), number); }

}  // namespace egpu::agent::sharing

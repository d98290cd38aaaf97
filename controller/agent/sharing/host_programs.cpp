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

#include "controller/agent/sharing/child_process.h"
#include "controller/base/printable.h"
#include "controller/base/text.h"

namespace egpu::agent::sharing {

namespace {

using base::Code;
using base::Result;
using base::Status;
using base::UniqueFd;
using Deadline = std::chrono::steady_clock::time_point;

constexpr std::size_t kMaxInput = 4096, kMaxOutput = 64 << 10, kMaxQuoted = 512;
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

Result<int> waitFor(Result<StartedChild> child) {
  if (!child) return child.status();
  return reap(child->child);
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
  if (!text) ::kill(-child->child, SIGKILL);
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

Result<int64_t> NodePrograms::startDaemon(const HostProgram& program, const std::string& sharedMemory,
                                          const std::string& log) {
  auto plan = planFor(options_);
  if (!plan) return plan.status();
  setProgram(program, *plan);
  leaveCgroups(options_.cgroups, *plan);
  plan->isDaemon = true;
  plan->sharedMemory = sharedMemory;
  const UniqueFd input(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  const UniqueFd output(::open(log.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (!input || !output) return unavailableFor(log);
  plan->input = input.get();
  plan->output = output.get();
  const auto child = startChild(*plan);
  if (!child) return child.status();
  reap(child->child);
  return int64_t{child->worker};
}

Result<bool> NodePrograms::mountTmpfs(const std::string& folder, const std::string& options) {
  auto plan = planFor(options_);
  if (!plan) return plan.status();
  plan->action = ChildPlan::Action::mountTmpfs;
  plan->folder = folder;
  plan->options = options;
  const auto status = waitFor(startChild(*plan));
  if (!status) return status.status();
  if (*status != 0 && *status != kAlreadyMounted) return Status(Code::unavailable, "no tmpfs is mounted at " + folder);
  return *status == 0;
}

Status NodePrograms::unmount(const std::string& folder) {
  auto plan = planFor(options_);
  if (!plan) return plan.status();
  plan->action = ChildPlan::Action::unmount;
  plan->folder = folder;
  const auto status = waitFor(startChild(*plan));
  if (!status) return status.status();
  return *status == 0 ? Status::okay() : Status(Code::unavailable, "the tmpfs " + folder + " is not unmounted");
}

void NodePrograms::signal(int64_t pid, int number) { ::kill(static_cast<pid_t>(pid), number); }

}  // namespace egpu::agent::sharing

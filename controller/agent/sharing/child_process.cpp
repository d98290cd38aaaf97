#include "controller/agent/sharing/child_process.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <string_view>
#include <utility>

namespace egpu::agent::sharing {

namespace {

using base::Code;
using base::Result;
using base::Status;
using base::UniqueFd;

constexpr int kFailed = 127;
/// Names in /proc/<pid>/ns. The mount namespace is last, because the paths of the others are no longer valid after it.
constexpr std::array<const char*, 5> kNamespaces{"cgroup", "ipc", "uts", "net", "mnt"};

/// Step of the child, for the message of a failure.
enum class Step : int { started, fork, enter, cgroup, sharedMemory, withoutLinks, mount, unmount, execute };

const char* describe(Step step) {
  switch (step) {
    case Step::started:
    case Step::fork:
      break;
    case Step::enter:
      return "the host's namespaces can't be entered";
    case Step::cgroup:
      return "the agent's cgroup can't be left";
    case Step::sharedMemory:
      return "the shared memory can't be mounted at /dev/shm";
    case Step::withoutLinks:
      return "the folder of the sockets can't be mounted";
    case Step::mount:
      return "a tmpfs can't be mounted";
    case Step::unmount:
      return "the tmpfs can't be unmounted";
    case Step::execute:
      return "the program can't be executed";
  }
  return "the process can't be started";
}

struct Message {
  Step step;
  int error;  ///< errno; the PID if the step is `started`
};

/// The plan in the form that the child needs.
struct ChildLaunch {
  const ChildPlan& plan;
  char* const* argv;
  char* const* env;
  const char* parentFolder;  ///< folder above plan.folder
  int report;
  pid_t parent;
};

void send(int report, Step step, int value) {
  const Message message{step, value};
  [[maybe_unused]] const auto n = write(report, &message, sizeof message);
}

[[noreturn]] void fail(const ChildLaunch& launch, Step step) {
  send(launch.report, step, errno);
  _exit(kFailed);
}

void resetSignals() {
  for (int s = 1; s < NSIG; ++s) ::signal(s, SIG_DFL);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
}

void enterCgroups(const ChildLaunch& launch) {
  const auto& plan = launch.plan;
  if (!plan.cgroupFolder.empty() && mkdir(plan.cgroupFolder.c_str(), 0755) != 0 && errno != EEXIST)
    fail(launch, Step::cgroup);
  for (const auto& file : plan.cgroupFiles) {
    const int fd = open(file.c_str(), O_WRONLY | O_CLOEXEC);
    if (fd < 0 || write(fd, "0", 1) != 1) fail(launch, Step::cgroup);
    close(fd);
  }
}

/// Gives the process a mount namespace of its own. Later changes of the host's mounts are visible there, so that the
/// daemon does not keep a file system in use that the host unmounts.
void changeOwnMounts(const ChildLaunch& launch) {
  const auto& plan = launch.plan;
  if (plan.sharedMemory.empty()) return;
  if (unshare(CLONE_NEWNS) != 0 || mount("none", "/", nullptr, MS_REC | MS_SLAVE, nullptr) != 0 ||
      mount(plan.sharedMemory.c_str(), "/dev/shm", nullptr, MS_BIND, nullptr) != 0)
    fail(launch, Step::sharedMemory);
  if (plan.withoutLinks.empty()) return;
  // Kernels before 5.10 ignore the flag.
  constexpr unsigned long kNoSymbolicLinks = 256;  // MS_NOSYMFOLLOW
  const char* folder = plan.withoutLinks.c_str();
  if (mount(folder, folder, nullptr, MS_BIND, nullptr) != 0 ||
      mount("none", folder, nullptr, MS_BIND | MS_REMOUNT | MS_NOSUID | MS_NODEV | kNoSymbolicLinks, nullptr) != 0)
    fail(launch, Step::withoutLinks);
}

/// True if a tmpfs of its own is mounted at the folder. The folder above may be in a tmpfs, too.
bool isMountedTmpfs(const char* folder, const char* above) {
  struct statfs fileSystem {};
  struct stat own {};
  struct stat parent {};
  return statfs(folder, &fileSystem) == 0 && fileSystem.f_type == TMPFS_MAGIC && stat(folder, &own) == 0 &&
         stat(above, &parent) == 0 && own.st_dev != parent.st_dev;
}

[[noreturn]] void changeMount(const ChildLaunch& launch) {
  const char* folder = launch.plan.folder.c_str();
  const bool isMounted = isMountedTmpfs(folder, launch.parentFolder);
  if (launch.plan.action == ChildPlan::Action::findTmpfs) _exit(isMounted ? kIsMounted : 0);
  if (launch.plan.action == ChildPlan::Action::unmount) {
    if (isMounted && umount2(folder, MNT_DETACH | UMOUNT_NOFOLLOW) != 0) fail(launch, Step::unmount);
    _exit(0);
  }
  if (!isMounted && mount("tmpfs", folder, "tmpfs", MS_NOSUID | MS_NODEV, launch.plan.options.c_str()) != 0)
    fail(launch, Step::mount);
  _exit(0);
}

[[noreturn]] void executeProgram(const ChildLaunch& launch) {
  if (dup2(launch.plan.input, 0) < 0 || dup2(launch.plan.output, 1) < 0 || dup2(launch.plan.output, 2) < 0)
    fail(launch, Step::execute);
  constexpr unsigned kCloseOnExec = 1u << 2;  // CLOSE_RANGE_CLOEXEC
  if (syscall(SYS_close_range, 3u, ~0u, kCloseOnExec) != 0)
    for (int fd = 3; fd < 4096; ++fd)
      if (fd != launch.report) close(fd);
  execve(launch.argv[0], launch.argv, launch.env);
  fail(launch, Step::execute);
}

/// Waits for the worker and ends as it does. A worker that is blocked in a driver can't be killed; this process can, so
/// that the agent never waits for the worker.
[[noreturn]] void waitFor(pid_t worker, const ChildLaunch& launch) {
  if (launch.plan.isDaemon) _exit(0);
  close(launch.report);
  const int status = reap(worker);
  if (status >= 0) _exit(status);
  raise(SIGKILL);
  _exit(kFailed);
}

/// Kills this process when its parent ends.
void dieWith(pid_t parent) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(kFailed);  // the parent ended before prctl took effect
}

/// Makes the kernel end this process after most others when memory is short, as the kubelet does for critical pods. The
/// agent's own value, which is inherited, is that of a pod that may be killed. Without the right, the value stays.
void protectFromOom() {
  constexpr std::string_view kCritical = "-997";
  const int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
  if (fd < 0) return;
  [[maybe_unused]] const auto n = write(fd, kCritical.data(), kCritical.size());
  close(fd);
}

[[noreturn]] void becomeWorker(const ChildLaunch& launch) {
  send(launch.report, Step::started, getpid());
  if (launch.plan.isDaemon) protectFromOom();
  // The cgroup files are opened by their paths in the host's mount namespace.
  for (const auto& each : launch.plan.namespaces)
    if (setns(each.get(), 0) != 0) fail(launch, Step::enter);
  enterCgroups(launch);
  if (launch.plan.action != ChildPlan::Action::execute) changeMount(launch);
  changeOwnMounts(launch);
  executeProgram(launch);
}

[[noreturn]] void becomeChild(const ChildLaunch& launch) {
  setsid();
  resetSignals();
  if (!launch.plan.isDaemon) dieWith(launch.parent);
  const pid_t self = getpid();
  const long worker = syscall(SYS_clone, SIGCHLD, nullptr, nullptr, nullptr, nullptr);
  if (worker < 0) fail(launch, Step::fork);
  if (worker > 0) waitFor(static_cast<pid_t>(worker), launch);
  if (launch.plan.isDaemon)
    setsid();
  else
    dieWith(self);
  becomeWorker(launch);
}

std::vector<char*> pointersTo(const std::vector<std::string>& texts) {
  std::vector<char*> out;
  out.reserve(texts.size() + 1);
  for (const auto& text : texts) out.push_back(const_cast<char*>(text.c_str()));
  out.push_back(nullptr);
  return out;
}

Status because(const std::string& what, int error) { return {Code::unavailable, what + ": " + strerrordesc_np(error)}; }

/// Reads the child's messages until it executes the program or ends.
Result<pid_t> workerOf(int report, const ChildPlan& plan) {
  pid_t worker = -1;
  for (;;) {
    Message message{};
    const auto n = read(report, &message, sizeof message);
    if (n < 0 && errno == EINTR) continue;
    if (n != static_cast<ssize_t>(sizeof message)) break;
    if (message.step != Step::started || worker >= 0)
      return because((plan.argv.empty() ? plan.folder : plan.argv.front()) + ": " + describe(message.step),
                     message.error);
    worker = message.error;
  }
  if (worker < 0) return Status(Code::unavailable, "a child process ended before it started");
  return worker;
}

}  // namespace

Result<StartedChild> startChild(const ChildPlan& plan) {
  int report[2];
  if (pipe2(report, O_CLOEXEC) != 0) return because("a pipe can't be created", errno);
  const UniqueFd reportRead(report[0]);
  UniqueFd reportWrite(report[1]);
  const auto argv = pointersTo(plan.argv);
  const auto env = pointersTo(plan.env);
  const auto above = plan.folder.substr(0, plan.folder.rfind('/'));
  const ChildLaunch launch{plan, argv.data(), env.data(), above.c_str(), report[1], getpid()};
  const pid_t child = fork();
  if (child < 0) return because("a process can't be created", errno);
  if (child == 0) becomeChild(launch);
  reportWrite.reset();
  const auto worker = workerOf(reportRead.get(), plan);
  if (!worker) {
    killChild(child);
    reap(child);
    return worker.status();
  }
  return StartedChild{child, *worker};
}

Result<std::vector<UniqueFd>> hostNamespaces(const std::string& proc) {
  std::vector<UniqueFd> out;
  for (const std::string name : kNamespaces) {
    const auto path = proc + "/1/ns/" + name;
    struct stat own {};
    struct stat host {};
    if (stat((proc + "/self/ns/" + name).c_str(), &own) != 0) continue;  // the kernel lacks this kind
    UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
    if (!fd || fstat(fd.get(), &host) != 0)
      return because(path + " can't be opened (the agent needs hostPID and must be privileged)", errno);
    if (own.st_ino != host.st_ino) out.push_back(std::move(fd));
  }
  return out;
}

void killChild(pid_t child) {
  kill(-child, SIGKILL);  // its process group, unless the child was too early to create one
  kill(child, SIGKILL);
}

int reap(pid_t child) {
  int status = 0;
  while (waitpid(child, &status, 0) < 0)
    if (errno != EINTR) return -1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

}  // namespace egpu::agent::sharing

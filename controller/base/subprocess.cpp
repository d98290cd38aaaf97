#include "controller/base/subprocess.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <thread>

namespace egpu::base {
namespace {

constexpr std::chrono::seconds kDying{2};
constexpr int kOrphansAtOnce = 1000;

std::string errorText(int error) {
  char buffer[128];
  return strerror_r(error, buffer, sizeof buffer);  // the GNU variant returns the text
}

Status failed(const char* what, int error) { return {Code::unavailable, std::string(what) + ": " + errorText(error)}; }

std::string describeEnd(int status) {
  if (WIFEXITED(status)) return "exited with status " + std::to_string(WEXITSTATUS(status));
  if (!WIFSIGNALED(status)) return "ended";
  const char* name = sigdescr_np(WTERMSIG(status));
  return "was killed by signal " + std::to_string(WTERMSIG(status)) + " (" + (name ? name : "?") + ")";
}

/// Everything that the child needs between fork and exec. Prepared before the fork, because only async-signal-safe
/// calls are allowed after it.
struct Launch {
  const char* path;
  char* const* argv;
  char* const* env;
  int input, output, errors, channel, report;
  pid_t parent;
};

[[noreturn]] void becomeChild(const Launch& launch) {
  const auto fail = [&](int error) {
    [[maybe_unused]] const auto n = write(launch.report, &error, sizeof error);
    _exit(127);
  };
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != launch.parent) _exit(127);  // the parent ended before prctl took effect
  for (int s = 1; s < NSIG; ++s) signal(s, SIG_DFL);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  // Move the sources above the target descriptors first, so that no dup2 overwrites a source.
  const int input = fcntl(launch.input, F_DUPFD, 10);
  const int output = fcntl(launch.output, F_DUPFD, 10);
  const int errors = launch.errors >= 0 ? fcntl(launch.errors, F_DUPFD, 10) : output;
  const int channel = launch.channel >= 0 ? fcntl(launch.channel, F_DUPFD, 10) : -1;
  const int report = fcntl(launch.report, F_DUPFD_CLOEXEC, 10);
  if (input < 0 || output < 0 || errors < 0 || report < 0) fail(errno);
  if (dup2(input, 0) < 0 || dup2(output, 1) < 0 || dup2(errors, 2) < 0) fail(errno);
  if (channel >= 0 && dup2(channel, 3) < 0) fail(errno);
  // Descriptors that a library opened without close-on-exec must not reach a plugin.
  const unsigned first = channel >= 0 ? 4 : 3;
  constexpr unsigned kCloseOnExec = 1u << 2;  // CLOSE_RANGE_CLOEXEC
  if (syscall(SYS_close_range, first, ~0u, kCloseOnExec) != 0)
    for (int fd = static_cast<int>(first); fd < 4096; ++fd)
      if (fd != report) close(fd);
  execve(launch.path, launch.argv, launch.env);
  const int error = errno;
  [[maybe_unused]] const auto n = write(report, &error, sizeof error);
  _exit(127);
}

/// Reaps descendants that the kernel reparented to this process when their parents ended, as it does for the first
/// process of a container. All of them are already killed. Waits at most `kDying` for processes that the kernel has not
/// yet ended.
void reapGroup(pid_t group) {
  const auto until = std::chrono::steady_clock::now() + kDying;
  for (;;) {
    const pid_t reaped = waitpid(-group, nullptr, WNOHANG);
    if (reaped > 0 || (reaped < 0 && errno == EINTR)) continue;
    if (reaped < 0 || std::chrono::steady_clock::now() >= until) return;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

std::vector<char*> pointers(const std::vector<std::string>& texts) {
  std::vector<char*> out;
  out.reserve(texts.size() + 1);
  for (const auto& t : texts) out.push_back(const_cast<char*>(t.c_str()));
  out.push_back(nullptr);
  return out;
}

}  // namespace

void UniqueFd::reset(int fd) {
  if (fd_ >= 0) close(fd_);
  fd_ = fd;
}

Result<std::pair<UniqueFd, UniqueFd>> socketPair() {
  int fds[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) != 0) return failed("socketpair", errno);
  std::pair<UniqueFd, UniqueFd> pair{UniqueFd(fds[0]), UniqueFd(fds[1])};
  if (fcntl(fds[0], F_SETFL, O_NONBLOCK) != 0) return failed("fcntl", errno);
  return pair;
}

Result<Subprocess> Subprocess::spawn(const Options& options) {
  int out[2];
  if (pipe2(out, O_CLOEXEC) != 0) return failed("pipe2", errno);
  UniqueFd outRead(out[0]);
  UniqueFd outWrite(out[1]);
  if (fcntl(out[0], F_SETFL, O_NONBLOCK) != 0) return failed("fcntl", errno);
  int report[2];
  if (pipe2(report, O_CLOEXEC) != 0) return failed("pipe2", errno);
  UniqueFd reportRead(report[0]);
  UniqueFd reportWrite(report[1]);
  UniqueFd null(open("/dev/null", O_RDONLY | O_CLOEXEC));
  if (!null) return failed("/dev/null", errno);

  const auto argv = pointers(options.argv);
  const auto env = pointers(options.env);
  const Launch launch{options.argv.front().c_str(),
                      argv.data(),
                      env.data(),
                      null.get(),
                      out[1],
                      options.errors,
                      options.channel,
                      report[1],
                      getpid()};
  const pid_t pid = fork();
  if (pid < 0) return failed("fork", errno);
  if (pid == 0) becomeChild(launch);
  setpgid(pid, pid);  // called in parent and child, so that the group exists in whichever process continues first
  reportWrite.reset();
  outWrite.reset();
  UniqueFd pidfd(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
  Subprocess child(pid, std::move(outRead), std::move(pidfd));
  int error = 0;
  ssize_t n;
  do {
    n = read(reportRead.get(), &error, sizeof error);
  } while (n < 0 && errno == EINTR);
  if (n > 0) return failed(options.argv.front().c_str(), error);
  return child;
}

std::string Subprocess::finish(std::chrono::milliseconds patience) {
  if (pid_.value <= 0) return "ended";
  if (pidfd_ && patience.count() > 0) {
    pollfd p{pidfd_.get(), POLLIN, 0};
    poll(&p, 1, static_cast<int>(patience.count()));
  }
  // Kill the group before reaping its leader: until the leader is reaped, no other process group can have this number.
  if (kill(-pid_.value, SIGKILL) != 0) kill(pid_.value, SIGKILL);
  int status = 0;
  while (waitpid(pid_.value, &status, 0) < 0 && errno == EINTR) {
  }
  // The group's number is not reused as long as one of its processes exists.
  reapGroup(std::exchange(pid_.value, -1));
  return describeEnd(status);
}

void Subprocess::reapOrphans() const {
  for (int n = 0; n < kOrphansAtOnce && pid_.value > 0; ++n) {
    siginfo_t dead{};
    const int result = waitid(P_PGID, static_cast<id_t>(pid_.value), &dead, WEXITED | WNOHANG | WNOWAIT);
    if (result != 0 || dead.si_pid == 0 || dead.si_pid == pid_.value) return;
    waitpid(dead.si_pid, nullptr, WNOHANG);
  }
}

Subprocess::~Subprocess() { finish(std::chrono::milliseconds(0)); }

std::string executableFolder() {
  char buffer[PATH_MAX];
  const ssize_t n = readlink("/proc/self/exe", buffer, sizeof buffer);
  if (n <= 0) return ".";
  const std::string path(buffer, static_cast<std::size_t>(n));
  return path.substr(0, path.find_last_of('/'));
}

}  // namespace egpu::base

#include "controller/plugin/host/sandbox.h"

#include <dirent.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <malloc.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <system_error>
#include <utility>

#include "controller/base/subprocess.h"
#include "controller/plugin/host/calls.h"
#include "controller/plugin/host/files.h"

namespace egpu::plugin::host {
namespace {

namespace fs = std::filesystem;
using base::Status;

constexpr int kArenas = 4;  ///< number of malloc arenas: each reserves address space

Status failed(const std::string& what) { return {base::Code::unavailable, what + ": " + strerrordesc_np(errno)}; }

void writeText(const char* path, const std::string& text) {
  const base::UniqueFd file(open(path, O_WRONLY | O_CLOEXEC));
  if (file) [[maybe_unused]]
    const auto n = ::write(file.get(), text.data(), text.size());
}

/// Returns the existing paths without symbolic links, each once.
std::vector<std::string> real(const std::vector<std::string>& paths) {
  std::vector<std::string> out;
  for (const auto& path : paths) {
    std::error_code absent;
    const std::string found = fs::canonical(path, absent).string();
    if (!absent && found != "/" && std::find(out.begin(), out.end(), found) == out.end()) out.push_back(found);
  }
  return out;
}

/// Returns the shared object and the libraries in its folder.
std::vector<std::string> objects(const std::string& plugin) {
  std::vector<std::string> out{plugin};
  std::error_code error;
  const fs::path found = fs::canonical(plugin, error);
  for (const fs::path& folder : {fs::path(plugin).parent_path(), found.parent_path()})
    for (fs::directory_iterator at(folder.empty() ? "." : folder, error), end; !error && at != end; at.increment(error))
      if (at->path().filename().string().find(".so") != std::string::npos) out.push_back(at->path().string());
  return out;
}

/// Returns the plugin's user. It depends only on the file's name, so that the plugin's files stay its own on every
/// machine.
uid_t userOf(const std::string& plugin) {
  uint64_t hash = 14695981039346656037u;
  for (const char c : fs::path(plugin).filename().string())
    hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211u;
  return kFirstUser + 1 + static_cast<uid_t>(hash % (kLastUser - kFirstUser));
}

/// Shares the state folder among plugins with different users: each may create files, and remove its own.
void shareStateDir(const std::string& path) {
  const base::UniqueFd folder(open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  struct stat info {};
  if (!folder || fstat(folder.get(), &info) != 0 || info.st_uid != 0) return;
  if (fchown(folder.get(), 0, kPluginGroup) == 0) fchmod(folder.get(), (info.st_mode & 07777) | 01070);
}

Status becomeUser(uid_t user) {
  if (setgroups(0, nullptr) != 0 || setresgid(kPluginGroup, kPluginGroup, kPluginGroup) != 0 ||
      setresuid(user, user, user) != 0)
    return failed("a user of its own");
  return Status::okay();
}

/// Enters a user namespace with the same user: it allows a mount namespace without privileges, and counts its processes
/// separately.
Status ownUserNamespace() {
  const std::string user = std::to_string(geteuid()), group = std::to_string(getegid());
  if (unshare(CLONE_NEWUSER) != 0) return failed("a user namespace");
  writeText("/proc/self/setgroups", "deny");
  writeText("/proc/self/uid_map", user + " " + user + " 1");
  writeText("/proc/self/gid_map", group + " " + group + " 1");
  return Status::okay();
}

/// True if RLIMIT_NPROC counts only the processes of a user namespace: since Linux 5.14.
bool namespacesCount() {
  utsname system{};
  int major = 0, minor = 0;
  return uname(&system) == 0 && std::sscanf(system.release, "%d.%d", &major, &minor) == 2 &&  // NOLINT(cert-err34-c)
         std::pair(major, minor) >= std::pair(5, 14);
}

void dropCapabilities() {
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct none[2] = {};
  syscall(SYS_capset, &header, none);
  prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
}

/// True for a zombie: ended, but not reaped by its parent.
bool dead(const fs::path& task) {
  std::ifstream stat(task / "stat");
  std::string line;
  std::getline(stat, line);  // "pid (name) state": the name may contain any characters
  const std::size_t name = line.rfind(')');
  return name != std::string::npos && line.compare(name, 3, ") Z") == 0;
}

/// Returns the number of visible, living threads of this user, because RLIMIT_NPROC counts them too. It also counts
/// zombies; but they may be from earlier processes of the plugin, and would raise the limit with each restart.
uint64_t threadsOfUser() {
  uint64_t count = 0;
  std::error_code error;
  for (fs::directory_iterator at("/proc", error), end; !error && at != end; at.increment(error)) {
    struct stat info {};
    if (stat(at->path().c_str(), &info) != 0 || info.st_uid != geteuid()) continue;
    std::error_code gone;
    for (fs::directory_iterator task(at->path() / "task", gone), last; !gone && task != last; task.increment(gone))
      if (!dead(task->path())) ++count;
  }
  return count;
}

template <class Resource>
void limit(Resource resource, uint64_t max) {
  rlimit now{};
  if (getrlimit(resource, &now) != 0) return;
  now.rlim_max = std::min<rlim_t>(now.rlim_max, max);
  now.rlim_cur = now.rlim_max;
  setrlimit(resource, &now);
}

void limitResources(const Sandbox& sandbox, bool countsApart) {
  limit(RLIMIT_CORE, 0);
  if (sandbox.files > 0) limit(RLIMIT_NOFILE, sandbox.files);
  if (sandbox.processes > 0) limit(RLIMIT_NPROC, sandbox.processes + (countsApart ? 0 : threadsOfUser()));
  mallopt(M_ARENA_MAX, kArenas);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  // Sanitizers reserve terabytes of address space, so this limit would end the process.
  if (sandbox.memory > 0) limit(RLIMIT_AS, sandbox.memory);
#endif
}

Files filesOf(const Sandbox& sandbox) {
  Files files;
  files.hidden = real(sandbox.hidden);
  std::vector<std::string> needed = objects(sandbox.plugin);
  std::istringstream libraries(sandbox.libraries);
  for (std::string folder; std::getline(libraries, folder, ':');)
    if (!folder.empty() && folder.front() == '/') needed.push_back(folder);
  files.needed = real(needed);
  files.writable = real({sandbox.stateDir, "/var/lib/elasticgpu", "/tmp", "/var/tmp", "/dev"});
  return files;
}

/// Collects the gaps of the sandbox as a sentence.
class Gaps {
 public:
  void add(const std::string& could, const std::string& why) {
    could_ += (could_.empty() ? "" : ", ") + could;
    why_ += (why_.empty() ? "" : "; ") + why;
  }
  std::string text() const {
    return could_.empty() ? std::string()
                          : "the plugin's process is not fully confined: it could " + could_ + " (" + why_ + ")";
  }

 private:
  std::string could_, why_;
};

}  // namespace

base::Result<std::string> enter(const Sandbox& sandbox) {
  const auto has = [&](const char* part) { return sandbox.without.count(part) == 0; };
  const auto lacks = [](const char* what) { return Status(base::Code::unavailable, std::string(what) + " is off"); };
  const pid_t parent = getppid();
  if (chdir("/") != 0) return failed("chdir");
  writeText("/proc/self/oom_score_adj", "1000");
  const Files files = filesOf(sandbox);
  Gaps gaps;

  const bool root = geteuid() == 0;
  Status hides = lacks("mounts");
  Status user = lacks("user");
  if (root) {
    if (!sandbox.stateDir.empty()) shareStateDir(sandbox.stateDir);
    if (has("mounts")) hides = coverHidden(files);
    if (has("user") && !hides.ok() && !reachable(files))
      user = Status(base::Code::unavailable, "only root can reach the plugin or its state folder");
    else if (has("user"))
      user = becomeUser(userOf(sandbox.plugin));
    if (!user.ok()) gaps.add("start processes without limit and change root's files", user.message());
  }
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return failed("no_new_privs");
  bool countsApart = root && user.ok();
  if (!root && has("mounts")) {
    hides = ownUserNamespace();
    countsApart = hides.ok() && namespacesCount();
    if (hides.ok()) hides = coverHidden(files);
  }
  bool restrictsSignals = false;
  const Status landlock =
      has("landlock") ? restrictFiles(files, sandbox.network, &restrictsSignals) : lacks("landlock");
  if (!hides.ok() && !landlock.ok())
    gaps.add("read the controller's credentials", landlock.message() + "; " + hides.message());
  else if (!landlock.ok() && !user.ok())
    gaps.add("write to files of the controller's user", landlock.message());
  dropCapabilities();
  limitResources(sandbox, countsApart);
  if (prctl(PR_SET_DUMPABLE, sandbox.traceable ? 1 : 0, 0, 0, 0) != 0) return failed("dumpable");
  // The change of user has cleared it.
  if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) != 0) return failed("pdeathsig");
  if (getppid() != parent) return Status(base::Code::cancelled, "the controller is gone");
  const Calls calls{sandbox.network, sandbox.unixSockets, !restrictsSignals && !user.ok()};
  const Status filtered = has("seccomp") ? filterCalls(calls) : lacks("seccomp");
  if (!filtered.ok()) gaps.add("use the network", filtered.message());
  return gaps.text();
}

}  // namespace egpu::plugin::host

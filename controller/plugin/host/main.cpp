// egpu-plugin-host: loads one provisioner and serves its calls over descriptor 3, the socket from HostedProvisioner.
// The plugin can't harm the controller, which sees the end of the socket and starts another host.
#include <fcntl.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <system_error>
#include <thread>
#include <utility>

#include "controller/base/mutex.h"
#include "controller/plugin/host/sandbox.h"
#include "controller/plugin/loader.h"
#include "controller/plugin/wire.h"

namespace egpu::plugin {
namespace {

constexpr int kChannel = 3;
constexpr std::size_t kMaxWorkers = 64;  ///< calls in parallel; further calls wait here
constexpr std::size_t kFirstWorkers =
    4;  ///< started before the plugin, which might use up the thread limit of its user

/// Ends the process without destructors, because the plugin's threads may still be running.
[[noreturn]] void leave(int status) { _exit(status); }

/// Serves until the controller closes the socket. Lives until the process ends.
class HostServer {
 public:
  HostServer() {
    const base::MutexLock lock(mutex_);
    while (workers_ < kFirstWorkers && addWorker()) continue;
  }

  /// Call before serve.
  void set(std::unique_ptr<LoadedPlugin> plugin) { plugin_ = std::move(plugin); }

  void send(const std::string& frame) {
    const base::MutexLock lock(sendMutex_);
    std::string_view rest = frame;
    while (!rest.empty()) {
      const ssize_t n = ::send(kChannel, rest.data(), rest.size(), MSG_NOSIGNAL);
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) leave(0);  // the controller is gone
      rest.remove_prefix(static_cast<std::size_t>(n));
    }
  }

  [[noreturn]] void serve() {
    wire::FrameBuffer frames;
    std::string chunk(64 << 10, '\0');
    for (;;) {
      const ssize_t n = ::recv(kChannel, chunk.data(), chunk.size(), 0);
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) leave(0);
      frames.append(std::string_view(chunk).substr(0, static_cast<std::size_t>(n)));
      while (const auto frame = frames.next()) take(*frame);
      if (frames.broken()) leave(2);
    }
  }

 private:
  struct Job {
    uint64_t id = 0;
    Call call;
    std::shared_ptr<std::atomic<bool>> cancelled = std::make_shared<std::atomic<bool>>(false);
  };

  void take(const wire::Frame& frame) {
    if (frame.type == wire::Type::cancel) {
      const base::MutexLock lock(mutex_);
      if (const auto found = running_.find(frame.id); found != running_.end()) *found->second = true;
      return;
    }
    Job job;
    job.id = frame.id;
    if (frame.type != wire::Type::call || !wire::decode(frame.body, job.call)) leave(2);
    const base::MutexLock lock(mutex_);
    running_[job.id] = job.cancelled;
    jobs_.push_back(std::move(job));
    if (idle_ < jobs_.size() && workers_ < kMaxWorkers && !addWorker() && workers_ == 0) leave(3);
    ready_.notify_one();
  }

  /// False if no thread can be created: the existing workers then do the work.
  bool addWorker() EGPU_REQUIRES(mutex_) {
    try {
      std::thread([this] { work(); }).detach();  // ends with the process; see leave
      ++workers_;
      return true;
    } catch (const std::system_error&) {
      return false;
    }
  }

  void work() {
    base::MutexLock lock(mutex_);
    for (;;) {
      ++idle_;
      ready_.wait(lock, [this]() EGPU_REQUIRES(mutex_) { return !jobs_.empty(); });
      --idle_;
      const Job job = std::move(jobs_.front());
      jobs_.pop_front();
      lock.unlock();
      send(wire::encodeAnswer(job.id, answer(job)));
      lock.lock();
      running_.erase(job.id);
    }
  }

  Answer answer(const Job& job) const {
    // A call past its deadline is not started: it would only occupy the worker.
    if (*job.cancelled || std::chrono::steady_clock::now() >= job.call.deadline) {
      Answer late;
      late.outcome = ReplyCode::unavailable;
      late.message = "the call waited for a worker until its deadline had passed";
      return late;
    }
    return plugin_->call(job.call, job.cancelled.get());
  }

  std::unique_ptr<LoadedPlugin> plugin_;  ///< constant once serve runs
  base::Mutex sendMutex_;                 ///< held while a frame is written to the socket
  base::Mutex mutex_;
  std::condition_variable_any ready_;
  std::deque<Job> jobs_ EGPU_GUARDED_BY(mutex_);
  std::map<uint64_t, std::shared_ptr<std::atomic<bool>>> running_ EGPU_GUARDED_BY(mutex_);  ///< queued or in progress
  std::size_t workers_ EGPU_GUARDED_BY(mutex_) = 0;
  std::size_t idle_ EGPU_GUARDED_BY(mutex_) = 0;
};

/// "--name=value" → value; null if `argument` is a different flag.
const char* valueOf(const char* argument, const char* name) {
  const std::size_t n = std::strlen(name);
  return std::strncmp(argument, name, n) == 0 && argument[n] == '=' ? argument + n + 1 : nullptr;
}

/// False if the arguments are not those of HostedProvisioner.
bool parse(int argc, char** argv, host::Sandbox& out) {
  for (int i = 1; i < argc; ++i) {
    const char* value = nullptr;
    if ((value = valueOf(argv[i], "--memory"))) {
      out.memory = std::strtoull(value, nullptr, 10);
    } else if ((value = valueOf(argv[i], "--files"))) {
      out.files = std::strtoull(value, nullptr, 10);
    } else if ((value = valueOf(argv[i], "--processes"))) {
      out.processes = std::strtoull(value, nullptr, 10);
    } else if ((value = valueOf(argv[i], "--hide"))) {
      if (*value != '/') return false;  // a relative path would name another file and hide nothing
      out.hidden.emplace_back(value);
    } else if ((value = valueOf(argv[i], "--without"))) {
      out.without.emplace(value);
    } else if (std::strcmp(argv[i], "--network") == 0) {
      out.network = true;
    } else if (std::strcmp(argv[i], "--unix-sockets") == 0) {
      out.unixSockets = true;
    } else if (std::strcmp(argv[i], "--traceable") == 0) {
      out.traceable = true;
    } else if (argv[i][0] == '-' || i + 1 < argc) {
      return false;
    } else {
      out.plugin = argv[i];
    }
  }
  if (out.plugin.empty()) return false;
  std::error_code error;
  out.plugin = std::filesystem::absolute(out.plugin, error).string();
  const char* state = std::getenv("ELASTICGPU_STATE_DIR");  // single-threaded here
  const char* libraries = std::getenv("LD_LIBRARY_PATH");
  out.stateDir = state ? state : "";
  out.libraries = libraries ? libraries : "";
  return out.stateDir.empty() || out.stateDir.front() == '/';
}

std::unique_ptr<LoadedPlugin> load(const host::Sandbox& sandbox, wire::Hello& hello) {
  auto loaded = LoadedPlugin::open(sandbox.plugin);
  hello.loaded = loaded.ok();
  hello.error = loaded.status().message();
  if (!loaded) return nullptr;
  hello.description = loaded.value()->description();
  return std::move(loaded).value();
}

int run(const host::Sandbox& sandbox) {
  fcntl(kChannel, F_SETFD, FD_CLOEXEC);  // programs that the plugin executes must not hold the socket open
  ::signal(SIGPIPE, SIG_IGN);
  // "<level>message": OutputLog parses the level.
  setPluginLog([](int level, const std::string& message) {
    std::string line = "<" + std::to_string(level) + ">" + message;
    for (char& c : line)
      if (c == '\n') c = ' ';
    line += '\n';
    [[maybe_unused]] const auto n = ::write(STDERR_FILENO, line.data(), line.size());
  });
  wire::Hello hello;
  // Order: sandbox, threads, plugin. A shared object's constructors are plugin code already.
  const auto gaps = host::enter(sandbox);
  auto* server = new HostServer();  // never deleted: see leave
  // Sent before the plugin is loaded, because its constructors could write to the socket too.
  server->send(wire::encodeConfined({wire::kVersion, gaps ? *gaps : ""}));
  if (gaps) {
    server->set(load(sandbox, hello));
  } else {
    hello.error = "its process cannot be confined: " + gaps.status().message();
  }
  server->send(wire::encodeHello(hello));
  if (!hello.loaded) leave(1);
  server->serve();
}

}  // namespace
}  // namespace egpu::plugin

int main(int argc, char** argv) {
  struct stat channel {};
  const bool socket = fstat(egpu::plugin::kChannel, &channel) == 0 && S_ISSOCK(channel.st_mode);
  egpu::plugin::host::Sandbox sandbox;
  if (!egpu::plugin::parse(argc, argv, sandbox) || !socket) {
    std::fprintf(stderr,
                 "usage: egpu-plugin-host [flags] PLUGIN.so\n"
                 "Serves one provisioner plugin over the socket on descriptor 3. The controller starts it; there is "
                 "nothing to run by hand.\n"
                 "To try a plugin, use egpu-sanity.\n");
    return argc == 2 && std::strcmp(argv[1], "--help") == 0 ? 0 : 64;
  }
  return egpu::plugin::run(sandbox);
}

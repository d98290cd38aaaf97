#include "controller/plugin/hosted.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <sstream>
#include <string_view>
#include <system_error>
#include <utility>

#include "controller/base/log.h"

namespace egpu::plugin {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr std::size_t kMaxPending = 1024;
constexpr std::size_t kMaxUnsent = 64u << 20;

Answer refuse(ReplyCode outcome, std::string message) {
  Answer answer;
  answer.outcome = outcome;
  answer.message = std::move(message);
  return answer;
}

bool passedOn(std::string_view variable) {
  for (const std::string_view name : {"PATH=", "HOME=", "LANG=", "TZ=", "TMPDIR=", "LD_LIBRARY_PATH=", "ELASTICGPU_",
                                      "NVIDIA_", "ASAN_OPTIONS=", "LSAN_OPTIONS=", "UBSAN_OPTIONS=", "TSAN_OPTIONS="})
    if (variable.starts_with(name)) return true;
  return false;
}

/// Usual locations of credentials. A path that does not exist is harmless.
std::vector<std::string> credentials() {
  std::vector<std::string> out{"/var/run/secrets", "/run/secrets", "/var/lib/kubelet", "/etc/kubernetes", "/root"};
  if (const char* home = std::getenv("HOME")) out.emplace_back(home);  // NOLINT(concurrency-mt-unsafe): nobody sets it
  const char* configs = std::getenv("KUBECONFIG");                     // NOLINT(concurrency-mt-unsafe)
  std::istringstream list(configs ? configs : "");
  for (std::string path; std::getline(list, path, ':');)
    if (!path.empty()) out.push_back(path);
  return out;
}

/// Returns the absolute path, because the plugin's process has another working directory.
std::string absolute(const std::string& path) {
  std::error_code error;
  const auto whole = std::filesystem::absolute(path, error);
  return error ? path : whole.string();  // the host refuses a relative path
}

std::string withAbsoluteState(std::string variable) {
  constexpr std::string_view name = "ELASTICGPU_STATE_DIR=";
  if (!variable.starts_with(name) || variable.size() == name.size()) return variable;
  return variable.replace(name.size(), std::string::npos, absolute(variable.substr(name.size())));
}

std::string fileOf(const std::string& path) { return path.substr(path.find_last_of('/') + 1); }

}  // namespace

HostedProvisioner::HostedProvisioner(std::string path, HostOptions options, base::Clock& clock, base::Random& random,
                                     std::function<void(HostedProvisioner&)> changed)
    : CallingProvisioner(options.deadlines),
      path_(std::move(path)),
      options_(std::move(options)),
      clock_(clock),
      random_(random),
      changed_(std::move(changed)),
      wake_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      output_(fileOf(path_)),
      supervisor_([this] { supervise(stop_.get_token()); }) {}

HostedProvisioner::~HostedProvisioner() { stop_.request_stop(); }  // wakes supervise; supervisor_ joins

bool HostedProvisioner::waitFirstAttempt(steady_clock::time_point until) const {
  base::MutexLock lock(mutex_);
  return firstAttempt_.wait_until(lock, until, [this]() EGPU_REQUIRES(mutex_) { return attempted_; });
}

bool HostedProvisioner::described() const {
  const base::MutexLock lock(mutex_);
  return described_;
}

Reply HostedProvisioner::readiness() const {
  const base::MutexLock lock(mutex_);
  if (state_ == ProcessState::up) return {ReplyCode::ok, gaps_};
  // While the process restarts, the last failure is reported, because a changing message would be written to the status
  // each time.
  if (!end_.message.empty()) return {end_.outcome, end_.message};
  return {ReplyCode::unavailable, fileOf(path_) + " is starting"};
}

void HostedProvisioner::close() {
  const base::MutexLock lock(mutex_);
  if (until_) return;
  until_ = steady_clock::now() + options_.closeGrace;
  for (const auto& [id, pending] : pending_)
    if (!pending->abandoned) sendLocked(wire::encodeCancel(id));
  wake();
}

void HostedProvisioner::retire(const std::string& why) {
  {
    const base::MutexLock lock(mutex_);
    state_ = ProcessState::retired;
    end_ = {ReplyCode::unavailable, why};
  }
  stop_.request_stop();
}

pid_t HostedProvisioner::pid() const {
  const base::MutexLock lock(mutex_);
  return pid_;
}
uint64_t HostedProvisioner::starts() const {
  const base::MutexLock lock(mutex_);
  return starts_;
}
uint64_t HostedProvisioner::lateAnswers() const {
  const base::MutexLock lock(mutex_);
  return lateAnswers_;
}
std::size_t HostedProvisioner::outstanding() const {
  const base::MutexLock lock(mutex_);
  return pending_.size();
}
std::pair<uint64_t, milliseconds> HostedProvisioner::backoff() const {
  const base::MutexLock lock(mutex_);
  return backoff_;
}

Answer HostedProvisioner::perform(const Call& call) {
  const auto begun = steady_clock::now();
  Answer answer = send(call);
  if (options_.metrics) {
    const std::string slot(toString(call.slot));
    options_.metrics->add(
        "elasticgpu_plugin_calls_total", 1,
        {{"plugin", fileOf(path_)}, {"slot", slot}, {"outcome", std::string(toString(answer.outcome))}});
    options_.metrics->observe("elasticgpu_plugin_call_seconds",
                              std::chrono::duration<double>(steady_clock::now() - begun).count(),
                              {{"plugin", fileOf(path_)}, {"slot", slot}});
  }
  return answer;
}

Answer HostedProvisioner::send(const Call& call) {
  const auto pending = std::make_shared<Pending>();
  pending->slot = call.slot;
  pending->deadline = call.deadline;
  base::MutexLock lock(mutex_);
  if (until_) return refuse(ReplyCode::unavailable, fileOf(path_) + ": the controller is stopping");
  if (state_ != ProcessState::up)
    return refuse(ReplyCode::unavailable, end_.message.empty() ? fileOf(path_) + " is starting" : end_.message);
  if (pending_.size() >= kMaxPending || unsent_.size() > kMaxUnsent)
    return refuse(ReplyCode::unavailable, fileOf(path_) + " has too many calls under way");
  const uint64_t id = ++lastId_;
  const std::string frame = wire::encodeCall(id, call);
  if (frame.size() > wire::kMaxFrame) return refuse(ReplyCode::invalid, "the request is larger than 16 MiB");
  pending_.emplace(id, pending);
  sendLocked(frame);
  if (pending->answered.wait_until(lock, call.deadline, [&] { return pending->done; }))
    return std::move(pending->answer);
  pending->abandoned = true;
  sendLocked(wire::encodeCancel(id));
  wake();  // the grace begins
  return refuse(ReplyCode::timeout, std::string(toString(call.slot)) + " did not answer by its deadline");
}

/// Sends the bytes that the socket accepts now. The supervisor sends the rest, so that no caller blocks on a process
/// that does not read.
void HostedProvisioner::sendLocked(const std::string& frame) {
  if (!channel_) return;
  const bool behind = !unsent_.empty();
  unsent_ += frame;
  if (behind) return;
  flushLocked();
  if (!unsent_.empty()) wake();
}

void HostedProvisioner::flushLocked() {
  std::size_t sent = 0;
  while (channel_ && sent < unsent_.size()) {
    const ssize_t n = ::send(channel_.get(), unsent_.data() + sent, unsent_.size() - sent, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) break;  // socket full, or closed: the supervisor then sees the end
    sent += static_cast<std::size_t>(n);
  }
  unsent_.erase(0, sent);
}

void HostedProvisioner::wake() const {
  const uint64_t one = 1;
  [[maybe_unused]] const auto n = ::write(wake_.get(), &one, sizeof one);
}

void HostedProvisioner::supervise(const std::stop_token& stop) {
  const std::stop_callback onStop(stop, [this] { wake(); });
  const auto closing = [this] {
    const base::MutexLock lock(mutex_);
    return until_.has_value();
  };
  while (!stop.stop_requested() && !closing()) {
    goDown(runProcess(stop));
    if (stop.stop_requested() || closing()) break;
    const milliseconds delay = nextBackoff();
    const auto until = clock_.now() + delay;
    {
      const base::MutexLock lock(mutex_);
      backoff_ = {backoff_.first + 1, delay};
    }
    clock_.sleepUntil(until, stop);
  }
  const base::MutexLock lock(mutex_);
  attempted_ = true;
  firstAttempt_.notify_all();
}

milliseconds HostedProvisioner::nextBackoff() {
  if (upSince_ && clock_.now() - *upSince_ >= options_.stableAfter) failures_ = 0;
  upSince_.reset();
  const milliseconds whole =
      std::min(options_.maxBackoff, options_.backoffFirst * (int64_t{1} << std::min(failures_, 20u)));
  ++failures_;
  const auto half = static_cast<uint64_t>(whole.count() / 2);
  return milliseconds(static_cast<int64_t>(half + random_.below(half + 1)));
}

std::vector<std::string> HostedProvisioner::environment() const {
  std::vector<std::string> out;
  for (char** variable = environ; variable && *variable; ++variable)
    if (passedOn(*variable)) out.push_back(withAbsoluteState(*variable));
  for (const auto& variable : options_.env) out.push_back(withAbsoluteState(variable));
  return out;
}

std::vector<std::string> HostedProvisioner::command(const Manifest& manifest) const {
  std::vector<std::string> out{options_.hostBinary};
  const Limits& limits = options_.limits;
  out.push_back("--memory=" + std::to_string(limits.memory));
  out.push_back("--files=" + std::to_string(limits.files));
  out.push_back("--processes=" + std::to_string(limits.processes));
  for (const auto& paths : {credentials(), options_.hidden})
    for (const auto& path : paths)
      if (!path.empty()) out.push_back("--hide=" + absolute(path));
  for (const auto& part : options_.without) out.push_back("--without=" + part);
  if (manifest.network) out.emplace_back("--network");
  if (manifest.unixSockets) out.emplace_back("--unix-sockets");
  if (options_.traceable) out.emplace_back("--traceable");
  out.push_back(path_);
  return out;
}

/// Runs one process from spawn to its end.
HostedProvisioner::End HostedProvisioner::runProcess(const std::stop_token& stop) {
  const auto manifest = readManifest(path_);
  if (!manifest) return {ReplyCode::unavailable, fileOf(path_) + ": " + manifest.status().message()};
  auto sockets = base::socketPair();
  if (!sockets) return {ReplyCode::unavailable, "cannot start the plugin host: " + sockets.status().message()};
  base::Subprocess::Options launch;
  launch.argv = command(*manifest);
  launch.env = environment();
  launch.channel = sockets->second.get();
  auto process = base::Subprocess::spawn(launch);
  if (!process) return {ReplyCode::unavailable, "cannot start the plugin host: " + process.status().message()};
  sockets->second.reset();
  frames_ = std::make_unique<wire::FrameBuffer>();
  confined_.reset();
  output_.clearTail();
  {
    const base::MutexLock lock(mutex_);
    channel_ = std::move(sockets->first);
    unsent_.clear();
    pid_ = process->pid();
    ++starts_;
  }
  const std::optional<End> verdict = serve(*process, stop);
  const std::string how = process->finish(milliseconds(verdict ? 0 : 200));
  takeOutput(process->output());
  {
    const base::MutexLock lock(mutex_);
    channel_.reset();
    unsent_.clear();
    pid_ = -1;
  }
  End end;
  if (verdict) {
    end = *verdict;
  } else {
    end = {ReplyCode::crashed, "its process " + how + currentCall()};
    if (const std::string tail = output_.tail(); !tail.empty()) end.message += ": " + tail;
  }
  end.message = fileOf(path_) + ": " + end.message;
  return end;
}

/// " during provision, mount": the calls in progress, as a hint at the cause.
std::string HostedProvisioner::currentCall() const {
  const base::MutexLock lock(mutex_);
  std::string out;
  for (const auto& [id, pending] : pending_) {
    const std::string name(toString(pending->slot));
    if (out.find(name) == std::string::npos) out += (out.empty() ? " during " : ", ") + name;
  }
  return out;
}

void HostedProvisioner::goDown(const End& end) {
  std::map<uint64_t, std::shared_ptr<Pending>> failed;
  bool news = false;
  {
    const base::MutexLock lock(mutex_);
    failed.swap(pending_);
    for (auto& [id, pending] : failed) {
      pending->done = true;
      pending->answer = refuse(end.outcome, end.message);
      pending->answered.notify_all();
    }
    if (state_ != ProcessState::retired) {
      news = !until_ && (state_ == ProcessState::up || end_.message != end.message);
      state_ = ProcessState::down;
      end_ = end;
    }
    attempted_ = true;
    firstAttempt_.notify_all();
  }
  if (news && !stop_.stop_requested()) {
    base::log::warn("plugin went down",
                    {{"plugin", fileOf(path_)}, {"outcome", toString(end.outcome)}, {"why", end.message}});
    if (options_.metrics) options_.metrics->add("elasticgpu_plugin_downs_total", 1, {{"plugin", fileOf(path_)}});
  }
  if (news) changed_(*this);
}

/// Serves the process until it ends by itself (nullopt) or must be killed (the reason).
std::optional<HostedProvisioner::End> HostedProvisioner::serve(base::Subprocess& process, const std::stop_token& stop) {
  const auto startBy = steady_clock::now() + options_.startTimeout;
  int output = process.output();
  for (;;) {
    ++rounds_;
    if (stop.stop_requested()) return End{ReplyCode::crashed, "it was stopped"};
    const auto now = steady_clock::now();
    process.reapOrphans();  // each zombie counts against the process limits of the plugin and of this container
    auto next = now + std::chrono::minutes(1);
    if (!upSince_) {
      if (now >= startBy)
        return End{ReplyCode::timeout,
                   "it did not start within " + std::to_string(options_.startTimeout.count()) + " ms"};
      next = startBy;
    }
    if (auto late = overdue(now, next)) return late;
    if (auto over = closed(now, next)) return over;
    short events = POLLIN;
    int channel = -1;
    {
      const base::MutexLock lock(mutex_);
      channel = channel_.get();
      flushLocked();
      if (!unsent_.empty()) events |= POLLOUT;
    }
    pollfd fds[] = {{channel, events, 0},
                    {output, POLLIN, 0},  // -1, which poll ignores, once the plugin has closed its end
                    {process.exited(), POLLIN, 0},
                    {wake_.get(), POLLIN, 0}};
    // Rounded up, to avoid a busy loop in the last millisecond.
    const auto wait = std::chrono::ceil<milliseconds>(next - now);
    if (poll(fds, 4, static_cast<int>(wait.count())) < 0 && errno != EINTR)
      return End{ReplyCode::internal, "poll failed"};
    if (fds[3].revents) {
      uint64_t count;
      [[maybe_unused]] const auto n = ::read(wake_.get(), &count, sizeof count);
    }
    if (fds[1].revents && !takeOutput(output)) output = -1;
    const bool ended = fds[2].revents != 0;  // checked before the socket, because its last bytes still count
    bool hungUp = false;
    if (fds[0].revents || ended) {
      hungUp = !receive(channel);
      if (auto verdict = takeFrames()) return verdict;
    }
    if (hungUp || ended) return std::nullopt;
  }
}

/// Reads the available bytes; false at the end of the stream.
bool HostedProvisioner::receive(int channel) {
  char chunk[64 << 10];
  // A bounded number of rounds, so that a process that floods the socket can't keep the supervisor from its timeouts.
  for (int round = 0; round < 16; ++round) {
    const ssize_t n = ::recv(channel, chunk, sizeof chunk, MSG_DONTWAIT);
    if (n == 0) return false;
    if (n < 0) return errno == EINTR || errno == EAGAIN || errno == EWOULDBLOCK;
    frames_->append(std::string_view(chunk, static_cast<std::size_t>(n)));
    if (static_cast<std::size_t>(n) < sizeof chunk) return true;
  }
  return true;
}

/// Reads the available bytes; false at the end of the stream.
bool HostedProvisioner::takeOutput(int fd) {
  char chunk[16 << 10];
  for (int round = 0; round < 16; ++round) {
    const ssize_t n = ::read(fd, chunk, sizeof chunk);
    if (n == 0) return false;
    if (n < 0) return errno == EINTR || errno == EAGAIN || errno == EWOULDBLOCK;
    output_.append(std::string_view(chunk, static_cast<std::size_t>(n)), steady_clock::now());
  }
  return true;
}

/// While closing: returns an end once calls have outlasted the grace, otherwise lowers `next` to the end of the grace.
std::optional<HostedProvisioner::End> HostedProvisioner::closed(steady_clock::time_point now,
                                                                steady_clock::time_point& next) const {
  const base::MutexLock lock(mutex_);
  if (!until_ || pending_.empty()) return std::nullopt;
  if (now >= *until_) return End{ReplyCode::unavailable, "it was stopped with the controller"};
  next = std::min(next, *until_);
  return std::nullopt;
}

std::optional<HostedProvisioner::End> HostedProvisioner::takeFrames() {
  while (const auto frame = frames_->next()) {
    std::optional<End> verdict;
    if (frame->type == wire::Type::confined && !confined_) {
      verdict = onSandboxReport(frame->body);
    } else if (frame->type == wire::Type::hello && confined_ && !upSince_) {
      verdict = takeHello(frame->body);
    } else if (frame->type == wire::Type::answer && upSince_) {
      verdict = takeAnswer(*frame);
    } else {
      verdict = End{ReplyCode::garbage, "it sent an unexpected frame"};
    }
    if (verdict) return verdict;
  }
  if (frames_->broken()) return End{ReplyCode::garbage, "it sent data that is not a frame"};
  return std::nullopt;
}

/// The host sends this before it loads the plugin; later frames may come from the plugin.
std::optional<HostedProvisioner::End> HostedProvisioner::onSandboxReport(std::string_view body) {
  wire::Confined confined;
  if (!wire::decode(body, confined)) return End{ReplyCode::garbage, "it sent a sandbox report that cannot be read"};
  if (confined.version != wire::kVersion)
    return End{ReplyCode::unavailable, "its host process speaks another wire version"};
  confined_ = std::move(confined.gaps);
  return std::nullopt;
}

std::optional<HostedProvisioner::End> HostedProvisioner::takeHello(std::string_view body) {
  wire::Hello hello;
  if (!wire::decode(body, hello)) return End{ReplyCode::garbage, "it sent a hello that cannot be read"};
  if (!hello.loaded) return End{ReplyCode::unavailable, hello.error};
  Answer described;
  described.description = hello.description;
  if (std::string wrong = findGarbage(Slot::describe, described); !wrong.empty()) return End{ReplyCode::garbage, wrong};
  {
    const base::MutexLock lock(mutex_);
    if (state_ == ProcessState::retired) return End{ReplyCode::unavailable, end_.message};
    if (described_ && !(description_ == hello.description))
      return End{ReplyCode::garbage, "its description changed: it is now " + hello.description.name};
    if (!described_) description_ = std::move(hello.description);  // once, because readers take no lock
    described_ = true;
    state_ = ProcessState::up;
    end_ = {};
    gaps_ = *confined_;
    upSince_ = clock_.now();
  }
  base::log::info("plugin is up",
                  {{"plugin", description_.name}, {"version", description_.version}, {"file", fileOf(path_)}});
  if (!confined_->empty()) base::log::warn("plugin not confined", {{"plugin", description_.name}, {"why", *confined_}});
  changed_(*this);
  const base::MutexLock lock(mutex_);
  attempted_ = true;
  firstAttempt_.notify_all();
  return std::nullopt;
}

std::optional<HostedProvisioner::End> HostedProvisioner::takeAnswer(const wire::Frame& frame) {
  Answer answer;
  if (!wire::decode(frame.body, answer)) return End{ReplyCode::garbage, "it sent an answer that cannot be read"};
  const base::MutexLock lock(mutex_);
  const auto found = pending_.find(frame.id);
  if (found == pending_.end()) return End{ReplyCode::garbage, "it answered a call that was not made"};
  const std::shared_ptr<Pending> pending = found->second;
  pending_.erase(found);
  if (pending->abandoned) {
    ++lateAnswers_;
    return std::nullopt;
  }
  // The plugin can write to the process's memory, so the host's checks are repeated here.
  if (std::string wrong = findGarbage(pending->slot, answer); !wrong.empty())
    answer = refuse(ReplyCode::garbage, wrong);
  pending->answer = std::move(answer);
  pending->done = true;
  pending->answered.notify_all();
  return std::nullopt;
}

/// Returns an end if a call has outlasted its deadline and grace, otherwise lowers `next` to the earliest such time.
std::optional<HostedProvisioner::End> HostedProvisioner::overdue(steady_clock::time_point now,
                                                                 steady_clock::time_point& next) {
  const base::MutexLock lock(mutex_);
  for (const auto& [id, pending] : pending_) {
    if (!pending->abandoned) continue;
    const auto killAt = pending->deadline + options_.grace;
    if (now >= killAt)
      return End{ReplyCode::timeout, "it was killed because " + std::string(toString(pending->slot)) +
                                         " ignored its deadline and " + std::to_string(options_.grace.count()) +
                                         " ms of grace"};
    next = std::min(next, killAt);
  }
  return std::nullopt;
}

}  // namespace egpu::plugin

// A plugin in a process of its own: started, watched, killed and started again by one thread.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "controller/base/clock.h"
#include "controller/base/ids.h"
#include "controller/base/metrics.h"
#include "controller/base/status.h"
#include "controller/base/subprocess.h"
#include "controller/plugin/call.h"
#include "controller/plugin/manifest.h"
#include "controller/plugin/stderr_log.h"
#include "controller/plugin/wire.h"

namespace egpu::plugin {

/// What a plugin's process may use; 0 = whatever the controller may.
struct Limits {
  uint64_t memory = uint64_t{2} << 30;  ///< bytes of address space: threads' stacks and what runtimes reserve count too
  uint64_t files = 256;                 ///< open descriptors
  uint64_t processes = 256;             ///< processes and threads
};

struct HostOptions {
  std::string hostBinary = base::executableFolder() + "/egpu-plugin-host";
  Deadlines deadlines;
  std::chrono::milliseconds startTimeout{15'000};  ///< from spawn to the host's hello
  std::chrono::milliseconds openWait{5'000};       ///< a new registry waits this long for all its plugins together
  std::chrono::milliseconds grace{
      5'000};  ///< a call that runs this much longer than its deadline costs the process its life
  std::chrono::milliseconds backoffFirst{500};  ///< doubled with each failure in a row, half of it at random
  std::chrono::milliseconds backoffMost{60'000};
  std::chrono::milliseconds stableAfter{60'000};  ///< up this long: the back-off begins anew
  std::chrono::milliseconds closeGrace{2'000};    ///< from close(): calls still under way then end with the process
  Limits limits;
  /// Files and folders that the plugin must not read, besides service-account tokens, home folders, kubeconfigs.
  std::vector<std::string> hidden;
  bool traceable = false;            ///< the process may be looked at in /proc by its user: for egpu-sanity
  std::vector<std::string> without;  ///< parts of the sandbox to do without, as if the kernel lacked them: for tests
  /// "NAME=value" for the host process, besides PATH, HOME, LANG, TZ, TMPDIR, LD_LIBRARY_PATH, ELASTICGPU_*, NVIDIA_*
  /// and the sanitizers' options. The controller's other variables, credentials among them, are not passed on.
  std::vector<std::string> env;
  base::Metrics* metrics = nullptr;  ///< borrowed; null: nothing is counted
};

/// States:  starting → up → down → (back-off) → starting …;  any → retired (for good).
/// Closing: calls under way are cancelled and get closeGrace, none is begun, no process is started any more.
/// A call made while not up is answered unavailable at once. Deadlines of calls and the grace run on the machine's
/// monotonic clock, because the plugin's process shares it; the back-off runs on the injected one. Thread-safe.
class HostedProvisioner final : public CallingProvisioner {
 public:
  /// Starts its thread at once. `changed` is called on that thread after each change of state.
  HostedProvisioner(std::string path, HostOptions options, base::Clock& clock, base::Random& random,
                    std::function<void(HostedProvisioner&)> changed);
  ~HostedProvisioner() override;

  const std::string& path() const { return path_; }
  /// Blocks until the first attempt to start has ended, well or ill, or `until` has come. True if it has ended.
  bool waitFirstAttempt(
      std::chrono::steady_clock::time_point until = std::chrono::steady_clock::time_point::max()) const;
  /// True once a plugin described itself; description() then never changes.
  bool described() const;
  const Description& description() const override { return description_; }
  /// When it is ready the message says what its sandbox leaves open, if anything.
  Reply readiness() const;
  /// The controller stops: calls under way are cancelled, those that go on regardless end with the process. Returns at
  /// once.
  void close();
  /// Kills the process for good; every call is answered unavailable with `why`.
  void retire(const std::string& why);

  Answer perform(const Call& call) override;

  // For people and tests.
  pid_t pid() const;                ///< -1 when there is no process
  uint64_t starts() const;          ///< processes started so far
  uint64_t lateAnswers() const;     ///< answers dropped because nobody waited any more
  std::size_t outstanding() const;  ///< calls that the process works on, those included whose callers gave up
  /// How many restarts were put off so far, and for how long the latest.
  std::pair<uint64_t, std::chrono::milliseconds> backoff() const;
  uint64_t rounds() const { return rounds_; }  ///< how often its supervisor was woken

 private:
  enum class State { starting, up, down, retired };
  /// A call that was sent.
  struct Pending {
    Slot slot = Slot::describe;
    std::chrono::steady_clock::time_point deadline;
    bool done = false;
    bool abandoned = false;  ///< its caller gave up; the process still works on it
    Answer answer;
    std::condition_variable answered;
  };
  /// Why a process ended, as its callers and the class's condition will say it.
  struct End {
    ReplyCode outcome = ReplyCode::crashed;
    std::string message;
  };

  void supervise(const std::stop_token& stop);
  End runProcess(const std::stop_token& stop);
  std::optional<End> serve(base::Subprocess& process, const std::stop_token& stop);
  bool receive();
  std::optional<End> takeFrames();
  std::optional<End> takeConfined(std::string_view body);
  std::optional<End> takeHello(std::string_view body);
  std::optional<End> takeAnswer(const wire::Frame& frame);
  std::optional<End> overdue(std::chrono::steady_clock::time_point now, std::chrono::steady_clock::time_point& next);
  std::optional<End> closed(std::chrono::steady_clock::time_point now,
                            std::chrono::steady_clock::time_point& next) const;
  bool takeOutput(int fd);
  std::vector<std::string> command(const Manifest& manifest) const;
  void sendLocked(const std::string& frame);
  void flushLocked();
  void goDown(const End& end);
  std::string during() const;
  std::chrono::milliseconds nextBackoff();
  void wake() const;
  std::vector<std::string> environment() const;
  Answer send(const Call& call);

  const std::string path_;
  const HostOptions options_;
  base::Clock& clock_;
  base::Random& random_;
  const std::function<void(HostedProvisioner&)> changed_;
  base::UniqueFd wake_;  ///< eventfd: the supervisor has something to look at

  // Of the supervisor's thread alone.
  OutputLog output_;
  std::unique_ptr<wire::FrameBuffer> frames_;
  std::optional<std::string> confined_;  ///< what the process's sandbox leaves open, once it has said so
  unsigned failures_ = 0;                ///< in a row
  std::atomic<uint64_t> rounds_{0};
  std::optional<base::Clock::Steady> upSince_;

  mutable std::mutex mutex_;
  // State below is protected by mutex_; description_ is constant once described_.
  mutable std::condition_variable firstAttempt_;
  State state_ = State::starting;
  End end_;  ///< why state_ is down or retired
  bool attempted_ = false;
  bool described_ = false;
  Description description_;
  std::string gaps_;                                            ///< of the process's sandbox
  std::optional<std::chrono::steady_clock::time_point> until_;  ///< closing: calls have until then
  base::UniqueFd channel_;
  std::string unsent_;  ///< what the socket did not take at once
  std::map<uint64_t, std::shared_ptr<Pending>> pending_;
  uint64_t lastId_ = 0;
  pid_t pid_ = -1;
  uint64_t starts_ = 0;
  uint64_t lateAnswers_ = 0;
  std::pair<uint64_t, std::chrono::milliseconds> backoff_{0, 0};

  std::stop_source stop_;  // not the jthread's own: retire may come before supervisor_ is assigned
  std::jthread supervisor_;
};

}  // namespace egpu::plugin

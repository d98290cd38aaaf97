// A plugin in a process of its own. One thread starts, supervises, kills and restarts the process.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "controller/base/clock.h"
#include "controller/base/ids.h"
#include "controller/base/metrics.h"
#include "controller/base/mutex.h"
#include "controller/base/status.h"
#include "controller/base/subprocess.h"
#include "controller/plugin/call.h"
#include "controller/plugin/manifest.h"
#include "controller/plugin/stderr_log.h"
#include "controller/plugin/wire.h"

namespace egpu::plugin {

/// Resource limits of a plugin's process; 0 = the controller's own limits.
struct Limits {
  uint64_t memory = uint64_t{2} << 30;  ///< bytes of address space, including threads' stacks and memory that runtimes
                                        ///< reserve
  uint64_t files = 256;                 ///< open descriptors
  uint64_t processes = 256;             ///< processes and threads
};

struct HostOptions {
  std::string hostBinary = base::executableFolder() + "/egpu-plugin-host";
  Deadlines deadlines;
  std::chrono::milliseconds startTimeout{15'000};  ///< from spawn to the host's hello
  std::chrono::milliseconds openWait{5'000};       ///< total time that a new registry waits for its plugins
  std::chrono::milliseconds grace{5'000};  ///< a call that exceeds its deadline by this much gets the process killed
  std::chrono::milliseconds backoffFirst{500};  ///< doubled with each consecutive failure; half of it is random
  std::chrono::milliseconds maxBackoff{60'000};
  std::chrono::milliseconds stableAfter{60'000};  ///< up for this long: the backoff starts over
  std::chrono::milliseconds closeGrace{2'000};    ///< after close(): time until the process ends together with its
                                                  ///< running calls
  Limits limits;
  /// Files and folders that the plugin must not read, besides service account tokens, home folders and kubeconfigs.
  std::vector<std::string> hidden;
  bool traceable = false;            ///< the user of the process may inspect it in /proc: for egpu-sanity
  std::vector<std::string> without;  ///< parts of the sandbox to skip, as if the kernel lacked them: for tests
  /// "NAME=value" for the host process, besides PATH, HOME, LANG, TZ, TMPDIR, LD_LIBRARY_PATH, ELASTICGPU_*, NVIDIA_*
  /// and the sanitizers' options. The controller's other variables, which include credentials, are not passed on.
  std::vector<std::string> env;
  base::Metrics* metrics = nullptr;  ///< borrowed; null: no metrics
};

/// States:  starting → up → down → (backoff) → starting …;  any → retired (final). Closing: running calls are cancelled
/// and get closeGrace; no call and no process is started. A call in a state other than up returns unavailable
/// immediately. Deadlines and the grace use the machine's monotonic clock, because the plugin's process shares it; the
/// backoff uses the injected clock. Thread-safe.
class HostedProvisioner final : public CallingProvisioner {
 public:
  /// Starts the supervising thread. `changed` is called on that thread after each change of state.
  HostedProvisioner(std::string path, HostOptions options, base::Clock& clock, base::Random& random,
                    std::function<void(HostedProvisioner&)> changed);
  ~HostedProvisioner() override;

  const std::string& path() const { return path_; }
  /// Blocks until the first start attempt has succeeded or failed, or until `until`. True if the attempt has ended.
  bool waitFirstAttempt(
      std::chrono::steady_clock::time_point until = std::chrono::steady_clock::time_point::max()) const;
  /// True once a plugin has described itself; description() never changes afterwards.
  bool described() const;
  const Description& description() const override { return description_; }
  /// When the plugin is ready, the message lists the gaps of its sandbox, if any.
  Reply readiness() const;
  /// Called when the controller stops: cancels running calls; calls that continue regardless end with the process.
  /// Returns immediately.
  void close();
  /// Kills the process permanently; every call returns unavailable with `why`.
  void retire(const std::string& why);

  Answer perform(const Call& call) override;

  // For diagnostics and tests.
  pid_t pid() const;                ///< -1 if there is no process
  uint64_t starts() const;          ///< processes started so far
  uint64_t lateAnswers() const;     ///< answers dropped because the call had timed out
  std::size_t outstanding() const;  ///< calls in progress in the process, including timed-out ones
  /// Number of delayed restarts so far, and the latest delay.
  std::pair<uint64_t, std::chrono::milliseconds> backoff() const;
  uint64_t rounds() const { return rounds_; }  ///< number of wake-ups of the supervisor

 private:
  enum class ProcessState { starting, up, down, retired };
  /// A call that was sent to the process. The mutable members are guarded by mutex_.
  struct Pending {
    Slot slot = Slot::describe;
    std::chrono::steady_clock::time_point deadline;
    bool done = false;
    bool abandoned = false;  ///< its caller has timed out; the process still works on it
    Answer answer;
    std::condition_variable_any answered;
  };
  /// Why a process ended, for its callers and the class's condition.
  struct End {
    ReplyCode outcome = ReplyCode::crashed;
    std::string message;
  };

  void supervise(const std::stop_token& stop);
  End runProcess(const std::stop_token& stop);
  std::optional<End> serve(base::Subprocess& process, const std::stop_token& stop);
  /// `channel`: the descriptor of channel_, which only this thread replaces.
  bool receive(int channel);
  std::optional<End> takeFrames();
  std::optional<End> onSandboxReport(std::string_view body);
  std::optional<End> takeHello(std::string_view body);
  std::optional<End> takeAnswer(const wire::Frame& frame);
  std::optional<End> overdue(std::chrono::steady_clock::time_point now, std::chrono::steady_clock::time_point& next);
  std::optional<End> closed(std::chrono::steady_clock::time_point now,
                            std::chrono::steady_clock::time_point& next) const;
  bool takeOutput(int fd);
  std::vector<std::string> command(const Manifest& manifest) const;
  void sendLocked(const std::string& frame) EGPU_REQUIRES(mutex_);
  void flushLocked() EGPU_REQUIRES(mutex_);
  void goDown(const End& end);
  /// Returns " during CALL" for messages; empty if no call is under way.
  std::string currentCall() const;
  std::chrono::milliseconds nextBackoff();
  void wake() const;
  std::vector<std::string> environment() const;
  Answer send(const Call& call);

  const std::string path_;
  const HostOptions options_;
  base::Clock& clock_;
  base::Random& random_;
  const std::function<void(HostedProvisioner&)> changed_;
  base::UniqueFd wake_;  ///< eventfd that wakes the supervisor

  // Used by the supervisor's thread only.
  OutputLog output_;
  std::unique_ptr<wire::FrameBuffer> frames_;
  std::optional<std::string> confined_;  ///< gaps of the sandbox, once the process has reported them
  unsigned failures_ = 0;                ///< consecutive failures
  std::atomic<uint64_t> rounds_{0};
  std::optional<base::Clock::Steady> upSince_;

  mutable base::Mutex mutex_;
  mutable std::condition_variable_any firstAttempt_;
  ProcessState state_ EGPU_GUARDED_BY(mutex_) = ProcessState::starting;
  End end_ EGPU_GUARDED_BY(mutex_);  ///< why state_ is down or retired
  bool attempted_ EGPU_GUARDED_BY(mutex_) = false;
  bool described_ EGPU_GUARDED_BY(mutex_) = false;
  Description description_;                   ///< written once, with mutex_ held; constant once described_ is true
  std::string gaps_ EGPU_GUARDED_BY(mutex_);  ///< gaps of the process's sandbox
  /// Deadline of running calls while closing.
  std::optional<std::chrono::steady_clock::time_point> until_ EGPU_GUARDED_BY(mutex_);
  base::UniqueFd channel_ EGPU_GUARDED_BY(mutex_);
  std::string unsent_ EGPU_GUARDED_BY(mutex_);  ///< bytes that the socket has not accepted yet
  std::map<uint64_t, std::shared_ptr<Pending>> pending_ EGPU_GUARDED_BY(mutex_);
  uint64_t lastId_ EGPU_GUARDED_BY(mutex_) = 0;
  pid_t pid_ EGPU_GUARDED_BY(mutex_) = -1;
  uint64_t starts_ EGPU_GUARDED_BY(mutex_) = 0;
  uint64_t lateAnswers_ EGPU_GUARDED_BY(mutex_) = 0;
  std::pair<uint64_t, std::chrono::milliseconds> backoff_ EGPU_GUARDED_BY(mutex_){0, 0};

  std::stop_source stop_;  // not the jthread's own: retire may be called before supervisor_ is assigned
  std::jthread supervisor_;
};

}  // namespace egpu::plugin

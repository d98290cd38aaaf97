// The client's credentials and trusted authorities, kept up to date: reads replaced token and certificate files again,
// and runs credential plugins again when their credentials expire.
#pragma once

#include <chrono>
#include <condition_variable>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>

#include "controller/base/clock.h"
#include "controller/base/mutex.h"
#include "controller/base/status.h"
#include "controller/base/timestamp.h"
#include "controller/kube/config/endpoint.h"
#include "controller/kube/config/exec_plugin.h"

namespace egpu::kube {

/// Immutable; requests in progress keep the instance that they started with.
struct Credentials {
  std::string token;             ///< bearer; empty = none
  std::string authorities;       ///< PEM; empty = the system's bundle
  std::string certificate, key;  ///< PEM, of the client; empty = none
  bool operator==(const Credentials&) const = default;
};
using CredentialsPtr = std::shared_ptr<const Credentials>;

/// Thread-safe. `clock` must outlive it; no call may be in progress when it is destroyed, which ends a running plugin.
/// Reads files again after a minute, and immediately after a refusal. Keeps the previous contents if a file can't be
/// read or is empty, or if certificate and key do not match (between the writes of the two).
class CredentialSource {
 public:
  using Deadline = std::chrono::steady_clock::time_point;
  CredentialSource(Endpoint endpoint, base::Clock& clock, ExecLimits limits = {});

  /// Blocks only while a plugin runs; the plugin continues beyond `until` for the next caller. Code::unavailable
  /// reports the unreadable file or the plugin's failure. A failed plugin runs again after a backoff of one second,
  /// doubling up to 30.
  base::Result<CredentialsPtr> current(Deadline until, std::stop_token stop);
  /// Called after the server refused these credentials (401). Reads all files again, and runs the plugin again unless
  /// another refusal caused a run within ten seconds. Returns the credentials for one retry; null if they are
  /// unchanged.
  CredentialsPtr refused(const CredentialsPtr& used, Deadline until, std::stop_token stop);
  /// Called after a failed connection, because a certificate may have caused it: the next request reads the files
  /// again.
  void suspect();

 private:
  using Steady = base::Clock::Steady;
  // The read…() functions return whether a value is available, new or old, and append errors to `why`.
  base::Status readFiles() EGPU_REQUIRES(mutex_);
  bool readToken(std::string& why) EGPU_REQUIRES(mutex_);
  bool readAuthorities(std::string& why) EGPU_REQUIRES(mutex_);
  bool readPair(std::string& why) EGPU_REQUIRES(mutex_);
  bool pluginDue() const EGPU_REQUIRES(mutex_);
  base::Status askPlugin(Deadline until, const std::stop_token& stop) EGPU_REQUIRES(mutex_);
  void take(std::string& into, std::string text) EGPU_REQUIRES(mutex_);

  void pluginEnded(base::Result<codec::ExecCredential> answer);

  const Endpoint endpoint_;
  base::Clock& clock_;
  const ExecLimits limits_;
  base::Mutex mutex_;
  std::condition_variable_any changed_;               ///< notified when a plugin ends
  CredentialsPtr published_ EGPU_GUARDED_BY(mutex_);  ///< null: rebuild it from the fields below
  std::string token_ EGPU_GUARDED_BY(mutex_);
  std::string authorities_ EGPU_GUARDED_BY(mutex_);
  std::string certificate_ EGPU_GUARDED_BY(mutex_);
  std::string key_ EGPU_GUARDED_BY(mutex_);
  bool readAgain_ EGPU_GUARDED_BY(mutex_) = true;
  Steady readAt_ EGPU_GUARDED_BY(mutex_){};
  std::string warned_ EGPU_GUARDED_BY(mutex_);                          ///< last logged message about the files
  std::optional<codec::ExecCredential> given_ EGPU_GUARDED_BY(mutex_);  ///< credentials from the plugin
  std::optional<base::Timestamp> givenUntil_ EGPU_GUARDED_BY(mutex_);
  bool pluginRuns_ EGPU_GUARDED_BY(mutex_) = false;
  Steady pluginRan_ EGPU_GUARDED_BY(mutex_){};
  base::Status pluginFailed_ EGPU_GUARDED_BY(mutex_);
  std::chrono::milliseconds pluginPause_ EGPU_GUARDED_BY(mutex_){0};  ///< backoff after that failure
  bool givenRefused_ EGPU_GUARDED_BY(mutex_) = false;
  std::optional<Steady> refusedAt_ EGPU_GUARDED_BY(mutex_);  ///< time of the last refusal that triggered a plugin run

  std::jthread plugin_ EGPU_GUARDED_BY(mutex_);  ///< one run; last, because it uses all members above
};

}  // namespace egpu::kube

// What requests prove themselves with and whom they trust, kept fresh: tokens and certificates are replaced in their
// files while we run, and credential plugins are asked again when what they gave has run out.
#pragma once

#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>

#include "controller/base/clock.h"
#include "controller/base/status.h"
#include "controller/base/timestamp.h"
#include "controller/kube/config/endpoint.h"
#include "controller/kube/config/exec_plugin.h"

namespace egpu::kube {

/// Never changes; requests under way keep the one they began with.
struct Credentials {
  std::string token;             ///< bearer; empty = none
  std::string authorities;       ///< PEM; empty = the system's bundle
  std::string certificate, key;  ///< PEM, of the client; empty = none
  bool operator==(const Credentials&) const = default;
};
using CredentialsPtr = std::shared_ptr<const Credentials>;

/// Thread-safe. `clock` must outlive it; no call may be under way when it is destroyed, which ends a running plugin.
/// Files are read again when a minute old, and at once after a refusal. One that can't be read or is empty, and a
/// certificate beside another one's key (a pair caught between two writes), leave what was read before.
class CredentialSource {
 public:
  using Deadline = std::chrono::steady_clock::time_point;
  CredentialSource(Endpoint endpoint, base::Clock& clock, ExecLimits limits = {});

  /// Blocks only while a plugin runs, which goes on beyond `until` for the next caller. Code::unavailable says what
  /// can't be read or why the plugin failed; a plugin that failed is left alone for a second, doubling up to 30.
  base::Result<CredentialsPtr> current(Deadline until, std::stop_token stop);
  /// The server refused these (401): everything is read again, and a plugin asked again unless that was done for
  /// another refusal within ten seconds. The credentials to try once more with; null if there are no others.
  CredentialsPtr refused(const CredentialsPtr& used, Deadline until, std::stop_token stop);
  /// A connection failed, perhaps for a certificate's sake: files are read again for the next request.
  void suspect();

 private:
  using Steady = base::Clock::Steady;
  // All with mutex_ held. The read…() say whether there is something to use, new or old, and add to `why` what is
  // wrong.
  base::Status readFiles();
  bool readToken(std::string& why);
  bool readAuthorities(std::string& why);
  bool readPair(std::string& why);
  bool pluginDue() const;
  base::Status askPlugin(std::unique_lock<std::mutex>& lock, Deadline until, const std::stop_token& stop);
  void take(std::string& into, std::string text);

  void pluginEnded(base::Result<codec::ExecCredential> answer);

  const Endpoint endpoint_;
  base::Clock& clock_;
  const ExecLimits limits_;
  // Protected by mutex_:
  std::mutex mutex_;
  std::condition_variable_any changed_;  ///< a plugin has ended
  CredentialsPtr published_;             ///< null: made anew of what follows
  std::string token_, authorities_, certificate_, key_;
  bool readAgain_ = true;
  Steady readAt_{};
  std::string warned_;                          ///< the last thing logged about the files
  std::optional<codec::ExecCredential> given_;  ///< by the plugin
  std::optional<base::Timestamp> givenUntil_;
  bool pluginRuns_ = false;
  Steady pluginRan_{};
  base::Status pluginFailed_;
  std::chrono::milliseconds pluginPause_{0};  ///< after that failure
  bool givenRefused_ = false;
  std::optional<Steady> refusedAt_;  ///< when a refusal last had the plugin asked

  std::jthread plugin_;  ///< one run; last, because it uses all above
};

}  // namespace egpu::kube

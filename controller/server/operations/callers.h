// Authenticates and authorizes callers: the API server reviews the token, and the caller's right to get ElasticGPUs, or
// to list the claims of a namespace.
#pragma once

#include <array>
#include <chrono>
#include <condition_variable>
#include <map>
#include <stop_token>
#include <string>
#include <string_view>
#include <utility>

#include "controller/base/clock.h"
#include "controller/base/mutex.h"
#include "controller/kube/client.h"

namespace egpu::server {

/// Thread-safe. `client` should have a short timeout, because a caller waits for the answer.
class Callers {
 public:
  Callers(kube::Client& client, const base::Clock& clock) : client_(client), clock_(clock) {}

  struct CallerVerdict {
    int status = 200;     ///< or 401, 403, 503
    std::string message;  ///< the missing right, or the error
  };
  /// Checks the request's Authorization header with a TokenReview and a SubjectAccessReview (get, elasticgpus of
  /// elasticgpu.io, all of them). Caches a positive answer for kAllowed and a negative one for kRefused. Limits reviews
  /// of unknown tokens to kAtOnce in parallel and kPerSecond, so that forged tokens can't overload the API server;
  /// requests beyond that get 503. A token that was allowed within kLately is outside these limits, with one review at
  /// a time, so that forged tokens can't lock it out.
  CallerVerdict check(std::string_view authorization, std::stop_token stop) {
    return check(authorization, {}, std::move(stop));
  }
  /// Checks instead the right to list the elasticgpuclaims of a namespace (not empty), with the same caches and limits.
  CallerVerdict checkTenant(std::string_view authorization, std::string_view space, std::stop_token stop) {
    return check(authorization, space, std::move(stop));
  }

  static constexpr std::chrono::seconds kAllowed{60};
  static constexpr std::chrono::seconds kRefused{10};
  static constexpr std::chrono::seconds kLately{600};
  static constexpr int kAtOnce = 4;
  static constexpr int kPerSecond = 50;

 private:
  /// SHA-256 of a token and of the namespace that is asked for, so that tokens are not stored.
  using Digest = std::array<unsigned char, 32>;
  struct KnownToken {
    CallerVerdict verdict;
    base::Clock::Steady until;   ///< end of the verdict's validity
    base::Clock::Steady lately;  ///< end of the entry
    bool asking = false;         ///< a new review is in progress
  };
  KnownToken* known(const Digest& digest) EGPU_REQUIRES(mutex_);
  bool mayAsk() EGPU_REQUIRES(mutex_);
  CallerVerdict check(std::string_view authorization, std::string_view space, std::stop_token stop);
  CallerVerdict review(const std::string& token, std::string_view space, std::stop_token stop);
  base::Result<std::string> ask(const std::string& path, std::string body, std::stop_token stop);
  void remember(const Digest& digest, const CallerVerdict& verdict) EGPU_REQUIRES(mutex_);

  kube::Client& client_;
  const base::Clock& clock_;
  base::Mutex mutex_;
  std::condition_variable_any answered_;
  std::map<Digest, KnownToken> known_ EGPU_GUARDED_BY(mutex_);
  int asking_ EGPU_GUARDED_BY(mutex_) = 0;
  /// Start of the current second, in which asked_ reviews began.
  base::Clock::Steady second_ EGPU_GUARDED_BY(mutex_){};
  int asked_ EGPU_GUARDED_BY(mutex_) = 0;
};

}  // namespace egpu::server

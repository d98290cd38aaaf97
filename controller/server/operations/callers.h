// Who may ask: the API server is asked whose token it is and whether that caller may read ElasticGPUs.
#pragma once

#include <array>
#include <chrono>
#include <condition_variable>
#include <map>
#include <mutex>
#include <stop_token>
#include <string>
#include <string_view>

#include "controller/base/clock.h"
#include "controller/kube/client.h"

namespace egpu::server {

/// Thread-safe. `client` should give up soon: somebody waits for the answer.
class Callers {
 public:
  Callers(kube::Client& client, const base::Clock& clock) : client_(client), clock_(clock) {}

  struct Verdict {
    int status = 200;     ///< or 401, 403, 503
    std::string message;  ///< what is needed, or what is wrong
  };
  /// By the request's Authorization header. Asks with a TokenReview and a SubjectAccessReview (get, elasticgpus of
  /// elasticgpu.io, all of them), unless it was answered within kAllowed or kRefused. At most kAtOnce are asked at a
  /// time and kPerSecond in a second, so that forged tokens can't be turned against the API server; the others get 503.
  /// A token that was allowed within kLately is asked about besides, once at a time: forged ones don't keep it out.
  Verdict check(std::string_view authorization, std::stop_token stop);

  static constexpr std::chrono::seconds kAllowed{60};
  static constexpr std::chrono::seconds kRefused{10};
  static constexpr std::chrono::seconds kLately{600};
  static constexpr int kAtOnce = 4;
  static constexpr int kPerSecond = 50;

 private:
  using Digest = std::array<unsigned char, 32>;  ///< of a token, so that no token is kept
  struct Known {
    Verdict verdict;
    base::Clock::Steady until;   ///< it counts
    base::Clock::Steady lately;  ///< until then it is kept
    bool asking = false;         ///< again
  };
  Known* known(const Digest& digest);
  bool mayAsk();
  Verdict review(const std::string& token, std::stop_token stop);
  base::Result<std::string> ask(const std::string& path, std::string body, std::stop_token stop);
  void remember(const Digest& digest, const Verdict& verdict);

  kube::Client& client_;
  const base::Clock& clock_;
  std::mutex mutex_;
  std::condition_variable_any answered_;
  std::map<Digest, Known> known_;  ///< protected by mutex_, as is
  int asking_ = 0;
  base::Clock::Steady second_{};  ///< a second begins, in which so many were asked:
  int asked_ = 0;
};

}  // namespace egpu::server

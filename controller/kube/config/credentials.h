// The bearer token of an endpoint, fresh: service-account tokens are replaced in their file every hour.
#pragma once

#include <mutex>
#include <string>

#include "controller/base/clock.h"
#include "controller/kube/config/endpoint.h"

namespace egpu::kube {

/// Thread-safe. `clock` must outlive it.
class TokenSource {
 public:
  TokenSource(const Endpoint& endpoint, base::Clock& clock);
  /// The token, or empty. From the file if it was last read a minute or longer ago; one that can't be read leaves the
  /// last token.
  std::string current();
  /// The server refused this token (401): true if there is another one now, worth a second try.
  bool refused(const std::string& token);

 private:
  void read();

  const std::string file_;
  base::Clock& clock_;
  // Protected by mutex_:
  std::mutex mutex_;
  std::string token_;
  base::Clock::Steady readAt_{};
};

}  // namespace egpu::kube

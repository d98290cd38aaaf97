// A transport between a client and its server: counts answers, lets the test act before a request, breaks streams.
#pragma once

#include <algorithm>
#include <condition_variable>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "controller/kube/transport/transport.h"

namespace egpu::kube {

/// Thread-safe.
class WatchedTransport final : public Transport {
 public:
  explicit WatchedTransport(Transport& real) : real_(real) {}

  base::Result<HttpResponse> perform(const HttpRequest& request, std::stop_token stop) override {
    if (before) before(request);
    auto answer = real_.perform(request, std::move(stop));
    note(request, answer);
    return answer;
  }
  base::Result<HttpResponse> stream(const HttpRequest& request, const std::function<bool(std::string_view)>& data,
                                    std::stop_token stop) override {
    std::stop_source own;
    std::stop_callback forward(stop, [&own] { own.request_stop(); });
    {
      std::unique_lock lock(mutex_);
      if (!changed_.wait(lock, stop, [this] { return !held_; })) return base::Status(base::Code::cancelled, "stopped");
      streams_.push_back(&own);
    }
    auto answer = real_.stream(request, data, own.get_token());
    note(request, answer);
    std::lock_guard lock(mutex_);
    std::erase(streams_, &own);
    changed_.notify_all();
    if (own.stop_requested() && !stop.stop_requested()) return base::Status(base::Code::unknownOutcome, "cut");
    return answer;
  }

  /// Breaks every open stream; new ones wait for join(). Returns when all have ended.
  void cut() {
    std::unique_lock lock(mutex_);
    held_ = true;
    for (auto* each : streams_) each->request_stop();
    changed_.wait(lock, [this] { return streams_.empty(); });
  }
  void join() {
    std::lock_guard lock(mutex_);
    held_ = false;
    changed_.notify_all();
  }
  /// Number of answers with this HTTP status.
  int answered(int status) const {
    std::lock_guard lock(mutex_);
    const auto it = statuses_.find(status);
    return it == statuses_.end() ? 0 : it->second;
  }
  std::vector<std::string> targets() const {
    std::lock_guard lock(mutex_);
    return targets_;
  }
  /// Headers of the last answer with this status.
  Headers headersOf(int status) const {
    std::lock_guard lock(mutex_);
    const auto it = headers_.find(status);
    return it == headers_.end() ? Headers{} : it->second;
  }
  std::function<void(const HttpRequest&)> before;  ///< set only while no request is in flight

 private:
  void note(const HttpRequest& request, const base::Result<HttpResponse>& answer) {
    std::lock_guard lock(mutex_);
    targets_.push_back(request.target);
    if (!answer) return;
    ++statuses_[answer->status];
    headers_[answer->status] = answer->headers;
  }
  Transport& real_;
  mutable std::mutex mutex_;
  std::condition_variable_any changed_;
  bool held_ = false;
  std::vector<std::stop_source*> streams_;
  std::map<int, int> statuses_;
  std::map<int, Headers> headers_;
  std::vector<std::string> targets_;
};

}  // namespace egpu::kube

// A scripted API server for the real client: answers are given in order, every request is recorded, and the test feeds
// the streams.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "controller/kube/transport/transport.h"

namespace egpu::kube {

/// One answer of stream() that a test feeds while it is open. Thread-safe.
class FakeStream {
 public:
  void send(std::string chunk) { push(std::move(chunk), std::nullopt); }
  void sendLine(std::string line) { send(std::move(line) + "\n"); }
  /// Ends the stream cleanly.
  void end() { push({}, base::Status::okay()); }
  /// Breaks the connection.
  void fail(base::Status status) { push({}, std::move(status)); }
  /// Blocks until the stream's reader has consumed all data sent so far or has stopped.
  void waitDrained() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return left_ || (chunks_.empty() && !busy_); });
  }

 private:
  friend class FakeTransport;
  void push(std::string chunk, std::optional<base::Status> end) {
    std::lock_guard lock(mutex_);
    if (!chunk.empty()) chunks_.push_back(std::move(chunk));
    if (end) end_ = std::move(end);
    changed_.notify_all();
  }
  base::Result<HttpResponse> read(const std::function<bool(std::string_view)>& data, const std::stop_token& stop) {
    std::unique_lock lock(mutex_);
    base::Status result;
    for (;;) {
      if (!changed_.wait(lock, stop, [&] { return !chunks_.empty() || end_; })) {
        result = base::Status(base::Code::cancelled, "stopped");
        break;
      }
      if (chunks_.empty()) {
        result = *end_;
        break;
      }
      const std::string chunk = std::move(chunks_.front());
      chunks_.pop_front();
      busy_ = true;
      lock.unlock();
      const bool more = data(chunk);
      lock.lock();
      busy_ = false;
      changed_.notify_all();
      if (!more) break;
    }
    left_ = true;
    changed_.notify_all();
    if (!result.ok()) return result;
    HttpResponse response;
    response.status = 200;
    return response;
  }
  // Protected by mutex_:
  std::mutex mutex_;
  std::condition_variable_any changed_;
  std::deque<std::string> chunks_;
  std::optional<base::Status> end_;
  bool busy_ = false;  ///< the reader processes a chunk
  bool left_ = false;
};

/// Thread-safe. Scripted answers are used in order, separately for perform() and stream(). After the last one,
/// onPerform/onStream answers. Without these a call blocks until it is stopped or an answer is scripted.
class FakeTransport final : public Transport {
 public:
  using Handler = std::function<base::Result<HttpResponse>(const HttpRequest&)>;

  static HttpResponse response(int status, std::string body, Headers headers = {}) {
    HttpResponse r;
    r.status = status;
    r.headers = std::move(headers);
    r.body = std::move(body);
    return r;
  }

  void reply(int status, std::string body, Headers headers = {}) {
    script(response(status, std::move(body), std::move(headers)));
  }
  void fail(base::Code code, std::string message = "injected") { script(base::Status(code, std::move(message))); }
  void script(base::Result<HttpResponse> answer) {
    std::lock_guard lock(mutex_);
    answers_.push_back(std::move(answer));
    changed_.notify_all();
  }
  void onPerform(Handler handler) {
    std::lock_guard lock(mutex_);
    onPerform_ = std::move(handler);
    changed_.notify_all();
  }

  /// Lets the next stream() open this stream.
  std::shared_ptr<FakeStream> openStream() {
    auto stream = std::make_shared<FakeStream>();
    std::lock_guard lock(mutex_);
    streams_.push_back({std::nullopt, stream});
    changed_.notify_all();
    return stream;
  }
  /// Lets the next stream() return this complete answer (an error status), or fail.
  void replyStream(int status, std::string body, Headers headers = {}) {
    scriptStream(response(status, std::move(body), std::move(headers)));
  }
  void failStream(base::Code code, std::string message = "injected") {
    scriptStream(base::Status(code, std::move(message)));
  }

  base::Result<HttpResponse> perform(const HttpRequest& request, std::stop_token stop) override {
    std::unique_lock lock(mutex_);
    note(request);
    if (!changed_.wait(lock, stop, [&] { return !answers_.empty() || onPerform_; }))
      return base::Status(base::Code::cancelled, "stopped");
    if (answers_.empty()) {
      const Handler handler = onPerform_;
      lock.unlock();
      return handler(request);
    }
    auto answer = std::move(answers_.front());
    answers_.pop_front();
    return answer;
  }

  base::Result<HttpResponse> stream(const HttpRequest& request, const std::function<bool(std::string_view)>& data,
                                    std::stop_token stop) override {
    std::unique_lock lock(mutex_);
    note(request);
    if (!changed_.wait(lock, stop, [&] { return !streams_.empty(); }))
      return base::Status(base::Code::cancelled, "stopped");
    auto next = std::move(streams_.front());
    streams_.pop_front();
    lock.unlock();
    if (next.answer) return *next.answer;
    return next.stream->read(data, stop);
  }

  std::vector<HttpRequest> requests() const {
    std::lock_guard lock(mutex_);
    return requests_;
  }
  HttpRequest request(std::size_t i) const {
    std::lock_guard lock(mutex_);
    return requests_.at(i);
  }
  /// Blocks until `n` requests have arrived in total.
  void waitForRequests(std::size_t n) const {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return requests_.size() >= n; });
  }

 private:
  struct StreamAnswer {
    std::optional<base::Result<HttpResponse>> answer;
    std::shared_ptr<FakeStream> stream;
  };
  void scriptStream(base::Result<HttpResponse> answer) {
    std::lock_guard lock(mutex_);
    streams_.push_back({std::move(answer), nullptr});
    changed_.notify_all();
  }
  void note(const HttpRequest& request) {
    requests_.push_back(request);
    changed_.notify_all();
  }
  // Protected by mutex_:
  mutable std::mutex mutex_;
  mutable std::condition_variable_any changed_;
  std::deque<base::Result<HttpResponse>> answers_;
  std::deque<StreamAnswer> streams_;
  Handler onPerform_;
  std::vector<HttpRequest> requests_;
};

}  // namespace egpu::kube

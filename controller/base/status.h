// Status and Result: the outcome of operations that can fail. Exceptions do not cross module boundaries.
#pragma once

#include <chrono>
#include <cstdlib>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

namespace egpu::base {

/// Kind of failure. Failures that the caller can handle differently have different codes.
enum class Code {
  ok,
  invalid,         ///< 400/422: the request can't succeed unless it is changed
  unauthorized,    ///< 401
  forbidden,       ///< 403
  notFound,        ///< 404
  alreadyExists,   ///< 409 AlreadyExists
  conflict,        ///< 409 Conflict: read again and recompute
  expired,         ///< 410: the resourceVersion is too old, list again
  tooLarge,        ///< 504 ResourceVersionTooLarge: the server has not seen that version yet
  throttled,       ///< 429 after all retries
  unavailable,     ///< nothing was sent, or the server answered 5xx: probably not applied, may be retried
  unknownOutcome,  ///< sent, but no answer arrived: may or may not have been applied
  cancelled,       ///< a stop was requested
  deadline,        ///< the caller's own deadline passed
  malformed,       ///< the answer can't be parsed
  internal,
};
std::string_view toString(Code code);

class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(Code code, std::string message) : code_(code), message_(std::move(message)) {}
  static Status okay() { return {}; }

  bool ok() const { return code_ == Code::ok; }
  Code code() const { return code_; }
  const std::string& message() const { return message_; }
  /// Returns "ok", or code and message such as "conflict: the object has been modified".
  std::string str() const;

  int http = 0;                                         ///< HTTP status if one was received
  std::string reason;                                   ///< Kubernetes Status.reason if one was received
  std::optional<std::chrono::milliseconds> retryAfter;  ///< delay that the server asked for, if any

 private:
  Code code_ = Code::ok;
  std::string message_;
};

/// A value, or the Status that explains why there is none.
template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : v_(std::in_place_index<0>, std::move(value)) {}        // NOLINT(google-explicit-constructor)
  Result(Status status) : v_(std::in_place_index<1>, std::move(status)) {  // NOLINT(google-explicit-constructor)
    if (std::get<1>(v_).ok()) std::abort();                                // a Result without a value needs an error
  }
  bool ok() const { return v_.index() == 0; }
  explicit operator bool() const { return ok(); }
  const Status& status() const {
    static const Status good;
    return ok() ? good : std::get<1>(v_);
  }
  T& value() & { return std::get<0>(v_); }
  const T& value() const& { return std::get<0>(v_); }
  T&& value() && { return std::get<0>(std::move(v_)); }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T&& operator*() && { return std::move(*this).value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }

 private:
  std::variant<T, Status> v_;
};

}  // namespace egpu::base

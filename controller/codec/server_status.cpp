// Decodes the error responses of a Kubernetes API server.
#include "controller/codec/codec.h"
#include "controller/codec/fields_core.h"
#include "controller/codec/json/reader.h"

namespace egpu::codec {

namespace internal {

namespace {

struct Cause {
  std::string reason, message, field;
};
/// Kubernetes Status object.
struct ServerStatus {
  std::string kind, message, reason;
  int64_t code = 0;
  int64_t retryAfterSeconds = 0;
  std::vector<Cause> causes;
};

}  // namespace

static void fields(auto& v, Is<Cause> auto& o) {
  v("reason", o.reason);
  v("message", o.message);
  v("field", o.field);
}

static void fields(auto& v, Is<ServerStatus> auto& o) {
  v("kind", o.kind);
  v("message", o.message);
  v("reason", o.reason);
  v("code", o.code);
  v.object("details", [&] {
    v("retryAfterSeconds", o.retryAfterSeconds);
    v("causes", o.causes);
  });
}

/// Returns the Status in the body, or a Status with the body's text as its message.
static ServerStatus fromBody(std::string_view body) {
  constexpr std::string_view blank = " \t\r\n";
  const auto from = body.find_first_not_of(blank);
  if (from == std::string_view::npos) return {};
  body = body.substr(from, body.find_last_not_of(blank) + 1 - from);
  ServerStatus status;
  if (body.front() == '{') {
    Failure failure;
    Reader reader(failure);
    if (reader.document(body, [&] { fields(reader, status); }) && status.kind == "Status") return status;
  }
  constexpr std::size_t enough = 500;
  status = {};
  status.message = body.substr(0, enough);
  return status;
}

static base::Code codeOf(int http, const ServerStatus& status) {
  for (const auto& cause : status.causes)
    if (cause.reason == "ResourceVersionTooLarge") return base::Code::tooLarge;
  switch (http) {
    case 400:
    case 405:
    case 406:
    case 413:
    case 415:
    case 422:
      return base::Code::invalid;
    case 401:
      return base::Code::unauthorized;
    case 403:
      return base::Code::forbidden;
    case 404:
      return base::Code::notFound;
    case 409:
      return status.reason == "AlreadyExists" ? base::Code::alreadyExists : base::Code::conflict;
    case 410:
      return base::Code::expired;
    case 429:
      return base::Code::throttled;
    default:
      break;
  }
  if (http >= 500 && http < 600) return base::Code::unavailable;
  if (http >= 400 && http < 500) return base::Code::invalid;
  return base::Code::malformed;  // an error with an HTTP status that is not one of errors
}

static base::Status toStatus(int http, const ServerStatus& status) {
  std::string message = status.message.empty() ? "the server answered " + std::to_string(http) : status.message;
  // Servers include most causes in the message. Append those that are missing.
  for (const auto& cause : status.causes) {
    if (!cause.message.empty() && message.find(cause.message) == std::string::npos)
      message += "; " + (cause.field.empty() ? cause.message : cause.field + ": " + cause.message);
    else if (!cause.field.empty() && message.find(cause.field) == std::string::npos)
      message += "; " + cause.field;
  }
  base::Status out(codeOf(http, status), std::move(message));
  out.http = http;
  out.reason = status.reason;
  constexpr int64_t max = int64_t{24} * 3600;
  if (status.retryAfterSeconds > 0)
    out.retryAfter = std::chrono::seconds(status.retryAfterSeconds < max ? status.retryAfterSeconds : max);
  return out;
}

bool readServerStatus(Value& value, base::Status& out, Failure& f) {
  ServerStatus status;
  if (!read(value, status, f)) return false;
  if (status.kind != "Status") return f.is("is not a Status");
  out = toStatus(static_cast<int>(status.code), status);
  return true;
}

}  // namespace internal

base::Status decodeStatus(int http, std::string_view body) {
  return internal::toStatus(http, internal::fromBody(body));
}

}  // namespace egpu::codec

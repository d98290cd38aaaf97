// Lists' metadata, and what a server says when it does not do what was asked.
#include "controller/codec/decode_object.h"

namespace egpu::codec {

namespace internal {

bool readListMeta(Value& value, ListMeta& out, Failure& f) {
  return eachField(value, f, [&](std::string_view key, Value& v) {
    if (key == "resourceVersion") return read(v, out.resourceVersion, f);
    if (key == "continue") return read(v, out.continueToken, f);
    if (key == "remainingItemCount") return read(v, out.remaining, f);
    return true;
  });
}

bool readEventType(Value& value, EventType& out, Failure& f) {
  std::string_view type;
  if (value.get_string().get(type)) return f.is("must be a string");
  if (type == "ADDED") {
    out = EventType::added;
  } else if (type == "MODIFIED") {
    out = EventType::modified;
  } else if (type == "DELETED") {
    out = EventType::deleted;
  } else if (type == "BOOKMARK") {
    out = EventType::bookmark;
  } else if (type == "ERROR") {
    out = EventType::error;
  } else {
    return f.is("unknown watch event " + std::string(type.substr(0, 40)));
  }
  return true;
}

static bool read(Value& value, ServerStatus::Cause& out, Failure& f) {
  return eachField(value, f, [&](std::string_view key, Value& v) {
    if (key == "reason") return read(v, out.reason, f);
    if (key == "message") return read(v, out.message, f);
    if (key == "field") return read(v, out.field, f);
    return true;
  });
}

/// From is a Value or an object: a watch event holds a Status as a field, a body is one.
template <class From>
static bool readServerStatus(From& from, ServerStatus& out, Failure& f) {
  const bool good = eachField(from, f, [&](std::string_view key, Value& v) {
    if (key == "kind") return read(v, out.kind, f);
    if (key == "status") {
      // Of other kinds it is an object; then the kind says that this is no Status.
      ondemand::json_type type{};
      if (const auto e = v.type().get(type)) return f.is(e);
      return type != ondemand::json_type::string || read(v, out.status, f);
    }
    if (key == "message") return read(v, out.message, f);
    if (key == "reason") return read(v, out.reason, f);
    if (key == "code") return read(v, out.code, f);
    if (key == "details")
      return eachField(v, f, [&](std::string_view inner, Value& w) {
        if (inner == "retryAfterSeconds") return read(w, out.retryAfterSeconds, f);
        if (inner == "causes") {
          out.causes.clear();
          return eachElement(w, f, [&](Value& cause) { return read(cause, out.causes.emplace_back(), f); });
        }
        return true;
      });
    return true;
  });
  return good && (out.kind == "Status" || f.is("is not a Status"));
}

bool read(Value& value, ServerStatus& out, Failure& f) { return readServerStatus(value, out, f); }

/// The Status a body holds, or its text as the message.
static ServerStatus fromBody(std::string_view body) {
  constexpr std::string_view blank = " \t\r\n";
  const auto from = body.find_first_not_of(blank);
  if (from == std::string_view::npos) return {};
  body = body.substr(from, body.find_last_not_of(blank) + 1 - from);
  ServerStatus status;
  if (body.front() == '{') {
    Failure failure;
    Document document(body);
    ondemand::object root;
    if (document.root(root, failure) && readServerStatus(root, status, failure)) return status;
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
  return base::Code::malformed;  // an error by a status that is none
}

base::Status toStatus(int http, const ServerStatus& status) {
  std::string message = status.message.empty() ? "the server answered " + std::to_string(http) : status.message;
  // Servers put most causes into the message already; what is missing there is added.
  for (const auto& cause : status.causes) {
    if (!cause.message.empty() && message.find(cause.message) == std::string::npos)
      message += "; " + (cause.field.empty() ? cause.message : cause.field + ": " + cause.message);
    else if (!cause.field.empty() && message.find(cause.field) == std::string::npos)
      message += "; " + cause.field;
  }
  base::Status out(codeOf(http, status), std::move(message));
  out.http = http;
  out.reason = status.reason;
  constexpr int64_t most = int64_t{24} * 3600;
  if (status.retryAfterSeconds > 0)
    out.retryAfter = std::chrono::seconds(status.retryAfterSeconds < most ? status.retryAfterSeconds : most);
  return out;
}

}  // namespace internal

base::Status decodeStatus(int http, std::string_view body) {
  return internal::toStatus(http, internal::fromBody(body));
}

}  // namespace egpu::codec

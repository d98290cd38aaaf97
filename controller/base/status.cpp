#include "controller/base/status.h"

namespace egpu::base {

std::string_view toString(Code code) {
  switch (code) {
    case Code::ok:
      return "ok";
    case Code::invalid:
      return "invalid";
    case Code::unauthorized:
      return "unauthorized";
    case Code::forbidden:
      return "forbidden";
    case Code::notFound:
      return "not found";
    case Code::alreadyExists:
      return "already exists";
    case Code::conflict:
      return "conflict";
    case Code::expired:
      return "expired";
    case Code::tooLarge:
      return "resource version too large";
    case Code::throttled:
      return "throttled";
    case Code::unavailable:
      return "unavailable";
    case Code::unknownOutcome:
      return "unknown outcome";
    case Code::cancelled:
      return "cancelled";
    case Code::deadline:
      return "deadline exceeded";
    case Code::malformed:
      return "malformed";
    case Code::internal:
      return "internal";
  }
  return "internal";
}

std::string Status::str() const {
  if (ok()) return "ok";
  return std::string(toString(code_)) + ": " + message_;
}

}  // namespace egpu::base

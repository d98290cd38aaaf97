#include "controller/plugin/provisioner.h"

namespace egpu::plugin {

std::string_view toString(ReplyCode outcome) {
  switch (outcome) {
    case ReplyCode::ok:
      return "ok";
    case ReplyCode::inProgress:
      return "in progress";
    case ReplyCode::noChange:
      return "no change";
    case ReplyCode::reschedule:
      return "reschedule";
    case ReplyCode::exists:
      return "exists";
    case ReplyCode::invalid:
      return "invalid";
    case ReplyCode::unavailable:
      return "unavailable";
    case ReplyCode::internal:
      return "internal";
    case ReplyCode::timeout:
      return "timeout";
    case ReplyCode::crashed:
      return "crashed";
    case ReplyCode::garbage:
      return "garbage";
  }
  return "unknown";
}

bool indefinite(ReplyCode outcome) {
  return outcome == ReplyCode::inProgress || outcome == ReplyCode::timeout || outcome == ReplyCode::crashed ||
         outcome == ReplyCode::garbage;
}

}  // namespace egpu::plugin

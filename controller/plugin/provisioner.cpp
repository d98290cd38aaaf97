#include "controller/plugin/provisioner.h"

namespace egpu::plugin {

std::string_view toString(Outcome outcome) {
  switch (outcome) {
    case Outcome::ok:
      return "ok";
    case Outcome::inProgress:
      return "in progress";
    case Outcome::noChange:
      return "no change";
    case Outcome::reschedule:
      return "reschedule";
    case Outcome::exists:
      return "exists";
    case Outcome::invalid:
      return "invalid";
    case Outcome::unavailable:
      return "unavailable";
    case Outcome::internal:
      return "internal";
    case Outcome::timeout:
      return "timeout";
    case Outcome::crashed:
      return "crashed";
    case Outcome::garbage:
      return "garbage";
  }
  return "unknown";
}

bool indefinite(Outcome outcome) {
  return outcome == Outcome::inProgress || outcome == Outcome::timeout || outcome == Outcome::crashed ||
         outcome == Outcome::garbage;
}

}  // namespace egpu::plugin

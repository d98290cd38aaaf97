#include "provisioners/nvidia/xids.h"

#include <algorithm>
#include <iterator>

#include "provisioners/nvidia/nvml.h"

namespace egpu::nvidia {
namespace {

struct XidRow {
  unsigned xid;
  Action action;
  const char* what;
};

constexpr XidRow kRows[] = {
#define EGPU_XID(code, action, what) {code, Action::action, what},
#include "provisioners/nvidia/xid_catalog.inc"
#undef EGPU_XID
};

const XidRow* rowOf(unsigned long long xid) {
  const auto* row = std::find_if(std::begin(kRows), std::end(kRows), [&](const XidRow& r) { return r.xid == xid; });
  return row == std::end(kRows) ? nullptr : row;
}

constexpr const char* kReboot = "reboot the machine, and check its seat and power if it happens again";
constexpr const char* kOperator =
    "see the kernel's log and NVIDIA's list of XIDs; the card is used again after a reset, a reboot or once an "
    "operator sets annotation elasticgpu.io/repaired";

std::string remedyOf(Action action) {
  switch (action) {
    case Action::ignore:
      return "no action is needed";
    case Action::restartApp:
      return "restart the affected program";
    case Action::askDriver:
      return std::string("see nvidia-smi -q; this driver does not tell the agent. If it is a reset: ") + kReset;
    case Action::operatorsWord:
      return kOperator;
    case Action::checkHardware:
      return std::string("check the card's power and seat; ") + kOperator;
    case Action::resetGpu:
      return kReset;
    case Action::rebootNode:
      return kReboot;
  }
  return kOperator;
}

}  // namespace

Action actionOf(unsigned long long xid) {
  const XidRow* row = rowOf(xid);
  return row ? row->action : Action::operatorsWord;
}

bool withdraws(unsigned long long xid) { return actionOf(xid) > Action::restartApp; }

std::string illnessOf(unsigned long long xid) {
  const XidRow* row = rowOf(xid);
  return "Xid" + std::to_string(xid) + ": " +
         (row ? row->what : "the driver reports an error that NVIDIA's catalog does not list") + "; " +
         remedyOf(actionOf(xid));
}

std::string illnessOfRecovery(unsigned action) {
  switch (action) {
    case kRecoveryNone:
      return {};
    case kRecoveryReset:
      return std::string("ResetNeeded: the driver asks for a reset of the card; ") + kReset;
    case kRecoveryReboot:
      return std::string("RebootNeeded: the driver asks for a reboot; ") + kReboot;
    case kRecoveryDrainPeers:
      return "DrainNeeded: the driver asks that traffic between cards ends; end the programs that use several cards of "
             "the node, then see nvidia-smi -q for what else it asks for";
    case kRecoveryDrainAndReset:
      return std::string("ResetNeeded: the card works at reduced capacity; let what runs there end, then reset it: ") +
             kReset;
    case kRecoveryBusReset:
      return std::string("ResetNeeded: the driver asks for a reset of the card through its bus; ") + kReset +
             ", or reboot the machine";
    default:
      return "RecoveryNeeded: the driver asks for recovery action " + std::to_string(action) +
             ", which is not known here; see nvidia-smi -q and NVIDIA's documentation of that driver";
  }
}

}  // namespace egpu::nvidia

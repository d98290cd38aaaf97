// Illnesses that only an event reveals, such as an XID: after the event they can't be read from the card.
//
// The card's condition NeedsRepair records such an illness, with the machine's boot id and the driver version. The
// condition is removed, and probation begins, in one of these cases:
// - the machine has booted since, or the driver has another version
// - a plugin process that reported the event no longer reports it: it has seen the reset
// - an operator acknowledges the repair: the card's annotation elasticgpu.io/repaired names the condition's reason. It
//   covers the error that the condition shows; an error reported since then keeps the card out of use
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "api/core/meta.h"
#include "controller/agent/health/health.h"

namespace egpu::agent::health {

inline constexpr std::string_view kNeedsRepair = "NeedsRepair";  ///< type of the condition

/// True if the reason is an event's: it ends in a digit, such as Xid79.
bool isEvent(std::string_view reason);

/// Result of one check of a card, with its circumstances.
struct Report {
  Finding finding;               ///< without the event
  std::optional<Finding> event;  ///< event that the plugin reports, new or from an earlier check
  bool silent = false;           ///< the plugin answered and reports neither event nor illness
  uint64_t process = 0;          ///< number of the plugin's process; a new process has a new number
  std::string boot;              ///< the machine's boot id
  std::string driver;            ///< driver version
  std::string acknowledgement;   ///< value of the operator's annotation; empty = none
};

/// Result of Repairs::count().
struct Counted {
  Finding finding;
  std::vector<core::Condition> conditions;  ///< conditions of the card, with NeedsRepair updated
  bool acknowledged = false;                ///< the operator's annotation ended the repair
};

/// Not thread-safe. Its state is lost when the agent ends, as are the plugins' processes.
class Repairs {
 public:
  /// Evaluates a report on `card`, and returns the resulting finding and conditions.
  Counted count(const std::string& card, const std::vector<core::Condition>& conditions, const Report& report,
                base::Clock::Wall wall);
  /// Forgets all cards for which `isKnown` returns false.
  void retain(const std::function<bool(const std::string& card)>& isKnown);

 private:
  struct CardRepair {
    /// Latest processes that reported the event for which the card needs repair. Several plugins may find the same card
    /// and report the event, and the plugin that the card is assigned to may change.
    std::set<uint64_t> reporters;
    uint64_t process = 0;   ///< latest process that reported the event
    std::string overruled;  ///< message of this process's event that an operator has acknowledged
  };
  std::map<std::string, CardRepair, std::less<>> known_;  ///< by card
};

}  // namespace egpu::agent::health

// Illnesses that are known by an event alone, such as an XID: after the event no process can read them off the card.
//
// The card's condition NeedsRepair remembers them, with the boot of the machine and the driver that they belong to. It is
// removed, and probation begins, on one of these:
//   the machine has booted since, or the card's driver has another version
//   a process that reported the event reports it no more: it has seen the reset
//   an operator's word: the card's annotation elasticgpu.io/repaired names the condition's reason. The word is for the
//   error that the condition shows: an error that is reported since then keeps the card out
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

inline constexpr std::string_view kNeedsRepair = "NeedsRepair";  ///< the condition's type

/// Whether an event is the reason: a word that ends in a digit, as Xid79.
bool isEvent(std::string_view reason);

/// State of one card at one look, with its circumstances.
struct Report {
  Finding finding;               ///< without the event
  std::optional<Finding> event;  ///< event that the plugin reports, new or from an earlier look
  bool silent = false;           ///< the plugin answered and reports neither event nor illness
  uint64_t process = 0;          ///< process of the plugin; another number is another process
  std::string boot;              ///< the machine's boot id
  std::string driver;            ///< version
  std::string word;              ///< the operator's: the annotation's value
};

/// Result of a report.
struct Counted {
  Finding finding;
  std::vector<core::Condition> conditions;  ///< the card's, with NeedsRepair as it shall be
  bool obeyed = false;                      ///< the operator's word ended the repair
};

/// Not thread-safe. Its memory ends with the agent, as do the plugins' processes.
class Repairs {
 public:
  Counted count(const std::string& card, const std::vector<core::Condition>& conditions, const Report& report,
                base::Clock::Wall wall);
  /// Forgets all cards but these.
  void retain(const std::function<bool(const std::string& card)>& isKnown);

 private:
  struct Known {
    /// Latest processes that reported the event for which the card needs repair. Plugins that find the same card report
    /// it each, and take turns as the card's plugin.
    std::set<uint64_t> reporters;
    uint64_t process = 0;   ///< the last of them
    std::string overruled;  ///< message of the event of this process that an operator has declared over
  };
  std::map<std::string, Known, std::less<>> known_;  ///< by card
};

}  // namespace egpu::agent::health

// Illnesses that are known by an event alone, such as an XID: after the event no process can read them off the card.
//
// The card's condition NeedsRepair remembers them, with the boot of the machine and the driver that they belong to. It is
// removed, and probation begins, on one of these:
//   the machine has booted since, or the card's driver has another version
//   the process that reported the event reports it no more: it has seen the reset
//   an operator's word: the card's annotation elasticgpu.io/repaired names the condition's reason
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "api/core/meta.h"
#include "controller/agent/health/health.h"

namespace egpu::agent::health {

inline constexpr std::string_view kNeedsRepair = "NeedsRepair";  ///< the condition's type

/// Whether an event is the reason: a word that ends in a digit, as Xid79.
bool isEvent(std::string_view reason);

/// Finding of a plugin on one card, with its circumstances.
struct Report {
  Finding finding;
  uint64_t process = 0;  ///< process of the plugin; another number is another process
  std::string boot;      ///< the machine's boot id
  std::string driver;    ///< version
  std::string word;      ///< the operator's: the annotation's value
};

/// Result of a report.
struct Counted {
  Finding finding;
  std::vector<core::Condition> conditions;  ///< the card's, with NeedsRepair as it shall be
};

/// Not thread-safe. Its memory ends with the agent, as do the plugins' processes.
class Repairs {
 public:
  Counted count(const std::string& card, const std::vector<core::Condition>& conditions, const Report& report,
                base::Clock::Wall wall);

 private:
  struct Known {
    bool heard = false;     ///< an event was reported
    uint64_t process = 0;   ///< by this process
    std::string overruled;  ///< message of the event that an operator has declared over
  };
  std::map<std::string, Known, std::less<>> known_;  ///< by card
};

}  // namespace egpu::agent::health

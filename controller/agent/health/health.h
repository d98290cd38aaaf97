// Health of a card: the condition Healthy of its object, which the scheduler and the claims' conditions read.
//
//   none ──────── well ────────► True Working
//   True ──────── ill ─────────► False <reason>
//   False ─────── well ────────► False Probation, since now
//   Probation ─── well so long ► True Working
//   Probation ─── ill ─────────► False <reason>
//   True ──────── well, notice ► True <reason>: it works, and its message names the repair at its next reset
//
// The condition is the only state, so that a restarted agent continues where the last one stopped. On probation,
// lastTransitionTime is the time at which the quiet period began, although the status was already False. For a card
// that is gone, it is the time at which the card disappeared.
#pragma once

#include <chrono>
#include <string>
#include <string_view>
#include <vector>

#include "api/core/meta.h"
#include "controller/base/clock.h"

namespace egpu::agent::health {

inline constexpr std::string_view kHealthy = "Healthy";  ///< type of the condition
// Reasons set by the agent. A plugin puts its reasons at the beginning of its messages; for NVIDIA's see
// provisioners/nvidia/README.md.
inline constexpr std::string_view kWorking = "Working";
inline constexpr std::string_view kProbation = "Probation";
inline constexpr std::string_view kCardGone = "CardGone";  ///< its plugin no longer finds it
inline constexpr std::string_view kDriverNotAnswering =
    "DriverNotAnswering";                                    ///< its plugin has failed or been missing for a while
inline constexpr std::string_view kMigMode = "MigMode";      ///< in MIG mode, with unknown profiles
inline constexpr std::string_view kUnhealthy = "Unhealthy";  ///< the plugin gave no reason

/// Current state of a card.
struct Finding {
  bool healthy = true;
  std::string reason, message;  ///< why it is unhealthy, or the repair due at its next reset
};

/// Parses a plugin's message about a card. "Xid79: it has fallen off the bus; reboot" begins with the reason: a word of
/// letters and digits that begins with a capital letter. Without it, the reason is Unhealthy. The result fits into a
/// condition: bounded, without control characters.
Finding illness(std::string_view message);

/// Returns the condition Healthy, or null.
const core::Condition* healthyOf(const std::vector<core::Condition>& conditions);

/// Returns the conditions with an updated condition Healthy; the other conditions do not change. `quiet`: how long a
/// card that was ill must be well before it is used again.
std::vector<core::Condition> judge(const std::vector<core::Condition>& before, const Finding& now,
                                   base::Clock::Wall wall, std::chrono::milliseconds quiet);

}  // namespace egpu::agent::health

// Whether a card may be used: the condition Healthy of its object, which the scheduler and the claims' conditions read.
//
//   none ──────── well ────────► True Working
//   True ──────── ill ─────────► False <reason>
//   False ─────── well ────────► False Probation, since now
//   Probation ─── well so long ► True Working
//   Probation ─── ill ─────────► False <reason>
//   True ──────── well, attend ► True <reason>: it works, and its message names the repair at its next reset
//
// The condition is all that is remembered: an agent that starts anew goes on where the last one ended. On probation its
// lastTransitionTime is when the quiet began, although the status was False before; of a card that is gone, when it went.
#pragma once

#include <chrono>
#include <string>
#include <string_view>
#include <vector>

#include "api/core/meta.h"
#include "controller/base/clock.h"

namespace egpu::agent::health {

inline constexpr std::string_view kHealthy = "Healthy";  ///< the condition's type
// Reasons of the agent's own. A plugin's stand at the head of its messages; NVIDIA's: provisioners/nvidia/README.md.
inline constexpr std::string_view kWorking = "Working";
inline constexpr std::string_view kProbation = "Probation";
inline constexpr std::string_view kCardGone = "CardGone";  ///< its plugin no longer finds it
inline constexpr std::string_view kDriverNotAnswering =
    "DriverNotAnswering";                                    ///< its plugin has failed or been missing for a while
inline constexpr std::string_view kMigMode = "MigMode";      ///< only its instances could be given out
inline constexpr std::string_view kUnhealthy = "Unhealthy";  ///< a plugin gave no reason

/// What is known of a card now.
struct Finding {
  bool healthy = true;
  std::string reason, message;  ///< why not, or the repair that waits for its next reset
};

/// Reads a plugin's message on a card: "Xid79: it has fallen off the bus; reboot" has its reason at its
/// head (a word that begins with a capital letter and is all letters and digits), else the reason is Unhealthy. Made
/// fit for a condition: bounded, without control characters.
Finding illness(std::string_view message);

/// The condition Healthy among them, or null.
const core::Condition* healthyOf(const std::vector<core::Condition>& conditions);

/// The conditions with Healthy as it shall be from now on; the others are left alone. quiet: how long a card that was
/// ill must be well before it is used again.
std::vector<core::Condition> judge(const std::vector<core::Condition>& before, const Finding& now,
                                   base::Clock::Wall wall, std::chrono::milliseconds quiet);

}  // namespace egpu::agent::health

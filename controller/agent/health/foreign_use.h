// Whether a card is used by somebody who has no claim on it: NVIDIA's device plugin or DRA driver gave it to a pod, or a
// program runs beside Kubernetes. Such a card is fenced while that lasts.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "controller/agent/health/health.h"
#include "controller/plugin/provisioner.h"

namespace egpu::agent::health {

inline constexpr std::string_view kForeignUse = "ForeignUse";

/// Whether the pod of this uid has a claim on the card of this uuid; nullopt = not known, nobody is accused.
using HasClaim = std::function<std::optional<bool>(const std::string& pod, const std::string& card)>;

/// The uid of the pod in whose cgroup a process is, by the text of its /proc/<pid>/cgroup: "/kubepods/burstable/pod<uid>/…"
/// or "…-pod<uid with _>.slice". Empty = none.
std::string podOf(std::string_view cgroups);

/// Likewise of a process: "" if it is of no pod, nullopt if it is gone. proc: "/proc", which must be the host's.
std::optional<std::string> podOfProcess(const std::string& proc, int64_t pid);

/// Who uses this card and has no claim on it; nullopt = nobody. A process that is gone by now is nobody. proc: "/proc",
/// which must be the host's.
std::optional<Finding> foreignUse(const std::string& card, const std::vector<plugin::CardProcess>& processes,
                                  const std::string& proc, const HasClaim& hasClaim);

}  // namespace egpu::agent::health

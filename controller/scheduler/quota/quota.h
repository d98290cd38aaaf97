// A namespace's quotas as values. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "api/v1alpha/types.h"
#include "controller/scheduler/quota/amounts.h"
#include "controller/scheduler/request.h"

namespace egpu::scheduler {

struct Quota {
  std::string name;
  QuotaLimits hard;                  ///< of all claims that count together
  QuotaLimits perClaim;              ///< of each
  std::vector<std::string> classes;  ///< whose claims count; empty = all
  std::vector<std::string> models;   ///< of which cards; empty = all
  bool refuse = false;               ///< what exceeds it is refused and does not wait
  bool operator==(const Quota&) const = default;
};

/// One card's part of what a claim has, or would have.
struct QuotaPart {
  std::string model;
  Amount charged;
  int64_t cardCore = 0;    ///< of the whole card, milli-cards
  int64_t cardTflops = 0;  ///< of the whole card, thousandths; 0 = unknown, and then none is counted
  bool knowsModel = true;  ///< false: a card that is not there any more; it counts for every model
  bool operator==(const QuotaPart&) const = default;
};

/// Owner of a holding. A part whose class is not known counts for every class.
struct QuotaClaim {
  std::string namespace_, name;
  std::string id;  ///< the claim's uid, or a stand-in where none is known
  std::string className;
  bool operator==(const QuotaClaim&) const = default;
};

/// A claim, and the cards that it would have instead of its present ones.
struct QuotaAsked {
  QuotaClaim claim;
  std::vector<QuotaPart> parts;
  std::string insteadOf{};  ///< QuotaClaim::id of a holder that it gives up for them, too
  bool operator==(const QuotaAsked&) const = default;
};

/// Why a claim may not have what it would be given.
struct QuotaExcess {
  std::string quota;
  QuotaKey key = QuotaKey::gpu;
  bool perClaim = false;  ///< the claim alone is too large
  bool refuse = false;
  bool elsewhere = false;  ///< on cards of other models it would be within its quotas, and these have no room
  int64_t wants = 0;
  int64_t used = 0;                    ///< by the namespace's other claims, `held` included; 0 of perClaim
  int64_t limit = 0;                   ///< of that key
  std::vector<std::string> models;     ///< of that quota
  bool unrated = false;                ///< the quota limits tflops, and the cards have no rating to count by
  uint64_t version = 0;                ///< of the namespace's quotas; changes with them
  int64_t own = 0;                     ///< amount that the claim has already and gives up for `wants`; not in `used`
  int64_t held = 0;                    ///< part of `used` that no claim has yet: it is held for claims that come first
  std::vector<std::string> heldFor{};  ///< names of those claims
  std::vector<QuotaAsked> asked{};     ///< judged requests: of this claim and those that are decided with it
  bool others = false;                 ///< other keys or quotas are exceeded, too
  /// Releases of other claims may bring it within its quotas, and it waits for them.
  bool releasesMayHelp() const { return !refuse && !perClaim && !unrated; }
  /// How much too much, in the key's unit.
  int64_t missing() const { return used + wants - limit; }
  /// "quota team allows gpu-memory 80Gi, 70Gi is used: 30Gi too little for another 40Gi"
  /// with: amount of `used` that claims would have that are decided with this one.
  std::string text(int64_t with = 0) const;
  bool operator==(const QuotaExcess&) const = default;

 private:
  std::string heldForText() const;
};

/// An object's limits; what the API would not have taken counts as zero.
Quota readQuota(const v1alpha::ElasticGPUQuota& object);

std::string_view nameOf(QuotaKey key);
/// As it is written in a quota: 4, 150, 40Gi, 312.5. Core with up to one decimal.
std::string quotaText(QuotaKey key, int64_t amount);

inline bool anyOf(const std::vector<std::string>& names, std::string_view name) {
  if (names.empty()) return true;
  for (const auto& each : names)
    if (each == name) return true;
  return false;
}

/// What so many cards, each with so much charged, count as, together one claim.
QuotaAmounts quotaAmounts(int64_t cards, const Amount& charged, int64_t cardCore, int64_t cardTflops);
/// What of the parts counts under a quota's models: as one claim, or nothing.
QuotaAmounts quotaAmounts(const std::vector<QuotaPart>& parts, const std::vector<std::string>& models);

}  // namespace egpu::scheduler

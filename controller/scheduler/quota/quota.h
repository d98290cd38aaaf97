// Quotas of a namespace as values. Pure.
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

/// The limits of a quota object. Its limits of MIG instances are further values, one for each profile.
struct Quota {
  std::string name;
  QuotaLimits hard;                  ///< total limits of all claims that count
  QuotaLimits perClaim;              ///< limits of each claim
  std::vector<std::string> classes;  ///< classes whose claims count; empty = all
  std::vector<std::string> models;   ///< card models that count; empty = all
  bool refuse = false;               ///< claims that exceed it are refused instead of waiting
  std::string profile{};  ///< key of the profile (mig/placement.h) whose instances it limits; empty = all other limits
  bool operator==(const Quota&) const = default;
};

/// The part of a claim on one card.
struct QuotaPart {
  std::string model;
  Amount charged;
  int64_t cardCore = 0;    ///< core of the whole card, milli-cards
  int64_t cardTflops = 0;  ///< rating of the whole card, thousandths of a TFLOPS; 0 = unknown, counts as 0
  bool knowsModel = true;  ///< false: the card does not exist any more; the part counts for every model
  MigInstances mig{};      ///< its MIG instances
  bool operator==(const QuotaPart&) const = default;
};

/// Owner of a holding. With an unknown class, its parts count for every class.
struct QuotaClaim {
  std::string namespace_, name;
  std::string id;  ///< the claim's uid, or a substitute if it is unknown
  std::string className;
  bool operator==(const QuotaClaim&) const = default;
};

/// A claim, and the parts that it would have instead of its present ones.
struct QuotaAsked {
  QuotaClaim claim;
  std::vector<QuotaPart> parts;
  std::string insteadOf{};  ///< QuotaClaim::id of a further holder that it releases for them
  bool operator==(const QuotaAsked&) const = default;
};

/// Why a claim cannot have the requested parts.
struct QuotaExcess {
  std::string quota;
  QuotaKey key = QuotaKey::gpu;
  bool perClaim = false;  ///< the claim alone exceeds the limit per claim
  bool refuse = false;
  bool elsewhere = false;  ///< cards of other models are within the quotas, but have no capacity
  int64_t wants = 0;
  int64_t used = 0;                    ///< by the namespace's other claims, including `held`; 0 with perClaim
  int64_t limit = 0;                   ///< limit of the key
  std::vector<std::string> models;     ///< models of the quota
  bool unrated = false;                ///< the quota limits tflops, but the cards have no rating
  uint64_t version = 0;                ///< version of the namespace's quotas; changes with them
  int64_t own = 0;                     ///< amount that the claim has and would release; not in `used`
  int64_t held = 0;                    ///< part of `used` that is held for claims earlier in the order
  std::vector<std::string> heldFor{};  ///< names of those claims
  std::vector<QuotaAsked> asked{};     ///< the checked requests: of this claim and of those decided with it
  bool others = false;                 ///< further keys or quotas are exceeded
  std::string profile{};               ///< Quota::profile
  /// Returns the exceeded resource as written in a quota: "gpu-memory", "mig-1g.5gb".
  std::string resource() const;
  /// True if the claim waits, because releases of other claims may bring it within its quotas.
  bool releasesMayHelp() const { return !refuse && !perClaim && !unrated; }
  /// Returns the excess in the key's unit.
  int64_t missing() const { return used + wants - limit; }
  /// Returns text such as "quota team allows gpu-memory 80Gi, 70Gi is used: 30Gi too little for another 40Gi". with:
  /// part of `used` that belongs to claims decided together with this one.
  std::string text(int64_t with = 0) const;
  bool operator==(const QuotaExcess&) const = default;

 private:
  std::string heldForText() const;
};

/// Reads an object's limits of MIG instances of one profile (a key), or all its other limits; values that the API would
/// reject count as zero.
Quota readQuota(const v1alpha::ElasticGPUQuota& object, const std::string& profile = {});
/// Reads all limits of an object: first those without a profile.
std::vector<Quota> readQuotas(const v1alpha::ElasticGPUQuota& object);

/// Returns the resource as written in a quota: "gpu-memory"; with a profile: "mig-1g.5gb".
std::string nameOf(QuotaKey key, std::string_view profile = {});
/// Returns the amount as written in a quota: 4, 150, 40Gi, 312.5. Core has at most one decimal.
std::string quotaText(QuotaKey key, int64_t amount);

inline bool anyOf(const std::vector<std::string>& names, std::string_view name) {
  if (names.empty()) return true;
  for (const auto& each : names)
    if (each == name) return true;
  return false;
}

/// Amounts of one claim with `cards` cards, each with `charged`.
QuotaAmounts quotaAmounts(int64_t cards, const Amount& charged, int64_t cardCore, int64_t cardTflops);
/// Amounts of the parts under a quota's models and profile, as one claim; zero if no part counts.
QuotaAmounts quotaAmounts(const std::vector<QuotaPart>& parts, const std::vector<std::string>& models,
                          std::string_view profile = {});

}  // namespace egpu::scheduler

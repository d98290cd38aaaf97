#include "controller/scheduler/quota/quota.h"

#include <limits>
#include <set>

#include "api/v1alpha/keys.h"
#include "api/v1alpha/quantity.h"

namespace egpu::scheduler {
namespace {

namespace keys = v1alpha::keys;

// to_array, here and below: a key that is missing fails to compile. The last one is followed by a profile.
constexpr std::array<std::string_view, kQuotaKeys> kNames =
    std::to_array({keys::kGpu, keys::kGpuCore, keys::kGpuMemory, keys::kTflops, keys::kClaims, keys::kMigPrefix});

/// Returns ⌊nano · numerator ÷ denominator⌋ in whole units, not below zero, capped.
int64_t scaled(__int128 nano, int64_t numerator, int64_t denominator) {
  if (nano <= 0) return 0;
  constexpr __int128 kMax = std::numeric_limits<int64_t>::max() / 2;
  const __int128 whole = nano / v1alpha::kNano, rest = nano % v1alpha::kNano;
  const __int128 value = whole * numerator / denominator + rest * numerator / denominator / v1alpha::kNano;
  return static_cast<int64_t>(value > kMax ? kMax : value);
}

/// Returns the limits of MIG instances of one profile, or all other limits.
QuotaLimits limitsOf(const core::StringMap& amounts, std::string_view profile) {
  QuotaLimits limits;
  for (std::size_t i = 0; i < kQuotaKeys; ++i) {
    const auto key = static_cast<QuotaKey>(i);
    if ((key == QuotaKey::instances) == profile.empty()) continue;
    const auto written = amounts.find(nameOf(key, profile));
    if (written == amounts.end()) continue;
    const auto quantity = v1alpha::parseQuantity(written->second);
    const auto nano = quantity ? quantity->nano : 0;
    constexpr int64_t kGiB = int64_t{1} << 30;
    switch (key) {
      case QuotaKey::gpu:
      case QuotaKey::claims:
      case QuotaKey::instances:
        limits[i] = scaled(nano, 1, 1);
        break;
      case QuotaKey::core:
        limits[i] = scaled(nano, 10, 1);
        break;
      case QuotaKey::memory:
        limits[i] = scaled(nano, quantity && quantity->form == v1alpha::QuantityForm::bareInteger ? kGiB : 1, 1);
        break;
      case QuotaKey::tflops:
        limits[i] = scaled(nano, 1000, 1);
        break;
    }
  }
  return limits;
}

int64_t tflopsOf(int64_t core, int64_t cardCore, int64_t cardTflops) {
  if (cardCore <= 0) return 0;
  return static_cast<int64_t>((static_cast<__int128>(core) * cardTflops + cardCore - 1) / cardCore);
}

int64_t& at(QuotaAmounts& amounts, QuotaKey key) { return amounts[static_cast<std::size_t>(key)]; }

}  // namespace

std::string nameOf(QuotaKey key, std::string_view profile) {
  return std::string(kNames[static_cast<std::size_t>(key)]) + std::string(profile);
}

std::string QuotaExcess::resource() const { return nameOf(key, profile); }

std::string quotaText(QuotaKey key, int64_t amount) {
  if (amount < 0) return "-" + quotaText(key, -amount);
  switch (key) {
    case QuotaKey::core:
      return std::to_string(amount / 10) + (amount % 10 == 0 ? "" : "." + std::to_string(amount % 10));
    case QuotaKey::memory:
      return v1alpha::formatBytes(amount);
    case QuotaKey::tflops:
      return v1alpha::formatThousandths(amount);
    case QuotaKey::gpu:
    case QuotaKey::claims:
    case QuotaKey::instances:
      break;
  }
  return std::to_string(amount);
}

Quota readQuota(const v1alpha::ElasticGPUQuota& object, const std::string& profile) {
  const auto& spec = object.spec;
  return {object.metadata.name,
          limitsOf(spec.hard, profile),
          limitsOf(spec.perClaim, profile),
          spec.classes,
          spec.models,
          spec.enforcement == "Refuse",
          profile};
}

std::vector<Quota> readQuotas(const v1alpha::ElasticGPUQuota& object) {
  const auto& spec = object.spec;
  std::set<std::string> profiles{""};
  for (const auto* amounts : {&spec.hard, &spec.perClaim})
    for (const auto& [key, amount] : *amounts)
      if (key.starts_with(keys::kMigPrefix)) profiles.insert(key.substr(keys::kMigPrefix.size()));
  std::vector<Quota> all;
  all.reserve(profiles.size());
  for (const auto& profile : profiles) all.push_back(readQuota(object, profile));
  return all;
}

QuotaAmounts quotaAmounts(int64_t cards, const Amount& charged, int64_t cardCore, int64_t cardTflops) {
  return std::to_array({cards, cards * charged.core, cards * charged.memory,
                        cards * tflopsOf(charged.core, cardCore, cardTflops), int64_t{1}, int64_t{0}});
}

QuotaAmounts quotaAmounts(const std::vector<QuotaPart>& parts, const std::vector<std::string>& models,
                          std::string_view profile) {
  QuotaAmounts sum{};
  for (const auto& part : parts) {
    if (part.knowsModel && !anyOf(models, part.model)) continue;
    if (!profile.empty() && part.mig.profile != profile) continue;
    auto amounts = quotaAmounts(1, part.charged, part.cardCore, part.cardTflops);
    at(amounts, QuotaKey::instances) = part.mig.instances;
    for (std::size_t i = 0; i < kQuotaKeys; ++i) sum[i] += amounts[i];
  }
  if (at(sum, QuotaKey::claims) > 0) at(sum, QuotaKey::claims) = 1;
  return sum;
}

std::string QuotaExcess::text(int64_t with) const {
  const auto amount = [this](int64_t n) { return quotaText(key, n); };
  std::string of;
  for (const auto& model : models) of += (of.empty() ? " of " : ", ") + model;
  const auto what = resource() + of;
  if (unrated) return "quota " + quota + " limits " + what + ", and the suitable cards have no TFLOPS rating";
  if (perClaim)
    return "quota " + quota + " allows each claim " + what + " " + amount(limit) + ", this one would have " +
           amount(wants);
  auto text =
      "quota " + quota + " allows " + what + " " + amount(limit) + ", " + amount(used + own - held - with) + " is used";
  if (own > 0) text += " (" + amount(own) + " of it by this claim)";
  if (held > 0) text += " and " + amount(held) + " is reserved for " + heldForText();
  if (with > 0) text += " and " + amount(with) + " would be used by claims that are decided with it";
  text += ": " + amount(missing()) + " too little for ";
  return text + (own > 0 ? "this one to have " + amount(wants) : "another " + amount(wants));
}

std::string QuotaExcess::heldForText() const {
  if (heldFor.empty()) return "claims ahead in the queue";
  return "claim " + heldFor.front() +
         (heldFor.size() > 1 ? " and " + std::to_string(heldFor.size() - 1) + " more" : std::string()) +
         ", ahead in the queue";
}

}  // namespace egpu::scheduler

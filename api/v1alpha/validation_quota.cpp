// Validation rules of quotas.
#include "api/v1alpha/keys.h"
#include "api/v1alpha/validation.h"
#include "api/v1alpha/validation_rules.h"

namespace egpu::v1alpha {

namespace {

constexpr int64_t kMaxCount = 1'000'000;               // cards, claims or MIG instances
constexpr int64_t kMaxPercent = 100'000'000;           // a million cards
constexpr int64_t kMaxMemoryOfAll = int64_t{1} << 60;  // bytes: 1Ei
constexpr int64_t kMaxTflops = 1'000'000'000;
constexpr std::size_t kMaxMigKey = 67;  // "mig-" and a profile

/// Returns the error of an amount, or an empty view. The amount must be a quantity of zero or more.
std::string_view wrongWith(std::string_view key, const Quantity& amount, char last) {
  const bool counts = key == keys::kGpu || key == keys::kClaims || key.starts_with(keys::kMigPrefix);
  if (counts && (!amount.writtenWhole || amount.exceeds(kMaxCount)))
    return "gpu, claims and mig-<profile> must be whole numbers, at most 1000000";
  if (key == keys::kGpuCore && (!amount.writtenWhole || amount.exceeds(kMaxPercent)))
    return "gpu-core must be a whole number of percent of one card, at most 100000000 (a million cards)";
  if (key == keys::kTflops && amount.exceeds(kMaxTflops)) return "tflops must be at most 1000000000";
  if (key != keys::kGpuMemory) return {};
  if (amount.form == QuantityForm::bareDecimal || last == 'n' || last == 'u' || last == 'm')
    return "gpu-memory must be bytes with a suffix (4Gi) or a whole number of GiB (4), without fractions of a byte";
  if (amount.exceeds(amount.form == QuantityForm::bareInteger ? kMaxMemoryOfAll >> 30 : kMaxMemoryOfAll))
    return "gpu-memory must be at most 1Ei; a whole number without a suffix is in GiB";
  return {};
}

void checkAmounts(const std::string& map, const StringMap& amounts, FieldErrors& errors) {
  for (const auto& [key, text] : amounts) {
    const auto refuse = [&, &name = key](std::string_view why) {
      errors.push_back({map + "[" + name + "]", std::string(why)});
    };
    if (key != keys::kGpu && key != keys::kGpuCore && key != keys::kGpuMemory && key != keys::kTflops &&
        key != keys::kClaims && !(rules::isMigResource(key) && key.size() <= kMaxMigKey)) {
      refuse(
          "unknown key: use gpu, gpu-core, gpu-memory, tflops, claims or mig-<profile>, with . for + in the profile "
          "(mig-1g.10gb.me)");
      continue;
    }
    const auto amount = rules::quantityOf(text);
    if (!amount || amount->negative())
      refuse("must be a quantity of zero or more, such as 10, 4Gi or 1e3");
    else if (const auto why = wrongWith(key, *amount, text.back()); !why.empty())
      refuse(why);
  }
}

}  // namespace

FieldErrors validate(const ElasticGPUQuota& object) {
  FieldErrors errors;
  checkAmounts("spec.hard", object.spec.hard, errors);
  checkAmounts("spec.perClaim", object.spec.perClaim, errors);
  return errors;
}

}  // namespace egpu::v1alpha

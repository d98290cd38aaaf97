#include "controller/reconcile/claim/usage.h"

#include <utility>

#include "api/v1alpha/keys.h"
#include "api/v1alpha/quantity.h"
#include "api/v1alpha/usage.h"
#include "controller/base/timestamp.h"

namespace egpu::reconcile {

namespace phase = v1alpha::keys::phase;

namespace {

int64_t sum(int64_t a, int64_t b) { return a < 0 || b < 0 ? -1 : a + b; }

/// Parses an amount that we wrote: "35%", "3.1Gi"; -1 if there is none.
int64_t amountOf(std::string_view text) {
  if (text.ends_with('%')) text.remove_suffix(1);
  const auto quantity = v1alpha::parseQuantity(text);
  return quantity ? quantity->ceil() : -1;
}

}  // namespace

std::optional<ClaimUse::Sum> ClaimUse::sumOf(const cache::Claim& claim) const {
  const auto device = stores_.gpu(claim.status.elasticGPUName);
  if (claim.status.phase != phase::kBound || !device || !device->spec.claimRef ||
      device->spec.claimRef->uid != claim.metadata.uid)
    return std::nullopt;
  Sum out;
  for (const auto& share : device->spec.cards) {
    const auto card = stores_.cards.get({"", share.name});
    if (!card || !card->status.usage) return std::nullopt;
    const auto& usage = *card->status.usage;
    const auto used = usage.devices.find(device->metadata.uid);
    const auto of = used == usage.devices.end() ? v1alpha::DeviceUsage{0, 0} : used->second;
    out.memory = sum(out.memory, of.memory);
    out.smPercent = sum(out.smPercent, of.smPercent);
    out.grantedMemory += share.memory;
    ++out.cards;
  }
  return out.cards == 0 ? std::nullopt : std::optional(out);
}

Outcome ClaimUse::step(const core::ObjectKey& key) const {
  const auto claim = stores_.claims.get(key);
  if (!claim) return Outcome::done();
  const auto now = sumOf(*claim);
  const auto& before = claim->status.usage;
  core::HeapOptional<v1alpha::ClaimUsage> after;
  if (now)
    after = v1alpha::ClaimUsage{v1alpha::coreUsageText(now->smPercent), v1alpha::memoryUsageText(now->memory),
                                v1alpha::usageText(now->smPercent, now->memory), base::rfc3339(clock_.wall())};
  if (after && after->text.empty()) after.reset();
  if (!after && !before) return Outcome::done();
  if (after) {
    const int64_t memory = before ? amountOf(before->memory) : 0, core = before ? amountOf(before->core) : 0;
    if (!v1alpha::movedNoticeably(memory, now->memory, now->grantedMemory) &&
        !v1alpha::movedNoticeably(core, now->smPercent, 100))
      return Outcome::done();
  }
  if (before)
    if (const auto last = base::parseRfc3339(before->time); last && *last <= clock_.wall())
      if (const auto passed = std::chrono::duration_cast<std::chrono::milliseconds>(clock_.wall() - *last);
          passed < every_)
        return Outcome::after(every_ - passed);
  auto update = ConditionUpdate::of(claim->metadata, ConditionUpdate::As::uses, {}, {});
  update.usage = std::move(after);
  return Outcome::done().reports(std::move(update));
}

}  // namespace egpu::reconcile

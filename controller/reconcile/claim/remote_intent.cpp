#include "controller/reconcile/claim/remote_intent.h"

#include <string>
#include <string_view>

#include "api/v1alpha/keys.h"
#include "api/v1alpha/quantity.h"
#include "controller/reconcile/claim/binder.h"

namespace egpu::reconcile {

namespace keys = v1alpha::keys;

namespace {

constexpr int64_t kMilliCardsPerPercent = 10;

/// The request as quantities, by the keys of a claim without their prefix.
core::StringMap amountsOf(const scheduler::Request& request) {
  core::StringMap amounts;
  const int64_t cards = request.cards;
  if (request.split == scheduler::Split::none) amounts[std::string(keys::kGpu)] = std::to_string(cards);
  if (request.wholeCards) return amounts;
  if (request.perCard.core > 0)
    amounts[std::string(keys::kGpuCore)] = std::to_string(cards * request.perCard.core / kMilliCardsPerPercent);
  if (request.perCard.memory > 0 && !request.memoryFromCore)
    amounts[std::string(keys::kGpuMemory)] = v1alpha::formatBytes(cards * request.perCard.memory);
  if (request.milliTflopsPerCard > 0)
    amounts[std::string(keys::kTflops)] = v1alpha::formatThousandths(cards * request.milliTflopsPerCard);
  return amounts;
}

/// Quantity of the key in the device's capacity, whatever its prefix, in 10⁻⁹ units; -1 if it states none.
__int128 capacityOf(const cache::Gpu& device, std::string_view key) {
  for (const auto& [name, text] : device.spec.capacity) {
    const auto slash = std::string_view(name).rfind('/');
    if (slash == std::string_view::npos || std::string_view(name).substr(slash + 1) != key) continue;
    const auto quantity = v1alpha::parseQuantity(text);
    return quantity ? quantity->nano : -1;
  }
  return key == keys::kGpu ? v1alpha::kNano : -1;
}

}  // namespace

cache::Gpu remoteIntent(const cache::Claim& claim, const cache::Class& cls, const scheduler::Request& request) {
  cache::Gpu device;
  device.metadata.name = deviceNameFor(claim);
  device.metadata.labels[std::string(keys::kRoleLabel)] = std::string(keys::kRoleDevice);
  device.metadata.finalizers = {std::string(keys::kDeviceFinalizer)};
  auto& spec = device.spec;
  spec.source.emplace();
  spec.source->kind = v1alpha::SourceKind::remote;
  for (const auto& [key, amount] : amountsOf(request)) spec.capacity[cls.provisioner + "/" + std::string(key)] = amount;
  spec.provisioner = cls.provisioner;
  spec.parameters = cls.parameters;
  spec.className = cls.metadata.name;
  spec.reclaimPolicy = cls.reclaimPolicy;
  spec.claimRef = v1alpha::ClaimRef{claim.metadata.namespace_, claim.metadata.name, claim.metadata.uid};
  return device;
}

bool isLargeEnough(const cache::Gpu& remoteDevice, const scheduler::Request& request) {
  for (const auto& [key, amount] : amountsOf(request)) {
    const auto wanted = v1alpha::parseQuantity(amount);
    if (!wanted || capacityOf(remoteDevice, key) < wanted->nano) return false;
  }
  return true;
}

}  // namespace egpu::reconcile

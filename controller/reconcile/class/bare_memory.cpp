#include "controller/reconcile/class/bare_memory.h"

#include <algorithm>

#include "api/v1alpha/keys.h"
#include "api/v1alpha/quantity.h"

namespace egpu::reconcile {

std::string bareMemoryHint(const cache::Stores& stores, const core::StringMap& requests,
                           const scheduler::Request& request) {
  constexpr int64_t kGiB = int64_t{1} << 30;
  const auto written = std::find_if(requests.begin(), requests.end(), [](const auto& each) {
    return each.first.ends_with("/" + std::string(v1alpha::keys::kGpuMemory));
  });
  if (written == requests.end() || request.split != scheduler::Split::none) return {};
  const auto amount = v1alpha::parseQuantity(written->second);
  if (!amount || amount->form != v1alpha::QuantityForm::bareInteger) return {};
  const auto number = amount->asInteger();
  if (!number || *number > (int64_t{1} << 24)) return {};
  const int64_t asGiB = *number * kGiB;
  const bool each = request.perCard.memory == asGiB, total = request.perCard.memory * request.cards == asGiB;
  if (!each && !total) return {};  // the class counts MiB
  int64_t largest = 0;
  stores.cards.forEach([&](const auto& card) { largest = std::max(largest, card->spec.card->memory); });
  if (largest == 0 || request.perCard.memory <= largest) return {};
  return "gpu-memory " + written->second + " without a suffix is " + written->second + "Gi, and the largest card has " +
         v1alpha::readableBytes(largest) + ": write bytes with a suffix (Mi, Gi) or in quotes (\"1e9\")";
}

}  // namespace egpu::reconcile

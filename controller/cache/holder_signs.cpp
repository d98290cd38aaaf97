#include "controller/cache/holder_signs.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "api/v1alpha/keys.h"

namespace egpu::cache {

namespace phase = v1alpha::keys::phase;
namespace reason = v1alpha::keys::reason;

bool isReplaced(const core::Pod& pod) {
  static constexpr std::array<std::string_view, 5> kReplace = {"ReplicaSet", "ReplicationController", "StatefulSet",
                                                               "DaemonSet", "Node"};
  const auto* owner = pod.metadata.controller();
  return owner != nullptr && std::find(kReplace.begin(), kReplace.end(), owner->kind) != kReplace.end();
}

HolderSign signOf(const Stores& stores, const Gpu& device) {
  const auto& status = device.status;
  if (device.metadata.deleting() || status.reason == reason::kPreempted || status.reason == reason::kWaitingForGang)
    return HolderSign::leaving;
  if (status.phase == phase::kReleased)
    return device.spec.reclaimPolicy == "Delete" ? HolderSign::leaving : HolderSign::stays;
  if (!device.spec.claimRef) return status.phase == phase::kAvailable ? HolderSign::stays : HolderSign::unknown;
  const core::ObjectKey key{device.spec.claimRef->namespace_, device.spec.claimRef->name};
  if (const auto claim = stores.claims.get(key); claim && claim->metadata.deleting()) return HolderSign::leaving;
  auto sign = HolderSign::unknown;
  bool leaving = false, lives = false;
  for (const auto& pod : stores.podsOfClaim(key)) {
    if (pod->finished()) continue;
    if (pod->metadata.deleting()) {
      leaving = true;
      continue;
    }
    if (isReplaced(*pod)) return HolderSign::stays;
    lives = true;
    if (pod->metadata.controller() != nullptr) sign = HolderSign::ends;
  }
  return leaving && !lives ? HolderSign::leaving : sign;
}

}  // namespace egpu::cache

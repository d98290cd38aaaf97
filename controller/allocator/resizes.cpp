// Decisions of ClusterView for devices that are to be resized. The additional amounts are assumed under the device's
// own uid, beside the amounts of its object and its entries.
#include <algorithm>
#include <utility>

#include "controller/allocator/allocator.h"

namespace egpu::cache {

std::string keptNodeText(const std::string& node) {
  return "node " + node + " is reserved for a claim that has been pending longer";
}

scheduler::Resizing ClusterView::decideResize(const SchedulingRequest& ask, const Gpu& device) {
  scheduler::Resizing resizing;
  {
    const std::lock_guard lock(mutex_);
    const auto& uid = device.metadata.uid;
    dropResize(uid);
    std::vector<scheduler::Holding> old;
    for (const auto& part : device.spec.cards) {
      const auto card = cards_.find(part.name);
      const auto* const held = card == cards_.end() ? nullptr : card->second.find(uid);
      if (held != nullptr) old.push_back({part.name, held->take.effective(), {}});
    }
    if (old.empty() || old.size() != device.spec.cards.size()) {
      resizing.why = "its cards are not known";
      return resizing;
    }
    const std::vector<SchedulingRequest> asks{ask};
    const auto held = reserveNominatedCapacity(asks);
    resizing = scheduler::resizeInPlace(cluster_, old, ask.request);
    if (const auto claim = resizing.inPlace ? quotaClaimFor(ask) : std::nullopt)
      resizing.excess = scheduler::excessOf(cluster_, book_, *claim, resizing);
    releaseNominatedCapacity(held);
    if (resizing.inPlace && resizing.grows()) {
      const scheduler::NodePredicate any;
      scheduler::NodePredicate open;
      const auto& nodes = openNodes(asks, any, open);
      resizing.inPlace = !nodes || nodes(resizing.node);
      if (!resizing.inPlace) resizing.why = keptNodeText(resizing.node);
    }
    if (!resizing.inPlace) resizing.excess.reset();
    if (resizing.excess) {
      book_.refused(ask.claim.substr(0, ask.claim.find('/')));
      resizing.inPlace = false;
    }
    if (resizing.inPlace && resizing.grows()) {
      auto& cards = resizes_[uid];
      for (const auto& placement : resizing.placements) {
        cards.push_back(placement.card);
        updateAllocation(*cards_.find(placement.card), uid, AllocationSource::assumed, placement.charged);
      }
      resizesDecided_ = resizes_.size();
    }
  }
  announce();
  return resizing;
}

ClusterView::KeptFromResize ClusterView::keptFromResize(const SchedulingRequest& ask, const Gpu& device) const {
  KeptFromResize kept;
  for (const auto& part : device.spec.cards) kept.cards.push_back({part.name, {}, {}});
  const std::vector<SchedulingRequest> asks{ask};
  const std::lock_guard lock(mutex_);
  for (const auto& [uid, nominated] : nominated_) {
    if (!roomIsKeptFrom(asks, uid, nominated)) continue;
    for (const auto& room : nominated.room.cards)
      for (auto& card : kept.cards)
        if (card.card == room.name) {
          card.charged.core += room.core;
          card.charged.memory += room.memory;
        }
  }
  std::erase_if(kept.cards, [](const auto& card) { return card.charged == scheduler::Amount{}; });
  kept.node = std::any_of(reservations_.begin(), reservations_.end(), [&](const auto& each) {
    return each.second.node == device.spec.nodeName && reservationBlocks(asks, each.first, each.second);
  });
  return kept;
}

void ClusterView::dropResize(std::string_view deviceUid) {
  const auto known = resizes_.find(std::string(deviceUid));
  if (known == resizes_.end()) return;
  const auto [uid, cards] = std::move(*known);
  resizes_.erase(known);
  resizesDecided_ = resizes_.size();
  for (const auto& name : cards)
    if (const auto card = cards_.find(name); card != cards_.end())
      updateAllocation(*card, uid, AllocationSource::assumed, std::nullopt);
}

void ClusterView::forgetResize(const Gpu& device) {
  if (resizesDecided_ == 0) return;
  {
    const std::lock_guard lock(mutex_);
    dropResize(device.metadata.uid);
  }
  announce();
}

scheduler::Decision ClusterView::decideWithout(const SchedulingRequest& ask, const Gpu& device,
                                               const scheduler::NodePredicate& suits) {
  const std::lock_guard lock(mutex_);
  const std::vector<SchedulingRequest> asks{ask};
  const std::vector<std::string> gone{device.metadata.name};
  scheduler::NodePredicate open;
  const auto& nodes = openNodes(asks, suits, open);
  excludeDevices(gone, true);
  const auto held = reserveNominatedCapacity(asks);
  scheduler::Cluster& cluster = cluster_;
  auto decision = scheduler::decide(cluster, ask.request, nodes);
  releaseNominatedCapacity(held);
  excludeDevices(gone, false);
  return decision;
}

}  // namespace egpu::cache

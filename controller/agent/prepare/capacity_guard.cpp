#include "controller/agent/prepare/capacity_guard.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>

namespace egpu::agent {

namespace {

using base::Code;
using base::Result;
using base::Status;

constexpr std::size_t kMaxNamed = 8;  ///< maximum holders named in a refusal

/// Adds amounts ≥ 0; saturates instead of overflowing.
int64_t sum(int64_t a, int64_t b) {
  constexpr int64_t max = std::numeric_limits<int64_t>::max();
  return a > max - b ? max : a + b;
}

struct Amounts {
  int64_t core = 0, memory = 0;
  v1alpha::Slots slots{};
  void add(const v1alpha::DeviceCard& share) {
    core = sum(core, share.chargedCore);
    memory = sum(memory, share.chargedMemory);
    slots = slots.with(share.slots);
  }
  std::string str() const { return "core " + std::to_string(core) + ", memory " + std::to_string(memory); }
};

Amounts on(const cdi::Spec& spec, const std::string& uuid) {
  Amounts out;
  for (const auto& share : spec.cards)
    if (share.uuid == uuid) out.add(share);
  return out;
}

/// Amounts that a device holds on a card. While its file is being replaced: the larger of the ready file's amounts,
/// which are in use, and the part's.
Amounts held(const cdi::Folder::StoredSpec& holder, const std::string& uuid) {
  const Amounts now = on(*holder.spec, uuid);
  if (!holder.coming) return now;
  const Amounts then = on(**holder.coming, uuid);
  return {std::max(now.core, then.core), std::max(now.memory, then.memory), now.slots.with(then.slots)};
}

Status fitsCard(const cdi::Spec& wanted, const v1alpha::Card& card,
                const std::vector<cdi::Folder::StoredSpec>& holders) {
  const Amounts mine = on(wanted, card.uuid);
  if (mine.core == 0 && mine.memory == 0) return Status::okay();  // a claim with admin access is charged nothing
  Amounts all = mine;
  std::string named;
  std::size_t count = 0;
  for (const auto& holder : holders) {
    if (holder.deviceUid == wanted.deviceUid) {
      // The device already holds that much from when the card had more; its file must remain replaceable.
      const Amounts its = holder.spec ? held(holder, card.uuid) : Amounts{};
      if (its.core >= mine.core && its.memory >= mine.memory) return Status::okay();
      continue;
    }
    const Amounts its = held(holder, card.uuid);
    if (its.slots.overlaps(mine.slots))
      return {Code::unavailable, "card " + card.uuid + ": MIG slots of the claim are still prepared for " +
                                     holder.spec->claimNamespace + "/" + holder.spec->claimName +
                                     "; they are released when the pods of that claim have ended"};
    if (its.core == 0 && its.memory == 0) continue;
    all.core = sum(all.core, its.core);
    all.memory = sum(all.memory, its.memory);
    if (++count <= kMaxNamed)
      named += (named.empty() ? "" : "; ") + holder.spec->claimNamespace + "/" + holder.spec->claimName + " with " +
               its.str();
  }
  if (all.core <= card.core && all.memory <= card.memory) return Status::okay();
  // Possibly a claim for the whole card from when the card had more: the controller will charge its entry again.
  if (count == 0 && mine.core == card.core && mine.memory > card.memory)
    return {Code::unavailable,
            "card " + card.uuid + " has " + Amounts{card.core, card.memory}.str() +
                " now, the claim is still charged " + mine.str() +
                ": if it requests the whole card without an amount of memory, its charge is updated"};
  if (count > kMaxNamed) named += "; and " + std::to_string(count - kMaxNamed) + " more";
  return {Code::invalid, "card " + card.uuid + " has " + Amounts{card.core, card.memory}.str() + "; the claim's " +
                             mine.str() + " would exceed it on this node, together with " +
                             (named.empty() ? "nothing else" : named)};
}

}  // namespace

Status fits(const cdi::Spec& wanted, const std::vector<v1alpha::Card>& cards,
            const std::vector<cdi::Folder::StoredSpec>& holders) {
  if (cards.empty()) return Status::okay();  // a remote device
  for (const auto& holder : holders)
    if (holder.deviceUid != wanted.deviceUid && !holder.spec)
      return {Code::unavailable, holder.spec.status().message() +
                                     ": it may hold the claim's card. It is replaced when its own claim is prepared, "
                                     "and deleted when no pod uses it any more"};
  for (const auto& card : cards)
    if (auto s = fitsCard(wanted, card, holders); !s.ok()) return s;
  return Status::okay();
}

Status CapacityGuard::reserve(const cdi::Spec& wanted, const std::vector<v1alpha::Card>& cards) {
  // Writes the draft to disk before other callers must wait.
  auto draft = folder_.draft(wanted);
  if (!draft) return draft.status();
  CapacityRequest mine{wanted, cards, std::move(*draft)};
  base::MutexLock lock(mutex_);
  pending_.push_back(&mine);
  changed_.wait(lock, [&]() EGPU_REQUIRES(mutex_) { return mine.answered || !deciding_; });
  if (mine.answered) return mine.answer;
  deciding_ = true;
  const auto together = std::exchange(pending_, {});
  lock.unlock();
  decide(together);
  lock.lock();
  for (CapacityRequest* request : together) request->answered = true;
  deciding_ = false;
  changed_.notify_all();
  return mine.answer;
}

/// Decides the requests in order, under the folder's lock. An accepted request counts as a holder for the next ones.
void CapacityGuard::decide(const std::vector<CapacityRequest*>& requests) {
  const auto held = folder_.hold();
  auto holders = held ? folder_.list() : Result<std::vector<cdi::Folder::StoredSpec>>(held.status());
  for (CapacityRequest* request : requests) {
    request->answer = holders ? fits(request->wanted, request->cards, *holders) : holders.status();
    if (request->answer.ok()) request->answer = folder_.write(std::move(request->draft));
    if (!request->answer.ok()) continue;
    std::erase_if(*holders, [&](const auto& holder) { return holder.deviceUid == request->wanted.deviceUid; });
    holders->push_back({request->wanted.deviceUid, false, true, request->wanted});
  }
}

}  // namespace egpu::agent

// Removal of entries from a card's ledger.
#pragma once

#include <algorithm>
#include <stop_token>
#include <string>
#include <utility>

#include "controller/cache/stores.h"
#include "controller/codec/patch.h"
#include "controller/reconcile/writer.h"

namespace egpu::reconcile {

/// True if the card has a mode, and no share but that of the device.
inline bool isLastShare(const cache::Gpu& card, const std::string& uid) {
  const auto& entries = card.spec.allocations;
  return !card.spec.mode.empty() && std::none_of(entries.begin(), entries.end(), [&](const auto& entry) {
    return entry.first != uid && (entry.second.core > 0 || entry.second.memory > 0);
  });
}

/// Removes the entry, and with the last one the card's isolation mode. The API server refuses that while another entry
/// exists; then the mode stays.
inline base::Status releaseEntry(Writer& writer, const cache::Gpu& card, const std::string& uid, std::stop_token stop) {
  const bool last = isLastShare(card, uid);
  auto released = writer.patch(card, codec::patch::ledgerRelease(uid, last), {}, stop);
  if (last && released.status().code() == base::Code::invalid)
    released = writer.patch(card, codec::patch::ledgerRelease(uid), {}, stop);
  // When several entries are removed at the same time, each removal may see the others.
  if (released.ok() && isLastShare(*released, uid)) {
    const auto cleared = writer.patch(*released, codec::patch::ledgerRelease(uid, true), {}, std::move(stop)).status();
    return cleared.code() == base::Code::invalid ? base::Status::okay() : cleared;
  }
  return released.status();
}

}  // namespace egpu::reconcile

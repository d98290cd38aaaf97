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

/// Removes the entry, and with the last one the card's isolation mode. The API server refuses that while another entry
/// exists; then the mode stays.
inline base::Status releaseEntry(Writer& writer, const cache::Gpu& card, const std::string& uid, std::stop_token stop) {
  const auto& entries = card.spec.allocations;
  const bool last = !card.spec.mode.empty() && std::none_of(entries.begin(), entries.end(), [&](const auto& entry) {
    return entry.first != uid && (entry.second.core > 0 || entry.second.memory > 0);
  });
  auto released = writer.patch(card, codec::patch::ledgerRelease(uid, last), {}, stop);
  if (!last || released.status().code() != base::Code::invalid) return released.status();
  return writer.patch(card, codec::patch::ledgerRelease(uid), {}, std::move(stop)).status();
}

}  // namespace egpu::reconcile

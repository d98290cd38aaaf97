// Garbage: ledger entries, plugin keys and finalizers whose device is no more (state_machine.h, S1 to S3). Never judged
// by the cache alone.
#pragma once

#include <stop_token>
#include <string>

#include "controller/cache/stores.h"
#include "controller/reconcile/device/provisioning.h"
#include "controller/reconcile/state_machine.h"
#include "controller/reconcile/writer.h"

namespace egpu::reconcile {

/// Thread-safe, one thread per card and plugin at a time.
class Sweeper {
 public:
  Sweeper(Writer& writer, cache::Stores& stores, Provisioning& provisioning)
      : writer_(writer), stores_(stores), provisioning_(provisioning) {}

  /// (S1) and (S3) of one card.
  Outcome card(const cache::Gpu& card, std::stop_token stop);
  /// (S2): asks the plugin, then the API server.
  Outcome plugin(const std::string& name, std::stop_token stop);

 private:
  Writer& writer_;
  cache::Stores& stores_;
  Provisioning& provisioning_;
};

}  // namespace egpu::reconcile

// Garbage collection of ledger entries, plugin keys and finalizers whose device is gone, and of surplus cards
// (state_machine.h, S1 to S3, S5). (S1) and (S2) rely on quorum reads, never on the cache alone.
#pragma once

#include <stop_token>
#include <string>

#include "controller/cache/stores.h"
#include "controller/reconcile/card/surplus_cards.h"
#include "controller/reconcile/device/provisioning.h"
#include "controller/reconcile/state_machine.h"
#include "controller/reconcile/timeouts.h"
#include "controller/reconcile/writer.h"

namespace egpu::reconcile {

/// Thread-safe; at most one thread per card and plugin at a time.
class Sweeper {
 public:
  /// Construct it before the stores are filled.
  Sweeper(Writer& writer, cache::Stores& stores, Provisioning& provisioning, kube::EventSink& events,
          const Timeouts& timeouts)
      : writer_(writer),
        stores_(stores),
        provisioning_(provisioning),
        timeouts_(timeouts),
        surplus_(writer, stores, events) {}

  /// (S1), (S3) and (S5) of one card.
  Outcome sweepCard(const cache::Gpu& card, std::stop_token stop);
  /// (S2) of one plugin: lists the keys of the plugin first, then the devices of the API server.
  Outcome sweepPlugin(const std::string& name, std::stop_token stop);

 private:
  Writer& writer_;
  cache::Stores& stores_;
  Provisioning& provisioning_;
  const Timeouts& timeouts_;
  SurplusCards surplus_;
};

}  // namespace egpu::reconcile

// Keeps a ResourceClaimTemplate for each ElasticGPUClaimTemplate, with the same name. Kubernetes stamps a ResourceClaim
// per pod from it; resourceclaim/adopter.h handles these.
//
//   no ResourceClaimTemplate      created, owned by the template; created again if it is deleted
//   its content differs           deleted and created again, because its spec is immutable. If the API server itself
//                                 changes it, with growing backoff, and the template is not Ready (TemplateChanged)
//   it has another owner          left alone; the template is not Ready (TemplateTaken)
//   the template is gone          its ResourceClaimTemplate is deleted; claims made from it stay with their pods
#pragma once

#include <cstddef>
#include <optional>
#include <stop_token>

#include "controller/base/clock.h"
#include "controller/cache/stores.h"
#include "controller/reconcile/result.h"
#include "controller/reconcile/template/amounts.h"
#include "controller/reconcile/writer.h"

namespace egpu::reconcile {

/// Thread-safe; at most one thread per key at a time.
class TemplateSync {
 public:
  TemplateSync(Writer& writer, cache::Stores& stores, base::Clock& clock, const Timeouts& timeouts)
      : writer_(writer),
        stores_(stores),
        clock_(clock),
        remade_(clock, timeouts.firstTemplateBackoff, timeouts.maxTemplateBackoff),
        amounts_(writer, stores, remade_, clock, timeouts) {}

  /// Step of the ElasticGPUClaimTemplate and the ResourceClaimTemplate of this name.
  Outcome step(const core::ObjectKey& key, std::stop_token stop);
  AmountsSync& amounts() { return amounts_; }
  const AmountsSync& amounts() const { return amounts_; }
  /// Number of remembered entries; for tests.
  std::size_t remembered() const { return amounts_.remembered() + remade_.size(); }

 private:
  /// Deletes a ResourceClaimTemplate whose owner, the template of this uid, is gone by quorum read. Never nullopt.
  std::optional<Outcome> ownerGone(const core::ResourceClaimTemplate& made, std::string_view uid, std::stop_token stop);
  /// Creates the ResourceClaimTemplate, or checks the existing one. nullopt: it is as it must be.
  std::optional<Outcome> ensure(const cache::ClaimTemplate& claims, std::stop_token stop);
  Outcome report(const cache::ClaimTemplate& claims, std::string_view reason, std::string message,
                 std::stop_token stop);
  Outcome remove(const core::ResourceClaimTemplate& made, std::stop_token stop);
  /// Deletes a ResourceClaimTemplate with different content, so that the next step creates it; reports it during
  /// backoff.
  Outcome recreate(const cache::ClaimTemplate& claims, const core::ResourceClaimTemplate& made, std::stop_token stop);

  Writer& writer_;
  cache::Stores& stores_;
  base::Clock& clock_;
  TemplateBackoff remade_;
  AmountsSync amounts_;
};

}  // namespace egpu::reconcile

// ElasticGPUClaimTemplates: for each a ResourceClaimTemplate of its name is kept, from which Kubernetes stamps a
// ResourceClaim per pod. What becomes of those stands in claim/stock.h.
//
//   no ResourceClaimTemplate      made, owned by the template; deleted by somebody: made again
//   one that says something else  deleted and made again: its spec can't change. If the API server made it so, ever more seldom, and the
//                                 template is not Ready (TemplateChanged)
//   one of somebody else          left alone; the template is not Ready (TemplateTaken)
//   the template is gone          its ResourceClaimTemplate is deleted; claims that were made of it stay with their pods
#pragma once

#include <cstddef>
#include <optional>
#include <stop_token>

#include "controller/base/clock.h"
#include "controller/cache/stores.h"
#include "controller/reconcile/outcome.h"
#include "controller/reconcile/template/amounts.h"
#include "controller/reconcile/template/remade.h"
#include "controller/reconcile/writer.h"

namespace egpu::reconcile {

/// Thread-safe, one thread per key at a time.
class TemplateSync {
 public:
  TemplateSync(Writer& writer, cache::Stores& stores, base::Clock& clock)
      : writer_(writer), stores_(stores), clock_(clock), remade_(clock), amounts_(writer, stores, remade_, clock) {}

  /// Of ElasticGPUClaimTemplates, and of ResourceClaimTemplates of the same name.
  Outcome step(const core::ObjectKey& key, std::stop_token stop);
  AmountsSync& amounts() { return amounts_; }
  const AmountsSync& amounts() const { return amounts_; }
  /// Templates of which something is remembered; for tests.
  std::size_t remembered() const { return amounts_.remembered() + remade_.remembered(); }

 private:
  /// What stands there is of a template that is no more. Nothing: it is not.
  std::optional<Outcome> ownerGone(const core::ResourceClaimTemplate& made, std::string_view uid, std::stop_token stop);
  /// Nothing: the ResourceClaimTemplate is as it must be.
  std::optional<Outcome> keep(const cache::ClaimTemplate& claims, std::stop_token stop);
  Outcome say(const cache::ClaimTemplate& claims, std::string_view reason, std::string message, std::stop_token stop);
  Outcome remove(const core::ResourceClaimTemplate& made, std::stop_token stop);
  /// What stands there says something else.
  Outcome makeAnew(const cache::ClaimTemplate& claims, const core::ResourceClaimTemplate& made, std::stop_token stop);

  Writer& writer_;
  cache::Stores& stores_;
  base::Clock& clock_;
  Remade remade_;
  AmountsSync amounts_;
};

}  // namespace egpu::reconcile

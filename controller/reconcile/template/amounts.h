// ResourceClaimTemplates for amounts on pods. Their names encode the amounts (api/v1alpha/pod_amounts.h). Kubernetes
// stamps ResourceClaims from them as from any other template.
//
//   a pod that isn't finished names one   created, marked elasticgpu.io/amounts; created again if it is deleted
//   a marked one with other content       deleted and created again, because its spec is immutable. If the API server
//                                         itself changes it, with growing backoff, and reported on the pods
//   an unmarked one of that name          it is a user's: left alone, and reported on the pods if its content differs
//   no such pod for unusedTemplateTtl     a marked one is deleted. For a pod that is created just then it is created
//                                         again; Kubernetes, which stamps from it, retries until then
//
// Nothing is created for invalid amounts; the pods report why (pod/pod.cpp).
#pragma once

#include <chrono>
#include <map>
#include <optional>
#include <set>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "controller/base/backoff.h"
#include "controller/base/clock.h"
#include "controller/base/mutex.h"
#include "controller/cache/stores.h"
#include "controller/reconcile/result.h"
#include "controller/reconcile/timeouts.h"
#include "controller/reconcile/writer.h"

namespace egpu::reconcile {

/// Backoff of ResourceClaimTemplates that are created again because their content differs. If the API server itself
/// changes them (a mutating admission policy or webhook), this would go on forever, so each wait is longer.
using TemplateBackoff = base::Backoff<core::ObjectKey>;

/// Thread-safe; at most one thread per key at a time.
class AmountsSync {
 public:
  /// The arguments must outlive it.
  AmountsSync(Writer& writer, cache::Stores& stores, TemplateBackoff& remade, base::Clock& clock,
              const Timeouts& timeouts)
      : writer_(writer), stores_(stores), remade_(remade), clock_(clock), timeouts_(timeouts) {}

  /// Records the templates that a pod names; before, after: null if the pod is new or gone. Returns the templates to
  /// reconcile.
  std::set<core::ObjectKey> podChanged(const core::Pod* before, const core::Pod* after);
  /// Step of a name that encodes amounts and is not that of an ElasticGPUClaimTemplate. made: the template, or null.
  Outcome step(const core::ObjectKey& key, const core::ResourceClaimTemplate* made, std::stop_token stop);
  /// Returns the recorded templates that pods name, whether they exist or not; a standby records them, too.
  std::vector<core::ObjectKey> named() const;
  /// Number of recorded templates; for tests.
  std::size_t remembered() const;

 private:
  struct TemplateUse {
    std::set<core::ObjectKey> pods;  ///< pods that name it and are not finished
    std::optional<base::Clock::Steady> unusedSince;
  };
  /// nullopt: it is used. Otherwise the time until it may be deleted; 0: now.
  std::optional<std::chrono::milliseconds> unused(const core::ObjectKey& key);
  void forget(const core::ObjectKey& key);
  Outcome remove(const core::ResourceClaimTemplate& made, std::stop_token stop);
  /// Deletes a template with different content, so that the next step creates it; returns an error during backoff.
  Outcome recreate(const core::ResourceClaimTemplate& made, std::stop_token stop);

  Writer& writer_;
  cache::Stores& stores_;
  TemplateBackoff& remade_;
  base::Clock& clock_;
  const Timeouts& timeouts_;
  mutable base::Mutex mutex_;
  std::map<core::ObjectKey, TemplateUse> uses_ EGPU_GUARDED_BY(mutex_);
};

/// Returns why a pod that names such a template can't be served: its amounts are invalid (by the annotation if there is
/// one), or a user's template has that name. nullopt: it can.
std::optional<std::string> amountsRefusal(const cache::Stores& stores, const core::Pod& pod,
                                          const std::string& templateName);

/// Returns " (asked for by …)" with the pod's annotations for a claim that was stamped for amounts on the pod, so that
/// messages on the claim lead to them; empty for other claims.
std::string askedByAnnotations(const core::Pod& pod, std::string_view claim);

}  // namespace egpu::reconcile

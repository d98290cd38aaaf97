// ResourceClaimTemplates that amounts on pods ask for: their names spell them (api/v1alpha/pod_amounts.h), and
// Kubernetes stamps ResourceClaims from them as from any other.
//
//   a pod that isn't finished names one   it is made, marked elasticgpu.io/amounts; deleted by somebody: made again
//   a marked one that says something else deleted and made again: its spec can't change. If the API server made it so, ever more
//                                         seldom, and said on the pods
//   one of that name without the mark     somebody's own: left alone, and said on the pods if it says something else
//   no such pod for kUnusedFor            a marked one is deleted. A pod that comes just then is found without it, and it is
//                                         made again: Kubernetes, which stamps from it, tries again until then
//
// Amounts that can't be are made into nothing; the pods hear why (pod/pod.cpp).
#pragma once

#include <chrono>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "controller/base/clock.h"
#include "controller/cache/stores.h"
#include "controller/reconcile/outcome.h"
#include "controller/reconcile/template/remade.h"
#include "controller/reconcile/writer.h"

namespace egpu::reconcile {

/// Thread-safe, one thread per key at a time.
class AmountsSync {
 public:
  static constexpr std::chrono::minutes kUnusedFor{10};

  /// All of these must outlive it.
  AmountsSync(Writer& writer, cache::Stores& stores, Remade& remade, base::Clock& clock)
      : writer_(writer), stores_(stores), remade_(remade), clock_(clock) {}

  /// Takes note of what a pod names; either is null if there is none. The templates that are to be looked at anew.
  std::set<core::ObjectKey> podChanged(const core::Pod* before, const core::Pod* after);
  /// Of a name that spells amounts and that is no ElasticGPUClaimTemplate's. made: what stands there, or null.
  Outcome step(const core::ObjectKey& key, const core::ResourceClaimTemplate* made, std::stop_token stop);
  /// Templates that pods name, whether they are there or not: what a standby took note of.
  std::vector<core::ObjectKey> named() const;
  /// Templates of which something is remembered; for tests.
  std::size_t remembered() const;

 private:
  struct Known {
    std::set<core::ObjectKey> pods;  ///< that name it and are not finished
    std::optional<base::Clock::Steady> unusedSince;
  };
  /// Nothing: it is used. Else how long it is not to be looked at; 0: it goes.
  std::optional<std::chrono::milliseconds> unused(const core::ObjectKey& key);
  void forget(const core::ObjectKey& key);
  Outcome remove(const core::ResourceClaimTemplate& made, std::stop_token stop);
  /// What stands there says something else.
  Outcome makeAnew(const core::ResourceClaimTemplate& made, std::stop_token stop);

  Writer& writer_;
  cache::Stores& stores_;
  Remade& remade_;
  base::Clock& clock_;
  mutable std::mutex mutex_;
  std::map<core::ObjectKey, Known> known_;  ///< guarded by mutex_
};

/// What a pod that names such a template must hear, or nothing: its amounts can't be, by the annotation if there is one,
/// or somebody else's template has that name.
std::optional<std::string> amountsRefusal(const cache::Stores& stores, const core::Pod& pod,
                                          const std::string& templateName);

/// Of a claim that was stamped for amounts on the pod: " (asked for by …)" with these annotations, for whoever reads what
/// is wrong with the claim; of others nothing.
std::string askedByAnnotations(const core::Pod& pod, std::string_view claim);

}  // namespace egpu::reconcile

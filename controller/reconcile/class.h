// Classes: which one a claim means, whether it can serve, and its Ready condition.
#pragma once

#include <map>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>

#include "controller/base/clock.h"
#include "controller/reconcile/provisioning.h"
#include "controller/reconcile/state_machine.h"
#include "controller/reconcile/writer.h"

namespace egpu::reconcile {

/// Whether a class can serve claims. reason empty = it can.
struct Readiness {
  std::string reason;  ///< ProvisionerUnavailable | InvalidParameter
  std::string message;
  bool passing = false;  ///< the plugin is there and could not say: worth asking again
  bool later = false;    ///< not known yet: the plugin is busy, ask again soon
  bool ready() const { return reason.empty() && !later; }
};

/// The class of a claim: by either spelling, or the default one (the oldest, then by name, if several are annotated).
/// Null and `why` (if given) if there is none.
cache::Store<cache::Class>::Ptr classOf(const cache::Stores& stores, const cache::Claim& claim, std::string* why);
/// Its name, for people: the one that the claim's device was made by, else the one named, else the default one.
std::string classNameOf(const cache::Stores& stores, const cache::Claim& claim);

/// Thread-safe.
class ClassSync {
 public:
  ClassSync(Writer& writer, const cache::Stores& stores, Provisioning& provisioning, base::Clock& clock)
      : writer_(writer), stores_(stores), provisioning_(provisioning), clock_(clock) {}

  /// Keeps the Ready condition.
  Outcome step(const std::string& name, std::stop_token stop);

  /// Asks the plugin once per class and state of the plugin.
  Readiness readiness(const cache::Class& cls);
  /// A plugin came, went or recovered: what was known of its classes is forgotten.
  void pluginChanged(const std::string& provisioner);
  /// The class of this uid is gone.
  void forget(const std::string& uid);

  static bool isDefault(const cache::Class& cls);

 private:
  Writer& writer_;
  const cache::Stores& stores_;
  Provisioning& provisioning_;
  base::Clock& clock_;
  std::mutex mutex_;
  std::map<std::string, std::pair<std::string, Readiness>>
      known_;  ///< class uid → provisioner, answer; guarded by mutex_
};

}  // namespace egpu::reconcile

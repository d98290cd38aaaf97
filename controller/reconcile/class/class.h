// Finds the class of a claim, checks whether the class can serve, and maintains its Ready condition.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <set>
#include <stop_token>
#include <string>
#include <utility>

#include "controller/base/clock.h"
#include "controller/base/mutex.h"
#include "controller/reconcile/device/provisioning.h"
#include "controller/reconcile/state_machine.h"
#include "controller/reconcile/timeouts.h"
#include "controller/reconcile/writer.h"

namespace egpu::reconcile {

/// Whether a class can serve claims. reason empty = it can.
struct Readiness {
  std::string reason;    ///< ProvisionerUnavailable | InvalidParameter
  std::string message;   ///< for a class that can serve: the gaps of its plugin's sandbox
  bool passing = false;  ///< transient: the loaded plugin gave no verdict; the class's step asks again, with backoff
  bool later = false;    ///< not known yet: the plugin is busy, ask again soon
  bool ready() const { return reason.empty() && !later; }
};

/// Returns the class of a claim: the one that it names in either spelling, or the default class (the oldest, then by
/// name, if several are annotated). Null if there is none, and `why` (if given) is set.
cache::Store<cache::Class>::Ptr classOf(const cache::Stores& stores, const cache::Claim& claim, std::string* why);
/// Returns the name of that class: the one that the claim's device was made with, else the one named, else the default.
std::string classNameOf(const cache::Stores& stores, const cache::Claim& claim);

/// Thread-safe.
class ClassSync {
 public:
  using Notify = std::function<void(const cache::Class& cls)>;
  /// failed: the plugin gave no verdict, so the class must be reconciled. answered: it has given one at last, so the
  /// class's claims must be tried again. Both are called on any thread, from within readiness() and step().
  ClassSync(Writer& writer, const cache::Stores& stores, Provisioning& provisioning, base::Clock& clock,
            const Timeouts& timeouts, Notify failed, Notify answered)
      : writer_(writer),
        stores_(stores),
        provisioning_(provisioning),
        clock_(clock),
        timeouts_(timeouts),
        failed_(std::move(failed)),
        answered_(std::move(answered)) {}

  /// Updates the conditions of the class: Ready, and whether its models exist.
  Outcome step(const std::string& name, std::stop_token stop);

  /// Asks the plugin once per class and state of the plugin. If the plugin gave no verdict, only step() asks again, so
  /// that thousands of claims of the class do not.
  Readiness readiness(const cache::Class& cls);
  /// Forgets the answers for all classes of a plugin that was added, removed or has recovered.
  void pluginChanged(const std::string& provisioner);
  /// Forgets a class that is gone.
  void forget(const std::string& uid);

  static bool isDefault(const cache::Class& cls);

 private:
  Readiness ask(const cache::Class& cls, bool& remember);
  /// mayAsk: asks again if the plugin gave no verdict and the backoff is over.
  Readiness readVerdict(const cache::Class& cls, bool mayAsk, bool& failedNow);
  /// Returns the time until the plugin is asked again about a class without a verdict.
  std::chrono::milliseconds untilAsked(const std::string& uid);
  bool claimsWait(const cache::Class& cls);
  void forgetOthers(const std::string& name, const std::string& uid);

  Writer& writer_;
  const cache::Stores& stores_;
  Provisioning& provisioning_;
  base::Clock& clock_;
  const Timeouts& timeouts_;
  const Notify failed_, answered_;
  base::Mutex mutex_;
  struct ClassVerdict {
    std::string name, provisioner;
    Readiness answer;
    std::chrono::milliseconds wait{0};  ///< backoff without a verdict; grows each time
    base::Clock::Steady again{};
  };
  std::map<std::string, ClassVerdict> verdicts_ EGPU_GUARDED_BY(mutex_);  ///< by class uid
  std::set<std::string> notified_ EGPU_GUARDED_BY(mutex_);  ///< uids of classes whose claims wait for an answer
};

}  // namespace egpu::reconcile

// Classes: which one a claim means, whether it can serve, and its Ready condition.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <stop_token>
#include <string>
#include <utility>

#include "controller/base/clock.h"
#include "controller/reconcile/device/provisioning.h"
#include "controller/reconcile/state_machine.h"
#include "controller/reconcile/writer.h"

namespace egpu::reconcile {

/// Whether a class can serve claims. reason empty = it can.
struct Readiness {
  std::string reason;    ///< ProvisionerUnavailable | InvalidParameter
  std::string message;   ///< of one that can serve: what its plugin's sandbox leaves open
  bool passing = false;  ///< the plugin is there and could not say: the class's step asks again, with back-off
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
  using Told = std::function<void(const cache::Class& cls)>;
  /// failed: the plugin could not say, and the class is to be stepped; answered: it has said at last, and the class's
  /// claims are to be tried again. Called on any thread, from within readiness() and step().
  ClassSync(Writer& writer, const cache::Stores& stores, Provisioning& provisioning, base::Clock& clock, Told failed,
            Told answered)
      : writer_(writer),
        stores_(stores),
        provisioning_(provisioning),
        clock_(clock),
        failed_(std::move(failed)),
        answered_(std::move(answered)) {}

  /// Keeps the Ready condition.
  Outcome step(const std::string& name, std::stop_token stop);

  /// Asks the plugin once per class and state of the plugin. What it could not say only step() asks again: a thousand
  /// claims of the class must not.
  Readiness readiness(const cache::Class& cls);
  /// A plugin came, went or recovered: what was known of its classes is forgotten.
  void pluginChanged(const std::string& provisioner);
  /// The class of this uid is gone.
  void forget(const std::string& uid);

  static bool isDefault(const cache::Class& cls);

 private:
  Readiness ask(const cache::Class& cls, bool& remember);
  /// mayAsk: what the plugin could not say is asked again, if its time has come.
  Readiness look(const cache::Class& cls, bool mayAsk, bool& failedNow);
  /// Until the plugin of a class that it could not answer for is asked again.
  std::chrono::milliseconds untilAsked(const std::string& uid);
  bool claimsWait(const cache::Class& cls);
  void forgetOthers(const std::string& name, const std::string& uid);

  Writer& writer_;
  const cache::Stores& stores_;
  Provisioning& provisioning_;
  base::Clock& clock_;
  const Told failed_, answered_;
  std::mutex mutex_;
  struct Known {
    std::string name, provisioner;
    Readiness answer;
    std::chrono::milliseconds wait{0};  ///< of a passing answer: longer each time
    base::Clock::Steady again{};
  };
  std::map<std::string, Known> known_;  ///< by class uid; guarded by mutex_
  std::set<std::string> told_;          ///< uids of classes whose claims wait for an answer; guarded by mutex_
};

}  // namespace egpu::reconcile

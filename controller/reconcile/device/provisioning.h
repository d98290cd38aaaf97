// Calls provisioners on behalf of devices. Limits how many workers one plugin may occupy, so that a plugin that hangs
// harms only its own classes.
#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "controller/base/clock.h"
#include "controller/base/mutex.h"
#include "controller/cache/stores.h"
#include "controller/plugin/provisioner.h"
#include "controller/reconcile/timeouts.h"
#include "controller/scheduler/decide.h"

namespace egpu::reconcile {

/// Thread-safe. Registry and stores must outlive it.
class Provisioning {
 public:
  using Notify = std::function<void(const std::string& plugin)>;
  /// maxCalls: calls under way per plugin. begins: called before each provision call; onFault: called when lastFault()
  /// appears or ends. Both get the plugin's name and may be null.
  Provisioning(plugin::Registry& registry, const cache::Stores& stores, base::Clock& clock, const Timeouts& timeouts,
               int maxCalls, Notify begins = {}, Notify onFault = {})
      : registry_(registry),
        stores_(stores),
        clock_(clock),
        timeouts_(timeouts),
        maxCalls_(maxCalls),
        begins_(std::move(begins)),
        onFault_(std::move(onFault)) {}

  /// W3. nullopt if the device has to wait (see delay()): too many calls of that plugin are under way, its last failure
  /// is too recent, or the controller stops. Ok for a device without a provisioner. A failure with the same code as the
  /// one before repeats its text for a while, because each new text would be a write.
  std::optional<plugin::Reply> provision(const cache::Gpu& device);
  /// R3, with the amounts of the device's target; otherwise as provision().
  std::optional<plugin::Reply> resize(const cache::Gpu& device);
  /// Returns why the device's plugin, if it is loaded, can't resize; empty if it can.
  std::string cannotResize(const cache::Gpu& device) const;
  /// Returns the claims for which a provision call of that plugin is under way, and since when.
  std::vector<std::pair<core::ObjectKey, base::Clock::Steady>> underWay(std::string_view provisioner) const;
  /// Returns the last fault of an unreliable plugin (it hung, died or answered garbage to a provision call); empty once
  /// the plugin has answered properly.
  std::string lastFault(std::string_view provisioner) const;
  /// Deprovisions the device; otherwise as provision().
  std::optional<plugin::Reply> deprovision(const cache::Gpu& device);
  /// Returns whether deprovision() succeeded for the device of that uid, which is gone. Forgets the device.
  bool takeUndone(const std::string& uid);
  /// Deprovisions a key that no device has any more. nullopt: no call is free, or the controller stops.
  std::optional<plugin::Reply> deprovisionKey(std::string_view provisioner, const std::string& key);
  /// Requeue delay of a device that got no answer. If all calls of a plugin are taken, the delay grows with the number
  /// of refused devices, so that many devices of a plugin that hangs do not occupy the workers of other classes.
  std::chrono::milliseconds delay(const cache::Gpu& device) const;
  /// The plugin was added, removed or has recovered: failed calls may be tried at once.
  void pluginChanged(const std::string& provisioner);
  std::optional<plugin::ListReply> list(std::string_view provisioner);
  /// Lists the parameters that never reach a plugin, for people: "nodePolicy, cardPolicy, …".
  static std::string coreParameters();
  /// Returns the plugin's verdict on the class's parameters. nullopt: no call is free, or the controller stops.
  std::optional<plugin::Reply> validate(const cache::Class& cls);
  /// True if the plugin is to be asked which place it prefers. False for a while after it failed; the scheduler's order
  /// then stands.
  bool prefers(std::string_view provisioner);
  /// Returns these places in the order that the class's plugin prefers for the claim. nullopt: no call is free.
  std::optional<plugin::PreferReply> prefer(const cache::Class& cls, const core::ObjectKey& claim,
                                            const std::vector<scheduler::Decision>& places);

  /// Null if the plugin is not loaded; `why` is then set to the known reason.
  plugin::Provisioner* find(std::string_view name, std::string* why) { return registry_.find(name, why); }
  plugin::Registry& registry() { return registry_; }

 private:
  class CallSlot;
  class UnderWay;
  /// Kinds of calls for a device, each with its own backoff.
  enum class CallKind { provision, deprovision, resize };
  static constexpr std::array kCallKinds{CallKind::provision, CallKind::deprovision, CallKind::resize};
  struct Failure {
    std::string provisioner;
    plugin::ReplyCode outcome = plugin::ReplyCode::ok;
    std::string message;               ///< as reported
    base::Clock::Steady reportedAt{};  ///< when it was reported
    base::Clock::Steady again{};       ///< time before which it is not called
    std::chrono::milliseconds wait{0};
  };
  using FailureKey = std::pair<std::string, CallKind>;  ///< by uid of the device

  bool mayCall(const FailureKey& key) const;
  /// Records the result of a call. May replace a failure's text by the text of the failure before.
  void note(const FailureKey& key, const std::string& provisioner, plugin::Reply& reply);
  plugin::DeviceRequest requestFor(const cache::Gpu& device, const std::vector<v1alpha::DeviceCard>& cards) const;
  plugin::CardShare shareOf(const std::string& card, const std::string& uuid, int64_t core, int64_t memory) const;
  bool cutShort(const plugin::Reply& reply) const;
  void judge(const std::string& provisioner, const plugin::Reply& reply);
  plugin::Registry& registry_;
  const cache::Stores& stores_;
  base::Clock& clock_;
  const Timeouts& timeouts_;
  const int maxCalls_;
  const Notify begins_, onFault_;
  mutable base::Mutex mutex_;
  /// Maximum number of remembered devices. Forgetting a successful deprovision costs a list of its plugin, forgetting a
  /// failure costs a failed call.
  static constexpr std::size_t kRemembered = 65'536;
  struct PluginCalls {
    int taken = 0;
    int refused = 0;                                        ///< devices since the last free call
    std::map<core::ObjectKey, base::Clock::Steady> claims;  ///< being provisioned, and since when
    std::string lastFault;
    base::Clock::Steady preferAgain{};  ///< prefer failed; time before which it is not asked
  };
  std::map<std::string, PluginCalls, std::less<>> calls_ EGPU_GUARDED_BY(mutex_);  ///< by plugin
  std::set<std::string> undone_ EGPU_GUARDED_BY(mutex_);                           ///< uids of deprovisioned devices
  std::map<FailureKey, Failure> failed_ EGPU_GUARDED_BY(mutex_);                   ///< last failures
};

}  // namespace egpu::reconcile

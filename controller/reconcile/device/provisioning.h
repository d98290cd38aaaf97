// Calls of provisioners on behalf of devices: what a plugin is told, and a bound on how many workers one plugin may
// hold, so that one that hangs harms only its own class.
#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "controller/base/clock.h"
#include "controller/cache/stores.h"
#include "controller/plugin/provisioner.h"
#include "controller/scheduler/decide.h"

namespace egpu::reconcile {

/// When to ask again a plugin that has no turn free now, and one that is still at work.
constexpr std::chrono::milliseconds kPluginBusy{50};
constexpr std::chrono::milliseconds kPollBackground{500};

/// How long a plugin that failed is left alone for what it failed at, after so long a wait before (0: none).
inline std::chrono::milliseconds nextWait(std::chrono::milliseconds before) {
  constexpr std::chrono::milliseconds first{500}, longest{16'000};
  return before.count() == 0 ? first : std::min(2 * before, longest);
}

/// Thread-safe. Registry and stores must outlive it.
class Provisioning {
 public:
  using Told = std::function<void(const std::string& plugin)>;
  /// atMost: calls under way per plugin. begins: before each provision call; troubled: trouble() came or went. Both are
  /// called with the plugin's name and may be null.
  Provisioning(plugin::Registry& registry, const cache::Stores& stores, base::Clock& clock, int atMost,
               Told begins = {}, Told troubled = {})
      : registry_(registry),
        stores_(stores),
        clock_(clock),
        atMost_(atMost),
        begins_(std::move(begins)),
        troubled_(std::move(troubled)) {}

  /// W3; nothing if it is not the device's turn (see delay()): too many calls of that plugin are under way, its last
  /// failure is too fresh, or the controller stops. A device without a provisioner needs none: ok. A failure like the
  /// one before says the same again for a while, whatever its text: each new text would be a write.
  std::optional<plugin::Reply> provision(const cache::Gpu& device);
  /// R3, likewise: the device is given what it is to have.
  std::optional<plugin::Reply> resize(const cache::Gpu& device);
  /// Empty, or why its plugin, which is there, never will.
  std::string cannotResize(const cache::Gpu& device) const;
  /// Claims for which a provision call of that plugin is under way, and since when.
  std::vector<std::pair<core::ObjectKey, base::Clock::Steady>> underWay(std::string_view provisioner) const;
  /// What a plugin that can't be relied on did last (it hung, died or answered garbage when it was to provision); empty
  /// since it answered as it should.
  std::string trouble(std::string_view provisioner) const;
  /// The same for taking it back.
  std::optional<plugin::Reply> deprovision(const cache::Gpu& device);
  /// The device of that uid is gone: whether deprovision() had gone well for it. Forgets it.
  bool takeUndone(const std::string& uid);
  /// The same for a key that no device has any more.
  std::optional<plugin::Reply> deprovisionKey(std::string_view provisioner, const std::string& key);
  /// How long a device that got no answer stays away. From a plugin all of whose turns are taken longer the more are
  /// turned away, so that a crowd before a plugin that hangs doesn't keep everybody else's workers busy.
  std::chrono::milliseconds delay(const cache::Gpu& device) const;
  /// The plugin came, went or recovered: what failed may be tried at once.
  void pluginChanged(const std::string& provisioner);
  std::optional<plugin::ListReply> list(std::string_view provisioner);
  /// For people: "nodePolicy, cardPolicy, …", the parameters that never reach a plugin.
  static std::string coreParameters();
  /// What the plugin says of the class's parameters.
  std::optional<plugin::Reply> validate(const cache::Class& cls);
  /// Whether the plugin is to be asked which place it prefers. Not for a while after it failed at that: our order stands.
  bool prefers(std::string_view provisioner);
  /// In which order the class's plugin would have these places for the claim. Nothing: none of its turns is free.
  std::optional<plugin::PreferReply> prefer(const cache::Class& cls, const core::ObjectKey& claim,
                                            const std::vector<scheduler::Decision>& places);

  /// Null if not there; why says what is known.
  plugin::Provisioner* find(std::string_view name, std::string* why) { return registry_.find(name, why); }
  plugin::Registry& registry() { return registry_; }

 private:
  class Turn;
  class UnderWay;
  /// What one device is called for, and failed at.
  enum class Call { provision, deprovision, resize };
  static constexpr std::array kCalls{Call::provision, Call::deprovision, Call::resize};
  struct Failure {
    std::string provisioner;
    plugin::ReplyCode outcome = plugin::ReplyCode::ok;
    std::string message;          ///< as said
    base::Clock::Steady said{};   ///< since when
    base::Clock::Steady again{};  ///< not called before
    std::chrono::milliseconds wait{0};
  };
  using FailureKey = std::pair<std::string, Call>;  ///< of a device's uid

  bool mayCall(const FailureKey& key) const;
  /// Notes what became of a call; a failure's text may become that of the one before.
  void note(const FailureKey& key, const std::string& provisioner, plugin::Reply& reply);
  plugin::DeviceRequest requestFor(const cache::Gpu& device, const std::vector<v1alpha::DeviceCard>& cards) const;
  plugin::CardShare shareOf(const std::string& card, const std::string& uuid, int64_t core, int64_t memory) const;
  bool cutShort(const plugin::Reply& reply) const;
  void judge(const std::string& provisioner, const plugin::Reply& reply);
  plugin::Registry& registry_;
  const cache::Stores& stores_;
  base::Clock& clock_;
  const int atMost_;
  const Told begins_, troubled_;
  mutable std::mutex mutex_;
  /// Devices, at most: forgetting that one was undone costs a look at its plugin's list, that one failed a call.
  static constexpr std::size_t kRemembered = 65'536;
  struct Turns {
    int taken = 0;
    int refused = 0;                                        ///< since one was given
    std::map<core::ObjectKey, base::Clock::Steady> claims;  ///< being provisioned, since when
    std::string trouble;
    base::Clock::Steady preferAgain{};  ///< it failed at prefer and is not asked before
  };
  std::map<std::string, Turns, std::less<>> turns_;  ///< by plugin; guarded by mutex_
  std::set<std::string> undone_;                     ///< uids; guarded by mutex_
  std::map<FailureKey, Failure> failed_;             ///< what failed last; guarded by mutex_
};

}  // namespace egpu::reconcile

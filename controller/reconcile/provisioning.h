// Calls of provisioners on behalf of devices: what a plugin is told, and a bound on how many workers one plugin may
// hold, so that one that hangs harms only its own class.
#pragma once

#include <chrono>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "controller/cache/stores.h"
#include "controller/plugin/provisioner.h"

namespace egpu::reconcile {

/// Thread-safe. Registry and stores must outlive it.
class Provisioning {
 public:
  /// atMost: calls under way per plugin.
  Provisioning(plugin::Registry& registry, const cache::Stores& stores, int atMost)
      : registry_(registry), stores_(stores), atMost_(atMost) {}

  /// W3; nothing if too many calls of that plugin are under way (try again soon). A device without a provisioner needs
  /// none: ok.
  std::optional<plugin::Reply> provision(const cache::Gpu& device);
  std::optional<plugin::Reply> deprovision(const cache::Gpu& device);
  /// The device of that uid is gone: whether deprovision() had gone well for it. Forgets it.
  bool takeUndone(const std::string& uid);
  /// The same for a key that no device has any more.
  std::optional<plugin::Reply> deprovisionKey(std::string_view provisioner, const std::string& key);
  /// How long to stay away from a plugin all of whose turns are taken. Longer the more are turned away, so that a crowd
  /// before a plugin that hangs doesn't keep everybody else's workers busy.
  std::chrono::milliseconds busyDelay(std::string_view provisioner) const;
  std::optional<plugin::ListReply> list(std::string_view provisioner);
  /// What the class gives the plugin to check: the parameters that the core doesn't know.
  std::optional<plugin::Reply> validate(const cache::Class& cls);

  /// Null if not there; why says what is known.
  plugin::Provisioner* find(std::string_view name, std::string* why) { return registry_.find(name, why); }
  plugin::Registry& registry() { return registry_; }

 private:
  class Turn;
  plugin::Registry& registry_;
  const cache::Stores& stores_;
  const int atMost_;
  mutable std::mutex mutex_;
  static constexpr std::size_t kUndoneRemembered = 65'536;  ///< forgetting one costs a look at its plugin's list
  struct Turns {
    int taken = 0;
    int refused = 0;  ///< since one was given
  };
  std::map<std::string, Turns, std::less<>> turns_;  ///< by plugin; guarded by mutex_
  std::set<std::string> undone_;                     ///< uids; guarded by mutex_
};

}  // namespace egpu::reconcile

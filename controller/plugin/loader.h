// Loads one shared object, checks it against the ABI and calls its slots. Used in egpu-plugin-host, and in process by
// tests.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>

#include "api/plugin/provisioner.h"
#include "controller/base/status.h"
#include "controller/plugin/call.h"

namespace egpu::plugin {

using EntryFunction = int (*)(const egpu_host*, const egpu_provisioner**);

/// Sets the destination of egpu_host.log; level is an egpu_log_level. Process-wide, because the ABI's log function has
/// no call argument. Set it before loading.
void setPluginLog(std::function<void(int level, const std::string& message)> sink);

/// A loaded plugin with a valid table. Never unloaded: its slots and threads may run until the process ends.
/// Thread-safe.
class LoadedPlugin {
 public:
  /// Checks dlopen, the entry symbol, version, size, required slots and describe. The status names the failed check:
  /// Code::invalid for a plugin that violates the ABI, Code::unavailable if its entry or describe returned an error.
  static base::Result<std::unique_ptr<LoadedPlugin>> open(const std::string& path);
  static base::Result<std::unique_ptr<LoadedPlugin>> fromEntry(EntryFunction entry);

  const Description& description() const { return description_; }
  /// Calls the slot on this thread and blocks until it returns. The plugin sees `cancelled` (may be null) through the
  /// host's cancelled(). An absent optional slot returns the value that provisioner.h documents; invalid answers and
  /// escaping exceptions become ReplyCode::garbage.
  Answer call(const Call& call, const std::atomic<bool>* cancelled) const;

 private:
  LoadedPlugin() = default;

  egpu_provisioner table_{};  ///< a copy; slots beyond the plugin's struct_size are null
  Description description_;
};

}  // namespace egpu::plugin

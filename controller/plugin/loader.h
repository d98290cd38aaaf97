// Loads one shared object, checks it against the ABI and calls its slots. Runs in egpu-plugin-host, and in process for
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

/// Where egpu_host.log goes; level is an egpu_log_level. Process-wide, because the ABI's log has no call. Set it before
/// loading.
void setPluginLog(std::function<void(int level, const std::string& message)> sink);

/// A loaded plugin whose table was found good. Never unloaded: slots and threads of its own may run until the process
/// ends. Thread-safe.
class LoadedPlugin {
 public:
  /// dlopen, entry symbol, version, size, required slots, describe. The status says which of these failed:
  /// Code::invalid for a plugin that breaks the ABI, Code::unavailable when its own entry or describe refused.
  static base::Result<std::unique_ptr<LoadedPlugin>> open(const std::string& path);
  static base::Result<std::unique_ptr<LoadedPlugin>> fromEntry(EntryFunction entry);

  const Description& description() const { return description_; }
  /// Calls the slot on this thread, for as long as it takes. `cancelled` (may be null) is what cancelled() tells the
  /// plugin. An absent optional slot is answered as provisioner.h says; garbage and escaping exceptions become
  /// ReplyCode::garbage.
  Answer call(const Call& call, const std::atomic<bool>* cancelled) const;

 private:
  LoadedPlugin() = default;

  egpu_provisioner table_{};  ///< a copy; what lies beyond the plugin's struct_size is null
  Description description_;
};

}  // namespace egpu::plugin

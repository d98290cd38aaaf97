// A registry of plugins that run in this process: for tests and benchmarks. It offers no protection: a plugin that
// hangs blocks its caller, and a crash ends the process. Production uses HostedRegistry.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "controller/base/mutex.h"
#include "controller/base/status.h"
#include "controller/plugin/call.h"
#include "controller/plugin/loader.h"

namespace egpu::plugin {

/// Thread-safe.
class InProcessRegistry final : public Registry {
 public:
  explicit InProcessRegistry(Deadlines deadlines = {}) : deadlines_(deadlines) {}

  /// Loads a shared object; refuses (alreadyExists) a second plugin of the same name.
  base::Status load(const std::string& path);
  /// Adds a plugin that is linked into this program.
  base::Status add(EntryFunction entry);
  /// Adds any implementation, such as a fake in a test.
  base::Status add(std::unique_ptr<Provisioner> provisioner);

  Provisioner* find(std::string_view name, std::string* why) override;
  std::vector<std::string> names() const override;
  void onChange(std::function<void(const std::string& name)> listener) override;
  Reply readiness(std::string_view name) const override;

 private:
  base::Status add(base::Result<std::unique_ptr<LoadedPlugin>> loaded, const std::string& what);

  const Deadlines deadlines_;
  mutable base::Mutex mutex_;
  std::map<std::string, std::unique_ptr<Provisioner>, std::less<>> provisioners_ EGPU_GUARDED_BY(mutex_);
  std::vector<std::string> refused_ EGPU_GUARDED_BY(mutex_);  ///< error of each plugin that did not load
  std::vector<std::function<void(const std::string&)>> listeners_ EGPU_GUARDED_BY(mutex_);
};

}  // namespace egpu::plugin

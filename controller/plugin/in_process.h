// A registry of plugins that run in this very process: for tests and for measuring. No protection: a plugin that hangs
// blocks its caller, one that crashes takes the process along. Production uses HostedRegistry.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

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
  /// Takes a plugin that is linked in.
  base::Status add(EntryFunction entry);
  /// Takes any implementation, such as a test's fake.
  base::Status add(std::unique_ptr<Provisioner> provisioner);

  Provisioner* find(std::string_view name, std::string* why) override;
  std::vector<std::string> names() const override;
  void onChange(std::function<void(const std::string& name)> listener) override;
  Reply readiness(std::string_view name) const override;

 private:
  base::Status add(base::Result<std::unique_ptr<LoadedPlugin>> loaded, const std::string& what);

  const Deadlines deadlines_;
  mutable std::mutex mutex_;
  // State below is protected by mutex_.
  std::map<std::string, std::unique_ptr<Provisioner>, std::less<>> provisioners_;
  std::vector<std::string> refused_;  ///< why what did not load did not
  std::vector<std::function<void(const std::string&)>> listeners_;
};

}  // namespace egpu::plugin

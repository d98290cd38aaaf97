// The Registry for production: each plugin runs in a host process of its own.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "controller/base/mutex.h"
#include "controller/plugin/hosted.h"

namespace egpu::plugin {

/// Thread-safe. Listeners are called on the plugins' threads and must not block; they must outlive the registry.
class HostedRegistry final : public Registry {
 public:
  /// Starts one host process per shared object and waits until each has come up or failed once, at most
  /// options.openWait in total. A path that is a folder stands for all *.so in it, sorted by name. If two plugins have
  /// the same name, the first in this order is used; among plugins that come up later, the first to do so. Failed
  /// plugins are restarted with backoff. Reports no errors: see readiness() and the `why` of find().
  HostedRegistry(const std::vector<std::string>& paths, const HostOptions& options, base::Clock& clock,
                 base::Random& random);
  ~HostedRegistry() override;

  Provisioner* find(std::string_view name, std::string* why) override;
  std::vector<std::string> names() const override;
  void onChange(std::function<void(const std::string& name)> listener) override;
  Reply readiness(std::string_view name) const override;
  bool closing() const override { return closing_; }
  /// Called when the controller stops: see HostedProvisioner::close. Returns immediately; any thread.
  void close();

  /// Every given file with its readiness: for logs, health and tests.
  struct File {
    std::string path;
    std::string name;  ///< empty until the plugin has described itself
    Reply readiness;
  };
  std::vector<File> files() const;
  /// True if files() contains all files of the given folders.
  bool hasReadFolders() const { return missing_.empty(); }
  /// Returns the plugin with that name, or null; for tests and diagnostics.
  HostedProvisioner* hosted(std::string_view name);

 private:
  void changed(HostedProvisioner& plugin);
  void enroll(HostedProvisioner& plugin) EGPU_REQUIRES(mutex_);
  std::string whyNot(std::string_view name) const EGPU_REQUIRES(mutex_);

  std::atomic<bool> closing_{false};
  mutable base::Mutex mutex_;
  /// Before that, names are assigned in the order of paths, not of arrival.
  bool started_ EGPU_GUARDED_BY(mutex_) = false;
  std::map<std::string, HostedProvisioner*, std::less<>> byName_ EGPU_GUARDED_BY(mutex_);
  std::vector<std::function<void(const std::string&)>> listeners_ EGPU_GUARDED_BY(mutex_);

  // Constant after construction.
  std::vector<std::string> missing_;  ///< paths that can't be read
  // Constant once started_ is true. The plugins' threads call changed(), so this is the last member and destroyed
  // first.
  std::vector<std::unique_ptr<HostedProvisioner>> plugins_;
};

}  // namespace egpu::plugin

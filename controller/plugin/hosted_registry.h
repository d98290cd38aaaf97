// The plugins of a process, each in a host process of its own: what production uses as Registry.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "controller/plugin/hosted.h"

namespace egpu::plugin {

/// Thread-safe. Listeners are called on the plugins' threads and must not block; they must outlive the registry's last
/// change, that is the registry.
class HostedRegistry final : public Registry {
 public:
  /// Starts one host process per shared object and waits until each has come up or failed once, at most
  /// options.openWait: one that hangs keeps the others waiting no longer. A path that is a folder stands for every *.so
  /// in it, by name. Of two plugins with one name the first in this order stays; of those that come up later, the first
  /// to do so. Plugins that fail are tried again with back-off; nothing here is an error, readiness() and why tell.
  HostedRegistry(const std::vector<std::string>& paths, const HostOptions& options, base::Clock& clock,
                 base::Random& random);
  ~HostedRegistry() override;

  Provisioner* find(std::string_view name, std::string* why) override;
  std::vector<std::string> names() const override;
  void onChange(std::function<void(const std::string& name)> listener) override;
  Reply readiness(std::string_view name) const override;
  bool closing() const override { return closing_; }
  /// The controller stops: see HostedProvisioner::close. Returns at once; any thread.
  void close();

  /// Every file that was given, with its readiness: for logs, health and tests.
  struct File {
    std::string path;
    std::string name;  ///< empty until it described itself
    Reply readiness;
  };
  std::vector<File> files() const;
  /// Whether files() has all files of the folders that were given.
  bool hasReadFolders() const { return missing_.empty(); }
  /// The plugin behind a name, or null; for tests and diagnostics.
  HostedProvisioner* hosted(std::string_view name);

 private:
  void changed(HostedProvisioner& plugin);
  void enroll(HostedProvisioner& plugin);
  std::string whyNot(std::string_view name) const;

  std::atomic<bool> closing_{false};
  mutable std::mutex mutex_;
  // State below is protected by mutex_.
  bool started_ = false;  ///< before, names are given out in the order of paths and not of arrival
  std::map<std::string, HostedProvisioner*, std::less<>> byName_;
  std::vector<std::function<void(const std::string&)>> listeners_;

  // Constant once constructed.
  std::vector<std::string> missing_;  ///< paths that cannot be read
  // Constant once started_; its threads call changed(), so it is declared last and ends first.
  std::vector<std::unique_ptr<HostedProvisioner>> plugins_;
};

}  // namespace egpu::plugin

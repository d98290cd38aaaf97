#include "controller/plugin/hosted_registry.h"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <system_error>
#include <utility>

#include "controller/base/log.h"

namespace egpu::plugin {
namespace {

namespace fs = std::filesystem;

/// Returns the files that a path stands for.
std::vector<std::string> filesOf(const std::string& path, std::string& error) {
  std::error_code failed;
  if (!fs::is_directory(path, failed)) return {path};
  std::vector<std::string> out;
  for (fs::directory_iterator at(path, failed), end; !failed && at != end; at.increment(failed))
    if (at->path().extension() == ".so") out.push_back(at->path().string());
  if (failed) error = path + ": " + failed.message();
  std::sort(out.begin(), out.end());
  return out;
}

}  // namespace

HostedRegistry::HostedRegistry(const std::vector<std::string>& paths, const HostOptions& options, base::Clock& clock,
                               base::Random& random) {
  for (const auto& path : paths) {
    std::string error;
    for (const auto& file : filesOf(path, error))
      plugins_.push_back(std::make_unique<HostedProvisioner>(file, options, clock, random,
                                                             [this](HostedProvisioner& p) { changed(p); }));
    if (!error.empty()) missing_.push_back(error);
  }
  const auto until = std::chrono::steady_clock::now() + options.openWait;
  for (const auto& plugin : plugins_) plugin->waitFirstAttempt(until);
  const base::MutexLock lock(mutex_);
  for (const auto& plugin : plugins_) enroll(*plugin);
  started_ = true;
}

HostedRegistry::~HostedRegistry() {
  // Retires all before waiting for the first.
  for (const auto& plugin : plugins_) plugin->retire("the registry is closing");
}

void HostedRegistry::close() {
  closing_ = true;
  for (const auto& plugin : plugins_) plugin->close();
}

/// Registers the plugin's name, or retires the plugin if the name is taken.
void HostedRegistry::enroll(HostedProvisioner& plugin) {
  if (!plugin.described()) return;
  const auto [at, fresh] = byName_.emplace(plugin.description().name, &plugin);
  if (fresh || at->second == &plugin) return;
  const std::string why = plugin.path() + ": a plugin of the name " + plugin.description().name +
                          " is already loaded from " + at->second->path();
  if (plugin.readiness().message == why) return;
  base::log::error("plugin refused", {{"why", why}});
  plugin.retire(why);
}

void HostedRegistry::changed(HostedProvisioner& plugin) {
  std::vector<std::function<void(const std::string&)>> listeners;
  std::string name;
  {
    const base::MutexLock lock(mutex_);
    if (!started_) return;
    enroll(plugin);
    if (!plugin.described()) return;
    name = plugin.description().name;
    listeners = listeners_;
  }
  for (const auto& listener : listeners) listener(name);
}

std::string HostedRegistry::whyNot(std::string_view name) const {
  std::string why = "no provisioner of the name " + std::string(name) + " is loaded";
  for (const auto& [known, plugin] : byName_) why += (known == byName_.begin()->first ? "; there are " : ", ") + known;
  for (const auto& plugin : plugins_)
    if (const Reply state = plugin->readiness(); !state.ok() && !plugin->described()) why += "; " + state.message;
  for (const auto& missing : missing_) why += "; " + missing;
  return why;
}

Provisioner* HostedRegistry::find(std::string_view name, std::string* why) {
  const base::MutexLock lock(mutex_);
  const auto found = byName_.find(name);
  if (found != byName_.end()) return found->second;
  if (why) *why = whyNot(name);
  return nullptr;
}

HostedProvisioner* HostedRegistry::hosted(std::string_view name) {
  const base::MutexLock lock(mutex_);
  const auto found = byName_.find(name);
  return found == byName_.end() ? nullptr : found->second;
}

std::vector<std::string> HostedRegistry::names() const {
  const base::MutexLock lock(mutex_);
  std::vector<std::string> out;
  for (const auto& [name, plugin] : byName_) out.push_back(name);
  return out;
}

void HostedRegistry::onChange(std::function<void(const std::string& name)> listener) {
  const base::MutexLock lock(mutex_);
  listeners_.push_back(std::move(listener));
}

Reply HostedRegistry::readiness(std::string_view name) const {
  const base::MutexLock lock(mutex_);
  const auto found = byName_.find(name);
  if (found == byName_.end()) return {ReplyCode::unavailable, whyNot(name)};
  return found->second->readiness();
}

std::vector<HostedRegistry::File> HostedRegistry::files() const {
  const base::MutexLock lock(mutex_);
  std::vector<File> out;
  for (const auto& plugin : plugins_)
    out.push_back({plugin->path(), plugin->described() ? plugin->description().name : "", plugin->readiness()});
  return out;
}

}  // namespace egpu::plugin

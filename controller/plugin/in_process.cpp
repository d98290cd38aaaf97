#include "controller/plugin/in_process.h"

#include <utility>

namespace egpu::plugin {
namespace {

class InProcessProvisioner final : public CallingProvisioner {
 public:
  InProcessProvisioner(std::unique_ptr<LoadedPlugin> plugin, Deadlines deadlines)
      : CallingProvisioner(deadlines), plugin_(std::move(plugin)) {}
  const Description& description() const override { return plugin_->description(); }
  Answer perform(const Call& call) override { return plugin_->call(call, nullptr); }

 private:
  const std::unique_ptr<LoadedPlugin> plugin_;
};

}  // namespace

base::Status InProcessRegistry::load(const std::string& path) { return add(LoadedPlugin::open(path), path); }

base::Status InProcessRegistry::add(EntryFunction entry) {
  return add(LoadedPlugin::fromEntry(entry), "linked-in plugin");
}

base::Status InProcessRegistry::add(base::Result<std::unique_ptr<LoadedPlugin>> loaded, const std::string& what) {
  if (!loaded) {
    const base::MutexLock lock(mutex_);
    refused_.push_back(what + ": " + loaded.status().message());
    return {loaded.status().code(), refused_.back()};
  }
  return add(std::make_unique<InProcessProvisioner>(std::move(loaded).value(), deadlines_));
}

base::Status InProcessRegistry::add(std::unique_ptr<Provisioner> provisioner) {
  const std::string name = provisioner->description().name;
  std::vector<std::function<void(const std::string&)>> listeners;
  {
    const base::MutexLock lock(mutex_);
    if (!provisioners_.emplace(name, std::move(provisioner)).second) {
      refused_.push_back("a second plugin of the name " + name + " was refused");
      return {base::Code::alreadyExists, refused_.back()};
    }
    listeners = listeners_;
  }
  for (const auto& listener : listeners) listener(name);
  return {};
}

Provisioner* InProcessRegistry::find(std::string_view name, std::string* why) {
  const base::MutexLock lock(mutex_);
  const auto found = provisioners_.find(name);
  if (found != provisioners_.end()) return found->second.get();
  if (why) {
    *why = "no provisioner of the name " + std::string(name) + " is loaded";
    for (const auto& refused : refused_) *why += "; " + refused;
  }
  return nullptr;
}

std::vector<std::string> InProcessRegistry::names() const {
  const base::MutexLock lock(mutex_);
  std::vector<std::string> out;
  for (const auto& [name, provisioner] : provisioners_) out.push_back(name);
  return out;
}

void InProcessRegistry::onChange(std::function<void(const std::string& name)> listener) {
  const base::MutexLock lock(mutex_);
  listeners_.push_back(std::move(listener));
}

Reply InProcessRegistry::readiness(std::string_view name) const {
  const base::MutexLock lock(mutex_);
  if (provisioners_.find(name) != provisioners_.end()) return {};
  return {ReplyCode::unavailable, "no provisioner of the name " + std::string(name) + " is loaded"};
}

}  // namespace egpu::plugin

// A provisioner that remembers its devices and answers as the test prescribes, and a registry that holds it. Both
// outlive controllers, as the world behind a plugin does.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "controller/plugin/provisioner.h"

namespace egpu::support {

/// Thread-safe.
class FakeProvisioner final : public plugin::Provisioner {
 public:
  explicit FakeProvisioner(std::string name, std::string source = "gpuShare") {
    description_.name = std::move(name);
    description_.source = std::move(source);
    description_.resizes = true;
  }
  const plugin::Description& description() const override { return description_; }
  plugin::Reply validate(const core::StringMap& parameters) override {
    std::lock_guard lock(mutex_);
    ++validations_;
    if (validationsFail_ > 0) {
      --validationsFail_;
      return {plugin::ReplyCode::internal, "out of sorts"};
    }
    if (parameters.count("refuse") != 0) return {plugin::ReplyCode::invalid, "parameter refuse is not known"};
    return {};
  }
  plugin::Reply provision(const plugin::DeviceRequest& request) override {
    if (before) before();
    plugin::Reply reply;
    {
      std::lock_guard lock(mutex_);
      ++provisions_;
      if (!next_.empty()) {
        reply = next_.front();
        if (next_.size() > 1 || !sticky_) next_.pop_front();
      }
      if (reply.ok()) made_.insert(request.key);
      reply.isolation = isolation_;
      reply.source = source_;
      sources_.push_back(request.source);
    }
    if (after) after();
    return reply;
  }
  plugin::Reply deprovision(const std::string& key) override {
    if (before) before();
    {
      std::lock_guard lock(mutex_);
      if (!deprovisions_.ok()) return deprovisions_;
      made_.erase(key);
      sizes_.erase(key);
    }
    if (after) after();
    return {};
  }
  plugin::Reply resize(const plugin::DeviceRequest& request) override {
    if (before) before();
    plugin::Reply reply;
    {
      std::lock_guard lock(mutex_);
      ++resizes_;
      if (!nextResizes_.empty()) {
        reply = nextResizes_.front();
        nextResizes_.pop_front();
      }
      auto& size = sizes_[request.key];
      if (made_.count(request.key) == 0)
        reply = {plugin::ReplyCode::invalid, "was not provisioned"};
      else if (request.resizeNumber < size.resizeNumber)
        reply = {plugin::ReplyCode::exists, "a later resize was done already"};
      else if (reply.ok())
        size = request;
      reply.isolation = isolation_;
    }
    if (after) after();
    return reply;
  }
  plugin::ListReply list() override {
    std::lock_guard lock(mutex_);
    return {{}, {made_.begin(), made_.end()}};
  }
  plugin::Reply stage(const plugin::DeviceRequest&) override { return {}; }
  plugin::MountReply mount(const plugin::DeviceRequest&, const std::string&, const std::string&) override { return {}; }
  plugin::Reply unmount(const std::string&, const std::string&, const std::string&) override { return {}; }
  plugin::Reply unstage(const std::string&) override { return {}; }
  plugin::PreferReply prefer(const plugin::Wish& wish) override {
    std::lock_guard lock(mutex_);
    wishes_.push_back(wish);
    return preference_(wish);
  }

  /// Gives the plugin the slot `prefer`. Call it only while the plugin is not in use.
  void preferBy(std::function<plugin::PreferReply(const plugin::Wish&)> preference) {
    description_.prefers = true;
    preference_ = std::move(preference);
  }
  std::vector<plugin::Wish> wishes() const {
    std::lock_guard lock(mutex_);
    return wishes_;
  }

  /// Sets the isolation of the next answers. Call it only while the plugin is not in use.
  void isolateBy(std::optional<v1alpha::Isolation> isolation) { isolation_ = std::move(isolation); }
  /// Sets the kind of its devices. Call it only while the plugin is not in use.
  void provides(std::string source) { description_.source = std::move(source); }
  /// Sets the source of the next answers. Call it only while the plugin is not in use.
  void replySource(plugin::SourceValues source) { source_ = std::move(source); }
  /// Returns the sources of the devices in all provision calls, in their order.
  std::vector<plugin::SourceValues> sources() const {
    std::lock_guard lock(mutex_);
    return sources_;
  }
  /// Sets the answers of the next provisions; sticky: the last answer repeats forever.
  void answer(std::deque<plugin::Reply> replies, bool sticky = false) {
    std::lock_guard lock(mutex_);
    next_ = std::move(replies);
    sticky_ = sticky;
  }
  /// Sets the answer of all further deprovisions.
  void answerDeprovisions(plugin::Reply reply) {
    std::lock_guard lock(mutex_);
    deprovisions_ = std::move(reply);
  }
  /// Sets the answers of the next resizes.
  void answerResizes(std::deque<plugin::Reply> replies) {
    std::lock_guard lock(mutex_);
    nextResizes_ = std::move(replies);
  }
  /// Adds or removes the slot `resize`. Call it only while the plugin is not in use.
  void resizes(bool can) { description_.resizes = can; }
  /// Sets the kind of further devices. Call it only while the plugin is not in use.
  void makes(const std::string& source) { description_.source = source; }
  /// Returns the amounts of the device's last resize; empty if it was never resized.
  plugin::DeviceRequest size(const std::string& key) const {
    std::lock_guard lock(mutex_);
    const auto known = sizes_.find(key);
    return known == sizes_.end() ? plugin::DeviceRequest{} : known->second;
  }
  int resizeCalls() const {
    std::lock_guard lock(mutex_);
    return resizes_;
  }
  /// Lets the next `n` validations fail with an internal error.
  void failValidations(int n) {
    std::lock_guard lock(mutex_);
    validationsFail_ = n;
  }
  std::set<std::string> made() const {
    std::lock_guard lock(mutex_);
    return made_;
  }
  void make(const std::string& key) {
    std::lock_guard lock(mutex_);
    made_.insert(key);
  }
  int validations() const {
    std::lock_guard lock(mutex_);
    return validations_;
  }
  int provisions() const {
    std::lock_guard lock(mutex_);
    return provisions_;
  }
  /// Called around every effect: crash points.
  std::function<void()> before, after;

 private:
  plugin::Description description_;
  mutable std::mutex mutex_;
  std::set<std::string> made_;
  std::vector<plugin::Wish> wishes_;
  std::function<plugin::PreferReply(const plugin::Wish&)> preference_;
  std::deque<plugin::Reply> next_, nextResizes_;
  std::map<std::string, plugin::DeviceRequest> sizes_;
  int resizes_ = 0;
  plugin::Reply deprovisions_;
  std::optional<v1alpha::Isolation> isolation_;
  plugin::SourceValues source_;
  std::vector<plugin::SourceValues> sources_;
  bool sticky_ = false;
  int provisions_ = 0, validations_ = 0, validationsFail_ = 0;
};

/// Thread-safe.
class FakeRegistry final : public plugin::Registry {
 public:
  plugin::Provisioner* find(std::string_view name, std::string* why) override {
    std::lock_guard lock(mutex_);
    auto it = plugins_.find(name);
    if (it != plugins_.end()) return it->second;
    if (why != nullptr) *why = "never seen";
    return nullptr;
  }
  std::vector<std::string> names() const override {
    std::lock_guard lock(mutex_);
    std::vector<std::string> names;
    for (const auto& [name, plugin] : plugins_) names.push_back(name);
    return names;
  }
  void onChange(std::function<void(const std::string&)> listener) override {
    std::lock_guard lock(mutex_);
    listeners_.push_back(std::move(listener));
  }
  plugin::Reply readiness(std::string_view) const override { return {}; }

  void add(plugin::Provisioner& plugin) {
    std::vector<std::function<void(const std::string&)>> listeners;
    {
      std::lock_guard lock(mutex_);
      plugins_[plugin.description().name] = &plugin;
      listeners = listeners_;
    }
    for (const auto& listener : listeners) listener(plugin.description().name);
  }
  void changed(const std::string& name) {
    std::vector<std::function<void(const std::string&)>> listeners;
    {
      std::lock_guard lock(mutex_);
      listeners = listeners_;
    }
    for (const auto& listener : listeners) listener(name);
  }
  /// Drops the callbacks of controllers that no longer exist.
  void forgetListeners() {
    std::lock_guard lock(mutex_);
    listeners_.clear();
  }

 private:
  mutable std::mutex mutex_;
  std::map<std::string, plugin::Provisioner*, std::less<>> plugins_;
  std::vector<std::function<void(const std::string&)>> listeners_;
};

}  // namespace egpu::support

// Provisioned devices in memory. Part of the SDK: include provisioner.hpp.
#pragma once

#include <map>
#include <mutex>
#include <string>

#include "api/plugin/call.hpp"

namespace egpu::sdk {

/// Provisioned devices by key, in memory. Provides the idempotency of convention 5 to plugins whose devices need no
/// work. Thread-safe. The records end with the process; after a restart, a repeated provision returns OK again.
class Records {
 public:
  /// Records `device`: returns OK if it is new, NO_CHANGE if it is known with the same content, even for another claim,
  /// and EXISTS if it is known with other content.
  Status add(const Device& device) {
    const std::string content = fingerprint(device);
    const std::lock_guard lock(mutex_);
    const auto [at, fresh] = records_.emplace(device.key, content);
    if (fresh) return ok();
    if (at->second == content) return noChange();
    return exists("key " + device.key + " is in use with other content");
  }
  /// Forgets the key; returns OK also if it is unknown.
  Status remove(const std::string& key) {
    const std::lock_guard lock(mutex_);
    records_.erase(key);
    return ok();
  }
  /// Records `device` and replaces the known content.
  Status replace(const Device& device) {
    const std::lock_guard lock(mutex_);
    records_[device.key] = fingerprint(device);
    return ok();
  }
  bool has(const std::string& key) const {
    const std::lock_guard lock(mutex_);
    return records_.count(key) != 0;
  }
  Status list(Call& call) const {
    const std::lock_guard lock(mutex_);
    for (const auto& [key, content] : records_) call.listed(key);
    return ok();
  }
  /// Returns the content of convention 5 as one text, which is equal for equal contents only.
  static std::string fingerprint(const Device& d) {
    std::string out;
    const auto field = [&out](const std::string& text) { out += std::to_string(text.size()) + ":" + text; };
    field(d.device), field(d.node);
    for (const auto& c : d.cards) {
      field(c.uuid);
      out += std::to_string(c.core) + "," + std::to_string(c.memory) + ";";
      if (c.migSlots != 0) field(c.migProfile), out += std::to_string(c.migSlots) + ";";
    }
    for (const auto& [name, value] : d.parameters) field(name), field(value);
    for (const auto& [name, value] : d.capacity) field(name), field(value);
    return out;
  }

 private:
  mutable std::mutex mutex_;
  std::map<std::string, std::string> records_;  ///< key → fingerprint
};

}  // namespace egpu::sdk

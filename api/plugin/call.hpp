// Values that slots receive and return, and the running call with its reply functions. Part of the SDK: include
// provisioner.hpp.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "api/plugin/provisioner.h"

namespace egpu::sdk {

/// Return value of a slot. The message appears in the claim's condition.
struct Status {
  int code = EGPU_OK;
  std::string message;
};
inline Status ok() { return {}; }
inline Status noChange() { return {EGPU_NO_CHANGE, {}}; }
inline Status inProgress(std::string why = {}) { return {EGPU_IN_PROGRESS, std::move(why)}; }
inline Status reschedule(std::string why) { return {EGPU_RESCHEDULE, std::move(why)}; }
inline Status exists(std::string why) { return {EGPU_EXISTS, std::move(why)}; }
inline Status invalid(std::string why) { return {EGPU_INVALID, std::move(why)}; }
inline Status unavailable(std::string why) { return {EGPU_UNAVAILABLE, std::move(why)}; }
inline Status internal(std::string why) { return {EGPU_INTERNAL, std::move(why)}; }

using Parameters = std::map<std::string, std::string, std::less<>>;

/// Returns the value of a parameter, or `otherwise`.
inline std::string parameter(const Parameters& parameters, std::string_view name, std::string_view otherwise = "") {
  const auto found = parameters.find(name);
  return found == parameters.end() ? std::string(otherwise) : found->second;
}

/// Refuses the first parameter that is not in `known`, with the list of known ones.
inline Status refuseUnknown(const Parameters& parameters, const std::vector<std::string>& known) {
  for (const auto& [name, value] : parameters) {
    bool found = false;
    for (const auto& k : known) found = found || name == k;
    if (found) continue;
    std::string message = "unknown parameter \"" + name + "\"; this provisioner knows ";
    if (known.empty()) message += "none of its own";
    for (std::size_t i = 0; i < known.size(); ++i) message += (i ? ", " : "") + known[i];
    return invalid(message);
  }
  return ok();
}

/// A card, and the amounts of it that the device gets, as in egpu_card.
struct Card {
  std::string uuid, model;
  std::int64_t index = 0, core = 0, memory = 0, cardMemory = 0;
  std::string pciAddress{};    ///< "" if unknown or the host is older
  std::string migProfile{};    ///< "" if the device has no MIG instances
  std::uint32_t migSlots = 0;  ///< slots of the device's MIG instances: bits as in egpu_card
};

/// Values of a device's object that only its provisioner knows, as in egpu_source. Empty = unknown.
struct DeviceSource {
  std::string deviceName;
  std::vector<std::string> paths;
  std::string endpoint;
};

/// A device. A copy, which may be kept after the slot has returned.
struct Device {
  std::string key, device, claim, node;
  std::vector<Card> cards;
  Parameters parameters;
  std::int64_t resizeNumber = 0;  ///< resize: see egpu_device
  DeviceSource source{};
  Parameters capacity{};  ///< quantities by resource, of a device without cards
};

struct Container {
  std::string pod, container;
};

/// A place for a device.
struct Candidate {
  std::string node;
  std::vector<Card> cards;
};
/// A claim that is about to be placed; candidates in the host's order of preference.
struct Wish {
  std::string claim;
  std::vector<Candidate> candidates;
  Parameters parameters;
};

struct Description {
  std::string name, version, source, isolation;
};

/// Isolation of a device's share: the mechanism, and "Enforced", "Soft" or "None" for each resource. managedMemory:
/// empty = as memory.
struct Isolation {
  std::string mode, memory, compute, faults, managedMemory{};
};
/// True if the device has all of each of its cards: no other device can share them.
inline bool hasWholeCards(const Device& device) {
  for (const auto& card : device.cards)
    if (card.core < 1000 || card.cardMemory <= 0 || card.memory < card.cardMemory) return false;
  return !device.cards.empty();
}
/// True for admin access: the device has no share of any card.
inline bool isAdminAccess(const Device& device) {
  for (const auto& card : device.cards)
    if (card.core != 0 || card.memory != 0) return false;
  return !device.cards.empty();
}
inline Isolation wholeCardIsolation() { return {"whole-card", "Enforced", "Enforced", "Enforced"}; }

/// The running call: its identity and the reply functions. Valid while the slot runs, on any thread.
class Call {
 public:
  Call(const egpu_host& host, const egpu_call& call) : host_(host), call_(call) {}
  std::string key() const { return call_.key; }
  std::int64_t remainingMs() const { return host_.remaining_ms(&call_); }
  bool cancelled() const { return host_.cancelled(&call_) != 0; }

  /// Writes a line to the host's log, which only the operator sees. `level`: egpu_log_level.
  void log(int level, const std::string& text) { host_.log(level, text.c_str()); }
  void message(const std::string& text) { host_.reply_message(&call_, text.c_str()); }
  void listed(const std::string& key) { host_.reply_key(&call_, key.c_str()); }
  void env(const std::string& name, const std::string& value) { host_.reply_env(&call_, name.c_str(), value.c_str()); }
  void deviceNode(const std::string& path, const std::string& permissions = "rw", const std::string& hostPath = "") {
    host_.reply_device_node(&call_, path.c_str(), hostPath.c_str(), permissions.c_str());
  }
  void mount(const std::string& hostPath, const std::string& containerPath, const std::string& options = "") {
    host_.reply_mount(&call_, hostPath.c_str(), containerPath.c_str(), options.c_str());
  }
  void cdiDevice(const std::string& name) { host_.reply_cdi_device(&call_, name.c_str()); }
  void gpu(const egpu_gpu& gpu) { host_.reply_gpu(&call_, &gpu); }
  void health(const std::string& uuid, bool healthy, const std::string& why) {
    host_.reply_health(&call_, uuid.c_str(), healthy ? 1 : 0, why.c_str());
  }
  /// Replies the usage of a card; numbers as in egpu_use, -1 = unknown.
  void use(const std::string& uuid, std::int64_t memory, std::int64_t smPercent, std::int64_t processes) {
    if (!EGPU_HAS(&host_, egpu_host, reply_use)) return;
    const egpu_use use{sizeof use, uuid.c_str(), memory, smPercent, processes};
    host_.reply_use(&call_, &use);
  }
  /// Replies a process that computes on a card; numbers as in egpu_process_use. An older host receives only the values
  /// that it supports.
  void process(const std::string& uuid, std::int64_t pid, std::int64_t memory, std::int64_t smPercent = -1) {
    if (EGPU_HAS(&host_, egpu_host, reply_process_use)) {
      const egpu_process_use process{sizeof process, uuid.c_str(), pid, memory, smPercent};
      host_.reply_process_use(&call_, &process);
    } else if (EGPU_HAS(&host_, egpu_host, reply_process)) {
      host_.reply_process(&call_, uuid.c_str(), pid, memory);
    }
  }
  /// prefer: ranks this candidate next. An older host never calls prefer.
  void preferred(std::size_t candidate) { host_.reply_prefer(&call_, candidate); }
  /// prefer: excludes this candidate.
  void veto(std::size_t candidate, const std::string& why) { host_.reply_veto(&call_, candidate, why.c_str()); }
  /// provision, resize: replies the isolation of the device's share, as in egpu_isolation. An older host does
  /// not report it.
  void isolation(const Isolation& i) {
    if (!EGPU_HAS(&host_, egpu_host, reply_isolation)) return;
    const egpu_isolation out{sizeof out,        i.mode.c_str(),   i.memory.c_str(),
                             i.compute.c_str(), i.faults.c_str(), i.managedMemory.c_str()};
    host_.reply_isolation(&call_, &out);
  }
  /// provision: replies values for the device's object, as in egpu_source. An older host does not store them.
  void source(const DeviceSource& s) {
    if (!EGPU_HAS(&host_, egpu_host, reply_source)) return;
    std::vector<const char*> paths;
    for (const auto& path : s.paths) paths.push_back(path.c_str());
    const egpu_source out{sizeof out, s.deviceName.c_str(), paths.empty() ? nullptr : paths.data(), paths.size(),
                          s.endpoint.c_str()};
    host_.reply_source(&call_, &out);
  }
  void description(const Description& d) {
    egpu_description out{};
    out.struct_size = sizeof out;
    out.name = d.name.c_str();
    out.version = d.version.c_str();
    out.source = d.source.c_str();
    out.isolation = d.isolation.c_str();
    host_.reply_description(&call_, &out);
  }

 private:
  const egpu_host& host_;
  const egpu_call& call_;
};

}  // namespace egpu::sdk

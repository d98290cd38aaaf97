// A provisioner as the controller and the node side call it, independent of the process that it runs in.
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "api/core/container_edits.h"
#include "api/core/meta.h"
#include "api/v1alpha/types.h"
#include "controller/base/status.h"

namespace egpu::plugin {

/// Values of a device's object that only its provisioner knows: spec.qGPU or spec.remote. Empty = unknown.
struct SourceValues {
  std::string deviceName;
  std::vector<std::string> paths;
  std::string endpoint;
  bool empty() const { return deviceName.empty() && paths.empty() && endpoint.empty(); }
  bool operator==(const SourceValues&) const = default;
};

/// Mirrors the codes of api/plugin/provisioner.h. The host itself adds timeout, crashed and garbage.
enum class ReplyCode {
  ok,
  inProgress,
  noChange,
  reschedule,
  exists,
  invalid,
  unavailable,
  internal,
  timeout,
  crashed,
  garbage
};
std::string_view toString(ReplyCode outcome);
/// True if the effect may have happened or is still in progress: repeat the call with the same key until the answer is
/// definite.
bool indefinite(ReplyCode outcome);

struct Reply {
  ReplyCode outcome = ReplyCode::ok;
  std::string message;
  std::optional<v1alpha::Isolation> isolation{};  ///< provision and resize; nullopt = the plugin does not report it
  SourceValues source{};                          ///< provision
  bool ok() const { return outcome == ReplyCode::ok || outcome == ReplyCode::noChange; }
};

struct CardShare {
  std::string uuid;
  std::string model;
  int64_t index = 0;
  int64_t core = 0;          ///< granted milli-cards
  int64_t memory = 0;        ///< granted bytes
  int64_t cardMemory = 0;    ///< total bytes of the card, 0 = unknown
  std::string pciAddress{};  ///< "0000:3b:00.0"; "" = unknown
  std::string migProfile{};  ///< profile of the device's MIG instances; "" = it has none
  v1alpha::Slots slots{};    ///< of these instances
  bool operator==(const CardShare&) const = default;
};

/// A device as a plugin sees it. key is the device's uid, and the idempotency key.
struct DeviceRequest {
  std::string key;
  std::string device;  ///< object name
  std::string claim;   ///< "namespace/name"
  std::string node;
  std::vector<CardShare> cards;
  core::StringMap parameters;
  int64_t resizeNumber = 0;  ///< resize only: number of the device's resize, from 1
  SourceValues source{};
  core::StringMap capacity{};  ///< spec.capacity of a device without cards
};

/// Returns the values of the device's source that its provisioner knows.
SourceValues sourceOf(const v1alpha::ElasticGPU& device);
/// Returns the profile of the device's MIG instances; empty = it has none.
const std::string& migProfileOf(const v1alpha::ElasticGPU& device);

/// A possible place of a device.
struct Candidate {
  std::string node;
  std::vector<CardShare> cards;
  bool operator==(const Candidate&) const = default;
};
/// A claim that is about to be placed.
struct Wish {
  std::string claim;                  ///< "namespace/name"
  std::vector<Candidate> candidates;  ///< 1 to 16, the scheduler's preference first; each node once
  core::StringMap parameters;
};
/// Rejection of a candidate, by its index.
struct Veto {
  uint32_t candidate = 0;
  std::string why;
  bool operator==(const Veto&) const = default;
};
struct PreferReply {
  Reply reply;
  std::vector<uint32_t> order;  ///< indexes of candidates, best first; each once, without vetoed ones
  std::vector<Veto> vetoes;
};

using core::ContainerEdits;
using core::DeviceNode;
using core::Mount;
struct MountReply {
  Reply reply;
  ContainerEdits edits;
};
struct ListReply {
  Reply reply;
  std::vector<std::string> keys;
};

/// Connection of a card to another card, like v1alpha::CardLink.
struct GpuLink {
  std::string peer, type;
  int64_t count = 0;
  bool operator==(const GpuLink&) const = default;
};
/// A card that discover found.
struct Gpu {
  std::string uuid, model;
  int64_t index = -1;     ///< minor number, -1 = unknown
  int64_t memory = 0;     ///< bytes, 0 = unknown
  int64_t smCount = 0;    ///< 0 = unknown
  int64_t numaNode = -1;  ///< -1 = unknown
  std::string pciAddress;
  int64_t milliTflops = 0;  ///< 0 = unknown
  std::vector<GpuLink> links{};
  core::StringMap attributes{};            ///< by the vendor's names
  std::vector<v1alpha::MigProfile> mig{};  ///< empty = not in MIG mode
  bool operator==(const Gpu&) const = default;
};
struct DiscoverReply {
  Reply reply;
  std::vector<Gpu> gpus;
};
/// A plugin's health report for one card.
struct CardHealth {
  std::string uuid;
  bool healthy = true;
  std::string message;
  bool operator==(const CardHealth&) const = default;
};
/// A process that computes on a card.
struct CardProcess {
  std::string uuid;
  int64_t pid = 0;
  int64_t memory = -1;     ///< bytes, -1 = unknown
  int64_t smPercent = -1;  ///< 0…100, -1 = unknown
  bool operator==(const CardProcess&) const = default;
};
/// Usage of a card.
struct CardUse {
  std::string uuid;
  int64_t memory = -1;     ///< bytes, -1 = unknown
  int64_t smPercent = -1;  ///< -1 = unknown: then no processes are reported
  int64_t processes = -1;  ///< -1 = unknown: the process list is then ignored
  bool operator==(const CardUse&) const = default;
};
struct HealthReply {
  Reply reply;
  std::vector<CardHealth> cards;
  std::vector<CardProcess> processes{};
  std::vector<CardUse> use{};
};
/// Processes that compute on this machine's cards; ReplyCode::noChange = the plugin does not have the slot.
struct ProcessesReply {
  Reply reply;
  std::vector<CardProcess> processes;
};

struct Description {
  std::string name;  ///< "gpushare.provisioner.elasticgpu.io"
  std::string version;
  std::string source;     ///< physicalGPU | gpuShare | mig | qGPU | remote: the field of the device's spec that is set
  std::string isolation;  ///< Enforced | Advisory
  bool prefers = false;   ///< the plugin has the slot prefer, as seen by the loader
  bool resizes = false;   ///< the plugin has the slot resize, as seen by the loader
  bool operator==(const Description&) const = default;
};

/// One loaded plugin. Thread-safe; every call blocks at most until its deadline. Owned by the registry.
class Provisioner {
 public:
  virtual ~Provisioner() = default;
  virtual const Description& description() const = 0;
  /// Parameters, here and in requests, are those of a class. Parameters that the core evaluates are not passed to the
  /// plugin.
  virtual Reply validate(const core::StringMap& parameters) = 0;
  virtual Reply provision(const DeviceRequest& request) = 0;
  virtual Reply deprovision(const std::string& key) = 0;
  virtual ListReply list() = 0;
  // Node side.
  virtual Reply stage(const DeviceRequest& request) = 0;
  virtual MountReply mount(const DeviceRequest& request, const std::string& pod, const std::string& container) = 0;
  virtual Reply unmount(const std::string& key, const std::string& pod, const std::string& container) = 0;
  virtual Reply unstage(const std::string& key) = 0;
  // Optional slots; the defaults return the answer of a plugin without the slot.
  /// Changes the amounts of a provisioned device.
  virtual Reply resize(const DeviceRequest&) { return {ReplyCode::invalid, "this provisioner cannot resize a device"}; }
  /// Returns the cards of this machine (node side).
  virtual DiscoverReply discover() { return {}; }
  virtual HealthReply health() { return {}; }
  /// Returns the processes on the cards, quickly (node side).
  virtual ProcessesReply processes() { return {{ReplyCode::noChange, {}}, {}}; }
  /// Returns the plugin's order of the candidates. Called only if the description says `prefers`.
  virtual PreferReply prefer(const Wish&) { return {{ReplyCode::noChange, {}}, {}, {}}; }
};

/// Finds plugins by the name in their description. Thread-safe.
class Registry {
 public:
  virtual ~Registry() = default;
  /// Returns null if no such plugin is loaded; `why` (may be null) then receives the reason (crashed, wrong version,
  /// duplicate name, never seen). The pointer is valid as long as the registry; a plugin that is down answers
  /// ReplyCode::unavailable.
  virtual Provisioner* find(std::string_view name, std::string* why) = 0;
  virtual std::vector<std::string> names() const = 0;
  /// Registers a listener that is called (on any thread) with the plugin's name when it appears, goes down or recovers.
  virtual void onChange(std::function<void(const std::string& name)> listener) = 0;
  /// Returns ok, or the reason as the message for the class's Ready condition.
  virtual Reply readiness(std::string_view name) const = 0;
  /// True if the process is stopping and calls are cut short: plugins' answers from then on do not reflect their state.
  virtual bool closing() const { return false; }
};

}  // namespace egpu::plugin

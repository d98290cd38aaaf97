// A provisioner as the controller and the node side call it, whatever process it runs in.
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "api/core/container_edits.h"
#include "api/core/meta.h"
#include "controller/base/status.h"

namespace egpu::plugin {

/// Mirrors the codes of api/plugin/provisioner.h. timeout, crashed and garbage are the host's own findings.
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
/// The effect may have happened or still be under way: repeat the same key until a definite answer.
bool indefinite(ReplyCode outcome);

struct Reply {
  ReplyCode outcome = ReplyCode::ok;
  std::string message;
  bool ok() const { return outcome == ReplyCode::ok || outcome == ReplyCode::noChange; }
};

struct CardShare {
  std::string uuid;
  std::string model;
  int64_t index = 0;
  int64_t core = 0;          ///< granted milli-cards
  int64_t memory = 0;        ///< granted bytes
  int64_t cardMemory = 0;    ///< the card's bytes, 0 = unknown
  std::string pciAddress{};  ///< "0000:3b:00.0"; "" = unknown
  bool operator==(const CardShare&) const = default;
};

/// What a device is, for the plugin. key is the device's uid: the idempotency key.
struct DeviceRequest {
  std::string key;
  std::string device;  ///< object name
  std::string claim;   ///< "namespace/name"
  std::string node;
  std::vector<CardShare> cards;
  core::StringMap parameters;
  int64_t resizeNumber = 0;  ///< of resize: which of the device's it is, from 1
};

/// Where a device could be made.
struct Candidate {
  std::string node;
  std::vector<CardShare> cards;
  bool operator==(const Candidate&) const = default;
};
/// A claim that is about to be placed.
struct Wish {
  std::string claim;                  ///< "namespace/name"
  std::vector<Candidate> candidates;  ///< 1…16, our favourite first; no node twice
  core::StringMap parameters;
};
/// "Not there", of a candidate by its number.
struct Veto {
  uint32_t candidate = 0;
  std::string why;
  bool operator==(const Veto&) const = default;
};
struct PreferReply {
  Reply reply;
  std::vector<uint32_t> order;  ///< candidates by their numbers, the best liked first; none twice, none that is vetoed
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

/// How a card reaches another one; as v1alpha::CardLink.
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
  core::StringMap attributes{};  ///< by the vendor's names
  bool operator==(const Gpu&) const = default;
};
struct DiscoverReply {
  Reply reply;
  std::vector<Gpu> gpus;
};
/// A plugin's opinion on one card.
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
/// What is used of a card.
struct CardUse {
  std::string uuid;
  int64_t memory = -1;     ///< bytes, -1 = unknown
  int64_t smPercent = -1;  ///< 0…100, -1 = unknown
  int64_t processes = -1;  ///< -1 = unknown: then none is told
  bool operator==(const CardUse&) const = default;
};
struct HealthReply {
  Reply reply;
  std::vector<CardHealth> cards;
  std::vector<CardProcess> processes{};
  std::vector<CardUse> use{};
};

struct Description {
  std::string name;  ///< "gpushare.provisioner.elasticgpu.io"
  std::string version;
  std::string source;     ///< physicalGPU | gpuShare | mig | qGPU | remote: which source the device's spec gets
  std::string isolation;  ///< Enforced | Advisory
  bool prefers = false;   ///< it has the slot prefer, as its loader saw
  bool resizes = false;   ///< the same of resize
  bool operator==(const Description&) const = default;
};

/// One loaded plugin. Thread-safe; every call blocks at most until its deadline. Owned by the registry.
class Provisioner {
 public:
  virtual ~Provisioner() = default;
  virtual const Description& description() const = 0;
  /// Parameters, here and in requests, are a class's: those that the core evaluates itself are kept from the plugin.
  virtual Reply validate(const core::StringMap& parameters) = 0;
  virtual Reply provision(const DeviceRequest& request) = 0;
  virtual Reply deprovision(const std::string& key) = 0;
  virtual ListReply list() = 0;
  // Node side.
  virtual Reply stage(const DeviceRequest& request) = 0;
  virtual MountReply mount(const DeviceRequest& request, const std::string& pod, const std::string& container) = 0;
  virtual Reply unmount(const std::string& key, const std::string& pod, const std::string& container) = 0;
  virtual Reply unstage(const std::string& key) = 0;
  // What few plugins have; the defaults answer as for a plugin without the slot.
  /// Changes the amounts of a provisioned device.
  virtual Reply resize(const DeviceRequest&) { return {ReplyCode::invalid, "this provisioner cannot resize a device"}; }
  /// The cards of this machine (node side).
  virtual DiscoverReply discover() { return {}; }
  virtual HealthReply health() { return {}; }
  /// In which order it would have the candidates; only of one whose description says that it prefers.
  virtual PreferReply prefer(const Wish&) { return {{ReplyCode::noChange, {}}, {}, {}}; }
};

/// Finds plugins by the name their describe gave. Thread-safe.
class Registry {
 public:
  virtual ~Registry() = default;
  /// Null if no such plugin is loaded; `why` (may be null) then says what is known (crashed, wrong version, duplicate
  /// name, never seen). The pointer stays valid as long as the registry; a plugin that is down answers
  /// ReplyCode::unavailable.
  virtual Provisioner* find(std::string_view name, std::string* why) = 0;
  virtual std::vector<std::string> names() const = 0;
  /// Called (on any thread) when a plugin comes, goes down or recovers, with its name.
  virtual void onChange(std::function<void(const std::string& name)> listener) = 0;
  /// Ready, or the reason, with the message for the class's Ready condition.
  virtual Reply readiness(std::string_view name) const = 0;
  /// The process stops and calls were cut short: what a plugin answers from now on says nothing about it.
  virtual bool closing() const { return false; }
};

}  // namespace egpu::plugin

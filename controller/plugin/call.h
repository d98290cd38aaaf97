// A call to a plugin as a value, and its answer: what the loader, the host process and its wire pass on.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "controller/plugin/provisioner.h"

namespace egpu::plugin {

/// The slots of egpu_provisioner, in its order. Values are on the wire. call.cpp has their names and deadlines,
/// loader.cpp calls them.
enum class Slot : uint8_t {
  describe,
  validate,
  provision,
  deprovision,
  resize,
  list,
  discover,
  stage,
  mount,
  unmount,
  unstage,
  health,
  prefer
};
inline constexpr uint8_t kSlots = 13;
std::string_view toString(Slot slot);

/// Everything any slot takes; a slot reads what its C signature has.
struct Call {
  Slot slot = Slot::describe;
  std::string key;
  std::chrono::steady_clock::time_point deadline;  ///< CLOCK_MONOTONIC: the same in every process of the machine
  DeviceRequest device;                            ///< provision, resize, stage, mount
  core::StringMap parameters;                      ///< validate
  std::string pod, container;                      ///< mount, unmount
  Wish wish{};                                     ///< prefer
};

/// Everything any slot replies.
struct Answer {
  ReplyCode outcome = ReplyCode::ok;
  std::string message;
  Description description;
  std::vector<std::string> keys;
  ContainerEdits edits;
  std::vector<Gpu> gpus;
  std::vector<CardHealth> health;
  std::vector<CardProcess> processes;
  std::vector<CardUse> use;
  std::vector<uint32_t> order;
  std::vector<Veto> vetoes;
};

/// Candidates that prefer is asked of, at most; provisioner.h documents it.
inline constexpr std::size_t kMostCandidates = 16;
/// The largest answer that is taken from a plugin, in bytes of text; egpu_host documents it.
inline constexpr std::size_t kMaxAnswer = 8u << 20;

/// Empty, or what is wrong with an answer that came from a plugin: an invalid name, a relative path, '=' in a variable.
/// Pure.
std::string findGarbage(Slot slot, const Answer& answer);

/// How long a slot may take.
struct Deadlines {
  std::chrono::milliseconds quick{10'000};  ///< describe, validate, list, mount, health
  std::chrono::milliseconds slow{25'000};   ///< what works on hardware; below the 30 s that a kubelet waits
  std::chrono::milliseconds prefer{1'000};  ///< a claim waits for it before anything is decided
  std::chrono::milliseconds of(Slot slot) const;
};

/// Provisioner over one function that performs calls: both the in-process and the hosted one are this. Thread-safe if
/// `perform` is.
class CallingProvisioner : public Provisioner {
 public:
  explicit CallingProvisioner(Deadlines deadlines) : deadlines_(deadlines) {}
  Reply validate(const core::StringMap& parameters) override;
  Reply provision(const DeviceRequest& request) override;
  Reply deprovision(const std::string& key) override;
  Reply resize(const DeviceRequest& request) override;
  ListReply list() override;
  DiscoverReply discover() override;
  Reply stage(const DeviceRequest& request) override;
  MountReply mount(const DeviceRequest& request, const std::string& pod, const std::string& container) override;
  Reply unmount(const std::string& key, const std::string& pod, const std::string& container) override;
  Reply unstage(const std::string& key) override;
  HealthReply health() override;
  PreferReply prefer(const Wish& wish) override;

  /// Performs one call and returns at the latest at its deadline.
  virtual Answer perform(const Call& call) = 0;
  Call begin(Slot slot, std::string key) const;

 private:
  const Deadlines deadlines_;
};

}  // namespace egpu::plugin

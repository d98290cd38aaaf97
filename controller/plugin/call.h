// A call to a plugin and its answer as values: the loader, the host process and its wire protocol exchange them.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "controller/plugin/provisioner.h"

namespace egpu::plugin {

/// The slots of egpu_provisioner, in its order. The values are part of the wire protocol. call.cpp defines their names
/// and deadlines, loader.cpp calls them.
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
  prefer,
  processes
};
inline constexpr uint8_t kSlots = 14;
std::string_view toString(Slot slot);

/// Union of the arguments of all slots; a slot reads those in its C signature.
struct Call {
  Slot slot = Slot::describe;
  std::string key;
  std::chrono::steady_clock::time_point deadline;  ///< CLOCK_MONOTONIC, which all processes of a machine share
  DeviceRequest device;                            ///< provision, resize, stage, mount
  core::StringMap parameters;                      ///< validate
  std::string pod, container;                      ///< mount, unmount
  Wish wish{};                                     ///< prefer
};

/// Union of the results of all slots.
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
  std::optional<v1alpha::Isolation> isolation;
  SourceValues source;
};

/// Maximum number of candidates of a prefer call; provisioner.h documents it.
inline constexpr std::size_t kMaxCandidates = 16;
/// Maximum size of a plugin's answer, in bytes of text; egpu_host documents it.
inline constexpr std::size_t kMaxAnswer = 8u << 20;

/// Returns the fault in a plugin's answer: an invalid name, a relative path, '=' in a variable name. Empty: valid.
/// Pure.
std::string findGarbage(Slot slot, const Answer& answer);

/// Maximum duration of a call per slot.
struct Deadlines {
  std::chrono::milliseconds quick{10'000};  ///< describe, validate, list, mount, health
  std::chrono::milliseconds slow{25'000};   ///< slots that work on hardware; below the 30 s that a kubelet waits
  std::chrono::milliseconds prefer{1'000};  ///< a claim's decision waits for it
  std::chrono::milliseconds processes{2'000};
  std::chrono::milliseconds of(Slot slot) const;
};

/// Implements Provisioner on top of one function that performs calls. The in-process and the hosted provisioner derive
/// from it. Thread-safe if `perform` is.
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
  ProcessesReply processes() override;

  /// Performs one call, and returns by its deadline at the latest.
  virtual Answer perform(const Call& call) = 0;
  Call begin(Slot slot, std::string key) const;

 private:
  const Deadlines deadlines_;
};

}  // namespace egpu::plugin

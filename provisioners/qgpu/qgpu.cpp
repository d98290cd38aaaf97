// qgpu.provisioner.elasticgpu.io: shares of a card that a driver on the node divides in steps, each with device files
// of its own. The plugin names the device and its files, and gives them to the container.
#include <algorithm>
#include <string>
#include <vector>

#include "api/plugin/provisioner.hpp"
#include "provisioners/nvidia/container/container.h"
#include "provisioners/nvidia/node.h"

namespace {

using namespace egpu::sdk;

// Steps of the driver; controller/scheduler/steps/share_steps.cpp refuses other claims before they are placed.
constexpr std::int64_t kCoreStep = 50;                // milli-cards
constexpr std::int64_t kMemoryStep = 1LL << 30;       // bytes
constexpr std::int64_t kWholeCard = 1000;             // milli-cards
constexpr std::size_t kMaxPaths = 16;                 // as in spec.qGPU.paths
constexpr std::string_view kDevicePart = "{device}";  // in `paths`: the name of the device

/// Splits "a, b" at commas.
std::vector<std::string> listOf(const std::string& text) {
  std::vector<std::string> out;
  for (std::size_t start = 0; start <= text.size() && !text.empty();) {
    const auto end = std::min(text.find(',', start), text.size());
    const auto first = text.find_first_not_of(' ', start);
    const auto last = text.find_last_not_of(' ', end == 0 ? 0 : end - 1);
    out.push_back(first < end ? text.substr(first, last - first + 1) : std::string());
    start = end + 1;
  }
  return out;
}

bool isDevicePath(const std::string& path) {
  return path.rfind("/dev/", 0) == 0 && path.size() > 5 && path.find("/../") == std::string::npos &&
         (path.size() < 3 || path.compare(path.size() - 3, 3, "/..") != 0);
}

std::string replaced(std::string text, const std::string& name) {
  for (auto at = text.find(kDevicePart); at != std::string::npos; at = text.find(kDevicePart, at + name.size()))
    text.replace(at, kDevicePart.size(), name);
  return text;
}

/// Returns the device's name and files: those of its object. Values that it lacks follow from its key and its class.
DeviceSource sourceOf(const Device& device) {
  DeviceSource source = device.source;
  if (source.deviceName.empty()) source.deviceName = "qgpu-" + device.key;
  if (source.paths.empty())
    for (const auto& path : listOf(parameter(device.parameters, "paths")))
      source.paths.push_back(replaced(path, source.deviceName));
  return source;
}

bool isLimited(const Device& device) {
  return parameter(device.parameters, "isolation", "none") == "qgpu" && !isAdminAccess(device);
}

/// Checks that the driver can represent the device.
Status check(const Device& device) {
  if (device.cards.size() > 1)
    return invalid("a qGPU is a share of one card, and this device has " + std::to_string(device.cards.size()) +
                   "; physical.provisioner.elasticgpu.io gives several cards");
  const Card& card = device.cards.front();
  const bool whole = card.core == kWholeCard && card.cardMemory > 0 && card.memory == card.cardMemory;
  if (card.core < 0 || card.core > kWholeCard || card.memory < 0)
    return invalid("card " + card.uuid + ": core " + std::to_string(card.core) + " and memory " +
                   std::to_string(card.memory) + " are not a share of a card");
  if (!whole && (card.core % kCoreStep != 0 || card.memory % kMemoryStep != 0))
    return invalid("card " + card.uuid + ": core " + std::to_string(card.core) + " milli-cards and memory " +
                   std::to_string(card.memory) + " bytes are not in steps of 50 milli-cards and 1 GiB");
  const DeviceSource source = sourceOf(device);
  for (const auto& path : source.paths)
    if (!isDevicePath(path)) return invalid("qGPU.paths: \"" + path + "\" is not a path below /dev");
  if (isLimited(device) && source.paths.empty())
    return invalid(
        "isolation qgpu needs the driver's device files; state them in the class's parameter paths, such as "
        "\"/dev/qgpu/{device}\"");
  return ok();
}

class Qgpu final : public Provisioner {
 public:
  Description describe() override {
    // Advisory: the driver of the node enforces the share, and the plugin cannot test that.
    return {"qgpu.provisioner.elasticgpu.io", "0.1.0", "qGPU", "Advisory"};
  }

  Status validate(const Parameters& parameters) override {
    if (Status status = refuseUnknown(parameters, {"isolation", "paths"}); status.code != EGPU_OK) return status;
    const std::string isolation = parameter(parameters, "isolation", "none");
    if (isolation != "none" && isolation != "qgpu")
      return invalid("isolation is \"" + isolation + "\"; known are none, qgpu");
    const auto paths = listOf(parameter(parameters, "paths"));
    for (const auto& path : paths)
      if (!isDevicePath(path))
        return invalid("paths: \"" + path + "\" is not a path below /dev, such as /dev/qgpu/{device}");
    if (paths.size() > kMaxPaths)
      return invalid("paths has " + std::to_string(paths.size()) + " entries; at most 16 are possible");
    if (isolation == "qgpu" && paths.empty())
      return invalid("isolation qgpu needs the parameter paths, such as \"/dev/qgpu/{device}\"");
    return ok();
  }

  Status provision(Call& call, const Device& device) override {
    if (Status status = check(device); status.code != EGPU_OK) return status;
    call.isolation(provided(device));
    if (!isAdminAccess(device)) call.source(sourceOf(device));
    return records_.add(device);
  }

  Status deprovision(Call& call) override { return records_.remove(call.key()); }
  Status list(Call& call) override { return records_.list(call); }

  Status discover(Call& call) override { return egpu::nvidia::discover(call); }
  Status health(Call& call) override { return egpu::nvidia::health(call); }
  Status processes(Call& call) override { return egpu::nvidia::processes(call); }
  Status stage(Call&, const Device& device) override { return egpu::nvidia::stageCards(device); }

  Status mount(Call& call, const Device& device, const Container&) override {
    if (Status status = check(device); status.code != EGPU_OK) return status;
    if (Status status = egpu::nvidia::mountCards(call, device); status.code != EGPU_OK) return status;
    const Card& card = device.cards.front();
    call.env("ELASTICGPU_DEVICE", device.device);
    call.env("ELASTICGPU_CLAIM", device.claim);
    call.env("ELASTICGPU_CARDS", card.uuid);
    call.env("ELASTICGPU_CORE_0", std::to_string(card.core));      // milli-cards
    call.env("ELASTICGPU_MEMORY_0", std::to_string(card.memory));  // bytes
    call.env("ELASTICGPU_ISOLATION", provided(device).mode);
    if (isAdminAccess(device)) return ok();
    const DeviceSource source = sourceOf(device);
    call.env("ELASTICGPU_QGPU_DEVICE", source.deviceName);
    for (const auto& path : source.paths) call.deviceNode(path);
    return ok();
  }

 private:
  static Isolation provided(const Device& device) {
    if (hasWholeCards(device)) return wholeCardIsolation();
    // Soft: the agent refuses a container whose device file is missing, but cannot test the driver's limits.
    if (isLimited(device)) return {"qgpu", "Soft", device.cards.front().core > 0 ? "Soft" : "None", "Soft"};
    return {"none", "None", "None", "Soft"};
  }

  Records records_;
};

}  // namespace

EGPU_PROVISIONER(Qgpu)

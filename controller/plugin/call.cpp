#include "controller/plugin/call.h"

#include <algorithm>
#include <array>
#include <set>
#include <utility>

#include "api/v1alpha/parameters.h"

namespace egpu::plugin {
namespace {

constexpr std::array<std::string_view, kSlots> kSlotNames = {
    "describe", "validate", "provision", "deprovision", "resize", "list",   "discover",
    "stage",    "mount",    "unmount",   "unstage",     "health", "prefer", "processes"};

bool oneOf(std::string_view text, std::initializer_list<std::string_view> words) {
  return std::find(words.begin(), words.end(), text) != words.end();
}

bool lowerAlnum(char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9'); }

/// True for an RFC 1123 subdomain of at least two labels.
bool pluginName(std::string_view name) {
  if (name.size() > 253 || name.find('.') == std::string_view::npos) return false;
  std::size_t start = 0;
  while (start <= name.size()) {
    const std::size_t end = std::min(name.find('.', start), name.size());
    const std::string_view label = name.substr(start, end - start);
    if (label.empty() || label.size() > 63 || !lowerAlnum(label.front()) || !lowerAlnum(label.back())) return false;
    if (!std::all_of(label.begin(), label.end(), [](char c) { return lowerAlnum(c) || c == '-'; })) return false;
    start = end + 1;
  }
  return true;
}

bool absolutePath(std::string_view path) {
  return path.size() > 1 && path.front() == '/' && path.find("/../") == std::string_view::npos &&
         !path.ends_with("/..");
}

bool printable(std::string_view text) {
  return std::none_of(text.begin(), text.end(), [](unsigned char c) { return c < 0x20 || c == 0x7f; });
}

std::string describeGarbage(const Description& d) {
  if (d.name.empty()) return "describe gave no name";
  if (!pluginName(d.name)) return "describe gave the name \"" + d.name + "\", which is not a DNS subdomain with a dot";
  if (!oneOf(d.source, {"physicalGPU", "gpuShare", "mig", "qGPU", "remote"}))
    return "describe gave the source \"" + d.source + "\"; known are physicalGPU, gpuShare, mig, qGPU, remote";
  if (!oneOf(d.isolation, {"Enforced", "Advisory"}))
    return "describe gave the isolation \"" + d.isolation + "\"; known are Enforced, Advisory";
  return {};
}

/// True for "vendor/class=name" as in the CDI specification.
bool cdiName(std::string_view name) {
  const auto slash = name.find('/');
  const auto equals = name.find('=');
  if (slash == std::string_view::npos || equals == std::string_view::npos || slash == 0 || equals <= slash + 1)
    return false;
  const auto word = [](std::string_view part, std::string_view extra) {
    return !part.empty() && std::all_of(part.begin(), part.end(), [&](char c) {
      return lowerAlnum(c) || (c >= 'A' && c <= 'Z') || extra.find(c) != std::string_view::npos;
    });
  };
  return word(name.substr(0, slash), ".-_") && word(name.substr(slash + 1, equals - slash - 1), "-_") &&
         word(name.substr(equals + 1), ".-_:");
}

std::string isolationGarbage(const v1alpha::Isolation& isolation) {
  const auto& mode = isolation.mode;
  const bool isLabel = !mode.empty() && mode.size() <= 63 && lowerAlnum(mode.front()) && lowerAlnum(mode.back()) &&
                       std::all_of(mode.begin(), mode.end(), [](char c) { return lowerAlnum(c) || c == '-'; });
  if (!isLabel) return "gave the isolation mode \"" + mode + "\", which is not a DNS label";
  for (const auto& [what, level] : {std::pair("memory", &isolation.memory), std::pair("compute", &isolation.compute),
                                    std::pair("faults", &isolation.faults)})
    if (!oneOf(*level, {"Enforced", "Soft", "None"}))
      return "gave the isolation \"" + *level + "\" for " + what + "; known are Enforced, Soft, None";
  const auto& managed = isolation.managedMemory;
  if (managed.empty()) return {};
  if (!oneOf(managed, {"Enforced", "Soft", "None"}))
    return "gave the isolation \"" + managed + "\" for managed memory; known are Enforced, Soft, None";
  const auto rank = [](const std::string& level) { return level == "Enforced" ? 2 : level == "Soft" ? 1 : 0; };
  if (rank(managed) > rank(isolation.memory))
    return "gave the isolation " + managed + " for managed memory, which is stronger than " + isolation.memory +
           " for memory";
  return {};
}

std::string sourceGarbage(const SourceValues& source) {
  if (!printable(source.deviceName)) return "gave a device name with control characters";
  if (!printable(source.endpoint)) return "gave an endpoint with control characters";
  for (const auto& path : source.paths)
    if (!absolutePath(path) || !printable(path)) return "gave the path \"" + path + "\", which is not absolute";
  return {};
}

std::string editsGarbage(const ContainerEdits& edits) {
  for (const auto& [name, value] : edits.env)
    if (name.empty() || name.find('=') != std::string::npos || !printable(name))
      return "mount gave a variable with the name \"" + name + "\"";
  for (const auto& node : edits.deviceNodes) {
    if (!absolutePath(node.path) || (!node.hostPath.empty() && !absolutePath(node.hostPath)))
      return "mount gave the device node \"" + node.path + "\", which is not an absolute path";
    if (node.permissions.find_first_not_of("rwm") != std::string::npos)
      return "mount gave " + node.path + " the permissions \"" + node.permissions + "\"";
  }
  for (const auto& m : edits.mounts)
    if (!absolutePath(m.hostPath) || !absolutePath(m.containerPath))
      return "mount gave the mount \"" + m.hostPath + "\" → \"" + m.containerPath + "\", not both absolute paths";
  for (const auto& name : edits.cdiDevices)
    if (!cdiName(name)) return "mount gave the CDI device \"" + name + "\", which is not vendor/class=name";
  return {};
}

/// Returns the fault in the MIG profiles of a card; empty: valid.
std::string profilesGarbage(const Gpu& g) {
  for (const auto& profile : g.mig) {
    if (profile.name.empty() || !printable(profile.name))
      return "discover gave the card " + g.uuid + " a MIG profile with an empty or unprintable name";
    const bool valid = profile.memory > 0 && profile.compute > 0 &&
                       profile.compute <= v1alpha::MigProfile::kComputeSlices && profile.size > 0 &&
                       profile.size <= int64_t{v1alpha::Slots::kMemory};
    if (!valid)
      return "discover gave the card " + g.uuid + " the MIG profile " + profile.name + " with " +
             std::to_string(profile.memory) + " bytes, " + std::to_string(profile.compute) + " compute slices and " +
             std::to_string(profile.size) + " memory slots; known are 1 to 7 slices and 1 to 8 slots";
  }
  return {};
}

std::string gpusGarbage(const std::vector<Gpu>& gpus) {
  std::set<std::string_view> seen;
  for (const auto& g : gpus) {
    if (g.uuid.empty() || !printable(g.uuid)) return "discover gave a card with an empty or unprintable uuid";
    if (!seen.insert(g.uuid).second) return "discover gave the card " + g.uuid + " twice";
    if (g.memory < 0 || g.smCount < 0 || g.milliTflops < 0)
      return "discover gave the card " + g.uuid + " a negative amount";
    if (!printable(g.model) || !printable(g.pciAddress))
      return "discover gave the card " + g.uuid + " an unprintable model or PCI address";
    for (const auto& link : g.links)
      if (link.peer.empty() || link.type.empty() || link.count < 0)
        return "discover gave the card " + g.uuid + " a link without peer, type or number";
    if (std::string wrong = profilesGarbage(g); !wrong.empty()) return wrong;
  }
  return {};
}

/// Returns the fault in the reported usage of a card; empty: valid.
std::string amountsGarbage(const std::string& card, int64_t memory, int64_t smPercent) {
  if (card.empty() || !printable(card)) return "health gave the use of a card with an empty or unprintable uuid";
  if (memory < -1) return "health gave the card " + card + " " + std::to_string(memory) + " bytes in use";
  if (smPercent < -1 || smPercent > 100)
    return "health gave the card " + card + " an SM utilisation of " + std::to_string(smPercent) +
           " %; known are 0 to 100, and -1 for unknown";
  return {};
}

std::string useGarbage(const Answer& answer) {
  std::set<std::string_view> seen;
  for (const auto& u : answer.use) {
    if (std::string wrong = amountsGarbage(u.uuid, u.memory, u.smPercent); !wrong.empty()) return wrong;
    if (!seen.insert(u.uuid).second) return "health gave the use of the card " + u.uuid + " twice";
    if (u.processes < -1) return "health gave the card " + u.uuid + " a negative number of processes";
  }
  for (const auto& p : answer.processes)
    if (std::string wrong = amountsGarbage(p.uuid, p.memory, p.smPercent); !wrong.empty()) return wrong;
  return {};
}

std::string preferenceGarbage(const Answer& answer) {
  std::set<uint32_t> named;
  const auto again = [&named](uint32_t candidate) { return !named.insert(candidate).second; };
  for (const auto candidate : answer.order)
    if (again(candidate)) return "prefer named the candidate " + std::to_string(candidate) + " twice";
  for (const auto& veto : answer.vetoes)
    if (again(veto.candidate)) return "prefer named the candidate " + std::to_string(veto.candidate) + " twice";
  return {};
}

}  // namespace

std::string_view toString(Slot slot) {
  const auto i = static_cast<std::size_t>(slot);
  return i < kSlotNames.size() ? kSlotNames[i] : "unknown slot";
}

std::string findGarbage(Slot slot, const Answer& answer) {
  if (answer.outcome != ReplyCode::ok && answer.outcome != ReplyCode::noChange) return {};
  if (answer.isolation)
    if (const auto garbage = isolationGarbage(*answer.isolation); !garbage.empty())
      return std::string(toString(slot)) + " " + garbage;
  if (const auto garbage = sourceGarbage(answer.source); !garbage.empty())
    return std::string(toString(slot)) + " " + garbage;
  if (slot == Slot::describe) return describeGarbage(answer.description);
  if (slot == Slot::mount) return editsGarbage(answer.edits);
  if (slot == Slot::discover) return gpusGarbage(answer.gpus);
  if (slot == Slot::health || slot == Slot::processes) return useGarbage(answer);
  if (slot == Slot::prefer) return preferenceGarbage(answer);
  if (slot == Slot::list)
    for (const auto& key : answer.keys)
      if (key.empty() || !printable(key)) return "list gave an empty or unprintable key";
  return {};
}

std::chrono::milliseconds Deadlines::of(Slot slot) const {
  switch (slot) {
    case Slot::provision:
    case Slot::deprovision:
    case Slot::resize:
    case Slot::discover:
    case Slot::stage:
    case Slot::unmount:
    case Slot::unstage:
      return slow;
    case Slot::prefer:
      return prefer;
    case Slot::processes:
      return processes;
    default:
      return quick;
  }
}

Call CallingProvisioner::begin(Slot slot, std::string key) const {
  Call call;
  call.slot = slot;
  call.key = std::move(key);
  call.deadline = std::chrono::steady_clock::now() + deadlines_.of(slot);
  return call;
}

namespace {

/// Returns the parameters of a class without those that the core evaluates: a plugin gets only these.
core::StringMap foreign(const core::StringMap& all) {
  core::StringMap rest;
  for (const auto& [name, value] : all)
    if (!v1alpha::isCoreParameter(name)) rest.emplace(name, value);
  return rest;
}
DeviceRequest foreign(const DeviceRequest& request) {
  DeviceRequest rest = request;
  rest.parameters = foreign(request.parameters);
  return rest;
}

Reply plain(Answer answer) {
  return {answer.outcome, std::move(answer.message), std::move(answer.isolation), std::move(answer.source)};
}

}  // namespace

Reply CallingProvisioner::validate(const core::StringMap& parameters) {
  Call call = begin(Slot::validate, {});
  call.parameters = foreign(parameters);
  return plain(perform(call));
}

Reply CallingProvisioner::provision(const DeviceRequest& request) {
  Call call = begin(Slot::provision, request.key);
  call.device = foreign(request);
  return plain(perform(call));
}

Reply CallingProvisioner::deprovision(const std::string& key) { return plain(perform(begin(Slot::deprovision, key))); }

Reply CallingProvisioner::resize(const DeviceRequest& request) {
  Call call = begin(Slot::resize, request.key);
  call.device = foreign(request);
  return plain(perform(call));
}

ListReply CallingProvisioner::list() {
  Answer answer = perform(begin(Slot::list, {}));
  return {{answer.outcome, std::move(answer.message)}, std::move(answer.keys)};
}

DiscoverReply CallingProvisioner::discover() {
  Answer answer = perform(begin(Slot::discover, {}));
  return {{answer.outcome, std::move(answer.message)}, std::move(answer.gpus)};
}

Reply CallingProvisioner::stage(const DeviceRequest& request) {
  Call call = begin(Slot::stage, request.key);
  call.device = foreign(request);
  return plain(perform(call));
}

MountReply CallingProvisioner::mount(const DeviceRequest& request, const std::string& pod,
                                     const std::string& container) {
  Call call = begin(Slot::mount, request.key);
  call.device = foreign(request);
  call.pod = pod;
  call.container = container;
  Answer answer = perform(call);
  return {{answer.outcome, std::move(answer.message)}, std::move(answer.edits)};
}

Reply CallingProvisioner::unmount(const std::string& key, const std::string& pod, const std::string& container) {
  Call call = begin(Slot::unmount, key);
  call.pod = pod;
  call.container = container;
  return plain(perform(call));
}

Reply CallingProvisioner::unstage(const std::string& key) { return plain(perform(begin(Slot::unstage, key))); }

HealthReply CallingProvisioner::health() {
  Answer answer = perform(begin(Slot::health, {}));
  return {{answer.outcome, std::move(answer.message)},
          std::move(answer.health),
          std::move(answer.processes),
          std::move(answer.use)};
}

ProcessesReply CallingProvisioner::processes() {
  Answer answer = perform(begin(Slot::processes, {}));
  return {{answer.outcome, std::move(answer.message)}, std::move(answer.processes)};
}

PreferReply CallingProvisioner::prefer(const Wish& wish) {
  Call call = begin(Slot::prefer, {});
  call.wish = {wish.claim, wish.candidates, foreign(wish.parameters)};
  Answer answer = perform(call);
  PreferReply out{{answer.outcome, std::move(answer.message)}, std::move(answer.order), std::move(answer.vetoes)};
  const auto beyond = [&wish](uint32_t candidate) { return candidate >= wish.candidates.size(); };
  if (std::any_of(out.order.begin(), out.order.end(), beyond) ||
      std::any_of(out.vetoes.begin(), out.vetoes.end(), [&](const auto& veto) { return beyond(veto.candidate); }))
    return {{ReplyCode::garbage, "prefer named a candidate that is not there"}, {}, {}};
  return out;
}

}  // namespace egpu::plugin

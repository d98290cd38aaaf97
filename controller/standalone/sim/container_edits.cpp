#include "controller/standalone/sim/container_edits.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <string_view>
#include <vector>

namespace egpu::sim {
namespace {

constexpr std::array<std::string_view, 5> kLists{"NVIDIA_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES", "ELASTICGPU_CARDS",
                                                 "ELASTICGPU_DEVICE", "ELASTICGPU_CLAIM"};

bool isList(std::string_view name) { return std::find(kLists.begin(), kLists.end(), name) != kLists.end(); }

std::vector<std::string> split(const std::string& text) {
  std::vector<std::string> parts;
  for (std::size_t at = 0; at <= text.size();) {
    const auto end = std::min(text.find(',', at), text.size());
    parts.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return parts;
}

std::string united(const std::string& list, const std::string& more) {
  auto all = split(list);
  for (auto& part : split(more))
    if (std::find(all.begin(), all.end(), part) == all.end()) all.push_back(std::move(part));
  std::string text;
  for (const auto& part : all) text += (text.empty() ? "" : ",") + part;
  return text;
}

/// NAME_2 → NAME_5 for an offset of 3; a name without the number of a card stays.
std::string renumbered(const std::string& name, std::size_t offset) {
  constexpr std::size_t kDigits = 2;
  const auto last = name.find_last_not_of("0123456789");
  if (offset == 0 || last == std::string::npos || name[last] != '_') return name;
  if (last + 1 == name.size() || name.size() - last - 1 > kDigits) return name;
  return name.substr(0, last + 1) + std::to_string(std::stoul(name.substr(last + 1)) + offset);
}

template <class T>
void addOnce(std::vector<T>& all, const T& one) {
  if (std::find(all.begin(), all.end(), one) == all.end()) all.push_back(one);
}

}  // namespace

void merge(plugin::ContainerEdits& into, const plugin::ContainerEdits& more, std::size_t cardsBefore) {
  for (const auto& [plain, value] : more.env) {
    const auto name = renumbered(plain, cardsBefore);
    const auto there =
        std::find_if(into.env.begin(), into.env.end(), [&n = name](const auto& entry) { return entry.first == n; });
    if (there == into.env.end())
      into.env.emplace_back(name, value);
    else
      there->second = isList(name) ? united(there->second, value) : value;
  }
  for (const auto& node : more.deviceNodes) addOnce(into.deviceNodes, node);
  for (const auto& mount : more.mounts) {
    const auto there = std::find_if(into.mounts.begin(), into.mounts.end(),
                                    [&](const auto& other) { return other.containerPath == mount.containerPath; });
    if (there == into.mounts.end())
      into.mounts.push_back(mount);
    else
      *there = mount;
  }
  for (const auto& device : more.cdiDevices) addOnce(into.cdiDevices, device);
}

std::string describeEdits(const plugin::ContainerEdits& edits) {
  std::string out;
  for (const auto& [k, v] : edits.env) out += "\n  env " + k + "=" + v;
  for (const auto& d : edits.deviceNodes) {
    out += "\n  device " + d.path;
    if (!d.hostPath.empty() && d.hostPath != d.path) out += " (host " + d.hostPath + ")";
  }
  for (const auto& m : edits.mounts) {
    out += "\n  mount " + m.hostPath + " → " + m.containerPath;
    if (std::find(m.options.begin(), m.options.end(), "ro") != m.options.end()) out += " (ro)";
  }
  for (const auto& c : edits.cdiDevices) out += "\n  cdi " + c;
  return out;
}

}  // namespace egpu::sim

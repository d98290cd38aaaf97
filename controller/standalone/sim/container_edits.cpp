#include "controller/standalone/sim/container_edits.h"

#include <algorithm>

namespace egpu::sim {
namespace {

/// Replaces the element that `alike` matches with `one`, or appends `one` if there is none.
template <class T, class Alike>
void put(std::vector<T>& all, const T& one, const Alike& alike) {
  const auto there = std::find_if(all.begin(), all.end(), [&](const T& other) { return alike(other, one); });
  if (there == all.end())
    all.push_back(one);
  else
    *there = one;
}

}  // namespace

void apply(core::ContainerEdits& into, const core::ContainerEdits& more) {
  for (const auto& variable : more.env)
    put(into.env, variable, [](const auto& a, const auto& b) { return a.first == b.first; });
  for (const auto& node : more.deviceNodes)
    put(into.deviceNodes, node, [](const auto& a, const auto& b) { return a.path == b.path; });
  for (const auto& mount : more.mounts)
    put(into.mounts, mount, [](const auto& a, const auto& b) { return a.containerPath == b.containerPath; });
  for (const auto& device : more.cdiDevices)
    put(into.cdiDevices, device, [](const auto& a, const auto& b) { return a == b; });
}

std::string describeEdits(const core::ContainerEdits& edits) {
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

#include "controller/scheduler/choice/preset.h"

#include <set>

#include "controller/scheduler/card_policy/card_policy.h"
#include "controller/scheduler/node_policy/node_policy.h"

namespace egpu::scheduler {
namespace {
constexpr Preset kPresets[] = {
    {"compact-first", "compact-first", "compact-first"},
    {"low-load-first", "low-load-first", "low-load-first"},
    {"node-compact-gpu-low-load", "compact-first", "low-load-first"},
};
}  // namespace

const Preset* findPreset(std::string_view name) {
  for (const Preset& preset : kPresets)
    if (preset.name == name) return &preset;
  return nullptr;
}

std::vector<std::string_view> presetNames() {
  std::vector<std::string_view> names;
  for (const Preset& preset : kPresets) names.push_back(preset.name);
  return names;
}

bool findPolicies(const std::string& name, Policies& out) {
  if (const Preset* preset = findPreset(name)) {
    out = {std::string(preset->nodePolicy), std::string(preset->cardPolicy)};
    return true;
  }
  const auto slash = name.find('/');
  out.node = name.substr(0, slash);
  out.card = slash != std::string::npos ? name.substr(slash + 1)
                                        : (findCardPolicy(out.node) != nullptr ? out.node : "binpack");
  return findNodePolicy(out.node) != nullptr && findCardPolicy(out.card) != nullptr;
}

std::vector<std::string> policyNames() {
  std::set<std::string> names;
  for (const auto& each : {nodePolicyNames(), presetNames()}) names.insert(each.begin(), each.end());
  return {names.begin(), names.end()};
}

}  // namespace egpu::scheduler

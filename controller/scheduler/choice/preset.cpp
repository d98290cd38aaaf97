#include "controller/scheduler/choice/preset.h"

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

}  // namespace egpu::scheduler

// Presets: a node policy and a card policy under one name (class parameter `preset`).
//
// They correspond to the placement modes of tensor-fusion, with its published formula (load_score.h):
//   compact-first              the most loaded node, and there the most loaded cards
//   low-load-first             the least loaded node, and there the least loaded cards
//   node-compact-gpu-low-load  the most loaded node, and there the least loaded cards
// Unlike here, tensor-fusion orders nodes by the sum over their cards: of two nodes that differ only in the number of
// cards, the larger one comes first.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace egpu::scheduler {

struct Preset {
  std::string_view name;
  std::string_view nodePolicy;
  std::string_view cardPolicy;
};

/// A node policy and a card policy.
struct Policies {
  std::string node, card;
};
/// Finds policies by the name of a node policy (with the card policy of that name, or binpack), a preset, or NODE/CARD.
/// Returns false for unknown names.
bool findPolicies(const std::string& name, Policies& out);
/// Returns the names of node policies and presets, sorted.
std::vector<std::string> policyNames();

/// Returns null for an unknown preset.
const Preset* findPreset(std::string_view name);
/// Returns all preset names, sorted.
std::vector<std::string_view> presetNames();

}  // namespace egpu::scheduler

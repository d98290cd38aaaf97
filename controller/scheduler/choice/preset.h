// Presets: a node policy and a card policy under one name (class parameter `preset`), and what else names two.
//
// They are the placement modes of tensor-fusion, by its published formula (load_score.h):
//   compact-first              the most loaded node, and there the most loaded cards
//   low-load-first             the least loaded node, and there the least loaded cards
//   node-compact-gpu-low-load  the most loaded node, and there the least loaded cards
// Its nodes are ordered by the sum over all their cards, so of nodes alike but for their number of cards the larger one
// goes first.
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

/// A node policy and a card policy by one name.
struct Policies {
  std::string node, card;
};
/// A node policy (with the card policy of its name, or else binpack), a preset, or NODE/CARD. False: there is no such
/// policy.
bool findPolicies(const std::string& name, Policies& out);
/// All names that stand alone, sorted.
std::vector<std::string> policyNames();

/// Null if there is no such preset.
const Preset* findPreset(std::string_view name);
/// All names, sorted.
std::vector<std::string_view> presetNames();

}  // namespace egpu::scheduler

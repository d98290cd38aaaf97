// Merges the variables of several claims in one container: a container has one environment, and if two CDI devices set
// the same variable, the later one takes effect.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "controller/plugin/provisioner.h"

namespace egpu::agent {

using Variables = std::vector<std::pair<std::string, std::string>>;

/// Orders cards as drivers and limiters number the cards that they see: by PCI address, which may differ from the order
/// of minor numbers; if it is unknown, by minor number (CardShare::index). A strict weak order. Pure.
bool comesBefore(const plugin::CardShare& a, const plugin::CardShare& b);

/// Variables from one claim's plugin, and the claim's cards as passed to its mount.
struct ClaimPart {
  std::vector<plugin::CardShare> cards;
  Variables env;
};

/// Returns the variables of a container with these claims. For a single claim they do not change. Pure.
/// - The container's cards are numbered in the order of comesBefore(), independent of their claims, as in a driver that
///   sees only these cards.
/// - Variables that list devices, cards or claims, such as NVIDIA_VISIBLE_DEVICES, contain all elements without
///   duplicates, cards in the order of their numbers. "void" remains only if it is the only element.
/// - Variables numbered by the claim's cards (ELASTICGPU_CORE_0) are renumbered by the container's cards. Two shares of
///   one card add up: 4096m and 2048m result in 6144m.
/// - A limit that applies to every card (CUDA_DEVICE_SM_LIMIT) is the smallest of the cards' sums, in percent.
/// - For other variables the value of the later claim takes effect, as in a runtime.
Variables merged(const std::vector<ClaimPart>& claims);

}  // namespace egpu::agent

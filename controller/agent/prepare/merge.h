// What several claims tell one container, as one: a container has one environment, and of two CDI devices that set the
// same variable the later one has it.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "controller/plugin/provisioner.h"

namespace egpu::agent {

using Variables = std::vector<std::pair<std::string, std::string>>;

/// As drivers and limiters number the cards that they see: by PCI address, which minor numbers need not follow; by those
/// (CardShare::index) where it is unknown. A strict weak order. Pure.
bool comesBefore(const plugin::CardShare& a, const plugin::CardShare& b);

/// What one claim's plugin gives, and the claim's cards as its mount had them.
struct ClaimPart {
  std::vector<plugin::CardShare> cards;
  Variables env;
};

/// The variables of a container with all of these claims. Of one claim they are as its plugin gives them. Pure.
/// - The container's cards are numbered by comesBefore, whatever claims they come by: so does a driver that sees these
///   cards alone.
/// - Variables that list devices, cards or claims (NVIDIA_VISIBLE_DEVICES and the like) name all of them, each once,
///   cards in the order of their numbers. "void" stands only if nobody names a card there.
/// - Those numbered by card of a claim (ELASTICGPU_CORE_0) are numbered by card of the container. Two shares of one card
///   add up: 4096m and 2048m make 6144m.
/// - A limit that holds on every card (CUDA_DEVICE_SM_LIMIT) is the smallest of the cards' sums, in percent.
/// - Of other variables the later claim's stands, as a runtime has it.
Variables merged(const std::vector<ClaimPart>& claims);

}  // namespace egpu::agent

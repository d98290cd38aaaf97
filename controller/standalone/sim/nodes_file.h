// Reads nodes.yaml, which describes the simulated nodes and their cards (the mock accelerator).
//   nodes: [{name, count, cpu, memory, labels, taints, gpus: [{model, count, memory, sms, tflops, numa, nvlinks,
//   nvswitch, uuid, uuids, mig}]}]
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "api/core/objects.h"
#include "api/v1alpha/types.h"
#include "controller/base/status.h"

namespace egpu::sim {

struct SimNode {
  core::Node node;  ///< ready, with labels, taints, capacity and address
  std::vector<v1alpha::Card>
      cards;  ///< by index; default uuids are derived from node name and index, so that they survive restarts
};

/// Parses the file. Limits: 100,000 nodes, 128 cards per node.
/// - count: n creates the nodes name-0 … name-(n-1). Without count there is one node with the unchanged name.
/// - gpus[].memory: a quantity with a suffix (80Gi).
/// - nvlinks: a list of [a, b, n], n links between the cards a and b of the node.
/// - nvswitch: number of links of every card to the switch (true = 12).
/// - numa: a list with one number per card of the group, or one number for all.
/// - mig: true puts the cards into MIG mode, with profiles as a card of seven compute slices and that memory has them.
/// - uuids: a list with one uuid per card; uuid: for a group of one card. Uuids must differ in more than case.
/// Fails with Code::invalid; the message names the field and its line.
base::Result<std::vector<SimNode>> parseNodes(std::string_view yaml);

/// Returns the card's object as the agent of its node would publish it, labelled as simulated.
v1alpha::ElasticGPU cardObject(const v1alpha::Card& card);

}  // namespace egpu::sim

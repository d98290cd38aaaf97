// nodes.yaml: the simulated nodes and their cards (the mock accelerator).
//   nodes: [{name, count, cpu, memory, labels, taints, gpus: [{model, count, memory, sms, tflops, numa, nvlinks,
//   nvswitch, uuid, uuids}]}]
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "api/core/objects.h"
#include "api/v1alpha/types.h"
#include "controller/base/status.h"

namespace egpu::sim {

struct SimNode {
  core::Node node;  ///< with labels, taints, capacity, address; ready
  std::vector<v1alpha::Card>
      cards;  ///< by index; uuids that aren't stated follow from node name and index, so that they survive restarts
};

/// Bounds: 100,000 nodes, 128 cards a node. `count: n` makes name-0 … name-(n-1); without count the name is used as it
/// is. gpus[].memory is a quantity with a suffix (80Gi); nvlinks is a list of [a, b, n]: n links between cards a and b
/// of the node; nvswitch: n links of every card to the switch (true = 12). numa is one number per card of the group, or
/// one for all; uuids one per card (uuid, of a group of one), no two alike in the file but for case. Code::invalid
/// names the field and its line.
base::Result<std::vector<SimNode>> parseNodes(std::string_view yaml);

/// The card's object as its node's agent would publish it, labelled as simulated.
v1alpha::ElasticGPU cardObject(const v1alpha::Card& card);

}  // namespace egpu::sim

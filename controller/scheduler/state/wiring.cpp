// Topology of a node, recomputed when a card is added or removed.
#include <vector>

#include "controller/scheduler/state/state.h"

namespace egpu::scheduler {

void Cluster::State::rewire(NodeRecord& node) {
  std::vector<topology::Site> sites;
  sites.reserve(node.cards.size());
  for (const CardId id : node.cards)
    sites.push_back({cardUuid(id), types[cards[id].type].model, cardIndex(id), &topologyOf(id)});
  node.topology = wirings.of(sites);
  node.machine = node.topology ? topology::recogniseMachine(sites) : topology::Machine::other;
}

}  // namespace egpu::scheduler

// How a node's cards are linked, kept with the node: worked out anew when a card comes or goes.
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

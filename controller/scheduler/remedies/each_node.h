// Scans all nodes with pauses for other work. Internal to scheduler/.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "controller/scheduler/explain.h"
#include "controller/scheduler/state/state.h"

namespace egpu::scheduler {

/// Calls visit(name, node) for every node, ordered by name. Calls `pause`, if given, after every `portion` nodes. The
/// cluster can change in it, so `visit` must not keep its arguments.
template <class Visit>
void eachNode(const Cluster::State& state, const Pause& pause, Visit visit, std::size_t portion = 512) {
  std::size_t seen = 0;
  const auto all = state.nodesByName();
  for (auto it = all.begin(); it != all.end();) {
    const auto [name, id] = *it;
    visit(std::string_view(name), state.nodes[id]);
    if (!pause || ++seen % portion != 0) {
      ++it;
      continue;
    }
    const std::string last(name);
    pause();
    it = all.after(last);
  }
}

}  // namespace egpu::scheduler

// The part of kube-scheduler that concerns claims, one round at a time. It places pods on the nodes of their
// allocations, evicts pods of lower priority, and clears an allocation that no placed pod uses if the pod would fit on
// another node. It never allocates.
#pragma once

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "api/v1alpha/pod_claims.h"
#include "controller/standalone/sim/pod_scheduler.h"
#include "tests/support/world.h"

namespace egpu::support {

class StockScheduler {
 public:
  explicit StockScheduler(World& world) : world_(world) {}

  /// Tries once every pod that has no node and no gate, by descending priority, then by name. Returns the actions: "p
  /// placed on n1", "p evicted v on n1", "p cleared a".
  std::vector<std::string> round() {
    std::vector<std::string> done;
    auto pods = World::must(world_.client.listAll<core::Pod>({}));
    std::stable_sort(pods.begin(), pods.end(), [](const auto& a, const auto& b) { return a.priority > b.priority; });
    for (const auto& pod : pods)
      if (pod.nodeName.empty() && pod.schedulingGates.empty() && !pod.finished() && !pod.metadata.deleting())
        consider(pod, done);
    log.insert(log.end(), done.begin(), done.end());
    return done;
  }
  /// Number of logged actions that begin with the text.
  int64_t count(const std::string& start) const {
    return std::count_if(log.begin(), log.end(), [&](const auto& line) { return line.rfind(start, 0) == 0; });
  }
  std::vector<std::string> log;

 private:
  using Used = std::map<std::string, sim::NodeUse, std::less<>>;

  Used usedWithout(const std::set<std::string>& gone) {
    Used used;
    for (const auto& pod : World::must(world_.client.listAll<core::Pod>({}))) {
      if (pod.nodeName.empty() || pod.finished() || gone.count(pod.metadata.name) != 0) continue;
      const auto wants = sim::requestsOf(pod);
      auto& sum = used[pod.nodeName];
      sum.cpuMilli += wants.cpuMilli;
      sum.memoryBytes += wants.memoryBytes;
      ++sum.pods;
    }
    return used;
  }

  void consider(const core::Pod& pod, std::vector<std::string>& done) {
    const auto& name = pod.metadata.name;
    std::vector<core::ResourceClaim> claims;
    std::vector<std::string> claimNodes;
    if (v1alpha::pendingClaim(pod)) return report(pod, "cannot allocate all claims", {});
    for (const auto& used : v1alpha::claimNames(pod)) {
      const auto claim = world_.resourceClaim(used);
      if (!claim || claim->metadata.deleting() || !claim->allocation)
        return report(pod, "cannot allocate all claims", {});
      claimNodes.push_back(claim->allocation->nodeName);
      claims.push_back(*claim);
    }
    const auto nodes = World::must(world_.client.listAll<core::Node>({}));
    std::vector<const core::Node*> all;
    for (const auto& node : nodes) all.push_back(&node);
    const auto choice = sim::choose(pod, all, usedWithout({}), claimNodes);
    if (!choice.node.empty()) {
      world_.schedule(name);
      done.push_back(name + " placed on " + choice.node);
      return;
    }
    std::string nominated;
    for (const auto& victim : victimsFor(pod, all, claimNodes)) {
      world_.removePod(victim.metadata.name);
      nominated = victim.nodeName;
      done.push_back(name + " evicted " + victim.metadata.name + " on " + nominated);
    }
    if (choice.otherNodeSuits)
      for (const auto& claim : claims) {
        if (!claim.reservedFor.empty()) continue;
        world_.clearAllocation(claim.metadata.name);
        done.push_back(name + " cleared " + claim.metadata.name);
        break;
      }
    report(pod, choice.message, nominated);
  }

  /// Returns the pods of lower priority to evict so that the pod fits on the node of its claims. Empty if that does not
  /// suffice.
  std::vector<core::Pod> victimsFor(const core::Pod& pod, const std::vector<const core::Node*>& nodes,
                                    const std::vector<std::string>& claimNodes) {
    std::vector<core::Pod> victims;
    std::set<std::string> gone;
    if (claimNodes.empty()) return victims;
    for (const auto& other : World::must(world_.client.listAll<core::Pod>({}))) {
      if (other.nodeName != claimNodes.front() || other.priority >= pod.priority) continue;
      victims.push_back(other);
      gone.insert(other.metadata.name);
      if (!sim::choose(pod, nodes, usedWithout(gone), claimNodes).node.empty()) return victims;
    }
    return {};
  }

  void report(const core::Pod& pod, const std::string& message, const std::string& nominated) {
    const auto body =
        R"({"status":{"nominatedNodeName":")" + nominated +
        R"(","conditions":[{"type":"PodScheduled","status":"False","reason":"Unschedulable","message":")" + message +
        R"("}]}})";
    world_.json<core::Pod>(core::keyOf(pod.metadata), body, "status");
  }

  World& world_;
};

}  // namespace egpu::support

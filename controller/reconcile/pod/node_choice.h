// Nodes that suit one pod now, for the decision where its claims go. A node is evaluated when the decision reaches it.
// That happens under the allocator's lock, so the number is limited, and the rest is evaluated outside of the lock.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "controller/cache/stores.h"
#include "controller/reconcile/pod/node_fit/node_fit.h"
#include "controller/scheduler/decide.h"

namespace egpu::reconcile {

/// For one pass of a pod's step; not thread-safe. `stores` and `pod` must outlive it.
class NodeChoice {
 public:
  /// volumes: as in node_fit.h. onlyNode: if not empty, the only candidate. rejected: true for nodes to exclude.
  NodeChoice(cache::Stores& stores, const core::Pod& pod, std::vector<core::NodeSelector> volumes, std::string onlyNode,
             std::function<bool(std::string_view node)> rejected);

  /// True if the node suits the pod now. False for a node that was not evaluated because of limitEvaluations().
  bool suits(std::string_view node);
  /// Limits how many more nodes may be evaluated; nodes evaluated before do not count.
  void limitEvaluations(std::size_t nodes) { evaluationsLeft_ = nodes; }
  /// True if suits() may have returned false only because of that limit.
  bool limitReached() const { return limitReached_; }
  void evaluateAll();
  /// After evaluateAll(): true if the node suits, or would suit without the pods that use claims and are not replaced.
  bool suitsOnceFree(std::string_view node);

  /// True if some nodes are better than others (preferred affinity, taints to avoid). Then search groups() in order.
  bool ranked() const;
  /// After evaluateAll(): suitable nodes, the most preferred first; the last of at most kGroups groups holds the rest.
  std::vector<scheduler::NodePredicate> groups();
  /// After evaluateAll(): nodes that would suit once pods of lower priority are evicted; null if there are none.
  scheduler::NodePredicate byEviction();
  /// After evaluateAll(): suits() as it answers now. The result does not refer to this object.
  scheduler::NodePredicate suitable();
  /// After evaluateAll(): true if a node suits.
  bool anySuits();
  /// After evaluateAll(): true if a node is short only of CPU, memory or pod slots, which other pods may release.
  bool anyShort() const { return podsWaitingForNodeResources_ > 0; }

  /// Counts the pod on this node from now on. Returns false if other pods have taken the capacity meanwhile.
  bool promise(const std::string& node);

  /// After evaluateAll(): nodes per reason, for people: "3 cordoned, 1 short of CPU …"; empty if all suit.
  std::string text() const;

 private:
  static constexpr std::size_t kGroups = 16;
  enum class Fit { suits, byEviction, no };
  struct Verdict {
    Fit fit = Fit::no;
    bool onceFree = false;  ///< suits without pods that leave one day: cache::NodeUsage::ofLastingPods()
    NodeScore score;
  };
  const Verdict& evaluate(std::string_view name);
  /// True if the node is a candidate at all.
  bool isAsked(std::string_view node) const;
  bool needsCapacityOn(const std::string& node) const;

  cache::Stores& stores_;
  const core::Pod& pod_;
  const std::vector<core::NodeSelector> volumes_;
  const std::string onlyNode_;
  const std::function<bool(std::string_view)> rejected_;
  const cache::PodRequests requests_;
  std::unordered_map<std::string, Verdict> seen_;
  std::map<std::string, int64_t> reasons_;
  std::size_t evaluationsLeft_ = static_cast<std::size_t>(-1);
  bool limitReached_ = false;
  int64_t podsWaitingForNodeResources_ = 0, evictable_ = 0;
};

}  // namespace egpu::reconcile

// Which nodes suit one pod now, for the decision where its claims go. Nodes are looked at as the decision comes to
// them; as that happens inside the cluster view's lock, only so many, and the rest outside of it.
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

/// For one pass of a pod's step; not thread-safe. Stores and pod must outlive it.
class NodeChoice {
 public:
  /// volumes: as of node_fit.h. onlyNode: if not empty, no other is asked for. rejected: nodes not to be tried now.
  NodeChoice(cache::Stores& stores, const core::Pod& pod, std::vector<core::NodeSelector> volumes, std::string onlyNode,
             std::function<bool(std::string_view node)> rejected);

  /// Suits as it is. False for a node that wasn't looked at because the patience is over.
  bool suits(std::string_view node);
  /// So many nodes may be looked at from now on; those looked at before cost nothing.
  void setPatience(std::size_t nodes) { patience_ = nodes; }
  /// suits() may have said no for want of patience.
  bool impatient() const { return impatient_; }
  void lookAtAll();
  /// After lookAtAll(): suits, or would if all pods that use claims had left it.
  bool suitsOnceFree(std::string_view node);

  /// Some nodes are liked better than others (preferred affinity, taints to avoid): then by groups() only.
  bool ranked() const;
  /// After lookAtAll(): nodes that suit, the best liked ones first; the last of at most kGroups holds all the rest.
  std::vector<scheduler::NodePredicate> groups();
  /// After lookAtAll(): nodes that would suit once pods of lower priority are evicted; null if there are none.
  scheduler::NodePredicate byEviction();
  /// After lookAtAll(): there is a node that suits.
  bool anySuits();
  /// After lookAtAll(): some node is only short of what other pods may give back.
  bool anyShort() const { return short_ > 0; }

  /// The pod counts on this node from now on. False if there is no room for it any more: others were faster.
  bool promise(const std::string& node);

  /// After lookAtAll(), for people: "3 cordoned, 1 short of CPU …"; empty if all suit.
  std::string text() const;

 private:
  static constexpr std::size_t kGroups = 16;
  enum class Fit { suits, byEviction, no };
  struct Verdict {
    Fit fit = Fit::no;
    bool onceFree = false;  ///< short of what pods have that leave one day: cache::NodeUsage::ofLastingPods()
    NodeScore score;
  };
  const Verdict& look(std::string_view name);
  /// Whether it may be one of the nodes at all.
  bool isAsked(std::string_view node) const;
  bool needsRoomOn(const std::string& node) const;

  cache::Stores& stores_;
  const core::Pod& pod_;
  const std::vector<core::NodeSelector> volumes_;
  const std::string onlyNode_;
  const std::function<bool(std::string_view)> rejected_;
  const cache::PodRequests requests_;
  std::unordered_map<std::string, Verdict> seen_;
  std::map<std::string, int64_t> reasons_;
  std::size_t patience_ = static_cast<std::size_t>(-1);
  bool impatient_ = false;
  int64_t short_ = 0, evictable_ = 0;
};

}  // namespace egpu::reconcile

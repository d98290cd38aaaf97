// Placement constraints of a gang's open members by their pods. Members of one pod go to one node. Members that are
// placed with their pods go to nodes that suit these pods, beside the pods of the other members. The rules are those of
// pod/node_choice.h, without preferences among nodes and without nodes where the scheduler would have to evict pods.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <vector>

#include "controller/allocator/allocator.h"
#include "controller/reconcile/pod/bound_volumes.h"
#include "controller/reconcile/pod/node_choice.h"
#include "controller/reconcile/retry/waiting.h"

namespace egpu::reconcile {

/// For one decision; not thread-safe. References must outlive it.
class GangPods {
 public:
  using ClaimPtr = cache::Store<cache::Claim>::Ptr;
  using PodPtr = cache::Store<core::Pod>::Ptr;

  GangPods(cache::Stores& stores, BoundVolumes& volumes, const NodeBackoff& nodeBackoff)
      : stores_(stores), volumes_(volumes), nodeBackoff_(nodeBackoff) {}
  GangPods(const GangPods&) = delete;
  GangPods& operator=(const GangPods&) = delete;

  /// Adds the next member. Returns why it has to wait; empty: it is added. tolerated: for a member that is not placed
  /// with its pod, the nodes that its class tolerates (null = any), equal for members of one class; nullopt: the member
  /// is placed with its pod.
  base::Result<std::string> add(const ClaimPtr& claim, const std::optional<scheduler::NodePredicate>& tolerated,
                                std::stop_token stop);
  /// Returns one place per member. They refer to this object.
  std::vector<allocator::Allocator::GangMemberConstraints> places();
  /// Counts the pods on these nodes from now on. Returns false, and counts none, if one of the nodes lacks the
  /// capacity.
  bool promise(const std::vector<scheduler::Decision>& decisions);
  /// Returns why the node is excluded for the member, as scheduler::WhyUnsuited; empty: it does not suit its pod.
  std::string whyUnsuited(std::size_t member, std::string_view node) const;
  /// Explains which nodes don't suit the member's pod, for people; empty if all do.
  std::string text(std::size_t member) const;
  /// True if a node is short only of CPU, memory or pod slots, which other pods may release.
  bool anyShort() const;

 private:
  /// Pods with equal requirements; their nodes are evaluated once.
  struct Alike {
    PodPtr pod;  ///< any of these pods
    core::Pod asks;
    std::string onlyNode;
    cache::PodRequests requests;
    std::unique_ptr<NodeChoice> nodes;
  };
  struct Member {
    ClaimPtr claim;
    PodPtr pod;  ///< null: the claim has no consumer
    std::optional<std::size_t> with;
    Alike* alike = nullptr;  ///< null: its pod's first member has it, or it is not placed with its pod
    scheduler::NodePredicate tolerated;
    std::string onlyNode;
  };
  /// Returns the consumer that the claim is for: one that is on a node, else the oldest. Null: there is none.
  PodPtr podOf(const cache::Claim& claim) const;
  /// Returns the node of the pod or of its claims' devices; empty: none yet. nullopt: several nodes, or a device is
  /// going.
  std::optional<std::string> nodeOf(const core::Pod& pod) const;
  base::Status choose(Member& member, std::stop_token stop);
  /// True if the node is a candidate for the member, whatever it lacks now.
  bool mayGoTo(const Member& member, std::string_view node) const;
  /// True if the node has capacity for the member's pod beside the pods of members `placed`. onceFree: counts only pods
  /// that last (cache::NodeUsage::ofLastingPods()).
  bool hasCapacity(const Member& member, std::string_view node, std::span<const std::size_t> placed,
                   bool onceFree) const;

  cache::Stores& stores_;
  BoundVolumes& volumes_;
  const NodeBackoff& nodeBackoff_;
  std::vector<Member> members_;
  std::vector<std::unique_ptr<Alike>> alike_;
  std::map<std::string, std::size_t> firstOfPod_;  ///< by the pod's uid
};

}  // namespace egpu::reconcile

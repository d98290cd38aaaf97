// The pods of a gang's open members: one pod's members go to one node together, and those of classes that wait for the first
// consumer to nodes that suit their pods, beside the pods of the others. The rules are those of pod/node_choice.h, but for likings
// among nodes that suit, and for room that the scheduler would have to make by evicting others.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <vector>

#include "controller/cache/cluster_view.h"
#include "controller/reconcile/claim/waiting.h"
#include "controller/reconcile/pod/bound_volumes.h"
#include "controller/reconcile/pod/node_choice.h"

namespace egpu::reconcile {

/// For one decision; not thread-safe. References must outlive it.
class GangPods {
 public:
  using ClaimPtr = cache::Store<cache::Claim>::Ptr;
  using PodPtr = cache::Store<core::Pod>::Ptr;

  GangPods(cache::Stores& stores, BoundVolumes& volumes, const NodesLeftAlone& leftAlone)
      : stores_(stores), volumes_(volumes), leftAlone_(leftAlone) {}
  GangPods(const GangPods&) = delete;
  GangPods& operator=(const GangPods&) = delete;

  /// The next member. tolerated: of a class that doesn't wait for a consumer, which nodes its claims tolerate (null = any);
  /// nothing: it waits for one; of members of one class the same. Empty: added. Else what it waits for.
  base::Result<std::string> add(const ClaimPtr& claim, const std::optional<scheduler::NodePredicate>& tolerated,
                                std::stop_token stop);
  /// One per member. They refer to this.
  std::vector<cache::ClusterView::GangPlace> places();
  /// The pods count on these nodes from now on. False, and none does: there is no room for one of them any more.
  bool promise(const std::vector<scheduler::Decision>& decisions);
  /// Why a node is none for the member, as scheduler::WhyUnsuited; empty: it does not suit its pod.
  std::string whyUnsuited(std::size_t member, std::string_view node) const;
  /// For people: which nodes don't suit the member's pod; empty if all do.
  std::string text(std::size_t member) const;
  /// Some node is only short of what other pods may give back.
  bool anyShort() const;

 private:
  /// Pods that ask the same of a node are looked at once.
  struct Alike {
    PodPtr pod;  ///< one of them
    core::Pod asks;
    std::string onlyNode;
    cache::PodRequests requests;
    std::unique_ptr<NodeChoice> nodes;
  };
  struct Member {
    ClaimPtr claim;
    PodPtr pod;  ///< null: none, or of no interest
    std::optional<std::size_t> with;
    Alike* alike = nullptr;  ///< null: its pod's first member has it, or it does not wait for a pod
    scheduler::NodePredicate tolerated;
    std::string onlyNode;
  };
  /// The pod that it is for: one that is on a node, else the oldest. Null: none is there.
  PodPtr podOf(const cache::Claim& claim) const;
  /// Where the pod is, or another claim of its is; empty: nowhere yet. Nothing: in two places, or on its way out of one.
  std::optional<std::string> nodeOf(const core::Pod& pod) const;
  base::Status choose(Member& member, std::stop_token stop);
  /// Where the node may be the member's, whatever it lacks now.
  bool mayGoTo(const Member& member, std::string_view node) const;
  /// Beside those. onceFree: and other pods that last.
  bool hasRoom(const Member& member, std::string_view node, std::span<const std::size_t> placed, bool onceFree) const;

  cache::Stores& stores_;
  BoundVolumes& volumes_;
  const NodesLeftAlone& leftAlone_;
  std::vector<Member> members_;
  std::vector<std::unique_ptr<Alike>> alike_;
  std::map<std::string, std::size_t> firstOfPod_;  ///< by the pod's uid
};

}  // namespace egpu::reconcile

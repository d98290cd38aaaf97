// What kube-scheduler sends to an extender and reads of it (k8s.io/kube-scheduler/extender/v1): JSON ↔ structs.
// The fields' names are Go's own, as that type has no tags; like Go's decoder these read them in any case.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "api/core/objects.h"
#include "controller/base/status.h"

namespace egpu::codec {

/// ExtenderArgs, of filter and prioritize. Views are of `text`.
struct ExtenderArgs {
  core::Pod pod;
  bool objects = false;                 ///< Nodes were sent (nodeCacheCapable: false), not NodeNames
  std::vector<std::string_view> names;  ///< of the nodes, in their order
  std::vector<std::string_view> nodes;  ///< if objects: each as it was sent
  std::shared_ptr<const void> text;     ///< keeps what the views show
};
struct ExtenderBindingArgs {
  std::string podName, podNamespace, podUid, node;
};
/// Pods that the scheduler would evict on a node.
struct NodeVictims {
  std::string node;
  std::vector<std::string> pods;  ///< uids
  int64_t pdbViolations = 0;
};
struct ExtenderPreemptionArgs {
  core::Pod pod;
  std::vector<NodeVictims> nodes;
};

/// Code::malformed names the field and what would be valid. Unknown fields are ignored. A name of a node must be one
/// (a DNS subdomain, or at least of its characters).
base::Result<ExtenderArgs> decodeExtenderArgs(std::string_view json);
base::Result<ExtenderBindingArgs> decodeExtenderBindingArgs(std::string_view json);
base::Result<ExtenderPreemptionArgs> decodeExtenderPreemptionArgs(std::string_view json);

/// Why nodes are left out; preemption would change nothing about it, or would.
struct FilterReason {
  std::string text;
  bool unresolvable = true;
};
/// ExtenderFilterResult, in the form in which the nodes were sent. fate: per node, 0 = it passes, else 1 + the place of
/// its reason.
std::string encodeFilterResult(const ExtenderArgs& args, std::span<const uint8_t> fate,
                               const std::vector<FilterReason>& reasons);
/// All of them pass.
std::string encodeFilterResult(const ExtenderArgs& args);
/// The same with nothing but an error: nothing can be said.
std::string encodeFilterError(std::string_view error);
/// HostPriorityList. scores: per node, 0 to 10.
std::string encodeHostPriorities(const ExtenderArgs& args, std::span<const uint8_t> scores);
/// ExtenderBindingResult; an empty error means that it is bound.
std::string encodeBindingResult(std::string_view error);
/// ExtenderPreemptionResult.
std::string encodePreemptionResult(const std::vector<NodeVictims>& nodes);

}  // namespace egpu::codec

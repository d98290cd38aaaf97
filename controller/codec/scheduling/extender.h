// Requests that kube-scheduler sends to an extender, and the responses (k8s.io/kube-scheduler/extender/v1), as structs
// and JSON. Most field names are those of Go, because the Go types have no tags. As in Go, their case is ignored.
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

/// ExtenderArgs: request of filter and prioritize. The views refer to `text`.
struct ExtenderArgs {
  core::Pod pod;
  bool objects = false;                 ///< Nodes were sent (nodeCacheCapable: false), not NodeNames
  std::vector<std::string_view> names;  ///< names of the nodes, in the order of the request
  std::vector<std::string_view> nodes;  ///< if objects: JSON of each node, as it was sent
  std::shared_ptr<const void> text;     ///< owns the text of the views
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

/// Decode a request. Unknown fields are ignored. Node names must have 1 to 253 characters of letters, digits, '-', '.'
/// and '_'. Fail with Code::malformed; the message names the field and the valid values.
base::Result<ExtenderArgs> decodeExtenderArgs(std::string_view json);
base::Result<ExtenderBindingArgs> decodeExtenderBindingArgs(std::string_view json);
base::Result<ExtenderPreemptionArgs> decodeExtenderPreemptionArgs(std::string_view json);

/// Reason why nodes are filtered out.
struct FilterReason {
  std::string text;
  bool unresolvable = true;  ///< preemption can't make the node suitable
};
/// Encodes an ExtenderFilterResult, with Nodes or NodeNames as in the request. fate: per node, 0 = passes, otherwise
/// 1 + index of its reason.
std::string encodeFilterResult(const ExtenderArgs& args, std::span<const uint8_t> fate,
                               const std::vector<FilterReason>& reasons);
/// Encodes an ExtenderFilterResult in which all nodes pass.
std::string encodeFilterResult(const ExtenderArgs& args);
/// Encodes an ExtenderFilterResult that contains only an error.
std::string encodeFilterError(std::string_view error);
/// Encodes a HostPriorityList. scores: per node, 0 to 10.
std::string encodeHostPriorities(const ExtenderArgs& args, std::span<const uint8_t> scores);
/// Encodes an ExtenderBindingResult. An empty error means that the pod is bound.
std::string encodeBindingResult(std::string_view error);
/// Encodes an ExtenderPreemptionResult.
std::string encodePreemptionResult(const std::vector<NodeVictims>& nodes);

}  // namespace egpu::codec

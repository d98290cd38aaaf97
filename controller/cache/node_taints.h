// Taints of nodes that keep pods off, stored apart from the nodes because a decision reads them for many nodes at once.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "api/core/objects.h"
#include "controller/base/mutex.h"
#include "controller/cache/store.h"

namespace egpu::cache {

/// Holds taints of effect NoSchedule and NoExecute only. Thread-safe.
class NodeTaints {
 public:
  using Taints = std::vector<core::Taint>;

  explicit NodeTaints(Store<core::Node>& nodes);  ///< registers itself with the store
  NodeTaints(const NodeTaints&) = delete;
  NodeTaints& operator=(const NodeTaints&) = delete;

  /// True if a node has such a taint.
  bool any() const;
  /// Changes whenever of() may return something else.
  uint64_t version() const;
  /// Null if the node has none. Nodes with equal taints share one list.
  std::shared_ptr<const Taints> of(std::string_view node) const;
  /// Nodes that share one list of taints, for messages.
  struct TaintGroup {
    Taints taints;
    std::size_t nodes = 0;
    std::string example;  ///< first name in alphabetical order
  };
  std::vector<TaintGroup> groups() const;

 private:
  void changed(const core::Node* before, const core::Node* after);

  const Store<core::Node>& nodes_;
  mutable base::SharedMutex mutex_;
  std::unordered_map<std::string, std::shared_ptr<const Taints>> byNode_ EGPU_GUARDED_BY(mutex_);
  uint64_t version_ EGPU_GUARDED_BY(mutex_) = 0;
};

}  // namespace egpu::cache

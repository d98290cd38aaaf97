// The taints of nodes that keep pods off, kept apart from the nodes: a decision asks it of many nodes at once.
#pragma once

#include <cstdint>
#include <memory>
#include <shared_mutex>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "api/core/objects.h"
#include "controller/cache/store.h"

namespace egpu::cache {

/// NoSchedule and NoExecute only. Thread-safe.
class NodeTaints {
 public:
  using Taints = std::vector<core::Taint>;

  explicit NodeTaints(Store<core::Node>& nodes);  ///< listens to it
  NodeTaints(const NodeTaints&) = delete;
  NodeTaints& operator=(const NodeTaints&) = delete;

  /// Some node has such a taint.
  bool any() const;
  /// Another one whenever of() may say something else.
  uint64_t version() const;
  /// Null: none. Nodes with the same taints share one list.
  std::shared_ptr<const Taints> of(std::string_view node) const;
  /// For people: the nodes with one list of taints.
  struct Group {
    Taints taints;
    std::size_t nodes = 0;
    std::string example;  ///< the first by name
  };
  std::vector<Group> groups() const;

 private:
  void changed(const core::Node* before, const core::Node* after);

  const Store<core::Node>& nodes_;
  mutable std::shared_mutex mutex_;
  std::unordered_map<std::string, std::shared_ptr<const Taints>> byNode_;  ///< guarded by mutex_
  uint64_t version_ = 0;                                                   ///< guarded by mutex_
};

}  // namespace egpu::cache

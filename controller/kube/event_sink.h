// The interface for Kubernetes events about our objects; events.h implements it.
#pragma once

#include <string>
#include <string_view>

#include "api/core/objects.h"

namespace egpu::kube {

/// Used by reconcilers. Thread-safe; returns immediately.
class EventSink {
 public:
  virtual ~EventSink() = default;
  /// type: "Normal" | "Warning"; reason: CamelCase, one word.
  virtual void event(const core::ObjectReference& about, std::string_view type, std::string_view reason,
                     std::string_view message) = 0;
};

template <class T>
core::ObjectReference referenceTo(const T& object) {
  const core::Kind& kind = core::kindOf<T>;
  return {kind.apiVersion(),    std::string(kind.kind), object.metadata.namespace_,
          object.metadata.name, object.metadata.uid,    object.metadata.resourceVersion};
}

}  // namespace egpu::kube

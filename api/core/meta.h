// Fields common to all Kubernetes objects: metadata, owner references, conditions. Standard library only.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "api/core/sorted_map.h"

namespace egpu::core {

using StringMap = SortedMap<std::string>;

struct OwnerReference {
  std::string apiVersion;
  std::string kind;
  std::string name;
  std::string uid;
  bool controller = false;
  bool blockOwnerDeletion = false;
  bool operator==(const OwnerReference&) const = default;
};

/// Metadata of an object. Timestamps are RFC 3339 text as received from the API server; empty = unset.
struct ObjectMeta {
  std::string name;
  std::string namespace_;       ///< empty for cluster-scoped kinds
  std::string uid;              ///< set by the API server
  std::string resourceVersion;  ///< opaque; compared only by cache/
  int64_t generation = 0;
  std::string creationTimestamp;
  std::string deletionTimestamp;  ///< non-empty = being deleted
  StringMap labels;
  StringMap annotations;
  std::vector<std::string> finalizers;
  std::vector<OwnerReference> ownerReferences;
  bool operator==(const ObjectMeta&) const = default;

  bool deleting() const { return !deletionTimestamp.empty(); }
  bool hasFinalizer(std::string_view key) const {
    for (const auto& f : finalizers)
      if (f == key) return true;
    return false;
  }
  /// Returns the owner reference marked as controller, or null.
  const OwnerReference* controller() const {
    for (const auto& owner : ownerReferences)
      if (owner.controller) return &owner;
    return nullptr;
  }
  /// Returns the value of an annotation, or an empty view.
  std::string_view annotation(std::string_view key) const {
    auto it = annotations.find(key);
    return it == annotations.end() ? std::string_view{} : std::string_view{it->second};
  }
  /// Returns the value of a label, or an empty view.
  std::string_view label(std::string_view key) const {
    auto it = labels.find(key);
    return it == labels.end() ? std::string_view{} : std::string_view{it->second};
  }
};

struct Condition {
  std::string type;
  std::string status;  ///< "True" | "False" | "Unknown"
  std::string reason;
  std::string message;
  std::string lastTransitionTime;
  int64_t observedGeneration = 0;
  bool operator==(const Condition&) const = default;
};

/// Identifies an object within its kind: "namespace/name", or "name" for cluster-scoped kinds.
struct ObjectKey {
  std::string namespace_;
  std::string name;
  auto operator<=>(const ObjectKey&) const = default;
  std::string str() const { return namespace_.empty() ? name : namespace_ + "/" + name; }
  /// Parses the result of str().
  static ObjectKey of(std::string_view text) {
    const auto slash = text.find('/');
    if (slash == std::string_view::npos) return {"", std::string(text)};
    return {std::string(text.substr(0, slash)), std::string(text.substr(slash + 1))};
  }
};
inline ObjectKey keyOf(const ObjectMeta& m) { return {m.namespace_, m.name}; }

/// A REST resource. `kindOf<T>` maps a C++ type to its resource.
struct Kind {
  std::string_view group;    ///< "" for the core group
  std::string_view version;  ///< version that this project uses
  std::string_view kind;
  std::string_view plural;
  bool namespaced = false;
  std::string apiVersion() const {
    return group.empty() ? std::string(version) : std::string(group) + "/" + std::string(version);
  }
};

/// Specialised for every struct that represents an API object.
template <class T>
inline constexpr Kind kindOf{};

}  // namespace egpu::core

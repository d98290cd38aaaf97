// Deletion of objects: finalizers, dependents of deleted owners, and the contents of namespaces.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "controller/base/clock.h"
#include "controller/standalone/apiserver/kinds/resource.h"
#include "controller/standalone/apiserver/storage/store.h"

namespace egpu::apiserver {

struct DeleteOptions {
  std::string uid, resourceVersion;  ///< preconditions; empty = none
  bool orphan = false;               ///< dependents are not deleted and lose their owner reference
  bool dryRun = false;
};

/// Deletes objects and their dependents. Thread-safe. Dependents are deleted before a call returns, so that a client
/// sees the result after the answer. Foreground deletion is treated as background deletion.
class Deletion {
 public:
  Deletion(const ResourceTable& table, Store& store, base::Clock& clock);

  struct Removal {
    ObjectPtr object;  ///< if gone: the last state; otherwise the state with a deletionTimestamp
    bool gone = false;
  };
  /// Deletes an object. Throws ApiError if it does not exist, a precondition fails, or it is a protected namespace.
  Removal remove(const Resource& resource, const Key& key, const DeleteOptions& options);
  /// Handles the dependents of an object that was deleted by an update that removed its last finalizer.
  void removed(const Resource& resource, const ObjectPtr& object);
  /// Deletes an object with owner references if none of its owners exists. Call after a write of such an object.
  void owned(const Resource& resource, const ObjectPtr& object);
  /// Completes deletions that a restart interrupted.
  void sweep();

 private:
  using Gone = std::vector<std::pair<const Resource*, ObjectPtr>>;
  /// Deletes one object without handling its dependents. Adds it to `gone` if it no longer exists. Returns false if
  /// `current` was outdated.
  bool removeOnce(const Resource& resource, const ObjectPtr& current, Gone& gone, Removal* outcome);
  void settle(Gone gone);
  void dropDeadOwners(const Store::Located& dependent, Gone& gone);
  void orphanDependents(const std::string& uid);
  void emptyNamespace(const std::string& ns, Gone& gone);

  const ResourceTable& table_;
  Store& store_;
  base::Clock& clock_;
  const Resource* const namespaces_;
};

}  // namespace egpu::apiserver

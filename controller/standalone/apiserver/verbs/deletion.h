// What deleting means: finalizers, dependents of what is gone, namespaces with their contents.
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
  bool orphan = false;               ///< dependents lose their owner reference instead of their life
  bool dryRun = false;
};

/// Thread-safe. Consequences are carried out before a call returns: a client that was answered sees them done.
/// Foreground deletion is treated as background deletion.
class Deletion {
 public:
  Deletion(const ResourceTable& table, Store& store, base::Clock& clock);

  struct Removal {
    ObjectPtr object;  ///< the last state if gone, else the one with a deletionTimestamp
    bool gone = false;
  };
  /// Throws ApiError: not found, a precondition that fails, a protected namespace.
  Removal remove(const Resource& resource, const Key& key, const DeleteOptions& options);
  /// After an object was removed by an update that took its last finalizer.
  void removed(const Resource& resource, const ObjectPtr& object);
  /// After a write that left `object` with owner references: if none of its owners exists, it goes too.
  void owned(const Resource& resource, const ObjectPtr& object);
  /// After a restart: consequences that were cut short.
  void sweep();

 private:
  using Gone = std::vector<std::pair<const Resource*, ObjectPtr>>;
  /// One object, without consequences; what vanished is added to `gone`. False if it changed meanwhile.
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

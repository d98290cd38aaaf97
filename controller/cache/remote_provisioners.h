// Names of the provisioners whose devices are remote. Claims of their classes get no card and no node.
#pragma once

#include <functional>
#include <set>
#include <string>
#include <string_view>

#include "controller/base/mutex.h"

namespace egpu::cache {

/// Thread-safe.
class RemoteProvisioners {
 public:
  /// Records the plugin's description. A plugin that is down keeps its last one.
  void set(const std::string& provisioner, bool isRemote) {
    const base::MutexLock lock(mutex_);
    if (isRemote)
      names_.insert(provisioner);
    else
      names_.erase(provisioner);
  }
  bool contains(std::string_view provisioner) const {
    const base::MutexLock lock(mutex_);
    return names_.contains(provisioner);
  }

 private:
  mutable base::Mutex mutex_;
  std::set<std::string, std::less<>> names_ EGPU_GUARDED_BY(mutex_);
};

}  // namespace egpu::cache

// The pools that the plugin beside the controller knows, and the pool of each lease. The calls deprovision and list
// have a key or nothing, not the parameters of a class.
#pragma once

#include <chrono>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "api/plugin/provisioner.hpp"
#include "provisioners/remote/pool_settings.h"
#include "provisioners/remote/state_folder.h"

namespace egpu::remote {

/// Thread-safe. The pool of each lease is a file in the state folder, if that can be written.
class LeaseBook {
 public:
  /// A class names the pool.
  void named(const PoolSettings& pool);
  /// Records the pool of the key. Call before the lease is requested, so that it can be ended whatever happens.
  /// INVALID: the state folder is not this user's.
  sdk::Status begin(const std::string& key, const PoolSettings& pool);
  /// The lease has ended for certain: the pool has confirmed it.
  void released(const std::string& key);
  /// The pool knows no lease of the key, or it has lapsed. A request for the lease may still be on its way to the pool.
  void ended(const std::string& key);
  bool isReleased(const std::string& key);

  /// Returns the pool of the key's lease or, if that is unknown, all pools.
  std::vector<PoolSettings> poolsOf(const std::string& key);
  std::vector<PoolSettings> pools();
  /// The pool could not end the lease. Returns true if that is no longer necessary, because no node renews a lease that
  /// is to be ended: leaseSeconds have passed since the first attempt or, if it is unknown whether the pool has the
  /// lease, since the pool has fallen silent.
  bool hasLapsed(const std::string& key, const PoolSettings& pool, std::chrono::milliseconds silence);
  /// The pool has listed these keys. Returns false if the pool has no lease and no class has named it for leaseSeconds:
  /// it is forgotten. `isComplete`: the pool has answered.
  bool listed(const PoolSettings& pool, const std::vector<std::string>& keys, bool isComplete,
              std::chrono::milliseconds silence);

 private:
  using TimePoint = std::chrono::steady_clock::time_point;
  struct Lease {
    PoolSettings pool;
    bool isOurs = false;  ///< this process has requested it. Another process may have ended any other one
  };

  /// Reads the files at the first use. Requires mutex_.
  void load();
  /// Requires mutex_.
  void erase(const std::string& key);

  const StateFolder files_{"leases"};
  std::mutex mutex_;
  bool isLoaded_ = false, warned_ = false;     ///< guarded by mutex_, as the following
  std::map<PoolSettings, TimePoint> pools_;    ///< and when a class or a claim has named it last
  std::map<std::string, Lease> leases_;        ///< by key
  std::map<std::string, TimePoint> attempts_;  ///< first attempt to end the lease, by key
  std::set<std::string> released_;
};

}  // namespace egpu::remote

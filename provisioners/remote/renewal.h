// Renews the leases of this node's staged devices. Each staged device is a file in the state folder, so a restarted
// process continues.
#pragma once

#include <chrono>
#include <condition_variable>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "api/plugin/provisioner.hpp"
#include "provisioners/remote/pool_client.h"
#include "provisioners/remote/pool_settings.h"
#include "provisioners/remote/state_folder.h"

namespace egpu::remote {

/// Renews on threads of its own: the lease that ends first is the first, and a pool that does not answer takes one of
/// them. Thread-safe.
class Renewal {
 public:
  explicit Renewal(PoolClient& client) : client_(client) {}
  ~Renewal();
  Renewal(const Renewal&) = delete;
  Renewal& operator=(const Renewal&) = delete;

  /// Begins with the device. OK: the file is new; NO_CHANGE: it exists.
  sdk::Status add(const std::string& key, const PoolSettings& pool);
  sdk::Status remove(const std::string& key);
  /// Returns why, by key of each lease that is not renewed.
  std::map<std::string, std::string> problems();
  /// Starts the threads, if devices are staged.
  void resume();

 private:
  using TimePoint = std::chrono::steady_clock::time_point;
  struct StagedLease {
    PoolSettings pool;
    std::string unreadable;  ///< why the file cannot be used
    TimePoint at;            ///< time of the next renewal
    TimePoint renewed;       ///< last renewal, or when this process began to renew it
    bool isUnderWay = false;
    std::string problem;  ///< message of the last renewal if it failed
    std::string report;   ///< message of health(); empty = none
    TimePoint ends() const { return renewed + pool.lease(); }
  };
  /// Requests to one pool.
  struct PoolRequests {
    int underWay = 0;
    bool isFailing = false;  ///< the last renewal failed for a reason that may be the pool's
    TimePoint pausedUntil;
  };

  void watch();
  void work();
  /// Reads the files. Requires mutex_.
  void scan();
  /// Returns the key of the lease to renew next; empty: none is due. Requires mutex_.
  std::string next();
  /// Records the result of a renewal. Requires mutex_.
  void settle(const std::string& key, const PoolSettings& pool, const sdk::Status& status);

  PoolClient& client_;
  const StateFolder files_;
  std::mutex mutex_;
  std::condition_variable wake_;
  bool stop_ = false;                          ///< guarded by mutex_, as the following
  std::map<std::string, StagedLease> leases_;  ///< by key
  std::map<std::string, PoolRequests> pools_;  ///< by url
  std::thread watcher_;
  std::vector<std::thread> workers_;
  std::size_t idle_ = 0;  ///< number of workers that wait
};

}  // namespace egpu::remote

// Devices that are prepared on this node, and the pods that use them.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <set>
#include <stop_token>
#include <string>
#include <vector>

#include "controller/agent/cdi/folder.h"
#include "controller/agent/usage/usage.h"
#include "controller/base/clock.h"
#include "controller/base/mutex.h"
#include "controller/base/status.h"
#include "controller/kube/client.h"

namespace egpu::agent::usage {

/// Thread-safe. Keeps references to its arguments, which must outlive it.
class Prepared {
 public:
  Prepared(kube::Client& client, cdi::Folder& folder, const base::Clock& clock, std::string node)
      : client_(client.brief()), folder_(folder), clock_(clock), node_(std::move(node)) {}

  /// Returns the shares according to the node's CDI files, with the pods that the last learn() found. Makes no API
  /// calls.
  std::vector<Share> shares();
  /// Lists this node's pods if the last list is ten minutes old, or lacks a newly prepared device or a uid in
  /// `strangers`. Does nothing while no device is prepared. After an error, the next call tries again.
  base::Status learn(const std::set<std::string>& strangers, std::stop_token stop);
  /// The next learn() lists the pods, because the last list may lack pods that share a claim with an older pod.
  void expire();

 private:
  using Pods = std::map<std::string, std::string>;  ///< names by uid
  bool knows(const std::vector<cdi::Spec>& prepared, const std::set<std::string>& strangers);
  std::vector<cdi::Spec> prepared();
  uint64_t expiries() const;

  kube::Client client_;  ///< short retries, because learn() is called again
  cdi::Folder& folder_;
  const base::Clock& clock_;
  const std::string node_;
  mutable base::Mutex mutex_;
  std::map<std::string, Pods> pods_ EGPU_GUARDED_BY(mutex_);  ///< by uid of the device
  std::set<std::string> strangers_ EGPU_GUARDED_BY(mutex_);   ///< pods without a share at the last list
  base::Clock::Steady asked_ EGPU_GUARDED_BY(mutex_){};
  uint64_t expiries_ EGPU_GUARDED_BY(mutex_) = 0;        ///< number of calls of expire()
  uint64_t expiriesAtList_ EGPU_GUARDED_BY(mutex_) = 0;  ///< the same before the last list
};

}  // namespace egpu::agent::usage

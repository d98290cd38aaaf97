// What is prepared on this node, and which pods have it.
#pragma once

#include <chrono>
#include <map>
#include <mutex>
#include <set>
#include <stop_token>
#include <string>
#include <vector>

#include "controller/agent/cdi/folder.h"
#include "controller/agent/usage/usage.h"
#include "controller/base/clock.h"
#include "controller/base/status.h"
#include "controller/kube/client.h"

namespace egpu::agent::usage {

/// Thread-safe; keeps references, which must outlive it.
class Prepared {
 public:
  Prepared(kube::Client& client, cdi::Folder& folder, const base::Clock& clock, std::string node)
      : client_(client.brief()), folder_(folder), clock_(clock), node_(std::move(node)) {}

  /// By the node's files, and by what was learned of pods. Asks nobody.
  std::vector<Share> shares();
  /// Asks the API for this node's pods if something new is prepared or one of the strangers was not asked about yet, and
  /// else every ten minutes while something is prepared. What fails is asked again by the next call.
  base::Status learn(const std::set<std::string>& strangers, std::stop_token stop);

 private:
  using Pods = std::map<std::string, std::string>;  ///< name by uid
  bool knows(const std::vector<cdi::Spec>& prepared, const std::set<std::string>& strangers);
  std::vector<cdi::Spec> prepared();

  kube::Client client_;  ///< brief: whoever asks comes again
  cdi::Folder& folder_;
  const base::Clock& clock_;
  const std::string node_;
  std::mutex mutex_;
  // State below is protected by mutex_.
  std::map<std::string, Pods> pods_;  ///< by device uid
  std::set<std::string> strangers_;   ///< of the last answer: who was known to have nothing here
  base::Clock::Steady asked_{};
};

}  // namespace egpu::agent::usage

// Serves the kubelet and the cards' publisher with the claims that are prepared on this node.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <set>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "api/v1alpha/types.h"
#include "controller/agent/cdi/folder.h"
#include "controller/agent/dra/driver.h"
#include "controller/agent/prepare/preparer.h"
#include "controller/agent/prepare/users.h"
#include "controller/base/clock.h"
#include "controller/base/mutex.h"
#include "controller/cache/store.h"
#include "controller/kube/client.h"

namespace egpu::cmd {

/// Thread-safe; keeps references, which must outlive it.
class ClaimDriver final : public agent::dra::Driver, public agent::dra::HealthSource {
 public:
  /// cards: the objects of this node's cards.
  ClaimDriver(kube::Client& client, agent::ClaimPreparer& preparer, agent::cdi::Folder& folder,
              const cache::Store<v1alpha::ElasticGPU>& cards, const base::Clock& clock, std::string node);

  base::Result<std::vector<agent::dra::PreparedDevice>> prepare(const agent::ClaimRef& claim,
                                                                std::stop_token stop) override;
  base::Status unprepare(const agent::ClaimRef& claim, std::stop_token stop) override;
  /// Returns the health of each device from that of its cards: unhealthy if one of them is, healthy if all are.
  std::vector<agent::dra::DeviceHealth> devices() override;

  /// True if this pod of the node uses a claim that is prepared on this card; nullopt = the API does not answer. Reads
  /// each namespace with such claims once, because the claims that a pod names never change.
  std::optional<bool> hasClaim(const std::string& podUid, const std::string& cardUuid);
  /// Returns the name of a pod of this node, as "namespace/name"; empty = the API does not answer or has no such pod.
  /// Reads the node's pods, once per name.
  std::string podName(const std::string& podUid);

 private:
  /// Name of the pool in the allocation of the device.
  std::string poolOf(const agent::cdi::Spec& spec) const;
  void judge(const v1alpha::DeviceCard& share, agent::dra::DeviceHealth& health) const;
  /// Returns the claims that are prepared on the card, by namespace, without those that the pod is known not to name;
  /// nullopt = a file can't be read.
  std::optional<std::map<std::string, std::vector<agent::ClaimRef>>> claimsOn(const std::string& cardUuid,
                                                                              const std::string& podUid);

  kube::Client client_;  ///< brief, because callers retry by themselves
  agent::Users users_;   ///< uses client_
  agent::ClaimPreparer& preparer_;
  agent::cdi::Folder& folder_;
  const cache::Store<v1alpha::ElasticGPU>& cards_;
  const base::Clock& clock_;
  const std::string node_;
  using Pairs = std::set<std::pair<std::string, std::string>>;
  static constexpr std::size_t kMaxKnown = 4096;
  void remember(Pairs ClaimDriver::*pairs, const std::string& pod, const std::string& what);

  base::Mutex mutex_;
  Pairs with_ EGPU_GUARDED_BY(mutex_);     ///< pod and card; valid until the pod ends
  Pairs without_ EGPU_GUARDED_BY(mutex_);  ///< pod and prepared claim that the pod does not name
  std::map<std::string, std::string> names_ EGPU_GUARDED_BY(mutex_);  ///< pod names by uid
};

}  // namespace egpu::cmd

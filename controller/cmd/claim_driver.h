// What the kubelet and the cards' publisher ask about claims, answered by what is prepared on this node.
#pragma once

#include <cstddef>
#include <mutex>
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
  /// As their cards are: a device is unhealthy if one of them is, healthy if all are.
  std::vector<agent::dra::DeviceHealth> devices() override;

  /// Whether this pod of the node uses a claim that is prepared on this card; nullopt = the API does not answer.
  std::optional<bool> hasClaim(const std::string& podUid, const std::string& cardUuid);

 private:
  void judge(const v1alpha::DeviceCard& share, agent::dra::DeviceHealth& health) const;

  kube::Client client_;  ///< brief: whoever asks comes again
  agent::Users users_;   ///< asked with client_
  agent::ClaimPreparer& preparer_;
  agent::cdi::Folder& folder_;
  const cache::Store<v1alpha::ElasticGPU>& cards_;
  const base::Clock& clock_;
  const std::string node_;
  static constexpr std::size_t kMostKnown = 4096;
  std::mutex mutex_;
  /// A pod with a claim on a card has it until it ends: asked once. Protected by mutex_.
  std::set<std::pair<std::string, std::string>> known_;
};

}  // namespace egpu::cmd

// Programs that have lost their card, because its MPS daemon ended or a program caused a fault there. They go on with
// errors until they are restarted, so the loss is reported in status.accessLost of the card, by device; the controller
// makes it a condition of the claim.
//
//   begin    the MPS clients of these devices have lost the card
//   end      no process of the device's pods that began before the loss and has loaded the driver's library is left,
//            and new programs can use the card; or the device is no longer prepared
//
// The status is the only record, so that a restarted agent continues. As the wall clock can be set, an agent compares
// times since the boot: it converts the time of a loss once.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "api/v1alpha/types.h"
#include "controller/agent/usage/prepared.h"
#include "controller/base/clock.h"
#include "controller/base/mutex.h"
#include "controller/base/status.h"
#include "controller/cache/store.h"
#include "controller/kube/client.h"

namespace egpu::agent::sharing {

/// Thread-safe. References must outlive it.
class AccessLosses {
 public:
  /// cards: the objects of this node's cards. proc: the host's "/proc".
  AccessLosses(usage::Prepared& prepared, const cache::Store<v1alpha::ElasticGPU>& cards, kube::Client& client,
               const base::Clock& clock, std::string proc)
      : prepared_(prepared), cards_(cards), client_(client.brief()), clock_(clock), proc_(std::move(proc)) {}

  /// The programs of these devices that run now have lost the card. Replaces an earlier loss. The next publish() writes
  /// it.
  void begin(const std::string& card, const std::vector<std::string>& deviceUids, std::string_view reason,
             const std::string& message);
  /// isBlocked: new programs can't use the card either, so no loss ends.
  void setBlocked(const std::string& card, bool isBlocked);
  /// Writes the losses that have begun on the card, and removes those that have ended. After an error, the next call
  /// tries again.
  base::Status publish(const std::string& card, const std::stop_token& stop);
  /// Calls publish() for all cards with losses.
  void publishAll(const std::stop_token& stop);

 private:
  using Losses = decltype(v1alpha::ElasticGPUStatus::accessLost);  ///< by device uid
  using Pods = std::set<std::string>;                              ///< uids
  struct Begin {
    std::string since;   ///< time of the loss by the wall clock, as in the status
    int64_t second = 0;  ///< the same in seconds since the boot
  };

  cache::Store<v1alpha::ElasticGPU>::Ptr objectOf(const std::string& card) const;
  void removeEnded(const std::string& card, Losses& losses, const std::stop_token& stop);
  std::map<std::string, int64_t> oldestClients(const Pods& pods, int64_t latest) const;
  std::map<std::string, int64_t> beginsOf(const std::string& card, const Losses& losses);

  usage::Prepared& prepared_;
  const cache::Store<v1alpha::ElasticGPU>& cards_;
  kube::Client client_;  ///< brief, because the next round tries again
  const base::Clock& clock_;
  const std::string proc_;
  base::Mutex mutex_;
  std::map<std::string, Losses> begun_ EGPU_GUARDED_BY(mutex_);  ///< not written yet, by uuid of the card in lower case
  std::set<std::string> blocked_ EGPU_GUARDED_BY(mutex_);        ///< cards, as above
  /// Begins of the losses, by card as above, and by device uid.
  std::map<std::string, std::map<std::string, Begin>> begins_ EGPU_GUARDED_BY(mutex_);
};

}  // namespace egpu::agent::sharing

// Reports devices without cards, such as remote GPUs, that their plugin reports as unhealthy: programs of this node
// have lost such a device, or are about to. The report is in status.accessLost of the device, by node; the controller
// makes it a condition of the claim. It ends when the plugin no longer reports it, or the device is not prepared here.
#pragma once

#include <map>
#include <optional>
#include <stop_token>
#include <string>

#include "controller/agent/cards/discovery_results.h"
#include "controller/agent/cdi/folder.h"
#include "controller/base/clock.h"
#include "controller/kube/client.h"
#include "controller/kube/event_sink.h"

namespace egpu::agent::cards {

/// Not thread-safe, except isDevice(). References must outlive it.
class RemoteDevices {
 public:
  RemoteDevices(cdi::Folder& folder, kube::Client& client, kube::EventSink& events, const base::Clock& clock,
                std::string node)
      : folder_(folder), client_(client.brief()), events_(events), clock_(clock), node_(std::move(node)) {}

  /// True if this is the uid of a device without cards that is prepared on this node. Thread-safe.
  bool isDevice(const std::string& uid) const;
  /// Writes the changed reports. A plugin that does not answer changes nothing. Returns the first failure: the next
  /// call tries again.
  base::Status publish(const Answers& answers, const std::stop_token& stop);

 private:
  using Device = v1alpha::ElasticGPU;
  struct Reported {
    std::string name;                           ///< of the device
    std::optional<v1alpha::AccessLoss> loss{};  ///< as stored; nullopt = none
    bool isRead = false;                        ///< `loss` is known
  };

  /// Writes the loss, without its time; nullopt = none.
  base::Status write(const std::string& uid, Reported& reported, std::optional<v1alpha::AccessLoss> loss,
                     const std::stop_token& stop);
  void report(const Device& device, const v1alpha::AccessLoss& loss);

  cdi::Folder& folder_;
  kube::Client client_;  ///< brief, because the next call tries again
  kube::EventSink& events_;
  const base::Clock& clock_;
  const std::string node_;
  std::map<std::string, Reported> reported_;  ///< prepared devices, and those with a report that must end, by uid
};

}  // namespace egpu::agent::cards

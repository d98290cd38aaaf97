// Serves the limiter in the containers of this node (provisioners/gpushare/limiter). While a device whose containers
// have it is prepared, every quarter of a second:
//
//   slots     those of processes that have ended are freed
//   limits    follow the amounts in force, so that a resize reaches running containers; the factor of GPU time follows
//             the driver's measurement
//   bypasses  programs that use a card without the limiter, or more than their device has, become status.bypassed of
//             the card, and an event of the claim. The controller reports them on the claim and evicts pods.
//
// Without this loop, the last limits stay in force. The files are made and removed by the plugin (stage, unstage).
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "controller/agent/cdi/folder.h"
#include "controller/agent/limiter/device_files.h"
#include "controller/agent/limiter/host_processes.h"
#include "controller/agent/limiter/limited_device.h"
#include "controller/agent/usage/prepared.h"
#include "controller/base/clock.h"
#include "controller/cache/store.h"
#include "controller/kube/client.h"
#include "controller/kube/event_sink.h"
#include "controller/plugin/provisioner.h"

namespace egpu::agent::limiter {

using Gpu = v1alpha::ElasticGPU;
/// Returns the object of a device of this node; null = not known yet.
using FindDevice = std::function<cache::Store<Gpu>::Ptr(const std::string& name)>;

/// True if containers with these edits have the limiter.
bool hasLimiter(const core::ContainerEdits& edits);

struct LimiterOptions {
  std::string node;
  std::string proc = "/proc";                 ///< the host's
  std::string state = "/var/lib/elasticgpu";  ///< state folder of the plugins
  std::chrono::milliseconds interval{250};
  std::chrono::milliseconds rewriteInterval{2'000};  ///< minimum between two writes of status.bypassed of a card
  std::chrono::milliseconds learnBackoff{5'000};     ///< after the node's pods could not be listed
};

/// References must outlive it. Call start() once; the destructor stops and joins.
class Limiter {
 public:
  /// cards: the objects of this node's cards.
  Limiter(kube::Client& client, plugin::Registry& plugins, kube::EventSink& events, cdi::Folder& folder,
          usage::Prepared& prepared, const cache::Store<Gpu>& cards, FindDevice device, base::Clock& clock,
          LimiterOptions options);
  ~Limiter();

  void start();
  void stop();
  /// One round. For tests; otherwise the thread calls it.
  void round(const std::stop_token& stop);

 private:
  struct DeviceState {
    explicit DeviceState(std::string folder) : files(std::move(folder)) {}
    DeviceFiles files;
    Factors factors;
    Suspicion suspicion;
    bool isReadable = false;
    std::string readError, writeError;  ///< last errors of the files, which are logged once
    std::string reported;               ///< message of the last event
  };
  using Devices = std::map<std::string, std::unique_ptr<DeviceState>>;  ///< by uid

  std::vector<cdi::Spec> limitedDevices();
  void readFiles(const std::vector<cdi::Spec>& specs);
  static void note(const cdi::Spec& spec, std::string& last, const base::Status& status);
  void freeEnded(const cdi::Spec& spec, DeviceState& device);
  /// Returns the processes of the devices' pods by uid of the device; nullopt = unknown.
  std::optional<std::map<std::string, std::vector<PodProcess>>> processes(const std::vector<cdi::Spec>& specs,
                                                                          const std::stop_token& stop);
  std::vector<v1alpha::DeviceCard> grantedTo(const cdi::Spec& spec) const;
  void setLimits(const cdi::Spec& spec, DeviceState& device, const std::vector<PodProcess>* processes);
  void report(const cdi::Spec& spec, DeviceState& device);
  void publish(const std::vector<cdi::Spec>& specs, const std::stop_token& stop);
  std::string nameOf(int64_t pid) const;

  kube::Client client_;  ///< brief, because the next round tries again
  plugin::Registry& plugins_;
  kube::EventSink& events_;
  cdi::Folder& folder_;
  usage::Prepared& prepared_;
  const cache::Store<Gpu>& cards_;
  const FindDevice device_;
  base::Clock& clock_;
  const LimiterOptions options_;
  HostProcesses host_;
  Devices devices_;
  base::Clock::Steady learnAfter_{};
  std::map<std::string, base::Clock::Steady> written_;  ///< last write of status.bypassed, by card object
  std::jthread thread_;                                 ///< last member, because it uses all others
};

}  // namespace egpu::agent::limiter

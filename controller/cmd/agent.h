// The node agent: its parts, in the order in which they start and stop.
#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "controller/agent/cards/cards.h"
#include "controller/agent/cards/remote_devices.h"
#include "controller/agent/cdi/folder.h"
#include "controller/agent/dra/pod_resources.h"
#include "controller/agent/dra/server.h"
#include "controller/agent/limiter/device_watch.h"
#include "controller/agent/limiter/limiter.h"
#include "controller/agent/memory_limits/memory_limits.h"
#include "controller/agent/prepare/preparer.h"
#include "controller/agent/sharing/host_programs.h"
#include "controller/agent/sharing/mps_commands.h"
#include "controller/agent/sharing/mps_supervisor.h"
#include "controller/agent/sharing/time_slices.h"
#include "controller/agent/usage/prepared.h"
#include "controller/agent/usage/series.h"
#include "controller/base/clock.h"
#include "controller/base/ids.h"
#include "controller/base/mutex.h"
#include "controller/base/status.h"
#include "controller/cmd/claim_driver.h"
#include "controller/http/http.h"
#include "controller/kube/client.h"
#include "controller/kube/events.h"
#include "controller/kube/transport/transport.h"
#include "controller/plugin/hosted_registry.h"
#include "controller/server/operations/probes.h"
#include "controller/server/operations/process_metrics.h"
#include "controller/server/operations/prometheus_metrics.h"

namespace egpu::cmd {

struct AgentOptions {
  std::string nodeName;  ///< name of this machine's Node
  std::string kubeconfig, context;
  std::string plugins;  ///< folder of provisioners; empty = ../lib/provisioners beside the executable
  plugin::Limits pluginLimits;
  std::vector<std::string> pluginHidden;  ///< files and folders that no plugin may read, besides the usual ones
  std::string pluginState = "/var/lib/elasticgpu";  ///< folder for plugins' host files, made accessible to their users
  std::string kubeletFolder = "/var/lib/kubelet";
  std::string cdiFolder = "/var/run/cdi";
  std::chrono::milliseconds probation{300'000};  ///< time that a card must be healthy after a fault before it is used
                                                 ///< again
  std::string hostRoot;    ///< where a container sees its host's files; empty = the agent runs on the host
  std::string driverRoot;  ///< folder of the host with NVIDIA's driver; empty = its root folder
  std::chrono::milliseconds usageEvery{60'000};  ///< interval between writes of a card's status.usage; 0 = never
  std::string opsListen = "127.0.0.1:9442";
  std::string probesListen = "127.0.0.1:9443";
  std::string writeOpsAddress, writeProbesAddress;  ///< files that receive the actual addresses; empty = none
};

/// After construction: plugins are starting. start(): the endpoints listen, cards are published, the kubelet finds its
/// sockets. stop(): ends the service for the kubelet first, then the rest; idempotent.
class Agent {
 public:
  /// References must outlive it.
  Agent(kube::Transport& transport, base::Clock& clock, base::Random& random, const AgentOptions& options);
  ~Agent();

  /// Fails if an address can't be bound or the kubelet's folder can't contain a socket; the message begins with the
  /// flag.
  base::Status start();
  void stop();

  std::string opsAddress() const { return opsListener_ ? opsListener_->address() : std::string(); }
  std::string probesAddress() const { return probesListener_ ? probesListener_->address() : std::string(); }

 private:
  /// GET /metrics, and the probes again.
  class Operations final : public http::Handler {
   public:
    explicit Operations(Agent& agent) : agent_(agent) {}
    http::Response handle(const http::Request& request, std::stop_token stop) override;

   private:
    Agent& agent_;
  };
  std::string wrong() const { return kubelet_.wrong(); }
  std::string missing() const;
  /// Reads the settings of the container runtime and stores the warning about them; empty = none.
  std::string checkRuntime();
  std::string warning() const;
  std::string metricsText();
  void removeLeftovers(const std::stop_token& stop);
  void refreshFiles(const std::stop_token& stop);
  void grantMig();
  std::optional<agent::PreparerOptions::CurrentCard> foundNow(const std::string& card) const;
  void describe(v1alpha::Card& card);
  agent::usage::Usage attributed(const std::vector<agent::usage::Reading>& readings);
  /// Like attributed(), after looking up the claims of unknown pods.
  agent::usage::Usage learned(const std::vector<agent::usage::Reading>& readings, const std::stop_token& stop);

  const AgentOptions options_;
  base::Clock& clock_;
  server::PrometheusMetrics metrics_;
  plugin::HostedRegistry plugins_;
  kube::Client client_;
  kube::EventRecorder events_;
  agent::cdi::Folder folder_;
  agent::ClaimPreparer preparer_;
  agent::usage::Prepared prepared_;
  agent::dra::PodResources podResources_;
  agent::cards::RemoteDevices remoteDevices_;
  agent::cards::Cards cards_;
  agent::limiter::DeviceWatch devices_;
  agent::limiter::Limiter limiter_;
  agent::sharing::NodePrograms hostPrograms_;
  agent::sharing::MpsCommands sharing_;
  agent::sharing::TimeSlices timeSlices_;
  agent::memory_limits::MemoryLimits memoryLimits_;
  agent::sharing::AccessLosses losses_;
  agent::sharing::MpsSupervisor mps_;
  ClaimDriver driver_;
  agent::dra::Server kubelet_;
  std::atomic<bool> stopping_{false};
  mutable base::Mutex warned_;
  std::string warning_ EGPU_GUARDED_BY(warned_);  ///< from the last publication
  server::Probes probes_;
  Operations operations_;
  base::Mutex scrape_;  ///< one rendering of /metrics at a time
  server::ProcessMetrics process_ EGPU_GUARDED_BY(scrape_);
  agent::usage::Series series_ EGPU_GUARDED_BY(scrape_);
  std::unique_ptr<http::Listener> opsListener_, probesListener_;
  std::vector<std::string> withoutMig_;  ///< used by start(), then by refresh_ only
  std::jthread leftovers_, refresh_;
};

/// Runs the agent until SIGTERM or SIGINT. Returns the exit status of the process.
int agentCommand(AgentOptions options);

}  // namespace egpu::cmd

// The one composition root: which parts the controller is made of, in the order in which they start and stop.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <stop_token>
#include <string>

#include "controller/base/clock.h"
#include "controller/base/ids.h"
#include "controller/base/status.h"
#include "controller/cmd/options.h"
#include "controller/http/http.h"
#include "controller/kube/client.h"
#include "controller/kube/events.h"
#include "controller/kube/leader_election.h"
#include "controller/kube/transport/transport.h"
#include "controller/plugin/hosted_registry.h"
#include "controller/reconcile/controller.h"
#include "controller/server/operations.h"
#include "controller/server/prometheus_metrics.h"
#include "controller/server/questions.h"

namespace egpu::cmd {

/// The controller with its plugins and its operations endpoint, on any API server that the transport reaches.
/// Constructed: plugins are starting. start(): the endpoint listens, reflectors and workers run. stop(): drains, then
/// gives the lease back; idempotent. With an election only the holder of the lease works; the others mirror the cluster
/// and are ready.
class Core {
 public:
  /// References must outlive it.
  Core(kube::Transport& transport, base::Clock& clock, base::Random& random, const ControllerOptions& options);
  ~Core();

  /// Fails if the operations address can't be bound.
  /// leaseLost: called at most once, on another thread, when the work has been cut off; must return at once.
  base::Status start(std::function<void()> leaseLost = {});
  /// Blocks until everything is listed (a standby competes for the lease from then on: who can't take over should not
  /// lead), then writes the operations address where the options say. Code::cancelled if stopped first.
  base::Status announce(std::stop_token stop = {});
  /// The lease was lost: nothing is begun any more, calls under way have been cancelled.
  bool leaseLost() const { return elector_ && elector_->role() == kube::LeaderElector::Role::lost; }
  void stop();

  kube::Client& client() { return client_; }
  plugin::Registry& plugins() { return plugins_; }
  reconcile::Controller& controller() { return controller_; }
  std::string opsAddress() const { return listener_ ? listener_->address() : std::string(); }

 private:
  std::string missing() const;
  std::string role() const;
  std::string metricsText();

  const ControllerOptions options_;
  server::PrometheusMetrics metrics_;
  plugin::HostedRegistry plugins_;
  kube::Client client_;
  kube::EventRecorder events_;
  reconcile::Controller controller_;
  std::function<void()> leaseLost_;
  std::optional<kube::LeaderElector> elector_;
  server::Questions questions_;
  server::Operations operations_;
  std::mutex scrape_;                        ///< one rendering of /metrics at a time
  std::set<base::MetricLabels> shownCards_;  ///< by the last one; guarded by scrape_
  std::unique_ptr<http::Listener> listener_;
};

/// Where the built-in provisioners lie beside the running executable.
std::string defaultPluginFolder();

}  // namespace egpu::cmd

// The composition root of the controller: its parts, in the order in which they start and stop.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <stop_token>
#include <string>

#include "controller/base/clock.h"
#include "controller/base/ids.h"
#include "controller/base/mutex.h"
#include "controller/base/status.h"
#include "controller/cmd/options.h"
#include "controller/http/http.h"
#include "controller/journal/journal.h"
#include "controller/kube/client.h"
#include "controller/kube/events.h"
#include "controller/kube/leader_election.h"
#include "controller/kube/transport/transport.h"
#include "controller/plugin/hosted_registry.h"
#include "controller/reconcile/controller.h"
#include "controller/server/bills.h"
#include "controller/server/extender/extender.h"
#include "controller/server/moves.h"
#include "controller/server/operations/callers.h"
#include "controller/server/operations/operations.h"
#include "controller/server/operations/probes.h"
#include "controller/server/operations/process_metrics.h"
#include "controller/server/operations/prometheus_metrics.h"
#include "controller/server/page/change_feed.h"
#include "controller/whatif/service.h"

namespace egpu::cmd {

/// The controller with its plugins, its operations endpoint and its probes, on any API server that the transport
/// reaches. After construction: plugins are starting. start(): the endpoints listen, reflectors and workers run.
/// stop(): drains, then releases the lease; idempotent. With leader election, only the holder of the lease works; the
/// other replicas mirror the cluster and are ready.
class Core {
 public:
  /// References must outlive it. asCaller: reaches the same API server without credentials, for writes with the rights
  /// of the caller; null: such requests are not served.
  Core(kube::Transport& transport, base::Clock& clock, base::Random& random, const CoreOptions& options,
       kube::Transport* asCaller = nullptr);
  ~Core();

  /// Fails if an address can't be bound; the message begins with its flag. leaseLost: called at most once, on another
  /// thread, after the work has been cut off; must return immediately.
  base::Status start(std::function<void()> leaseLost = {});
  /// Blocks until everything is listed, then writes the addresses to the files in the options. A standby competes for
  /// the lease only from then on, because a replica that can't take over should not lead. Code::cancelled if stopped
  /// first.
  base::Status announce(std::stop_token stop = {});
  /// True if the lease was lost: no new work begins, and calls in progress have been cancelled.
  bool leaseLost() const { return elector_ && elector_->role() == kube::LeaderElector::Role::lost; }
  void stop();

  kube::Client& client() { return client_; }
  plugin::HostedRegistry& plugins() { return plugins_; }
  reconcile::Controller& controller() { return controller_; }
  std::string opsAddress() const { return listener_ ? listener_->address() : std::string(); }
  std::string probesAddress() const { return probesListener_ ? probesListener_->address() : std::string(); }

  /// A worker is stuck if one key takes longer: calls to the API server and to plugins time out much earlier.
  static constexpr std::chrono::minutes kStuck{10};

 private:
  std::string wrong() const;
  std::string missing() const;
  /// Returns why a scheduler's questions can't be answered now; empty if they can.
  std::string notDeciding() const;
  std::string role() const;
  std::string metricsText();
  void publishCards(int64_t cards) EGPU_REQUIRES(scrape_);

  const CoreOptions options_;
  const base::Clock& clock_;
  server::PrometheusMetrics metrics_;
  base::Status journalOpened_;
  std::unique_ptr<journal::Journal> journal_;
  plugin::HostedRegistry plugins_;
  kube::Client client_;
  kube::EventRecorder events_;
  reconcile::Controller controller_;
  std::function<void()> leaseLost_;
  std::optional<kube::LeaderElector> elector_;
  server::ChangeFeed feed_;
  whatif::QuestionService questions_;
  kube::Client reviews_;  ///< short timeouts, because a caller waits
  server::Callers callers_;
  std::optional<server::Moves> moves_;
  server::Bills bills_;
  server::Operations operations_;
  server::Probes probes_;
  server::Extender extender_;
  base::Mutex scrape_;  ///< one rendering of /metrics at a time
  server::ProcessMetrics process_ EGPU_GUARDED_BY(scrape_);
  std::set<base::MetricLabels> shownCards_ EGPU_GUARDED_BY(scrape_);  ///< cards with series in the last rendering
  bool reportedTooMany_ EGPU_GUARDED_BY(scrape_) = false;
  std::unique_ptr<http::Listener> listener_, probesListener_, extenderListener_;
};

}  // namespace egpu::cmd

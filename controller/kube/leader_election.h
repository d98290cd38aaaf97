// Leader election among replicas of the controller, as in client-go: only the holder of a Lease works.
//
//   standby ── the lease is free, or its record has not changed for its duration ──► leader ── release() ──► released
//      ▲                                                                              │
//      └─ another holds it: retry after retryPeriod (jittered)                        ├─ not renewed for renewDeadline
//                                                                                     └─ another holds it
//                                                                                            ▼
//                                                                                          lost (final)
//
// All times are of this machine's monotonic clock: a holder works until renewDeadline after it *sent* its last
// successful renewal, and all others wait for leaseDuration after they *saw* the record change. So their work never
// overlaps while the processes run, regardless of the wall clocks. A process that was suspended in between learns it by
// a 409. A lease is not a fence: the compare-and-swap on the objects is.
#pragma once

#include <chrono>
#include <functional>
#include <stop_token>
#include <string>
#include <string_view>
#include <thread>

#include "api/core/objects.h"
#include "controller/base/clock.h"
#include "controller/base/ids.h"
#include "controller/base/metrics.h"
#include "controller/base/mutex.h"
#include "controller/base/status.h"
#include "controller/kube/client.h"

namespace egpu::kube {

struct LeaderElectionOptions {
  std::string namespace_;  ///< namespace of the Lease
  std::string name = "elastic-gpu-controller";
  std::string identity;  ///< identity of this process only, never reused: see electionIdentity()
  std::chrono::milliseconds leaseDuration{15'000};  ///< whole seconds; time that other replicas wait
  std::chrono::milliseconds renewDeadline{10'000};  ///< time that a holder works without a renewal
  std::chrono::milliseconds retryPeriod{2'000};     ///< between attempts; a standby adds up to 1.2 times this
  /// Code::invalid names the violated condition: leaseDuration > renewDeadline > 1.2 · retryPeriod > 0, and no empty
  /// value.
  base::Status check() const;
};

/// Returns "host_uuid": a restarted process has a new identity.
std::string electionIdentity(std::string_view host, base::Random& random);

/// Needs the verbs get, create and patch on leases. Writes the record as client-go does (holderIdentity, acquireTime,
/// renewTime, leaseTransitions), so replicas with either implementation can succeed each other. Metrics:
/// elasticgpu_leader (0 or 1), elasticgpu_lease_attempts_total{result = ok | held | failed}.
class LeaderElector {
 public:
  enum class Role { standby, leader, lost, released };

  /// References must outlive it. options.check() must be ok.
  LeaderElector(Transport& transport, base::Clock& clock, base::Random& random, base::Metrics& metrics,
                LeaderElectionOptions options);
  ~LeaderElector();  ///< stops without a release: other replicas wait until the lease expires

  /// Acquires and renews the lease on a thread of its own, which calls these functions (at most once each): `leading`
  /// must return immediately; `lost` must end the work before anything else, and receives the reason.
  void start(std::function<void()> leading, std::function<void(const base::Status&)> lost);
  /// Ends the thread; a leader releases the lease (at most two attempts of renewDeadline / 2), so that a standby need
  /// not wait. Call it when the work has ended. Idempotent.
  void release();

  /// Makes one attempt, and returns the time of the next. start() does this; tests with a clock of their own call it
  /// themselves. An attempt of a leader never exceeds its deadline.
  base::Clock::Steady step(std::stop_token stop);

  Role role() const;
  /// Returns the last known holder of the lease; empty = none.
  std::string holder() const;
  /// Returns why this process can't become leader under the current permissions: the API server refuses its requests
  /// for the Lease. The message for people names the Lease, the required rights and the server's answer. Empty: no
  /// missing right is known.
  std::string refusal() const;
  const LeaderElectionOptions& options() const { return options_; }

 private:
  using Steady = base::Clock::Steady;
  enum class Attempt { held, byAnother, failed };
  void run(std::stop_token stop);
  Attempt attempt(std::stop_token stop);
  base::Status take(const core::Lease& current, std::stop_token stop);
  base::Status create(std::stop_token stop);
  base::Status give();
  void observe(const core::Lease& lease);
  /// Sets refusal(), and logs it when it changes.
  void noteRefusal(Attempt outcome);
  bool heldByAnother(Steady now) const;
  void become(Role role);
  /// Returns a client for one immediate request, within the leader's deadline.
  Client client(std::chrono::milliseconds timeout);
  std::chrono::milliseconds patience() const;

  Transport& transport_;
  base::Clock& clock_;
  base::Random& random_;
  base::Metrics& metrics_;
  const LeaderElectionOptions options_;
  std::function<void()> leading_;
  std::function<void(const base::Status&)> lost_;
  // Used by the stepping thread only:
  core::Lease observed_;   ///< as last seen
  Steady observedAt_{};    ///< time of the last observed change of its record
  bool current_ = false;   ///< observed_ is the server's latest known state: a write needs no preceding read
  Steady renewBy_{};       ///< deadline of a leader's renewal
  base::Status lastWhy_;   ///< error of the last attempt: after a timeout the next one uses a new connection
  std::string announced_;  ///< the holder last logged
  mutable base::Mutex mutex_;
  Role role_ EGPU_GUARDED_BY(mutex_) = Role::standby;
  std::string holder_ EGPU_GUARDED_BY(mutex_);
  std::string refusal_ EGPU_GUARDED_BY(mutex_);

  std::jthread thread_;
};

}  // namespace egpu::kube

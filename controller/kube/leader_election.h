// Who of several controllers works: the holder of a Lease, as client-go elects.
//
//   standby ── the lease is free, or its record has not changed for its duration ──► leader ── release() ──► released
//      ▲                                                                              │
//      └─ another holds it: look again after retryPeriod (jittered)                   ├─ not renewed for renewDeadline
//                                                                                     └─ another holds it
//                                                                                            ▼
//                                                                                          lost (for good)
//
// Time is this machine's monotonic clock alone: a holder has until renewDeadline after it *sent* its last renewal that
// succeeded, everybody else waits leaseDuration from when they *saw* the record change. So the two never overlap,
// whatever the wall clocks say, while a process runs; one that was frozen in between learns it by 409. A lease is no
// fence: the compare-and-swap on the objects is.
#pragma once

#include <chrono>
#include <functional>
#include <mutex>
#include <stop_token>
#include <string>
#include <string_view>
#include <thread>

#include "api/core/objects.h"
#include "controller/base/clock.h"
#include "controller/base/ids.h"
#include "controller/base/metrics.h"
#include "controller/base/status.h"
#include "controller/kube/client.h"

namespace egpu::kube {

struct LeaderElectionOptions {
  std::string namespace_;  ///< of the Lease
  std::string name = "elastic-gpu-controller";
  std::string identity;                             ///< of this process and no other, ever: see electionIdentity()
  std::chrono::milliseconds leaseDuration{15'000};  ///< whole seconds; what others wait for
  std::chrono::milliseconds renewDeadline{10'000};  ///< how long a holder works on without a renewal
  std::chrono::milliseconds retryPeriod{2'000};     ///< between attempts; a standby adds up to 1.2 times as much
  /// Code::invalid names what can't be: leaseDuration > renewDeadline > 1.2 · retryPeriod > 0, and nothing empty.
  base::Status check() const;
};

/// "host_uuid": a restarted process is somebody else.
std::string electionIdentity(std::string_view host, base::Random& random);

/// Needs the verbs get, create and patch on leases. The record is written as client-go writes it (holderIdentity,
/// acquireTime, renewTime, leaseTransitions), so either kind of program can follow the other. Metrics:
/// elasticgpu_leader (0 or 1), elasticgpu_lease_attempts_total{result = ok | held | failed}.
class LeaderElector {
 public:
  enum class Role { standby, leader, lost, released };

  /// References must outlive it. options.check() must be ok.
  LeaderElector(Transport& transport, base::Clock& clock, base::Random& random, base::Metrics& metrics,
                LeaderElectionOptions options);
  ~LeaderElector();  ///< stops without a release: others wait for the lease to run out

  /// Tries and renews on a thread of its own, which calls these (at most once each): `leading` must return at once,
  /// `lost` must end the work before anything else, and says why.
  void start(std::function<void()> leading, std::function<void(const base::Status&)> lost);
  /// Ends the thread; a leader gives the lease back (at most two attempts of renewDeadline / 2), so that a standby need
  /// not wait. Call it when the work has ended. Idempotent.
  void release();

  /// One attempt, and when the next is due. start() does this; tests with a clock of their own do it themselves. A
  /// leader's attempt never outlasts its deadline.
  base::Clock::Steady step(std::stop_token stop);

  Role role() const;
  /// Who holds the lease as far as is known; empty = nobody.
  std::string holder() const;
  /// Why this process can never lead as things stand: the API server refuses its requests for the Lease. For people:
  /// the Lease, the rights that are needed and the server's answer. Empty: nothing is known to be missing.
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
  /// Keeps refusal(), and logs it when it changes.
  void noteRefusal(Attempt outcome);
  bool heldByAnother(Steady now) const;
  void become(Role role);
  /// For one request now: a leader has no more time than until its deadline.
  Client client(std::chrono::milliseconds atMost);
  std::chrono::milliseconds patience() const;

  Transport& transport_;
  base::Clock& clock_;
  base::Random& random_;
  base::Metrics& metrics_;
  const LeaderElectionOptions options_;
  std::function<void()> leading_;
  std::function<void(const base::Status&)> lost_;
  // Of the stepping thread alone:
  core::Lease observed_;   ///< as last seen
  Steady observedAt_{};    ///< when its record was last seen to change
  bool current_ = false;   ///< observed_ is what the server had when we last heard of it: a write may go without a read
  Steady renewBy_{};       ///< of a leader
  base::Status lastWhy_;   ///< of the last attempt if it failed: the connection may be dead, the next takes another
  std::string announced_;  ///< the holder last logged
  // Protected by mutex_:
  mutable std::mutex mutex_;
  Role role_ = Role::standby;
  std::string holder_;
  std::string refusal_;

  std::jthread thread_;
};

}  // namespace egpu::kube

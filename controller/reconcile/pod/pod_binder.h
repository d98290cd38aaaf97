// Binds a pod to a node that another scheduler has chosen (an extender's `bind`). First the pod's claims get devices
// there, by the same steps and writes as other claims: the choice is recorded (chosen_nodes.h), the pod's step decides
// for that node alone, and the claims' steps provision without waiting for a reservation. Once all claims are Bound and
// their ResourceClaims allocated:
//
//   W10 POST pods/<name>/binding   with the pod's uid. The pod has that node already: done. Crash before: the scheduler
//                                  gets no answer and asks again; Bound claims stay on that node, and the pod's step
//                                  rolls back intents. Crash after: the pod is on its node, as any other pod
//
// If anything fails before W4 of a claim, its intent is rolled back. A Bound claim stays Bound on that node, as it does
// after its pod has gone.
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "controller/base/clock.h"
#include "controller/base/status.h"
#include "controller/reconcile/pod/demand.h"
#include "controller/reconcile/timeouts.h"

namespace egpu::reconcile {

/// Thread-safe.
class PodBinder {
 public:
  PodBinder(Writer& writer, cache::Stores& stores, DemandReader& demand, Waiting& waiting, base::Clock& clock,
            const Timeouts& timeouts, std::function<void(const std::string& queueKey)> enqueue)
      : writer_(writer),
        stores_(stores),
        demand_(demand),
        waiting_(waiting),
        clock_(clock),
        timeouts_(timeouts),
        enqueue_(std::move(enqueue)) {}

  /// Blocks until the pod is bound there or that is known to fail: at most `within`, the time of a write, and after a
  /// failure one second for rolling back. The message explains a failure for people. uid: of the expected pod; empty =
  /// any of that name.
  base::Status bind(const core::ObjectKey& pod, const std::string& uid, const std::string& node,
                    std::chrono::milliseconds within, std::stop_token stop);

 private:
  /// Waits until the pod's claims are allocated on the node. nullopt: they are.
  std::optional<base::Status> place(const core::Pod& pod, const std::string& node, std::chrono::milliseconds within,
                                    std::stop_token stop);
  /// True if all claims are Bound on the node and their ResourceClaims are allocated there.
  bool placed(const core::Pod& pod, const std::string& node) const;
  /// Returns why the claims can't be allocated there any more; empty if they can.
  std::string obstacle(const core::Pod& pod, const std::string& node);
  /// Returns why the first claim that is not there yet waits; empty if all are there.
  std::string unfinished(const core::Pod& pod, const std::string& node) const;
  /// Waits, for at most a second, until the idle intents are rolled back.
  void awaitRollBack(const core::Pod& pod, std::stop_token stop) const;
  base::Status post(const core::Pod& pod, const std::string& node, std::stop_token stop);  // W10

  Writer& writer_;
  cache::Stores& stores_;
  DemandReader& demand_;
  Waiting& waiting_;
  base::Clock& clock_;
  const Timeouts& timeouts_;
  const std::function<void(const std::string& queueKey)> enqueue_;
};

}  // namespace egpu::reconcile

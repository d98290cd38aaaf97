// A pod is bound to a node that another scheduler has chosen (an extender's `bind`). Its claims get their devices there
// first, by the same steps and writes as any: the choice is noted (chosen_nodes.h), the pod's step decides for that
// node alone, the claims' steps provision without waiting for a reservation. Once all are Bound and carried:
//
//   W10 POST pods/<name>/binding   with the pod's uid. It has that node already: done. Crash before: the scheduler was not
//                                  answered, and asks again; claims that are Bound then stay on that node, intents are
//                                  given up by the pod's step. Crash after: the pod is on its node, as any
//
// Whatever goes wrong before W4 of a claim, its intent is rolled back; a claim that is Bound stays Bound on that node,
// as after a pod that has left.
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "controller/base/clock.h"
#include "controller/base/status.h"
#include "controller/reconcile/pod/pod.h"

namespace egpu::reconcile {

/// Thread-safe.
class PodBinder {
 public:
  PodBinder(Writer& writer, cache::Stores& stores, PodSync& pods, Waiting& waiting, base::Clock& clock,
            std::function<void(const std::string& queueKey)> enqueue)
      : writer_(writer), stores_(stores), pods_(pods), waiting_(waiting), clock_(clock), enqueue_(std::move(enqueue)) {}

  /// Blocks until the pod is bound there or that is known to fail, at most `within` and the time of a write. The
  /// message says why not, for people. uid: of the pod that was meant; empty = whichever has the name.
  base::Status bind(const core::ObjectKey& pod, const std::string& uid, const std::string& node,
                    std::chrono::milliseconds within, std::stop_token stop);

 private:
  /// Nothing: its claims are there.
  std::optional<base::Status> place(const core::Pod& pod, const std::string& node, std::chrono::milliseconds within,
                                    std::stop_token stop);
  /// All of its claims are Bound on the node and carried there.
  bool placed(const core::Pod& pod, const std::string& node) const;
  /// Why the claims can't get there any more; empty: they may.
  std::string obstacle(const core::Pod& pod, const std::string& node);
  /// What the claims say that are not there yet.
  std::string unfinished(const core::Pod& pod, const std::string& node) const;
  /// Waits for the idle intents to be given up, a while.
  void awaitRollBack(const core::Pod& pod, std::stop_token stop) const;
  base::Status post(const core::Pod& pod, const std::string& node, std::stop_token stop);  // W10

  Writer& writer_;
  cache::Stores& stores_;
  PodSync& pods_;
  Waiting& waiting_;
  base::Clock& clock_;
  const std::function<void(const std::string& queueKey)> enqueue_;
};

}  // namespace egpu::reconcile

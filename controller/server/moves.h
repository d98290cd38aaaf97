// Carries out what /defrag plans: one move per request, with at most one eviction, from a new plan each time. A claim
// that outlives its pods is first asked to move by its annotation; its pod is evicted once the controller has marked
// the device.
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <stop_token>
#include <string>

#include "controller/base/clock.h"
#include "controller/base/mutex.h"
#include "controller/cache/stores.h"
#include "controller/codec/move_plan.h"
#include "controller/http/http.h"
#include "controller/kube/client.h"

namespace egpu::server {

/// Thread-safe. Serves one request at a time and refuses concurrent ones. It remembers only the move in progress, so
/// that the next request waits for it; after a restart, the next plan starts from the current state. References must
/// outlive it.
class Moves {
 public:
  /// Returns the answer to /defrag?…&evictable=1&format=json.
  using Plan = std::function<http::Response(const http::Request&, std::stop_token)>;
  /// asCaller has no credentials of its own: its writes use the Authorization header of the request, or none.
  Moves(const cache::Stores& stores, Plan plan, kube::Client asCaller, const base::Clock& clock)
      : stores_(stores), plan_(std::move(plan)), asCaller_(std::move(asCaller)), clock_(clock) {}

  /// True for requests that answer() serves: /defrag with a parameter execute.
  static bool serves(const http::Request& request);
  /// Answers 200 with the executed move and the number of remaining moves (no move if none remains); 409 with
  /// Retry-After: another move is in progress; 409 without: the plan can't continue, with the reason; 429: a disruption
  /// budget blocks the eviction; 403: the caller may not evict.
  http::Response answer(const http::Request& request, std::stop_token stop);

  static constexpr std::chrono::minutes kDoneTimeout{
      20};  ///< time for a pod's grace period, the removal of its device, and the placement of its successor

 private:
  struct UnderWay {
    std::string claim, device, deviceUid;
    std::string pod;                ///< empty: no pod used the claim
    std::string namespace_, maker;  ///< uid of the pod's controller
    std::size_t placed = 0;         ///< number of pods of that controller that had a node
    base::Clock::Steady since;
  };
  /// Returns the response while a move is in progress; none: no move is in progress.
  std::optional<http::Response> waitsFor() EGPU_REQUIRES(answering_);
  http::Response carryOut(const http::Request& request, const codec::MovePlanAnswer& plan, std::stop_token stop)
      EGPU_REQUIRES(answering_);
  /// Checks by dry runs that all writes of the move would be accepted.
  base::Status wouldGo(const http::Request& request, const codec::MovePlanAnswer::Move& move,
                       const std::stop_token& stop);
  base::Status annotate(const http::Request& request, const codec::MovePlanAnswer::Move& move, bool dry,
                        std::stop_token stop);
  base::Status evict(const http::Request& request, const core::Pod& pod, bool dry, std::stop_token stop);
  /// no: text before the API server's message if it refuses the write.
  base::Status asCaller(const http::Request& request, kube::HttpRequest write, const std::string& no,
                        std::stop_token stop);
  std::size_t placedOf(const std::string& namespace_, const std::string& maker) const;

  const cache::Stores& stores_;
  const Plan plan_;
  kube::Client asCaller_;
  const base::Clock& clock_;
  base::Mutex answering_;                                         ///< held while a request is answered
  std::optional<UnderWay> underWay_ EGPU_GUARDED_BY(answering_);  ///< the move in progress after the last eviction
};

}  // namespace egpu::server

// Carries out what /defrag plans: one move per request, which is one eviction at most, planned anew for each. A claim that outlives its
// pods is asked to move by its annotation first, and its pod goes once the controller has marked the device.
#pragma once

#include <chrono>
#include <functional>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>

#include "controller/base/clock.h"
#include "controller/cache/stores.h"
#include "controller/codec/move_plan.h"
#include "controller/http/http.h"
#include "controller/kube/client.h"

namespace egpu::server {

/// Thread-safe; one request at a time, others are refused. What is remembered is the move that is under way, so that the next one
/// waits for it; with another process it is planned from what is there. References must outlive it.
class Moves {
 public:
  /// The answer to /defrag?…&evictable=1&format=json.
  using Plan = std::function<http::Response(const http::Request&, std::stop_token)>;
  /// asCaller has no credentials of its own: what it sends is done with those of the request's Authorization header, or with none.
  Moves(const cache::Stores& stores, Plan plan, kube::Client asCaller, const base::Clock& clock)
      : stores_(stores), plan_(std::move(plan)), asCaller_(std::move(asCaller)), clock_(clock) {}

  /// It is one for answer(): /defrag with a parameter execute.
  static bool serves(const http::Request& request);
  /// 200: what was done, and how many moves are left; none is done where nothing is left. 409 with Retry-After: another move is under
  /// way. 429: a budget holds. 403: the caller may not evict. 409 without: it can't go on, and why.
  http::Response answer(const http::Request& request, std::stop_token stop);

  static constexpr std::chrono::minutes kDoneWithin{
      20};  ///< a pod's grace, its device taken down, its successor placed

 private:
  struct UnderWay {
    std::string claim, device, deviceUid;
    std::string pod;                ///< empty: nobody used it
    std::string namespace_, maker;  ///< uid of the pod's controller
    std::size_t placed = 0;         ///< pods of that which had a node
    base::Clock::Steady since;
  };
  /// Nothing: no move is under way any more.
  std::optional<http::Response> waitsFor();
  http::Response carryOut(const http::Request& request, const codec::MovePlanAnswer& plan, std::stop_token stop);
  /// By dry runs.
  base::Status wouldGo(const http::Request& request, const codec::MovePlanAnswer::Move& move,
                       const std::stop_token& stop);
  base::Status annotate(const http::Request& request, const codec::MovePlanAnswer::Move& move, bool dry,
                        std::stop_token stop);
  base::Status evict(const http::Request& request, const core::Pod& pod, bool dry, std::stop_token stop);
  /// no: what is said before the API server's own words where it refuses.
  base::Status asCaller(const http::Request& request, kube::HttpRequest write, const std::string& no,
                        std::stop_token stop);
  std::size_t placedOf(const std::string& namespace_, const std::string& maker) const;

  const cache::Stores& stores_;
  const Plan plan_;
  kube::Client asCaller_;
  const base::Clock& clock_;
  std::mutex one_;                    ///< held while a request is answered; guards
  std::optional<UnderWay> underWay_;  ///< what follows the last eviction
};

}  // namespace egpu::server

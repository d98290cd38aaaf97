// The operations endpoint: /metrics, /allocation-map, /explain, /simulate, /forecast, /defrag, and the probes once more. README.md
// says what a new path or question takes.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <stop_token>
#include <string>
#include <string_view>

#include "controller/http/http.h"
#include "controller/server/allocation_map.h"
#include "controller/server/operations/callers.h"
#include "controller/server/operations/probes.h"

namespace egpu::server {

/// What the endpoint shows, each a function so that the server owns no state. All must be thread-safe.
struct OperationsSources {
  std::function<AllocationMap(const cache::MapPage&)> map;
  std::function<std::string()> metrics;  ///< Prometheus text
  std::function<std::string()> alive;    ///< empty = alive, else what is wrong
  std::function<std::string()> ready;    ///< empty = ready, else what is missing
  std::function<std::string()> role{};   ///< "leader" | "standby", shown by /readyz; empty = there is no election
  /// Answers what WhatIfQuestions::serves(), or gives up when stopped; not asked before everything is ready. Empty = there
  /// are none.
  std::function<http::Response(const http::Request&, std::stop_token)> questions{};
  /// Whether the caller with this Authorization header may ask for more than probes and metrics. Empty: whoever
  /// reaches the endpoint from this machine may.
  std::function<Callers::Verdict(std::string_view, std::stop_token)> callers{};
  /// Who uses the claims of a map; empty = not known.
  std::function<ClaimPods(const AllocationMap&)> pods{};
  /// Answers what Moves::serves(), as whoever calls; asked as questions are. Empty = nothing is moved here.
  std::function<http::Response(const http::Request&, std::stop_token)> moves{};
};

/// GET only, but for questions and moves. /allocation-map?format=json|yaml|backendai|text (&node= &idle=nodes &limit= &continue=
/// &color=1 &columns= &width=); unknown formats and paths are refused with a line that says what there is. Four answers
/// at most are worked on at once: one question, one of /metrics, kMaps maps; the others wait. All who wait for /metrics
/// share the next text. Thread-safe.
class Operations final : public http::Handler {
 public:
  explicit Operations(OperationsSources sources);
  http::Response handle(const http::Request& request, std::stop_token stop) override;
  /// What anybody may ask as often as it likes.
  bool givesWay(const http::Request& request) const override { return isScrape(request); }
  /// The process is about to end: questions under way give up, new ones get 503. Idempotent.
  void stopQuestions() { stopping_.request_stop(); }

  /// Of a listener for it.
  static http::Limits limits();
  static constexpr int kMaps = 2;
  static constexpr std::size_t kMostAnswer = std::size_t{64} << 20;  ///< bytes; what is larger is refused

 private:
  http::Response guarded(const http::Request& request, std::stop_token stop);
  static bool isScrape(const http::Request& request);
  http::Response scrape(const std::stop_token& stop);
  http::Response allocationMap(const http::Request& request, std::stop_token stop);
  const OperationsSources sources_;
  Probes probes_;
  std::stop_source stopping_;
  std::mutex mutex_;
  std::condition_variable_any mapDone_, scrapeDone_;
  int maps_ = 0;  ///< at work; protected by mutex_, as is
  bool scraping_ = false;
  uint64_t begun_ = 0;                          ///< scrapes
  std::shared_ptr<const std::string> scraped_;  ///< by the last one that ended well,
  uint64_t scrapedBy_ = 0;                      ///< which it was
};

}  // namespace egpu::server

// Live changes of the cluster for the page, as server-sent events (text/event-stream).
//
//   event: start         {"nodes":N,"claims":N}: the numbers of objects that follow; the client drops its state
//   event: nodes         PageJson::nodes(), …: first all objects, in parts
//   event: complete      {}: the client has all objects; changes follow
//   event: nodes, claims, quotas, classes, reservations
//
// A listener of the stores marks changed objects by name, and only while a stream is open: it costs the controller one
// insertion into a set. The thread of some stream renders the marked objects, at most once per `interval`, for all
// streams. It holds no lock of the feed meanwhile, and none at all while a client reads. A client that falls behind
// kLogged events starts again.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <set>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "api/core/meta.h"
#include "controller/allocator/allocator.h"
#include "controller/base/mutex.h"
#include "controller/cache/stores.h"
#include "controller/http/http.h"
#include "controller/server/page/page_json.h"

namespace egpu::server {

struct ChangeFeedOptions {
  std::chrono::milliseconds interval{400};        ///< between two events with changes
  std::chrono::milliseconds heartbeat{10'000};    ///< between two bytes of a stream without changes
  std::chrono::milliseconds reauthorize{60'000};  ///< between two checks of a stream's caller
  std::size_t marks = 50'000;                     ///< changed objects; beyond it all streams start again
};

/// Thread-safe. The references must outlive it, and it must outlive the streams and the reflectors of the stores.
/// Construct before the reflectors start.
class ChangeFeed {
 public:
  /// Returns false if the caller may no longer read the cluster.
  using StillAllowed = std::function<bool(std::stop_token)>;

  ChangeFeed(cache::Stores& stores, const allocator::Allocator& cluster, ChangeFeedOptions options = {});

  /// Returns 200 with a stream, or 503 if kMaxStreams are open or the feed is closed. The stream ends if `stillAllowed`
  /// (empty = always) returns false.
  http::Response open(StillAllowed stillAllowed);
  /// Ends all streams, and refuses new ones. Idempotent.
  void close();
  /// Number of open streams.
  int streams() const { return streams_; }

  static constexpr int kMaxStreams = 16;
  static constexpr std::size_t kNodesAtOnce = 256, kClaimsAtOnce = 512;  ///< objects of one event
  static constexpr std::size_t kLogged = 64;                             ///< events for slow clients

 private:
  friend class ChangeStream;
  using EventText = std::shared_ptr<const std::string>;

  struct ChangedObjects {
    std::set<std::string> nodes;
    std::set<core::ObjectKey> claims, quotas;
    bool classes = false;
    std::size_t size() const { return nodes.size() + claims.size() + quotas.size() + (classes ? 1 : 0); }
  };

  void listen(cache::Stores& stores);
  void markNode(const std::string& name);
  void markClaim(const core::ObjectKey& claim);
  void markPod(const core::Pod* pod);
  void markAll();
  template <class Mark>
  void mark(const Mark& mark);

  /// Waits until there is an event from `seen` on, renders changes if it is time to, and returns the events; empty
  /// after `wait`. restart: set if these events are no longer logged. Advances `seen`.
  std::vector<EventText> next(uint64_t& seen, bool& restart, std::chrono::milliseconds wait,
                              const std::stop_token& stop);
  ChangedObjects takeChanged() EGPU_REQUIRES(mutex_);
  std::string render(const ChangedObjects& changed) const;
  void publishChanges() EGPU_REQUIRES(mutex_);
  void restartAll() EGPU_REQUIRES(mutex_);
  /// Called by a stream at its end; the last one clears the feed's state.
  void closeStream();

  cache::Stores& stores_;
  const allocator::Allocator& cluster_;
  const PageJson json_;
  const ChangeFeedOptions options_;
  std::atomic<int> streams_{0};
  std::atomic<bool> closed_{false};
  base::Mutex mutex_;
  std::condition_variable_any changed_;
  ChangedObjects marked_ EGPU_GUARDED_BY(mutex_);
  std::string lastNode_ EGPU_GUARDED_BY(mutex_);  ///< last node taken, so that all nodes have their turn
  core::ObjectKey lastClaim_ EGPU_GUARDED_BY(mutex_);
  bool rendering_ EGPU_GUARDED_BY(mutex_) = false;
  std::chrono::steady_clock::time_point rendered_ EGPU_GUARDED_BY(mutex_){};
  std::string reservations_ EGPU_GUARDED_BY(mutex_);  ///< as last published
  std::deque<EventText> log_ EGPU_GUARDED_BY(mutex_);
  uint64_t first_ EGPU_GUARDED_BY(mutex_) = 0;     ///< number of the first event in log_
  uint64_t restarts_ EGPU_GUARDED_BY(mutex_) = 0;  ///< number of calls of restartAll()
  /// Held while a stream renders a part of all objects, so that new streams together use one processor at most.
  base::Mutex part_;
};

}  // namespace egpu::server

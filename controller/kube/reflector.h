// Mirrors one resource of the API server into a sink: list, then watch, without end. It recovers from every failure of
// a watch.
//
//   start ── WatchList (stream of initial events, ended by a bookmark) ──┐
//     │         refused or without that bookmark                          ├── endList() ── watch ──┐
//     └──────── paged LIST (quorum) ──────────────────────────────────────┘        ▲    ▲    │      │
//               it ended at its time: resume at the last version ───────────────────┼────┘    │      │
//               any other end: resume as well, once the server confirms that version ──────────┘      │
//               410 (HTTP or ERROR event), malformed or oversized line, 504 too large: relist ◄─────┘
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <stop_token>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

#include "controller/base/mutex.h"
#include "controller/codec/codec.h"
#include "controller/kube/client.h"

namespace egpu::kube {

/// Receives the objects of a reflector. All calls come from the reflector's thread, one at a time.
template <class T>
class Sink {
 public:
  virtual ~Sink() = default;
  /// A full list of the selected objects begins. They arrive one at a time, so that no complete copy is needed. Objects
  /// of an earlier list that did not end count as not listed.
  virtual void beginList() = 0;
  /// The object is valid during the call. It may be older than one from apply(), and may be listed again in a later
  /// state.
  virtual void listed(const T& object) = 0;
  /// The object was deleted before the end of the list.
  virtual void unlisted(const T& object) = 0;
  /// The list is complete at that version. Objects in the sink that were not listed were deleted while no watch was
  /// active: the sink synthesises these deletions, because only it knows its contents. The version, and those of the
  /// objects, may be lower than before: a server that was restored from a backup goes back in time.
  virtual void endList(const std::string& resourceVersion) = 0;
  /// Event: added, modified, deleted or bookmark (reports that all events up to metadata.resourceVersion have been
  /// sent). Never called before the first endList(). An event may be repeated; `added` may name a known object.
  virtual void apply(codec::WatchEvent<T>&& event) = 0;
};

struct ReflectorOptions {
  std::string namespace_;    ///< empty = all
  std::string_view version;  ///< like ListOptions::version
  std::string labelSelector;
  std::string fieldSelector;
  bool watchList = true;               ///< try the streamed initial list first
  int64_t pageSize = 500;              ///< page size of the LIST fallback
  std::chrono::seconds minWatch{300};  ///< the server ends a watch after a random time in this range
  std::chrono::seconds maxWatch{600};
  std::chrono::seconds idleGrace{30};      ///< time without data, beyond the timeout of the watch, until the peer
                                           ///< counts as dead
  std::chrono::seconds headTimeout{30};    ///< time until the answer to a watch begins
  std::chrono::seconds initialIdle{30};    ///< time without initial events until LIST is used instead
  std::chrono::milliseconds backoff{800};  ///< first wait after a failure, doubled each time, full jitter
  std::chrono::milliseconds maxBackoff{30'000};
  std::chrono::seconds backoffResetAfter{120};  ///< time without a failure until the wait starts at `backoff` again
};

/// The interface of the typed reflector for the untyped loop. Implemented by Reflector<T> only.
class ReflectorTarget {
 public:
  struct Line {
    codec::EventType type = codec::EventType::error;
    bool initialEventsEnd = false;
    std::string resourceVersion;
    base::Status error;  ///< error of an ERROR event
  };
  virtual ~ReflectorTarget() = default;
  /// Lists all objects into the sink. Returns the version of the list.
  virtual base::Result<std::string> list(const ListOptions& options, std::stop_token stop) = 0;
  /// Returns the version of a list's answer.
  virtual base::Result<std::string> versionOf(std::string_view list) = 0;
  /// Called before the first line of a WatchList.
  virtual void beginInitial() = 0;
  /// Handles one line of a watch. initial: it is part of the list.
  virtual base::Result<Line> line(std::string_view text, bool initial) = 0;
  /// The initial events are complete at that version.
  virtual void endInitial(const std::string& resourceVersion) = 0;
};

/// The untyped loop: versions, timeouts, backoff. Uses the client's Clock and Random.
class ReflectorLoop {
 public:
  ReflectorLoop(Client& client, const core::Kind& kind, ReflectorTarget& target, ReflectorOptions options);
  void start();
  void stop();
  bool hasSynced() const { return synced_.load(std::memory_order_acquire); }
  bool waitForSync(std::stop_token stop);
  std::string lastResourceVersion() const;
  base::Status lastError() const;

 private:
  /// Next action after a list or watch has ended.
  enum class Next { resume, resumeLater, relist };
  struct PassEnd {
    Next next = Next::resume;
    std::chrono::milliseconds atLeast{0};  ///< the server's Retry-After
  };
  struct Watch;  // state of one request
  void run(std::stop_token stop);
  PassEnd listOnce(std::stop_token stop);
  PassEnd askWhetherRestored(std::stop_token stop);
  PassEnd watchOnce(bool initial, std::stop_token stop);
  PassEnd afterWatch(const Watch& watch, const base::Result<HttpResponse>& end);
  PassEnd afterError(const Watch& watch, const base::Status& status, std::chrono::milliseconds atLeast);
  std::chrono::seconds watchLength();
  HttpRequest watchRequest(bool initial, std::chrono::seconds seconds) const;
  bool onLine(Watch& watch, std::string_view text);
  void flushCounts(Watch& watch);
  std::chrono::milliseconds nextDelay();
  void setVersion(std::string version);
  /// Called when the sink has the complete list at that version.
  void listEnded(std::string version, std::string_view by);
  void report(const base::Status& status, std::string_view what);

  Client& client_;
  const core::Kind kind_;
  ReflectorTarget& target_;
  const ReflectorOptions options_;
  std::atomic<bool> synced_{false};
  // Used by the loop's thread only:
  bool watchListRefused_ = false;  ///< the server does not support it: use LIST
  bool needList_ = true;
  bool maybeRestored_ = false;  ///< the last watch ended early: the server may have been restored to an older state
  int failures_ = 0;            ///< backoff exponent
  base::Clock::Steady lastFailure_{};
  mutable base::Mutex mutex_;
  std::condition_variable_any syncedChanged_;
  std::string version_ EGPU_GUARDED_BY(mutex_);
  base::Status error_ EGPU_GUARDED_BY(mutex_);  ///< error of the last request; ok once one succeeds

  std::jthread thread_;
};

/// Client and sink must outlive it. Call start() once; the destructor stops and joins.
template <class T>
class Reflector final : private ReflectorTarget {
 public:
  Reflector(Client& client, Sink<T>& sink, ReflectorOptions options = {})
      : client_(client),
        sink_(sink),
        loop_(client, Client::inVersion(core::kindOf<T>, options.version), *this, std::move(options)) {}

  void start() { loop_.start(); }
  /// Ends the watch and joins. Idempotent.
  void stop() { loop_.stop(); }
  /// True once the sink has received its first list. Thread-safe, like all methods below.
  bool hasSynced() const { return loop_.hasSynced(); }
  /// Blocks until hasSynced(); false if stopped first.
  bool waitForSync(std::stop_token stop = {}) { return loop_.waitForSync(std::move(stop)); }
  /// Returns the newest version passed to the sink; empty before the first.
  std::string lastResourceVersion() const { return loop_.lastResourceVersion(); }
  /// Returns why the mirror may be out of date; ok while list or watch work.
  base::Status lastError() const { return loop_.lastError(); }

 private:
  base::Result<std::string> list(const ListOptions& options, std::stop_token stop) override {
    sink_.beginList();
    auto meta = client_.list<T>(
        options, [this](T&& object) { sink_.listed(object); }, [this] { sink_.beginList(); }, std::move(stop));
    if (!meta) return meta.status();
    sink_.endList(meta->resourceVersion);
    return meta->resourceVersion;
  }
  base::Result<std::string> versionOf(std::string_view list) override {
    auto meta = codec::decodeList<T>(list, [](T&&) {});
    if (!meta) return meta.status();
    return std::move(meta->resourceVersion);
  }
  void beginInitial() override { sink_.beginList(); }
  base::Result<Line> line(std::string_view text, bool initial) override {
    if (auto status = codec::decodeWatchEvent(text, event_); !status.ok()) return status;
    Line line;
    line.type = event_.type;
    line.initialEventsEnd = event_.initialEventsEnd;
    line.resourceVersion = event_.object.metadata.resourceVersion;
    line.error = event_.error;
    if (event_.type == codec::EventType::error) return line;
    if (!initial) {
      sink_.apply(std::move(event_));
    } else if (event_.type == codec::EventType::deleted) {
      sink_.unlisted(event_.object);
    } else if (event_.type != codec::EventType::bookmark) {
      sink_.listed(event_.object);
    }
    return line;
  }
  void endInitial(const std::string& resourceVersion) override { sink_.endList(resourceVersion); }

  Client& client_;
  Sink<T>& sink_;
  codec::WatchEvent<T> event_;  ///< the last one, reused for its memory
  ReflectorLoop loop_;          ///< last: its thread uses the members above
};

}  // namespace egpu::kube

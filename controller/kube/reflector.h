// Mirrors one resource of the API server into a sink: list, then watch, for ever, through every way in which a watch
// can fail.
//
//   start ── WatchList (stream of initial events, ended by a bookmark) ──┐
//     │         refused or without that bookmark                          ├── endList() ── watch ──┐
//     └──────── paged LIST (quorum) ──────────────────────────────────────┘        ▲    ▲    │      │
//               its time was over: resume at the last version ─────────────────────┼────┘    │      │
//               any other end: resume likewise, once the server says that it has that version ─┘      │
//               410 (HTTP or ERROR event), malformed or oversized line, 504 too large: relist ◄─────┘
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <stop_token>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

#include "controller/codec/codec.h"
#include "controller/kube/client.h"

namespace egpu::kube {

/// Where a reflector puts what it sees. All calls come from the reflector's thread, one at a time.
template <class T>
class Sink {
 public:
  virtual ~Sink() = default;
  /// The whole (selected) world is about to be told, one object at a time, so that nobody ever holds it twice. What an
  /// earlier list told that never ended counts as not listed.
  virtual void beginList() = 0;
  /// Valid during the call. May be older than what apply() brought before, and may come again in a later state.
  virtual void listed(const T& object) = 0;
  /// It is gone again, before the list has ended.
  virtual void unlisted(const T& object) = 0;
  /// That was the world at that version. What the sink holds and was not listed was deleted while nobody watched: the
  /// sink itself synthesises those deletions, for only it knows what it holds. The version may be lower than what was
  /// told before, and so may those of the objects: a server that was restored from a backup goes back in time.
  virtual void endList(const std::string& resourceVersion) = 0;
  /// added, modified, deleted or bookmark (which only tells that everything up to metadata.resourceVersion has been
  /// seen). Never called before the first endList(). The same event may come twice; `added` may name a known object.
  virtual void apply(codec::WatchEvent<T>&& event) = 0;
};

struct ReflectorOptions {
  std::string namespace_;    ///< empty = all
  std::string_view version;  ///< as in ListOptions
  std::string labelSelector;
  std::string fieldSelector;
  bool watchList = true;               ///< try the streamed initial list first
  int64_t pageSize = 500;              ///< of the LIST fallback
  std::chrono::seconds minWatch{300};  ///< the server ends a watch after a random time between these
  std::chrono::seconds maxWatch{600};
  std::chrono::seconds idleGrace{30};      ///< silence beyond the watch's own time-out that makes the peer dead
  std::chrono::seconds headTimeout{30};    ///< until the answer to a watch begins
  std::chrono::seconds initialIdle{30};    ///< silence during initial events after which LIST is used instead
  std::chrono::milliseconds backoff{800};  ///< first wait after a failure, doubled each time, full jitter
  std::chrono::milliseconds maxBackoff{30'000};
  std::chrono::seconds resetBackoff{120};  ///< a failure that late after the last one starts at `backoff` again
};

/// What the untyped loop needs of the typed reflector. Implemented by Reflector<T> only.
class ReflectorTarget {
 public:
  struct Line {
    codec::EventType type = codec::EventType::error;
    bool initialEventsEnd = false;
    std::string resourceVersion;
    base::Status error;  ///< of an ERROR event
  };
  virtual ~ReflectorTarget() = default;
  /// A full list into the sink; returns its version.
  virtual base::Result<std::string> list(const ListOptions& options, std::stop_token stop) = 0;
  /// The version that a list's answer tells.
  virtual base::Result<std::string> versionOf(std::string_view list) = 0;
  /// Before the first line of a WatchList.
  virtual void beginInitial() = 0;
  /// One line of a watch. initial: it is part of the list.
  virtual base::Result<Line> line(std::string_view text, bool initial) = 0;
  /// What was told is the whole world at that version.
  virtual void endInitial(const std::string& resourceVersion) = 0;
};

/// The loop without types: versions, time-outs, back-off. Times come from the client's Clock and Random.
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
  /// What the end of a list or watch asks for.
  enum class Next { resume, resumeLater, relist };
  struct PassEnd {
    Next next = Next::resume;
    std::chrono::milliseconds atLeast{0};  ///< the server's Retry-After
  };
  struct Watch;  // one request's state
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
  /// The sink has the whole world at that version.
  void listEnded(std::string version, std::string_view by);
  void report(const base::Status& status, std::string_view what);

  Client& client_;
  const core::Kind kind_;
  ReflectorTarget& target_;
  const ReflectorOptions options_;
  std::atomic<bool> synced_{false};
  // Of the loop's thread alone:
  bool watchListRefused_ = false;  ///< this server doesn't do it: LIST from now on
  bool needList_ = true;
  bool maybeRestored_ = false;  ///< the last watch did not end at its time: the next one may be another history's
  int failures_ = 0;            ///< back-off exponent
  base::Clock::Steady lastFailure_{};
  // Protected by mutex_:
  mutable std::mutex mutex_;
  std::condition_variable_any syncedChanged_;
  std::string version_;
  base::Status error_;  ///< of the last exchange; ok once it works again

  std::jthread thread_;
};

/// Client and sink must outlive it. start() once; the destructor stops and joins.
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
  /// The sink has had its first list. Thread-safe, like all below.
  bool hasSynced() const { return loop_.hasSynced(); }
  /// Blocks until then; false if stopped first.
  bool waitForSync(std::stop_token stop = {}) { return loop_.waitForSync(std::move(stop)); }
  /// Newest version handed to the sink; empty before the first.
  std::string lastResourceVersion() const { return loop_.lastResourceVersion(); }
  /// Why the mirror may be behind; ok while list or watch work.
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
  codec::WatchEvent<T> event_;  ///< the last one, kept for its memory
  ReflectorLoop loop_;          ///< last: its thread uses all above
};

}  // namespace egpu::kube

// Records Kubernetes events about our objects without blocking a reconcile. Merges similar events and limits their
// number.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <list>
#include <set>
#include <stop_token>
#include <string>
#include <string_view>
#include <thread>
#include <unordered_map>
#include <utility>

#include "api/core/objects.h"
#include "controller/base/mutex.h"
#include "controller/kube/client.h"
#include "controller/kube/event_sink.h"

namespace egpu::kube {

struct EventOptions {
  std::size_t queue = 1000;  ///< beyond this, new events are dropped and counted; beyond half of it, similar ones are
                             ///< merged
  int similar = 10;          ///< this many events within `window` that differ only in their message become one
  std::chrono::seconds window{600};
  int burst = 25;  ///< events per component and object; then one per `refill`
  std::chrono::seconds refill{300};
  std::size_t remembered = 4096;           ///< number of event kinds and objects; the least recently used are evicted
  std::chrono::milliseconds drain{5'000};  ///< time that stop() continues writing
};

/// Decides for one event whether it is new, a repetition or spam, as client-go does. Events that differ only in their
/// message are merged, equal events are counted, and excess events are counted but not written. Pure except for its
/// memory, which is bounded in the number and size of entries (it stores digests instead of messages). Not thread-safe.
class EventCorrelator {
 public:
  struct Verdict {
    bool drop = false;   ///< spam
    std::string name;    ///< name of the Event to patch; empty = create one and call created()
    std::string memory;  ///< key for created() and startOver()
    core::Event event;   ///< with the current count, message, firstTimestamp, lastTimestamp
  };
  explicit EventCorrelator(EventOptions options) : options_(options) {}
  Verdict consider(core::Event event, base::Clock::Steady now);
  void created(const std::string& memory, const std::string& name);
  /// Restarts the count with the event first seen at that time, because the Event was deleted (they live for an hour).
  void startOver(const std::string& memory, const std::string& firstTimestamp);

 private:
  using Steady = base::Clock::Steady;
  /// A map that evicts the least recently used entry.
  template <class V>
  struct Recent {
    std::list<std::pair<std::string, V>> order;  ///< front = newest
    std::unordered_map<std::string, typename std::list<std::pair<std::string, V>>::iterator> index;
    V& at(const std::string& key, std::size_t bound);
  };
  struct Bucket {
    double tokens = -1;  ///< negative = unused
    Steady at{};
  };
  struct EventGroup {
    std::set<std::string> messages;  ///< digests
    Steady last{};
  };
  struct Written {
    std::string name;
    int64_t count = 0;
    std::string firstTimestamp;
  };
  /// Takes one of the object's tokens; false if none is left.
  bool spend(const std::string& object, Steady now);

  const EventOptions options_;
  Recent<Bucket> buckets_;     ///< per component and object
  Recent<EventGroup> groups_;  ///< per object, type, reason
  Recent<Written> written_;    ///< per group and digest of the message, or per group once it is merged
};

/// Writes events through `client` (which must outlive it) on a thread of its own. While the queue is more than half
/// full, events of one namespace, kind, type and reason become one event about the first of their objects, with the
/// number of events. Metrics: elasticgpu_events_total{result}, result = created | patched | spam | merged | overflow |
/// failed.
class EventRecorder final : public EventSink {
 public:
  EventRecorder(Client& client, std::string component, EventOptions options = {});
  ~EventRecorder() override;  ///< calls stop()
  void event(const core::ObjectReference& about, std::string_view type, std::string_view reason,
             std::string_view message) override;
  /// Writes the queued events for at most options.drain, then joins. Idempotent; later events are dropped.
  void stop();

 private:
  struct Queued {
    core::Event event;
    std::string merging{};   ///< key in merging_; empty: not merged with other events
    std::size_t others = 0;  ///< number of events merged into it
  };
  /// False: the queue is full.
  bool enqueue(core::Event event) EGPU_REQUIRES(mutex_);
  void run();
  void write(core::Event event);

  Client client_;  ///< brief: a failure in one namespace must not delay the events of others
  const std::string component_;
  const EventOptions options_;
  EventCorrelator correlator_;  ///< used by the thread only
  base::Mutex mutex_;
  std::condition_variable_any changed_;
  std::deque<Queued> queue_ EGPU_GUARDED_BY(mutex_);
  /// Events in queue_ that later ones are merged into.
  std::unordered_map<std::string, Queued*> merging_ EGPU_GUARDED_BY(mutex_);
  bool stopping_ EGPU_GUARDED_BY(mutex_) = false;

  std::stop_source cancel_;    ///< ends the write in progress at the end of the drain
  std::stop_source finished_;  ///< requested by the thread when the queue is empty
  std::jthread thread_;
};

}  // namespace egpu::kube

// Kubernetes events about our objects: recorded without ever holding up a reconcile, merged and bounded so as not to
// flood.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <list>
#include <mutex>
#include <set>
#include <stop_token>
#include <string>
#include <string_view>
#include <thread>
#include <unordered_map>
#include <utility>

#include "api/core/objects.h"
#include "controller/kube/client.h"
#include "controller/kube/event_sink.h"

namespace egpu::kube {

struct EventOptions {
  std::size_t queue = 1000;  ///< beyond it new events are dropped and counted; beyond half of it those alike become one
  int similar = 10;          ///< this many alike but for their message within `window` become one
  std::chrono::seconds window{600};
  int burst = 25;  ///< events per component and object; then one each `refill`
  std::chrono::seconds refill{300};
  std::size_t remembered = 4096;           ///< kinds of events and objects; the least recently used are forgotten
  std::chrono::milliseconds drain{5'000};  ///< how long stop() goes on writing
};

/// Decides for one event whether it is new, a repetition or spam, as client-go does: what is alike but for its message
/// is merged, what is the same is counted, and what is too much is counted but not written. Pure but for its memory,
/// which is bounded in entries and in bytes each (no message is kept, only its digest); not thread-safe.
class EventCorrelator {
 public:
  struct Verdict {
    bool drop = false;   ///< spam
    std::string name;    ///< of the Event to patch; empty = create one and tell created()
    std::string memory;  ///< key for created() and startOver()
    core::Event event;   ///< as it shall be now: count, message, firstTimestamp, lastTimestamp
  };
  explicit EventCorrelator(EventOptions options) : options_(options) {}
  Verdict consider(core::Event event, base::Clock::Steady now);
  void created(const std::string& memory, const std::string& name);
  /// The Event was deleted (they live an hour): counting starts anew with the one first seen at that time.
  void startOver(const std::string& memory, const std::string& firstTimestamp);

 private:
  using Steady = base::Clock::Steady;
  /// A map that forgets what was used longest ago.
  template <class V>
  struct Recent {
    std::list<std::pair<std::string, V>> order;  ///< front = newest
    std::unordered_map<std::string, typename std::list<std::pair<std::string, V>>::iterator> index;
    V& at(const std::string& key, std::size_t bound);
  };
  struct Bucket {
    double tokens = -1;  ///< negative = not used yet
    Steady at{};
  };
  struct Group {
    std::set<std::string> messages;  ///< digests
    Steady last{};
  };
  struct Written {
    std::string name;
    int64_t count = 0;
    std::string firstTimestamp;
  };
  /// One of the object's tokens; false if there is none.
  bool spend(const std::string& object, Steady now);

  const EventOptions options_;
  Recent<Bucket> buckets_;   ///< per component and object
  Recent<Group> groups_;     ///< per object, type, reason
  Recent<Written> written_;  ///< per group and message's digest, or per group once it is merged
};

/// Writes events through `client` (which must outlive it) on a thread of its own. While more wait than can be written
/// soon, those of one namespace, kind, type and reason become one event, about the first of their objects, which says
/// how many they were. Metrics: elasticgpu_events_total{result}, result = created | patched | spam | merged | overflow
/// | failed.
class EventRecorder final : public EventSink {
 public:
  EventRecorder(Client& client, std::string component, EventOptions options = {});
  ~EventRecorder() override;  ///< stop()
  void event(const core::ObjectReference& about, std::string_view type, std::string_view reason,
             std::string_view message) override;
  /// Writes what is queued for at most options.drain, then joins. Idempotent; later events are dropped.
  void stop();

 private:
  struct Queued {
    core::Event event;
    std::string merging{};   ///< key in merging_; empty: it stands for itself
    std::size_t others = 0;  ///< events that became part of it
  };
  /// With mutex_ held. False: there is no room for it.
  bool enqueue(core::Event event);
  void run();
  void write(core::Event event);

  Client client_;  ///< brief: what fails in one namespace must not hold back the events of others
  const std::string component_;
  const EventOptions options_;
  EventCorrelator correlator_;  ///< of the thread alone
  // Protected by mutex_:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Queued> queue_;
  std::unordered_map<std::string, Queued*> merging_;  ///< those in queue_ that take up others
  bool stopping_ = false;

  std::stop_source cancel_;    ///< ends the write under way: the drain's time is up
  std::stop_source finished_;  ///< requested by the thread when it has nothing left
  std::jthread thread_;
};

}  // namespace egpu::kube

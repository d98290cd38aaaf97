#include "controller/standalone/apiserver/verbs/expiry.h"

#include <algorithm>
#include <string>
#include <vector>

#include "controller/base/timestamp.h"
#include "controller/standalone/apiserver/show/status_json.h"
#include "controller/standalone/apiserver/verbs/call.h"

namespace egpu::apiserver {
namespace {

std::string textAt(const Json& object, const char* member) {
  const auto found = object.find(member);
  return found != object.end() && found->is_string() ? found->get<std::string>() : std::string();
}

/// Returns the time of the last write to the Event, in seconds since 1970.
int64_t lastWritten(const Json& event) {
  int64_t last = base::unixSeconds(metaString(event, "creationTimestamp"));
  for (const char* member : {"lastTimestamp", "eventTime"})
    if (const auto text = textAt(event, member); !text.empty()) last = std::max(last, base::unixSeconds(text));
  if (const auto series = event.find("series"); series != event.end() && series->is_object())
    if (const auto text = textAt(*series, "lastObservedTime"); !text.empty())
      last = std::max(last, base::unixSeconds(text));
  return last;
}

}  // namespace

EventExpiry::EventExpiry(const ResourceTable& table, Store& store, Deletion& deletion, base::Clock& clock)
    : events_(table.find("", "v1", "events")), store_(store), deletion_(deletion), clock_(clock) {}

void EventExpiry::onRequest(const Resource& resource) {
  if (&resource != events_) return;
  const auto now = clock_.now();
  auto due = next_.load();
  const Ticks next = (now + kSweepInterval).time_since_epoch().count();
  if (now.time_since_epoch().count() < due || !next_.compare_exchange_strong(due, next)) return;
  sweep(now);
}

void EventExpiry::sweep(base::Clock::Steady now) {
  const int64_t before = base::unixSeconds(base::rfc3339(clock_.wall() - kTtl));
  uint64_t version = 0;
  std::size_t removed = 0;
  for (const auto& event : store_.list(*events_, {}, version)) {
    if (lastWritten(event->body) > before) continue;
    if (removed++ == kMaxRemoved) {
      next_ = now.time_since_epoch().count();
      return;
    }
    try {
      (void)deletion_.remove(*events_, event->key, {event->uid, std::to_string(event->version), false, false});
    } catch (const ApiError&) {
      // The Event was written or deleted meanwhile.
    }
  }
}

}  // namespace egpu::apiserver

#include "controller/standalone/apiserver/verbs/watch.h"

#include <algorithm>
#include <utility>

#include "controller/standalone/apiserver/show/status_json.h"

namespace egpu::apiserver {
namespace {

using SteadyClock = std::chrono::steady_clock;
constexpr std::size_t kChunkBytes = std::size_t{256} * 1024;
constexpr std::size_t kEventsAtOnce = 512;
// Maximum time that next() waits for events, so that the listener can check whether the client is still connected.
constexpr std::chrono::milliseconds kPulse{1000};

}  // namespace

WatchStream::WatchStream(const Store& store, base::Clock& clock, const RequestInfo& call, Presentation as,
                         Selector selector, WatchOptions options)
    : store_(store),
      clock_(clock),
      info_(call),
      as_(std::move(as)),
      selector_(std::move(selector)),
      options_(std::move(options)),
      cursor_(options_.from),
      nextBookmark_(SteadyClock::now() + options_.bookmarkInterval) {
  info_.request = &request_;
}

bool WatchStream::concerns(const Key& key) const {
  return (info_.key.ns.empty() || key.ns == info_.key.ns) && (info_.key.name.empty() || key.name == info_.key.name);
}

void WatchStream::append(std::string& chunk, std::string_view type, const Object& object) {
  chunk += "{\"type\":\"";
  chunk += type;
  chunk += "\",\"object\":";
  if (as_.form == ObjectForm::plain && info_.version == info_.resource->storageVersion)
    chunk += object.text;
  else
    chunk += render(info_, as_, object, clock_, columns_);
  columns_ = false;
  chunk += "}\n";
}

void WatchStream::appendEvent(std::string& chunk, const Event& event) {
  if (!concerns(event.object->key)) return;
  if (selector_.empty()) {
    append(chunk,
           event.type == Event::Type::added      ? "ADDED"
           : event.type == Event::Type::modified ? "MODIFIED"
                                                 : "DELETED",
           *event.object);
    return;
  }
  // In a watch with a selector, an object is added when it starts to match and deleted when it stops matching.
  const bool before = event.before && selector_.matches(event.before->body);
  const bool now = event.type != Event::Type::deleted && selector_.matches(event.object->body);
  if (now) {
    append(chunk, before ? "MODIFIED" : "ADDED", *event.object);
  } else if (before) {
    Object last = event.type == Event::Type::deleted ? *event.object : *event.before;
    if (event.type != Event::Type::deleted) {
      last.version = event.version;
      last.body["metadata"]["resourceVersion"] = std::to_string(event.version);
      last.text = last.body.dump();
    }
    append(chunk, "DELETED", last);
  }
}

void WatchStream::appendBookmark(std::string& chunk, bool initialEventsEnd) {
  const Resource& r = *info_.resource;
  Json meta = {{"resourceVersion", std::to_string(cursor_)}, {"creationTimestamp", nullptr}};
  if (initialEventsEnd) meta["annotations"] = {{"k8s.io/initial-events-end", "true"}};
  Json object = {{"kind", r.kind}, {"apiVersion", r.apiVersion(info_.version)}, {"metadata", meta}};
  if (as_.form == ObjectForm::metadata) {
    object["kind"] = "PartialObjectMetadata";
    object["apiVersion"] = "meta.k8s.io/" + as_.tableVersion;
  } else if (as_.form == ObjectForm::table) {
    object = {{"kind", "Table"},
              {"apiVersion", "meta.k8s.io/" + as_.tableVersion},
              {"metadata", meta},
              {"columnDefinitions", Json::array()},
              {"rows", Json::array()}};
  }
  chunk += Json{{"type", "BOOKMARK"}, {"object", object}}.dump() + "\n";
  nextBookmark_ = SteadyClock::now() + options_.bookmarkInterval;
}

bool WatchStream::next(std::string& chunk, std::stop_token stop) {
  if (ended_ || stop.stop_requested()) return false;
  if (!started_) {
    while (sent_ < options_.initial.size() && chunk.size() < kChunkBytes)
      append(chunk, "ADDED", *options_.initial[sent_++]);
    if (sent_ < options_.initial.size()) return true;
    options_.initial.clear();
    sent_ = 0;
    started_ = true;
    if (options_.initialEventsEnd) appendBookmark(chunk, true);
    if (!chunk.empty()) return true;
  }
  const auto now = SteadyClock::now();
  if (now >= options_.end) return false;
  auto until = std::min(now + kPulse, options_.end);
  if (options_.bookmarks) until = std::min(until, nextBookmark_);
  std::vector<Event> events;
  uint64_t version = cursor_;
  if (!store_.eventsAfter(*info_.resource, cursor_, kEventsAtOnce, until, stop, events, version)) {
    ApiError gone = expired("too old resource version: " + std::to_string(cursor_) + " (" +
                            std::to_string(store_.oldest(*info_.resource)) + ")");
    chunk += Json{{"type", "ERROR"}, {"object", toJson(gone)}}.dump() + "\n";
    ended_ = true;
    return true;
  }
  for (const Event& e : events) appendEvent(chunk, e);
  const bool reached = version >= cursor_;  // false for a watch from a version in the future
  cursor_ = events.size() == kEventsAtOnce ? events.back().version : std::max(cursor_, version);
  if (reached && options_.bookmarks && SteadyClock::now() >= nextBookmark_) appendBookmark(chunk, false);
  return !stop.stop_requested() || !chunk.empty();
}

}  // namespace egpu::apiserver

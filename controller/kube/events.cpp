#include "controller/kube/events.h"

#include <algorithm>

#include "controller/base/ids.h"
#include "controller/base/log.h"
#include "controller/base/printable.h"
#include "controller/base/text.h"
#include "controller/codec/json/text.h"

namespace egpu::kube {

using base::Code;

namespace {
constexpr std::size_t kMaxMessageLength = 1024;  ///< the limit of events.k8s.io in the API server
}  // namespace

template <class V>
V& EventCorrelator::Recent<V>::at(const std::string& key, std::size_t bound) {
  const auto known = index.find(key);
  if (known != index.end()) {
    order.splice(order.begin(), order, known->second);
    return known->second->second;
  }
  order.emplace_front(key, V{});
  index.emplace(key, order.begin());
  if (order.size() > bound) {
    index.erase(order.back().first);
    order.pop_back();
  }
  return order.front().second;
}

EventCorrelator::Verdict EventCorrelator::consider(core::Event event, Steady now) {
  const auto& about = event.involvedObject;
  const std::string object = event.component + "/" + about.apiVersion + "/" + about.kind + "/" + about.namespace_ +
                             "/" + about.name + "/" + about.uid;
  const std::string kind = object + "/" + event.type + "/" + event.reason;
  const std::string digest = base::hexDigest(event.message);

  EventGroup& group = groups_.at(kind, options_.remembered);
  if (now - group.last > options_.window) group.messages.clear();
  group.last = now;
  group.messages.insert(digest);
  const bool merge = group.messages.size() >= static_cast<std::size_t>(std::max(1, options_.similar));
  if (merge) {
    // The set only needs to exceed the limit: keep it small.
    while (group.messages.size() > static_cast<std::size_t>(options_.similar))
      group.messages.erase(group.messages.begin());
    event.message = base::shortened("(combined from similar events): " + event.message, kMaxMessageLength);
  }

  Verdict verdict;
  verdict.memory = merge ? kind : kind + "/" + digest;
  Written& written = written_.at(verdict.memory, options_.remembered);
  if (!written.name.empty()) {
    event.count = written.count + 1;
    event.firstTimestamp = written.firstTimestamp;
  }
  written.count = event.count;
  written.firstTimestamp = event.firstTimestamp;
  verdict.name = written.name;
  verdict.event = std::move(event);
  verdict.drop = !spend(object, now);
  return verdict;
}

bool EventCorrelator::spend(const std::string& object, Steady now) {
  Bucket& bucket = buckets_.at(object, options_.remembered);
  if (bucket.tokens < 0) {
    bucket.tokens = options_.burst;
    bucket.at = now;
  }
  const std::chrono::duration<double> since = now - bucket.at;
  const std::chrono::duration<double> refill = options_.refill;
  bucket.tokens = std::min<double>(options_.burst, bucket.tokens + since.count() / refill.count());
  bucket.at = now;
  if (bucket.tokens < 1) return false;
  bucket.tokens -= 1;
  return true;
}

void EventCorrelator::created(const std::string& memory, const std::string& name) {
  written_.at(memory, options_.remembered).name = name;
}

void EventCorrelator::startOver(const std::string& memory, const std::string& firstTimestamp) {
  written_.at(memory, options_.remembered) = Written{{}, 1, firstTimestamp};
}

namespace {

/// Returns the preferred version of our kinds, because `kubectl events --for` queries that one and not the stored one.
std::string askedVersion(const std::string& apiVersion) {
  return apiVersion == "elasticgpu.io/v1alpha" ? "elasticgpu.io/v1alpha1" : apiVersion;
}

/// Returns "object.suffix"; a long object name is cut to leave room for the suffix.
std::string eventName(std::string_view object, base::Random& random) {
  constexpr std::size_t kMaxLength = 253, kSuffix = 12;
  object = object.substr(0, kMaxLength - kSuffix - 1);
  while (!object.empty() && (object.back() == '.' || object.back() == '-')) object.remove_suffix(1);
  return std::string(object) + (object.empty() ? "" : ".") + random.suffix(kSuffix);
}

}  // namespace

EventRecorder::EventRecorder(Client& client, std::string component, EventOptions options)
    : client_(client.brief()),
      component_(std::move(component)),
      options_(options),
      correlator_(options),
      thread_([this] { run(); }) {}

EventRecorder::~EventRecorder() { stop(); }

void EventRecorder::event(const core::ObjectReference& about, std::string_view type, std::string_view reason,
                          std::string_view message) {
  core::Event event;
  event.involvedObject = about;
  event.involvedObject.apiVersion = askedVersion(about.apiVersion);
  // Events about cluster-scoped objects belong to "default", where kubectl describe looks for them.
  event.metadata.namespace_ = about.namespace_.empty() ? "default" : about.namespace_;
  event.type = type;
  event.reason = reason;
  event.message = base::shortened(base::printable(message), kMaxMessageLength);
  event.component = component_;
  event.firstTimestamp = event.lastTimestamp = base::rfc3339(client_.clock().wall());
  {
    base::MutexLock lock(mutex_);
    if (!stopping_ && enqueue(std::move(event))) {
      changed_.notify_one();
      return;
    }
  }
  client_.metrics().add("elasticgpu_events_total", 1, {{"result", "overflow"}});
}

bool EventRecorder::enqueue(core::Event event) {
  if (queue_.size() < options_.queue / 2) {
    queue_.push_back({std::move(event)});
    return true;
  }
  auto key = event.metadata.namespace_ + "/" + event.involvedObject.kind + "/" + event.type + "/" + event.reason;
  if (const auto known = merging_.find(key); known != merging_.end()) {
    ++known->second->others;
    client_.metrics().add("elasticgpu_events_total", 1, {{"result", "merged"}});
    return true;
  }
  if (queue_.size() >= options_.queue) return false;
  merging_[key] = &queue_.emplace_back(Queued{std::move(event), key});
  return true;
}

void EventRecorder::stop() {
  {
    base::MutexLock lock(mutex_);
    stopping_ = true;
    changed_.notify_one();
  }
  if (!thread_.joinable()) return;
  client_.clock().sleepFor(options_.drain, finished_.get_token());
  cancel_.request_stop();
  thread_.join();
}

void EventRecorder::run() {
  for (;;) {
    core::Event event;
    {
      base::MutexLock lock(mutex_);
      changed_.wait(lock, [this]() EGPU_REQUIRES(mutex_) { return stopping_ || !queue_.empty(); });
      if (queue_.empty() || cancel_.stop_requested()) break;
      auto& next = queue_.front();
      if (!next.merging.empty()) merging_.erase(next.merging);
      event = std::move(next.event);
      if (next.others > 0)
        event.message = base::shortened(event.message + " (and " + std::to_string(next.others) + " more " +
                                            event.reason + " events of this namespace in the last seconds)",
                                        kMaxMessageLength);
      queue_.pop_front();
    }
    write(std::move(event));
  }
  finished_.request_stop();
}

void EventRecorder::write(core::Event event) {
  const auto count = [this](std::string_view result) {
    client_.metrics().add("elasticgpu_events_total", 1, {{"result", std::string(result)}});
  };
  auto verdict = correlator_.consider(std::move(event), client_.clock().now());
  if (verdict.drop) return count("spam");
  base::Status status;
  if (!verdict.name.empty()) {
    codec::JsonText body;
    body.beginObject();
    body.key("count").value(verdict.event.count);
    body.key("lastTimestamp").value(verdict.event.lastTimestamp);
    body.key("message").value(verdict.event.message);
    body.endObject();
    status = client_
                 .patch<core::Event>({verdict.event.metadata.namespace_, verdict.name}, PatchType::merge, body.take(),
                                     {}, cancel_.get_token())
                 .status();
    if (status.ok()) return count("patched");
    if (status.code() == Code::notFound) {  // events live for an hour
      verdict.event.count = 1;
      verdict.event.firstTimestamp = verdict.event.lastTimestamp;
      correlator_.startOver(verdict.memory, verdict.event.firstTimestamp);
    }
  }
  if (verdict.name.empty() || status.code() == Code::notFound) {
    verdict.event.metadata.name = eventName(verdict.event.involvedObject.name, client_.random());
    status = client_.create<core::Event>(verdict.event, cancel_.get_token()).status();
    // The name is unique: if a repeated create finds it, the first attempt succeeded.
    if (status.ok() || status.code() == Code::alreadyExists) {
      correlator_.created(verdict.memory, verdict.event.metadata.name);
      return count("created");
    }
  }
  count("failed");
  base::log::debug("event not written", {{"reason", verdict.event.reason}, {"error", status.str()}});
}

}  // namespace egpu::kube

#include "controller/kube/reflector.h"

#include <algorithm>
#include <map>
#include <optional>

#include "controller/base/log.h"
#include "controller/kube/line_framer.h"
#include "controller/kube/query.h"

namespace egpu::kube {

using base::Code;
using base::Result;
using base::Status;
using std::chrono::milliseconds;
namespace log = base::log;

/// State of one watch request, from its first byte to its end.
struct ReflectorLoop::Watch {
  bool initial = false;  ///< initial events are not complete
  bool startedInitial = false;
  std::chrono::seconds length{};  ///< the server ends the watch after this time
  std::string version;            ///< newest version seen, not yet published
  Status error;                   ///< an ERROR event, or the reason why the client ended the stream
  bool left = false;              ///< the client ended the stream; `error` is the reason
  bool tooSlow = false;           ///< no more initial events arrived
  std::atomic<uint64_t> lines{0};
  base::Clock::Steady begin{};
  std::map<codec::EventType, int64_t> counts;
};

namespace {

std::string_view name(codec::EventType type) {
  switch (type) {
    case codec::EventType::added:
      return "added";
    case codec::EventType::modified:
      return "modified";
    case codec::EventType::deleted:
      return "deleted";
    case codec::EventType::bookmark:
      return "bookmark";
    case codec::EventType::error:
      return "error";
  }
  return "error";
}

/// True if a list at version `now` follows a newer one, which only a restore of the server can cause.
bool wentBack(std::string_view before, std::string_view now) {
  const auto number = [](std::string_view text) {
    return !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
  };
  if (!number(before) || !number(now)) return false;
  return now.size() != before.size() ? now.size() < before.size() : now < before;
}

/// Ends a stream whose initial events have stopped: a server without WatchList sends no end marker.
class InitialWatchdog {
 public:
  InitialWatchdog(base::Clock& clock, milliseconds idle, const std::atomic<uint64_t>& lines, std::stop_source& abort)
      : thread_([&clock, idle, &lines, &abort](std::stop_token stop) {
          for (uint64_t before = lines.load();;) {
            if (!clock.sleepFor(idle, stop)) return;
            const uint64_t now = lines.load();
            if (now == before) break;
            before = now;
          }
          abort.request_stop();
        }) {}

 private:
  std::jthread thread_;
};

}  // namespace

ReflectorLoop::ReflectorLoop(Client& client, const core::Kind& kind, ReflectorTarget& target, ReflectorOptions options)
    : client_(client), kind_(kind), target_(target), options_(std::move(options)) {}

void ReflectorLoop::start() {
  if (thread_.joinable()) return;
  thread_ = std::jthread([this](std::stop_token stop) { run(std::move(stop)); });
}

void ReflectorLoop::stop() {
  if (!thread_.joinable()) return;
  thread_.request_stop();
  thread_.join();
}

bool ReflectorLoop::waitForSync(std::stop_token stop) {
  base::MutexLock lock(mutex_);
  return syncedChanged_.wait(lock, stop, [this] { return hasSynced(); });
}

std::string ReflectorLoop::lastResourceVersion() const {
  base::MutexLock lock(mutex_);
  return version_;
}

Status ReflectorLoop::lastError() const {
  base::MutexLock lock(mutex_);
  return error_;
}

void ReflectorLoop::setVersion(std::string version) {
  if (version.empty()) return;
  base::MutexLock lock(mutex_);
  version_ = std::move(version);
}

void ReflectorLoop::listEnded(std::string version, std::string_view by) {
  client_.metrics().add("elasticgpu_reflector_lists_total", 1,
                        {{"resource", std::string(kind_.plural)}, {"by", std::string(by)}});
  if (const auto before = lastResourceVersion(); wentBack(before, version))
    log::warn("the API server's resource versions went back, as after a restore; the cache now has what it lists",
              {{"resource", kind_.plural}, {"before", before}, {"now", version}});
  setVersion(std::move(version));
  needList_ = maybeRestored_ = false;
  base::MutexLock lock(mutex_);
  synced_.store(true, std::memory_order_release);
  syncedChanged_.notify_all();
}

/// Logs changes of the state only: a missing permission is one line, not one every 30 s.
void ReflectorLoop::report(const Status& status, std::string_view what) {
  bool changed = false;
  {
    base::MutexLock lock(mutex_);
    changed = error_.code() != status.code();
    error_ = status;
  }
  if (!changed) return;
  if (status.ok()) {
    log::info("list and watch work again", {{"resource", kind_.plural}});
    return;
  }
  const bool denied = status.code() == Code::unauthorized || status.code() == Code::forbidden;
  if (denied)
    log::error("not permitted to list or watch; retrying",
               {{"resource", kind_.plural}, {"call", what}, {"error", status.str()}});
  else
    log::warn("list or watch interrupted", {{"resource", kind_.plural}, {"call", what}, {"error", status.str()}});
}

milliseconds ReflectorLoop::nextDelay() {
  const auto now = client_.clock().now();
  if (failures_ > 0 && now - lastFailure_ >= options_.backoffResetAfter) failures_ = 0;
  lastFailure_ = now;
  milliseconds ceiling = options_.backoff;
  for (int i = 0; i < failures_ && ceiling < options_.maxBackoff; ++i) ceiling *= 2;
  ++failures_;
  ceiling = std::min(ceiling, options_.maxBackoff);
  return milliseconds(1 + client_.random().below(static_cast<uint64_t>(ceiling.count())));
}

void ReflectorLoop::run(std::stop_token stop) {
  needList_ = true;
  while (!stop.stop_requested()) {
    PassEnd outcome;
    if (!needList_)
      outcome = maybeRestored_ ? askWhetherRestored(stop) : watchOnce(false, stop);
    else if (options_.watchList && !watchListRefused_)
      outcome = watchOnce(true, stop);
    else
      outcome = listOnce(stop);
    if (stop.stop_requested()) return;
    if (outcome.next == Next::relist) needList_ = true;
    if (outcome.next == Next::resume) continue;
    if (!client_.clock().sleepFor(std::max(nextDelay(), outcome.atLeast), stop)) return;
  }
}

ReflectorLoop::PassEnd ReflectorLoop::listOnce(std::stop_token stop) {
  ListOptions options;
  options.namespace_ = options_.namespace_;
  options.version = options_.version;
  options.labelSelector = options_.labelSelector;
  options.fieldSelector = options_.fieldSelector;
  options.limit = options_.pageSize;  // no version: a quorum read, so that the mirror never goes back in time
  auto version = target_.list(options, stop);
  if (!version) {
    if (version.status().code() == Code::cancelled) return {Next::relist, {}};
    report(version.status(), "list");
    return {Next::relist, version.status().retryAfter.value_or(milliseconds(0))};
  }
  report({}, "list");
  listEnded(std::move(*version), "list");
  return {Next::resume, {}};
}

/// A restored server accepts a watch from a version that it has not reached, and sends no events until it reaches it.
/// Only a quorum read reveals the restore.
ReflectorLoop::PassEnd ReflectorLoop::askWhetherRestored(std::stop_token stop) {
  ClientOptions once = client_.options();
  once.maxAttempts = 1;
  HttpRequest request;
  request.target = Client::path(kind_, options_.namespace_);
  addQuery(request.target, "limit", "1");  // no selectors: finding the first match may require a scan of all objects
  const auto answer = Client(client_.transport(), client_.clock(), client_.random(), client_.metrics(), std::move(once))
                          .call(std::move(request), stop);
  const auto version = answer ? target_.versionOf(answer->body) : Result<std::string>(answer.status());
  if (!version) {
    if (version.status().code() != Code::cancelled) report(version.status(), "list");
    return {Next::resumeLater, version.status().retryAfter.value_or(milliseconds(0))};
  }
  maybeRestored_ = false;
  return {wentBack(lastResourceVersion(), *version) ? Next::relist : Next::resume, {}};
}

/// Returns a random length for a watch, so that watches do not all restart at once.
std::chrono::seconds ReflectorLoop::watchLength() {
  const auto span = static_cast<uint64_t>(std::max<int64_t>(0, (options_.maxWatch - options_.minWatch).count()));
  return options_.minWatch + std::chrono::seconds(client_.random().below(span + 1));
}

HttpRequest ReflectorLoop::watchRequest(bool initial, std::chrono::seconds seconds) const {
  HttpRequest request;
  request.target = Client::path(kind_, options_.namespace_);
  addQuery(request.target, "watch", "true");
  addQuery(request.target, "allowWatchBookmarks", "true");
  addQuery(request.target, "timeoutSeconds", std::to_string(seconds.count()));
  addQuery(request.target, "labelSelector", options_.labelSelector);
  addQuery(request.target, "fieldSelector", options_.fieldSelector);
  if (initial) {
    addQuery(request.target, "sendInitialEvents", "true");
    addQuery(request.target, "resourceVersionMatch", "NotOlderThan");
  } else {
    addQuery(request.target, "resourceVersion", lastResourceVersion());
  }
  request.headers.emplace_back("User-Agent", client_.options().userAgent);
  request.headers.emplace_back("Accept", "application/json");
  // The server ends a live watch after `seconds`; a longer silence means that the peer is dead.
  request.timeout = seconds + options_.idleGrace;
  request.headTimeout = options_.headTimeout;
  return request;
}

ReflectorLoop::PassEnd ReflectorLoop::watchOnce(bool initial, std::stop_token stop) {
  Watch watch;
  watch.initial = watch.startedInitial = initial;
  watch.begin = client_.clock().now();
  watch.length = watchLength();
  LineFramer framer;
  std::stop_source abort;
  std::stop_callback forward(stop, [&abort] { abort.request_stop(); });
  if (initial) target_.beginInitial();
  std::optional<InitialWatchdog> watchdog;
  if (initial) watchdog.emplace(client_.clock(), options_.initialIdle, watch.lines, abort);

  const auto end = client_.transport().stream(
      watchRequest(initial, watch.length),
      [&](std::string_view chunk) {
        const bool more = framer.feed(chunk, [&](std::string_view line) { return onLine(watch, line); });
        if (framer.overflowed()) {
          watch.error = Status(Code::malformed, "a watch event exceeds 16 MiB");
          watch.left = true;
        }
        if (!watch.initial) {
          watchdog.reset();
          setVersion(watch.version);
          if (!watch.left) report({}, "watch");
        }
        flushCounts(watch);
        return more && !watch.left;
      },
      abort.get_token());
  watchdog.reset();
  watch.tooSlow = watch.initial && abort.stop_requested() && !stop.stop_requested();
  client_.metrics().add(
      "elasticgpu_api_requests_total", 1,
      {{"verb", "watch"}, {"code", end ? std::to_string(end->status) : std::string(toString(end.status().code()))}});
  return afterWatch(watch, end);
}

bool ReflectorLoop::onLine(Watch& watch, std::string_view text) {
  watch.lines.fetch_add(1);
  auto line = target_.line(text, watch.initial);
  if (!line) {
    watch.error = line.status();
    watch.left = true;
    return false;
  }
  ++watch.counts[line->type];
  if (line->type == codec::EventType::error) {
    watch.error = line->error.ok() ? Status(Code::internal, "an ERROR event without an error") : line->error;
    watch.left = true;
    return false;
  }
  if (!line->resourceVersion.empty()) watch.version = std::move(line->resourceVersion);
  if (watch.initial && line->initialEventsEnd) {
    watch.initial = false;
    target_.endInitial(watch.version);
    listEnded(watch.version, "watchlist");
  }
  return true;
}

void ReflectorLoop::flushCounts(Watch& watch) {
  for (const auto& [type, n] : watch.counts)
    client_.metrics().add("elasticgpu_reflector_events_total", static_cast<double>(n),
                          {{"resource", std::string(kind_.plural)}, {"type", std::string(name(type))}});
  watch.counts.clear();
}

namespace {

Status statusOf(const Result<HttpResponse>& end) {
  if (!end || end->status == 200) return end.status();
  Status status = codec::decodeStatus(end->status, end->body);
  status.http = end->status;
  if (status.ok()) status = Status(Code::internal, "a watch was answered with HTTP " + std::to_string(end->status));
  return status;
}

/// Returns the server's Retry-After, from the Status or the header.
milliseconds retryAfter(const Status& status, const Result<HttpResponse>& end) {
  if (status.retryAfter) return *status.retryAfter;
  const std::string header(end ? end->header("retry-after") : std::string_view{});
  const bool digits =
      !header.empty() && header.size() <= 4 && header.find_first_not_of("0123456789") == std::string::npos;
  return digits ? std::min<milliseconds>(std::chrono::seconds(std::stoi(header)), std::chrono::seconds(60))
                : milliseconds(0);
}

}  // namespace

ReflectorLoop::PassEnd ReflectorLoop::afterWatch(const Watch& watch, const Result<HttpResponse>& end) {
  if (watch.tooSlow) {
    watchListRefused_ = true;
    log::warn("the server sends no end of initial events; listing instead", {{"resource", kind_.plural}});
    return {Next::resume, {}};
  }
  const Status status = watch.left ? watch.error : statusOf(end);
  const auto lasted = client_.clock().now() - watch.begin;
  maybeRestored_ = !status.ok() || lasted < watch.length;
  if (!status.ok()) return afterError(watch, status, retryAfter(status, end));
  if (watch.initial) {
    watchListRefused_ = true;  // empty stream, or without end marker: this server does not know the parameter
    return {Next::resume, {}};
  }
  report({}, "watch");
  // Avoids a busy loop with a server that closes every watch immediately.
  return {lasted >= std::chrono::seconds(1) ? Next::resume : Next::resumeLater, {}};
}

ReflectorLoop::PassEnd ReflectorLoop::afterError(const Watch& watch, const Status& status, milliseconds atLeast) {
  const Next again = needList_ ? Next::relist : Next::resumeLater;
  if (status.code() == Code::cancelled) return {again, {}};
  if (status.code() == Code::invalid && watch.startedInitial && watch.initial) {  // 400, 422: the parameter is refused
    watchListRefused_ = true;
    return {Next::resume, {}};
  }
  report(status, "watch");
  switch (status.code()) {
    case Code::invalid:
    case Code::expired:
    case Code::tooLarge:
    case Code::malformed:
      // The version is no longer usable, or events were lost.
      return {Next::relist, atLeast};
    default:
      return {again, atLeast};
  }
}

}  // namespace egpu::kube

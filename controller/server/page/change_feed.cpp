#include "controller/server/page/change_feed.h"

#include <algorithm>
#include <utility>

#include "api/v1alpha/gang.h"
#include "api/v1alpha/pod_claims.h"
#include "controller/http/plain.h"
#include "controller/server/page/change_stream.h"

namespace egpu::server {

namespace {

using Steady = std::chrono::steady_clock;

/// Moves up to `max` names out of the set, from the first one after `last` on, cyclically, and updates `last`.
template <class T>
std::set<T> takeSome(std::set<T>& from, T& last, std::size_t max) {
  std::set<T> out;
  while (out.size() < max && !from.empty()) {
    auto it = from.upper_bound(last);
    if (it == from.end()) it = from.begin();
    last = *it;
    out.insert(from.extract(it));
  }
  return out;
}

}  // namespace

ChangeFeed::ChangeFeed(cache::Stores& stores, const allocator::Allocator& cluster, ChangeFeedOptions options)
    : stores_(stores), cluster_(cluster), json_(stores, cluster), options_(options) {
  listen(stores);
}

void ChangeFeed::listen(cache::Stores& stores) {
  stores.cards.listen([this](const auto* before, const auto* after) {
    for (const auto* card : {before, after})
      if (card != nullptr && card->spec.card) markNode(card->spec.card->nodeName);
  });
  stores.devices.listen([this](const auto* before, const auto* after) {
    for (const auto* device : {before, after})
      if (device != nullptr && !device->spec.nodeName.empty()) markNode(device->spec.nodeName);
  });
  stores.claims.listen([this](const auto* before, const auto* after) {
    markClaim(core::keyOf((after != nullptr ? after : before)->metadata));
  });
  stores.pods.listen([this](const auto* before, const auto* after) {
    markPod(before);
    markPod(after);
  });
  stores.nodes.listen([this](const auto* before, const auto* after) {
    if (before == nullptr || after == nullptr || before->unschedulable != after->unschedulable ||
        before->ready != after->ready || before->taints != after->taints)
      markNode((after != nullptr ? after : before)->metadata.name);
  });
  stores.quotas.listen([this](const auto* before, const auto* after) {
    mark([&](ChangedObjects& marks) {
      marks.quotas.insert(core::keyOf((after != nullptr ? after : before)->metadata));
    });
  });
  stores.classes.listen(
      [this](const auto*, const auto*) { mark([](ChangedObjects& marks) { marks.classes = true; }); });
  stores.podGroups.listen([this](const auto* before, const auto* after) {
    const auto& group = (after != nullptr ? after : before)->metadata;
    if (streams_ == 0) return;
    for (const auto& claim : stores_.claimsOfPodGroup(group.namespace_, group.name))
      markClaim(core::keyOf(claim->metadata));
  });
  // A rule can select any number of cards, and rules change rarely.
  stores.taintRules.listen([this](const auto*, const auto*) { markAll(); });
}

template <class Mark>
void ChangeFeed::mark(const Mark& mark) {
  if (streams_ == 0) return;
  const base::MutexLock lock(mutex_);
  mark(marked_);
  if (marked_.size() > options_.marks) restartAll();
}

void ChangeFeed::markNode(const std::string& name) {
  if (name.empty()) return;
  mark([&](ChangedObjects& marks) { marks.nodes.insert(name); });
}

void ChangeFeed::markClaim(const core::ObjectKey& claim) {
  mark([&](ChangedObjects& marks) { marks.claims.insert(claim); });
}

void ChangeFeed::markPod(const core::Pod* pod) {
  if (pod == nullptr || streams_ == 0) return;
  for (const auto& claim : v1alpha::claimNames(*pod)) markClaim({pod->metadata.namespace_, claim});
}

void ChangeFeed::markAll() {
  if (streams_ == 0) return;
  const base::MutexLock lock(mutex_);
  restartAll();
}

/// Drops all marks and logged events: every stream sends all objects again.
void ChangeFeed::restartAll() {
  marked_ = {};
  ++restarts_;
  first_ += log_.size() + 1;
  log_.clear();
}

http::Response ChangeFeed::open(StillAllowed stillAllowed) {
  http::Response refused = http::plain(503, closed_ ? "the controller is stopping\n"
                                                    : "too many pages are open, " + std::to_string(kMaxStreams) +
                                                          " at most: close one, or try again later\n");
  refused.headers.emplace_back("Retry-After", "5");
  uint64_t seen = 0;
  {
    const base::MutexLock lock(mutex_);
    if (closed_ || streams_ >= kMaxStreams) return refused;
    ++streams_;
    seen = first_ + log_.size();
  }
  http::Response r;
  r.contentType = "text/event-stream; charset=utf-8";
  r.headers.emplace_back("Cache-Control", "no-store");
  r.headers.emplace_back("X-Content-Type-Options", "nosniff");
  r.stream = std::make_unique<ChangeStream>(*this, std::move(stillAllowed), seen);
  return r;
}

void ChangeFeed::close() {
  {
    const base::MutexLock lock(mutex_);
    closed_ = true;
  }
  changed_.notify_all();
}

void ChangeFeed::closeStream() {
  const base::MutexLock lock(mutex_);
  if (--streams_ > 0) return;
  restartAll();
  reservations_.clear();
}

std::vector<ChangeFeed::EventText> ChangeFeed::next(uint64_t& seen, bool& restart, std::chrono::milliseconds wait,
                                                    const std::stop_token& stop) {
  const auto until = Steady::now() + wait;
  base::MutexLock lock(mutex_);
  while (!closed_ && !stop.stop_requested()) {
    const auto end = first_ + log_.size();
    restart = seen < first_;
    if (restart || seen < end) {
      std::vector<EventText> out;
      if (!restart) out.assign(log_.begin() + static_cast<std::ptrdiff_t>(seen - first_), log_.end());
      seen = end;
      return out;
    }
    const auto now = Steady::now();
    if (now >= until) break;
    const auto due = rendered_ + options_.interval;
    if (!rendering_ && now >= due)
      publishChanges();
    else
      changed_.wait_until(lock, stop, rendering_ ? until : std::min(until, due),
                          [&]() EGPU_REQUIRES(mutex_) { return closed_ || seen != first_ + log_.size(); });
  }
  return {};
}

/// Renders the marked objects without the lock, and logs the text for all streams.
void ChangeFeed::publishChanges() {
  struct RenderSlot {  // its end has the mutex again, also after an exception
    ChangeFeed& of;
    ~RenderSlot() {
      of.rendering_ = false;
      of.rendered_ = Steady::now();
    }
  } const slot{*this};
  rendering_ = true;
  const auto restarts = restarts_;
  const auto changed = takeChanged();
  std::string text, reservations;
  {
    const base::MutexUnlock unlocked(mutex_);
    text = render(changed);
    reservations = eventText("reservations", json_.reservations());
  }
  // After a restart the streams may already have sent newer states of these objects, and their marks are gone.
  if (restarts != restarts_) return;
  if (reservations != reservations_) {
    text += reservations;
    reservations_ = std::move(reservations);
  }
  if (text.empty()) return;
  log_.push_back(std::make_shared<const std::string>(std::move(text)));
  if (log_.size() > kLogged) {
    log_.pop_front();
    ++first_;
  }
  changed_.notify_all();
}

ChangeFeed::ChangedObjects ChangeFeed::takeChanged() {
  ChangedObjects out;
  out.nodes = takeSome(marked_.nodes, lastNode_, kNodesAtOnce);
  out.claims = takeSome(marked_.claims, lastClaim_, kClaimsAtOnce);
  out.quotas = std::exchange(marked_.quotas, {});
  out.classes = std::exchange(marked_.classes, false);
  return out;
}

std::string ChangeFeed::render(const ChangedObjects& changed) const {
  std::string text;
  if (!changed.nodes.empty()) text += eventText("nodes", json_.nodes(changed.nodes));
  if (!changed.claims.empty())
    text += eventText("claims", json_.claims({changed.claims.begin(), changed.claims.end()}));
  if (!changed.quotas.empty())
    text += eventText("quotas", json_.quotas({changed.quotas.begin(), changed.quotas.end()}));
  if (changed.classes) text += eventText("classes", json_.classes());
  return text;
}

}  // namespace egpu::server

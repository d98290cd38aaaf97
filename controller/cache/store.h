// One kind's objects as the informer last told us and as we last wrote them: whichever is newer is what a reader sees.
//
//   informer says v7 ──► shown v7 ── we write, answer v9 ──► shown v9 ── informer says v8 (late) ──► still v9
//                                                                     └─ informer says v9 or newer ──► that
//   seen to be gone (a DELETED event, a 404 to a quorum read) ──► that uid is never shown again,
//                                                                 whatever a late event says
//   a list begins ──► a list ends ──► it replaces what was there before it began
//                                  └─ but what we wrote or read while it was under way stays: the list may be older
//
// A list is a quorum read. An object that it shows older than known, or not at all, or risen from the dead, tells that
// the server's history went back, as after a restore.
//
// So a reader always sees its own writes. Only this class compares resourceVersions.
#pragma once

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <shared_mutex>
#include <string>
#include <string_view>
#include <system_error>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "api/core/meta.h"

namespace egpu::cache {

/// A resourceVersion as a number; 0 for what isn't one.
inline uint64_t versionOf(std::string_view resourceVersion) {
  uint64_t value = 0;
  const char* const end = resourceVersion.data() + resourceVersion.size();
  const auto [at, error] = std::from_chars(resourceVersion.data(), end, value);
  return error == std::errc() && at == end ? value : 0;
}

/// Takes a value under which an object is found.
using Emit = std::function<void(std::string_view value)>;

/// Thread-safe. Objects are handed out as shared snapshots that never change.
template <class T>
class Store {
 public:
  using Ptr = std::shared_ptr<const T>;
  /// Emits the values under which an object is found; asked anew on every change.
  using Extract = std::function<void(const T& object, const Emit& emit)>;
  /// What changed: before null = new, after null = gone; both are valid during the call only. Called without locks
  /// held, on the changing thread; after may already be old news when two threads change one key, so a listener that
  /// keeps state reads the store again.
  using Listener = std::function<void(const T* before, const T* after)>;

  Store() = default;
  Store(const Store&) = delete;
  Store& operator=(const Store&) = delete;

  /// Before anything is stored. The index's number is the order of the calls, from 0.
  int addIndex(Extract extract) {
    indexes_.push_back({std::move(extract), {}});
    return static_cast<int>(indexes_.size()) - 1;
  }
  void listen(Listener listener) { listeners_.push_back(std::move(listener)); }
  /// Before anything is stored: empties what nobody reads of the objects here.
  void leaveOut(std::function<void(T& object)> unread) { unread_ = std::move(unread); }

  Ptr get(const core::ObjectKey& key) const {
    std::shared_lock lock(mutex_);
    const auto entry = entries_.find(key);
    return entry == entries_.end() ? nullptr : entry->object;
  }
  /// In the order of their keys.
  std::vector<Ptr> find(int index, std::string_view value) const {
    std::vector<Ptr> found;
    std::shared_lock lock(mutex_);
    const auto& entries = indexes_[static_cast<std::size_t>(index)].entries;
    if (const auto of = entries.find(value); of != entries.end())
      for (const auto* const entry : of->second) found.push_back(entry->object);
    return found;
  }
  bool any(int index, std::string_view value) const {
    std::shared_lock lock(mutex_);
    return indexes_[static_cast<std::size_t>(index)].entries.contains(value);
  }
  /// Each object that is there all the while, as it is when it is visited, in the order of their keys. The lock is not
  /// held during a visit.
  void forEach(const std::function<void(const Ptr&)>& visit) const {
    Ptr object;
    while (true) {
      {
        std::shared_lock lock(mutex_);
        const auto next = object ? entries_.upper_bound(object->metadata) : entries_.begin();
        if (next == entries_.end()) return;
        object = next->object;
      }
      visit(object);
    }
  }
  std::size_t size() const {
    std::shared_lock lock(mutex_);
    return entries_.size();
  }
  bool synced() const {
    std::shared_lock lock(mutex_);
    return synced_;
  }
  /// Version up to which the informer has told everything.
  uint64_t version() const {
    std::shared_lock lock(mutex_);
    return informed_;
  }

  /// The informer: an object was added or changed.
  void informed(const T& object) { put(object, By::watch); }
  /// The informer: an object is gone; `object` is its last state.
  void informedGone(const T& object) {
    const auto version = versionOf(object.metadata.resourceVersion);
    bury(core::keyOf(object.metadata), object.metadata.uid, version);
  }
  /// The informer: everything up to this version has been told.
  void informedUpTo(const std::string& resourceVersion) {
    std::unique_lock lock(mutex_);
    informed_ = std::max(informed_, versionOf(resourceVersion));
  }
  /// The informer: the whole world follows, one listed() at a time, up to listEnds().
  void listBegins() {
    std::unique_lock lock(mutex_);
    ++list_;
  }
  void listed(const T& object) { put(object, By::list); }
  /// The informer: what was listed is gone again.
  void unlisted(const T& object) { bury(core::keyOf(object.metadata), object.metadata.uid, 0); }
  /// The informer: that was the world at this version. What was not listed is gone unless it is younger: written by us
  /// while the list was under way or, while the server's versions have not gone back, at all.
  void listEnds(const std::string& resourceVersion) {
    const auto version = versionOf(resourceVersion);
    std::vector<Ptr> vanished;
    {
      std::shared_lock lock(mutex_);
      const bool wentBack = version != 0 && version < informed_;
      for (const auto& entry : entries_) {
        if (entry.listed == list_) continue;
        const bool younger = versionOf(entry.object->metadata.resourceVersion) > version;
        if (!younger || (wentBack && entry.put != list_)) vanished.push_back(entry.object);
      }
    }
    for (const auto& object : vanished) {
      const auto& meta = object->metadata;
      // What is younger than the list may be there all the same: then the watch from the list's version shows it again.
      const bool forGood = versionOf(meta.resourceVersion) <= version;
      bury(core::keyOf(meta), meta.uid, 0, object.get(), forGood);
    }
    std::unique_lock lock(mutex_);
    if (version != 0) informed_ = version;
    synced_ = true;
  }

  /// What the API server answered to our own write or quorum read.
  void observed(const T& object) { put(object, By::us); }
  /// The API server said that the object of this uid is gone.
  void observedGone(const core::ObjectKey& key, std::string_view uid) { bury(key, std::string(uid), 0); }

 private:
  /// In its set by the object's key, which is that of every state of it.
  struct Entry {
    mutable Ptr object;
    mutable uint32_t listed = 0;  ///< the last list that had it
    mutable uint32_t put = 0;     ///< the list that had begun last when this state came
  };
  struct ByKey {
    using is_transparent = void;
    static auto keyOf(const core::ObjectKey& key) { return std::tie(key.namespace_, key.name); }
    static auto keyOf(const core::ObjectMeta& meta) { return std::tie(meta.namespace_, meta.name); }
    static auto keyOf(const Entry& entry) { return keyOf(entry.object->metadata); }
    static auto keyOf(const Entry* entry) { return keyOf(*entry); }
    bool operator()(const auto& a, const auto& b) const { return keyOf(a) < keyOf(b); }
  };
  struct Index {
    Extract extract;
    std::map<std::string, std::set<const Entry*, ByKey>, std::less<>> entries;  ///< by value; no set is empty
  };
  static constexpr std::size_t kRemembered = 4096;

  enum class By { watch, list, us };

  void put(const T& object, By by) {
    const auto after = std::make_shared<T>(object);
    if (unread_) unread_(*after);
    const auto& meta = object.metadata;
    const auto version = versionOf(meta.resourceVersion);
    Ptr before;
    {
      std::unique_lock lock(mutex_);
      if (by == By::watch) informed_ = std::max(informed_, version);
      auto entry = entries_.find(meta);
      const bool there = entry != entries_.end();
      if (there && by == By::list) entry->listed = list_;
      if (isGone(meta.uid, by)) return;
      if (there) {
        before = entry->object;
        const bool replaces = by == By::list && entry->put != list_;
        if (replaces && *before == *after) return;
        if (!replaces && version != 0 && version <= versionOf(before->metadata.resourceVersion))
          return;  // we know this or newer
        if (before->metadata.uid != meta.uid) remember(before->metadata.uid);
      }
      if (!there) entry = entries_.insert({after}).first;
      entry->object = after;
      entry->put = list_;
      if (by == By::list) entry->listed = list_;
      reindex(*entry, before.get(), after.get());
    }
    tell(before.get(), after.get());
  }

  // With mutex_ held.
  /// Whether that uid is known to be gone. A list that began after it went and shows it again is right.
  bool isGone(const std::string& uid, By by) {
    const auto went = gone_.find(uid);
    if (went == gone_.end()) return false;
    if (by != By::list || went->second == list_) return true;
    gone_.erase(went);
    std::erase(goneOrder_, uid);
    return false;
  }
  void remember(const std::string& uid) {
    if (uid.empty() || !gone_.emplace(uid, list_).second) return;
    goneOrder_.push_back(uid);
    if (goneOrder_.size() <= kRemembered) return;
    gone_.erase(goneOrder_.front());
    goneOrder_.pop_front();
  }

  /// Removes the object if it is of that uid. With `only`: unless another state was put meanwhile. With `forGood` the
  /// uid is remembered.
  void bury(const core::ObjectKey& key, const std::string& uid, uint64_t version, const T* only = nullptr,
            bool forGood = true) {
    Ptr before;
    {
      std::unique_lock lock(mutex_);
      informed_ = std::max(informed_, version);
      const auto known = entries_.find(key);
      const bool there = known != entries_.end();
      if (there && only != nullptr && known->object.get() != only) return;
      if (forGood) remember(uid);
      if (!there || known->object->metadata.uid != uid) return;
      before = known->object;
      reindex(*known, before.get(), nullptr);
      entries_.erase(known);
    }
    tell(before.get(), nullptr);
  }

  static std::set<std::string> valuesOf(const Extract& extract, const T* object) {
    std::set<std::string> values;
    if (object != nullptr) extract(*object, [&values](std::string_view value) { values.emplace(value); });
    return values;
  }
  /// Takes an object from the values that it had before to those that it has now. With mutex_ held.
  void reindex(const Entry& entry, const T* before, const T* after) {
    for (auto& [extract, entries] : indexes_) {
      const auto had = valuesOf(extract, before);
      const auto has = valuesOf(extract, after);
      if (had == has) continue;
      for (const auto& value : had) {
        const auto of = entries.find(value);
        of->second.erase(&entry);
        if (of->second.empty()) entries.erase(of);
      }
      for (const auto& value : has) entries[value].insert(&entry);
    }
  }

  void tell(const T* before, const T* after) const {
    for (const auto& listener : listeners_) listener(before, after);
  }

  // Constant once objects are stored.
  std::vector<Listener> listeners_;
  std::function<void(T&)> unread_;

  // Protected by mutex_.
  mutable std::shared_mutex mutex_;
  std::set<Entry, ByKey> entries_;
  std::vector<Index> indexes_;
  std::unordered_map<std::string, uint32_t> gone_;  ///< uids, and list_ when they went; no watch brings one back
  std::deque<std::string> goneOrder_;
  uint32_t list_ = 1;  ///< counts those that have begun
  uint64_t informed_ = 0;
  bool synced_ = false;
};

}  // namespace egpu::cache

// One kind's objects as the informer last told us and as we last wrote them: whichever is newer is what a reader sees.
//
//   informer says v7 ──► shown v7 ── we write, answer v9 ──► shown v9 ── informer says v8 (late) ──► still v9
//                                                                     └─ informer says v9 or newer ──► that
//   seen to be gone (a DELETED event, a 404 to a quorum read) ──► that uid is never shown again, whatever a late event
//   says
//
// So a reader always sees its own writes. Only this class compares resourceVersions.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <shared_mutex>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "api/core/meta.h"
#include "controller/cache/packed.h"

namespace egpu::cache {

/// A resourceVersion as a number; 0 for what isn't one.
uint64_t versionOf(std::string_view resourceVersion);

/// Thread-safe. Objects are handed out as shared snapshots that never change.
template <class T>
class Store {
 public:
  using Ptr = std::shared_ptr<const T>;
  /// Values under which an object is found; computed anew on every change.
  using Extract = std::function<std::vector<std::string>(const T&)>;
  /// What changed: before null = new, after null = gone. Called without locks held, on the changing thread; after may
  /// already be old news when two threads change one key, so a listener that keeps state reads the store again.
  using Listener = std::function<void(const Ptr& before, const Ptr& after)>;

  /// Before anything is stored. The index's number is the order of the calls, from 0.
  int addIndex(Extract extract) {
    indexes_.push_back({std::move(extract), {}});
    return static_cast<int>(indexes_.size()) - 1;
  }
  void listen(Listener listener) { listeners_.push_back(std::move(listener)); }

  Ptr get(const core::ObjectKey& key) const {
    std::shared_lock lock(mutex_);
    auto it = objects_.find(key.str());
    return it == objects_.end() ? nullptr : load(it->second);
  }
  /// In the order of their keys.
  std::vector<Ptr> find(int index, std::string_view value) const {
    std::shared_lock lock(mutex_);
    std::vector<Ptr> found;
    const auto& values = indexes_[static_cast<std::size_t>(index)].values;
    auto it = values.find(std::string(value));
    if (it == values.end()) return found;
    for (const auto* key : it->second) found.push_back(load(objects_.at(*key)));
    return found;
  }
  bool any(int index, std::string_view value) const {
    std::shared_lock lock(mutex_);
    return indexes_[static_cast<std::size_t>(index)].values.count(std::string(value)) != 0;
  }
  /// Each object that was there at the start and still is, as it is when it is visited; in no particular order. One at
  /// a time, so that neither the lock is held nor the world doubled.
  void forEach(const std::function<void(const Ptr&)>& visit) const {
    std::vector<std::string> keys;
    {
      std::shared_lock lock(mutex_);
      keys.reserve(objects_.size());
      for (const auto& [key, entry] : objects_) keys.push_back(key);
    }
    for (const auto& key : keys) {
      Ptr object;
      {
        std::shared_lock lock(mutex_);
        if (auto it = objects_.find(key); it != objects_.end()) object = load(it->second);
      }
      if (object) visit(object);
    }
  }
  std::size_t size() const {
    std::shared_lock lock(mutex_);
    return objects_.size();
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
  void informed(const T& object) { put(object, true); }
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
  /// The informer: the whole world at a version. What is missing is gone unless it is younger than the list.
  void replaced(std::vector<T>&& all, const std::string& resourceVersion) {
    const auto version = versionOf(resourceVersion);
    std::unordered_set<std::string> listed;
    for (const auto& object : all) listed.insert(core::keyOf(object.metadata).str());
    std::vector<std::pair<core::ObjectKey, std::string>> vanished;
    {
      std::shared_lock lock(mutex_);
      for (const auto& [key, entry] : objects_)
        if (listed.count(key) == 0 && entry.version <= version) {
          auto object = load(entry);
          vanished.emplace_back(core::keyOf(object->metadata), object->metadata.uid);
        }
    }
    for (const auto& [key, uid] : vanished) bury(key, uid, version);
    for (const auto& object : all) put(object, true);
    std::unique_lock lock(mutex_);
    informed_ = std::max(informed_, version);
    synced_ = true;
  }

  /// What the API server answered to our own write or quorum read.
  void observed(const T& object) { put(object, false); }
  /// The API server said that the object of this uid is gone.
  void observedGone(const core::ObjectKey& key, std::string_view uid) { bury(key, std::string(uid), 0); }

 private:
  struct Entry {
    std::string packed;
    uint64_t version = 0;
  };
  struct ByText {
    bool operator()(const std::string* a, const std::string* b) const { return *a < *b; }
  };
  struct Index {
    Extract extract;
    std::unordered_map<std::string, std::set<const std::string*, ByText>> values;
  };
  static constexpr std::size_t kRemembered = 4096;

  static Ptr load(const Entry& entry) { return std::make_shared<const T>(unpack<T>(entry.packed)); }

  void put(const T& object, bool byInformer) {
    const auto version = versionOf(object.metadata.resourceVersion);
    Ptr before, after;
    {
      std::unique_lock lock(mutex_);
      if (byInformer) informed_ = std::max(informed_, version);
      if (gone_.count(object.metadata.uid) != 0) return;
      auto [it, fresh] = objects_.try_emplace(core::keyOf(object.metadata).str());
      if (!fresh) {
        if (version != 0 && version <= it->second.version) return;  // we know this or newer
        before = load(it->second);
        unindex(it->first, *before);
      }
      it->second = {pack(object), version};
      after = std::make_shared<const T>(object);
      for (auto& index : indexes_)
        for (const auto& value : index.extract(*after)) index.values[value].insert(&it->first);
    }
    for (const auto& listener : listeners_) listener(before, after);
  }

  /// Removes the object if it is of that uid, and remembers that the uid is gone.
  void bury(const core::ObjectKey& key, const std::string& uid, uint64_t version) {
    Ptr before;
    {
      std::unique_lock lock(mutex_);
      informed_ = std::max(informed_, version);
      if (!uid.empty() && gone_.insert(uid).second) {
        goneOrder_.push_back(uid);
        if (goneOrder_.size() > kRemembered) {
          gone_.erase(goneOrder_.front());
          goneOrder_.pop_front();
        }
      }
      auto it = objects_.find(key.str());
      if (it == objects_.end() || packedUid(it->second.packed) != uid) return;
      before = load(it->second);
      unindex(it->first, *before);
      objects_.erase(it);
    }
    for (const auto& listener : listeners_) listener(before, nullptr);
  }

  void unindex(const std::string& key, const T& object) {
    for (auto& index : indexes_)
      for (const auto& value : index.extract(object)) {
        auto it = index.values.find(value);
        if (it == index.values.end()) continue;
        it->second.erase(&key);
        if (it->second.empty()) index.values.erase(it);
      }
  }

  // Constant once objects are stored.
  std::vector<Listener> listeners_;

  // Protected by mutex_.
  mutable std::shared_mutex mutex_;
  std::unordered_map<std::string, Entry> objects_;  ///< node-based: indexes_ point at its keys
  std::vector<Index> indexes_;
  std::unordered_set<std::string> gone_;  ///< uids; a uid never comes back
  std::deque<std::string> goneOrder_;
  uint64_t informed_ = 0;
  bool synced_ = false;
};

}  // namespace egpu::cache

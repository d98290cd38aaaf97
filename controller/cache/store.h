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
#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <string>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "api/core/meta.h"
#include "controller/cache/packed.h"
#include "controller/cache/postings.h"
#include "controller/cache/records.h"

namespace egpu::cache {

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
  ~Store() { delete spare_.load(); }
  Store(const Store&) = delete;
  Store& operator=(const Store&) = delete;

  /// Before anything is stored. The index's number is the order of the calls, from 0.
  int addIndex(Extract extract) {
    indexes_.push_back({std::move(extract), {}});
    return static_cast<int>(indexes_.size()) - 1;
  }
  void listen(Listener listener) { listeners_.push_back(std::move(listener)); }

  Ptr get(const core::ObjectKey& key) const {
    std::shared_lock lock(mutex_);
    const auto number = records_.find(key.namespace_, key.name);
    return number ? load(*number) : nullptr;
  }
  /// Whether get() would give just this: false also where that can't be told from its version.
  bool shows(const T& object) const {
    const auto version = versionOf(object.metadata.resourceVersion);
    std::shared_lock lock(mutex_);
    const auto number = records_.find(object.metadata.namespace_, object.metadata.name);
    if (!number || version == 0) return false;
    const auto packed = records_.at(*number);
    return packedVersion(packed, records_.words()) == version &&
           packedHasUid(packed, records_.words(), object.metadata.uid);
  }
  /// In the order of their keys.
  std::vector<Ptr> find(int index, std::string_view value) const {
    std::vector<Ptr> found;
    {
      std::shared_lock lock(mutex_);
      eachOf(index, value, [&found](Ptr object) {
        found.push_back(std::move(object));
        return true;
      });
    }
    std::sort(found.begin(), found.end(), [](const Ptr& a, const Ptr& b) {
      return std::tie(a->metadata.namespace_, a->metadata.name) < std::tie(b->metadata.namespace_, b->metadata.name);
    });
    return found;
  }
  bool any(int index, std::string_view value) const {
    bool found = false;
    std::shared_lock lock(mutex_);
    eachOf(index, value, [&found](const Ptr&) { return !(found = true); });
    return found;
  }
  /// Each object that is there all the while, as it is when it is visited; in no particular order. One at a time, so
  /// that neither the lock is held nor the world doubled.
  void forEach(const std::function<void(const Ptr&)>& visit) const {
    uint32_t end = 0;
    {
      std::shared_lock lock(mutex_);
      end = records_.end();
    }
    for (uint32_t number = 0; number < end; ++number) {
      Ptr object;
      {
        std::shared_lock lock(mutex_);
        if (!records_.at(number).empty()) object = load(number);
      }
      if (object) visit(object);
    }
  }
  std::size_t size() const {
    std::shared_lock lock(mutex_);
    return records_.size();
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
    listed_.assign(records_.end(), false);
    touched_.assign(records_.end(), false);
    ++lists_;
  }
  void listed(const T& object) { put(object, By::list); }
  /// The informer: what was listed is gone again.
  void unlisted(const T& object) { bury(core::keyOf(object.metadata), object.metadata.uid, 0); }
  /// The informer: that was the world at this version. What was not listed is gone unless it is younger: written by us
  /// while the list was under way or, while the server's versions have not gone back, at all.
  void listEnds(const std::string& resourceVersion) {
    const auto version = versionOf(resourceVersion);
    struct Vanished {
      core::ObjectKey key;
      std::string uid;
      uint64_t version;
    };
    std::vector<Vanished> vanished;
    {
      std::shared_lock lock(mutex_);
      const bool wentBack = version != 0 && version < informed_;
      for (uint32_t number = 0; number < records_.end(); ++number) {
        const auto packed = records_.at(number);
        if (packed.empty() || has(listed_, number)) continue;
        const auto known = packedVersion(packed, records_.words());
        if (known > version && (!wentBack || has(touched_, number))) continue;
        const auto object = load(number);
        vanished.push_back({core::keyOf(object->metadata), object->metadata.uid, known});
      }
    }
    // What is younger than the list may be there all the same: then the watch from the list's version shows it again.
    for (const auto& [key, uid, known] : vanished) bury(key, uid, 0, known, known <= version);
    std::unique_lock lock(mutex_);
    listed_ = {};
    touched_ = {};
    if (version != 0) informed_ = version;
    synced_ = true;
  }

  /// What the API server answered to our own write or quorum read.
  void observed(const T& object) { put(object, By::us); }
  /// The API server said that the object of this uid is gone.
  void observedGone(const core::ObjectKey& key, std::string_view uid) { bury(key, std::string(uid), 0); }

 private:
  struct Index {
    Extract extract;
    Postings postings;
  };
  static constexpr std::size_t kRemembered = 4096;

  static uint32_t hashOf(std::string_view value) { return static_cast<uint32_t>(textHash(value)); }

  // With mutex_ held, shared or not.
  Ptr load(uint32_t number) const {
    auto object = std::make_shared<T>();
    unpack(records_.at(number), records_.words(), *object);
    return object;
  }
  template <class Fn>
  void eachOf(int index, std::string_view value, Fn&& fn) const {
    const Index& by = indexes_[static_cast<std::size_t>(index)];
    by.postings.each(hashOf(value), [&](uint32_t number) {
      auto object = load(number);
      bool has = false;  // and not merely another value of the same hash
      by.extract(*object, [&](std::string_view other) { has = has || other == value; });
      return !has || fn(std::move(object));
    });
  }

  enum class By { watch, list, us };

  void put(const T& object, By by) {
    const auto& meta = object.metadata;
    const auto version = versionOf(meta.resourceVersion);
    std::unique_ptr<T> before;
    {
      std::unique_lock lock(mutex_);
      if (by == By::watch) informed_ = std::max(informed_, version);
      const auto known = records_.find(meta.namespace_, meta.name);
      if (known && by == By::list) mark(listed_, *known);
      if (isGone(meta.uid, by)) return;
      const bool replaces = known && by == By::list && !has(touched_, *known);
      if (known && !replaces && version != 0 && version <= packedVersion(records_.at(*known), records_.words()))
        return;  // we know this or newer
      pack(object, records_.words(), packing_);
      if (known) {
        const auto packed = records_.at(*known);
        if (replaces && packed == packing_) return;
        before = spare();
        unpack(packed, records_.words(), *before);
        if (replaces && version == packedVersion(packed, records_.words()) && sameContent(*before, object)) return;
        if (before->metadata.uid != meta.uid) remember(before->metadata.uid);
      }
      const auto number = known ? *known : records_.add(meta.namespace_, meta.name, packing_);
      if (known) records_.replace(number, packing_);
      if (by == By::list) mark(listed_, number);
      mark(touched_, number);
      reindex(number, before.get(), &object);
    }
    tell(before.get(), &object);
    keepSpare(std::move(before));
  }

  /// Packed texts differ once a text has become a word; by vocabularies of their own they are the same or not.
  static bool sameContent(const T& a, const T& b) {
    Vocabulary wordsOfA, wordsOfB;
    std::string packedA, packedB;
    pack(a, wordsOfA, packedA);
    pack(b, wordsOfB, packedB);
    return packedA == packedB;
  }

  // With mutex_ held.
  static bool has(const std::vector<bool>& numbers, uint32_t number) {
    return number < numbers.size() && numbers[number];
  }
  static void mark(std::vector<bool>& numbers, uint32_t number) {
    if (numbers.size() <= number) numbers.resize(number + 1, false);
    numbers[number] = true;
  }
  /// Whether that uid is known to be gone. A list that began after it went and shows it again is right.
  bool isGone(const std::string& uid, By by) {
    const auto went = gone_.find(uid);
    if (went == gone_.end()) return false;
    if (by != By::list || went->second == lists_) return true;
    gone_.erase(went);
    std::erase(goneOrder_, uid);
    return false;
  }
  void remember(const std::string& uid) {
    if (uid.empty() || !gone_.emplace(uid, lists_).second) return;
    goneOrder_.push_back(uid);
    if (goneOrder_.size() <= kRemembered) return;
    gone_.erase(goneOrder_.front());
    goneOrder_.pop_front();
  }

  /// Removes the object if it is of that uid. With `only`: unless it was put in another version meanwhile. With
  /// `forGood` the uid is remembered.
  void bury(const core::ObjectKey& key, const std::string& uid, uint64_t version, uint64_t only = 0,
            bool forGood = true) {
    std::unique_ptr<T> before;
    {
      std::unique_lock lock(mutex_);
      informed_ = std::max(informed_, version);
      const auto number = records_.find(key.namespace_, key.name);
      if (number && only != 0 && packedVersion(records_.at(*number), records_.words()) != only) return;
      if (forGood) remember(uid);
      if (!number || !packedHasUid(records_.at(*number), records_.words(), uid)) return;
      before = spare();
      unpack(records_.at(*number), records_.words(), *before);
      reindex(*number, before.get(), nullptr);
      records_.remove(*number, key.namespace_, key.name);
      if (*number < listed_.size()) listed_[*number] = false;
      if (*number < touched_.size()) touched_[*number] = false;
    }
    tell(before.get(), nullptr);
    keepSpare(std::move(before));
  }

  /// Takes an object from the values that it had before to those that it has now. With mutex_ held.
  void reindex(uint32_t number, const T* before, const T* after) {
    for (auto& [extract, postings] : indexes_) {
      const auto hashes = [&extract = extract](const T* object, std::vector<uint32_t>& out) {
        out.clear();
        if (object != nullptr) extract(*object, [&out](std::string_view value) { out.push_back(hashOf(value)); });
      };
      hashes(before, oldHashes_);
      hashes(after, newHashes_);
      if (oldHashes_ == newHashes_) continue;
      for (const auto hash : oldHashes_) postings.erase(hash, number);
      for (const auto hash : newHashes_) postings.insert(hash, number);
    }
  }

  void tell(const T* before, const T* after) const {
    for (const auto& listener : listeners_) listener(before, after);
  }

  /// An object to unpack into: the memory of the last one, unless another thread has it.
  std::unique_ptr<T> spare() {
    std::unique_ptr<T> object(spare_.exchange(nullptr));
    return object ? std::move(object) : std::make_unique<T>();
  }
  void keepSpare(std::unique_ptr<T> object) { delete spare_.exchange(object.release()); }

  // Constant once objects are stored.
  std::vector<Listener> listeners_;

  std::atomic<T*> spare_{nullptr};  ///< owned

  // Protected by mutex_.
  mutable std::shared_mutex mutex_;
  Records records_;
  std::vector<Index> indexes_;
  std::string packing_;  ///< kept for its memory, as are the hashes
  std::vector<uint32_t> oldHashes_, newHashes_;
  std::unordered_map<std::string, uint64_t> gone_;  ///< uids, and lists_ when they went; no watch brings one back
  std::deque<std::string> goneOrder_;
  uint64_t lists_ = 0;         ///< that have begun
  std::vector<bool> listed_;   ///< by number, between listBegins() and listEnds()
  std::vector<bool> touched_;  ///< by number: put since the last listBegins()
  uint64_t informed_ = 0;
  bool synced_ = false;
};

}  // namespace egpu::cache

// Store of one kind's objects. A reader sees the newer of two states: the informer's last, or the controller's last
// write.
//
//   informer v7 ──► shown v7 ── own write, answer v9 ──► shown v9 ── informer v8 (late) ──► still v9
//                                                                 └─ informer v9 or newer ──► that
//   object known to be gone (a DELETED event, a 404 to a quorum read) ──► that uid is never shown again, even if a late
//                                                                         event contains it
//   a list begins ──► a list ends ──► it replaces the objects that existed before it began
//                                  └─ but objects written or read meanwhile stay: the list may be older
//
// A list is a quorum read. If it shows an object in an older state than known, does not show it, or shows an object
// that was known to be gone, the server's history went back, as after a restore.
//
// So a reader always sees the controller's own writes. Only this class compares resourceVersions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "api/core/meta.h"
#include "controller/base/mutex.h"

namespace egpu::cache {

/// Converts a resourceVersion to a number; 0 if it is not one.
uint64_t versionOf(std::string_view resourceVersion);

/// Receives a value under which an object is found.
using Emit = std::function<void(std::string_view value)>;

/// Store of the kinds that store.cpp names. Thread-safe. Objects are returned as shared snapshots that never change.
template <class T>
class Store {
 public:
  using Ptr = std::shared_ptr<const T>;
  /// Emits the values under which an object is found; called again on every change.
  using Extract = std::function<void(const T& object, const Emit& emit)>;
  /// Receives a change: `before` null = new, `after` null = gone; both are valid during the call only. Called without
  /// locks, on the changing thread. `after` may be outdated if two threads change one key, so a listener that keeps
  /// state must read the store again.
  using Listener = std::function<void(const T* before, const T* after)>;

  Store();
  ~Store();
  Store(const Store&) = delete;
  Store& operator=(const Store&) = delete;

  /// Adds an index before anything is stored. Returns its number: the order of the calls, from 0.
  int addIndex(Extract extract);
  void listen(Listener listener);
  /// Sets a function that clears fields of which nothing reads the value, in each object before it is stored. Call
  /// before anything is stored.
  void leaveOut(std::function<void(T& object)> unread);

  Ptr get(const core::ObjectKey& key) const;
  /// Returns the objects in the order of their keys.
  std::vector<Ptr> find(int index, std::string_view value) const;
  bool any(int index, std::string_view value) const;
  /// The first object that `accepts` returns true for, of those whose value begins with the prefix, in the order of the
  /// values and then of the keys; null if there is none. The lock is not held while `accepts` is called.
  Ptr first(int index, std::string_view prefix, const std::function<bool(const T&)>& accepts) const;
  /// Visits each object that exists during the whole call, in its state at the visit, in the order of keys. The lock is
  /// not held during a visit.
  void forEach(const std::function<void(const Ptr&)>& visit) const;
  std::size_t size() const;
  bool synced() const;
  /// Version up to which the informer has reported every change.
  uint64_t version() const;

  /// Informer: an object was added or changed.
  void informed(const T& object) { put(object, By::watch); }
  /// Informer: an object is gone; `object` is its last state.
  void informedGone(const T& object);
  /// Informer: every change up to this version was reported.
  void informedUpTo(const std::string& resourceVersion);
  /// Informer: a list of all objects follows, one listed() per object, until listEnds().
  void listBegins();
  void listed(const T& object) { put(object, By::list); }
  /// Informer: an object that was listed is gone again.
  void unlisted(const T& object) { bury(core::keyOf(object.metadata), object.metadata.uid, 0); }
  /// Informer: the list of this version is complete. Objects that were not listed are gone, except newer ones: those
  /// that the controller wrote while the list ran and, if the server's versions have not gone back, all newer ones.
  void listEnds(const std::string& resourceVersion);

  /// Stores the API server's answer to the controller's own write or quorum read.
  void observed(const T& object) { put(object, By::us); }
  /// Records that, according to the API server, the object of this uid is gone.
  void observedGone(const core::ObjectKey& key, std::string_view uid) { bury(key, std::string(uid), 0); }

 private:
  /// Ordered by the object's key, which is equal in all its states.
  struct StoredObject {
    mutable Ptr object;
    mutable uint32_t listed = 0;  ///< number of the last list that contained it
    mutable uint32_t put = 0;     ///< number of the last list that had begun when this state was put
  };
  struct ByKey {
    using is_transparent = void;
    static auto keyOf(const core::ObjectKey& key) { return std::tie(key.namespace_, key.name); }
    static auto keyOf(const core::ObjectMeta& meta) { return std::tie(meta.namespace_, meta.name); }
    static auto keyOf(const StoredObject& entry) { return keyOf(entry.object->metadata); }
    static auto keyOf(const StoredObject* entry) { return keyOf(*entry); }
    bool operator()(const auto& a, const auto& b) const { return keyOf(a) < keyOf(b); }
  };
  struct Index {
    Extract extract;
    std::map<std::string, std::set<const StoredObject*, ByKey>, std::less<>> entries;  ///< by value; no set is empty
  };
  static constexpr std::size_t kRemembered = 4096;

  enum class By { watch, list, us };

  void put(const T& object, By by);

  /// True if that uid is known to be gone. If a list that began later shows it again, the list is right.
  bool isGone(const std::string& uid, By by) EGPU_REQUIRES(mutex_);
  void remember(const std::string& uid) EGPU_REQUIRES(mutex_);

  /// Removes the object if it has that uid. `only`: unless its state is another one by now. `forGood`: remembers the
  /// uid.
  void bury(const core::ObjectKey& key, const std::string& uid, uint64_t version, const T* only = nullptr,
            bool forGood = true);

  static std::set<std::string> valuesOf(const Extract& extract, const T* object);
  /// Moves an object from its old index values to its new ones.
  void reindex(const StoredObject& entry, const T* before, const T* after) EGPU_REQUIRES(mutex_);

  void notify(const T* before, const T* after) const;

  // Constant once objects are stored.
  std::vector<Listener> listeners_;
  std::function<void(T&)> unread_;

  mutable base::SharedMutex mutex_;
  std::set<StoredObject, ByKey> entries_ EGPU_GUARDED_BY(mutex_);
  std::vector<Index> indexes_ EGPU_GUARDED_BY(mutex_);
  /// Uids, with list_ at that time; no watch event restores one.
  std::unordered_map<std::string, uint32_t> gone_ EGPU_GUARDED_BY(mutex_);
  std::deque<std::string> goneOrder_ EGPU_GUARDED_BY(mutex_);
  uint32_t list_ EGPU_GUARDED_BY(mutex_) = 1;  ///< number of lists that have begun, plus 1
  uint64_t informed_ EGPU_GUARDED_BY(mutex_) = 0;
  bool synced_ EGPU_GUARDED_BY(mutex_) = false;
};

}  // namespace egpu::cache

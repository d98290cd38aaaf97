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

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <shared_mutex>
#include <string>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "api/core/meta.h"

namespace egpu::cache {

/// A resourceVersion as a number; 0 for what isn't one.
uint64_t versionOf(std::string_view resourceVersion);

/// Takes a value under which an object is found.
using Emit = std::function<void(std::string_view value)>;

/// Of the kinds that store.cpp names. Thread-safe. Objects are handed out as shared snapshots that never change.
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

  Store();
  ~Store();
  Store(const Store&) = delete;
  Store& operator=(const Store&) = delete;

  /// Before anything is stored. The index's number is the order of the calls, from 0.
  int addIndex(Extract extract);
  void listen(Listener listener);
  /// Before anything is stored: empties what nobody reads of the objects here.
  void leaveOut(std::function<void(T& object)> unread);

  Ptr get(const core::ObjectKey& key) const;
  /// In the order of their keys.
  std::vector<Ptr> find(int index, std::string_view value) const;
  bool any(int index, std::string_view value) const;
  /// The first object that `accepts` returns true for, of those whose value begins with the prefix, in the order of the
  /// values and then of the keys; null if there is none. The lock is not held while `accepts` is called.
  Ptr first(int index, std::string_view prefix, const std::function<bool(const T&)>& accepts) const;
  /// Each object that is there all the while, as it is when it is visited, in the order of their keys. The lock is not
  /// held during a visit.
  void forEach(const std::function<void(const Ptr&)>& visit) const;
  std::size_t size() const;
  bool synced() const;
  /// Version up to which the informer has told everything.
  uint64_t version() const;

  /// The informer: an object was added or changed.
  void informed(const T& object) { put(object, By::watch); }
  /// The informer: an object is gone; `object` is its last state.
  void informedGone(const T& object);
  /// The informer: everything up to this version has been told.
  void informedUpTo(const std::string& resourceVersion);
  /// The informer: the whole world follows, one listed() at a time, up to listEnds().
  void listBegins();
  void listed(const T& object) { put(object, By::list); }
  /// The informer: what was listed is gone again.
  void unlisted(const T& object) { bury(core::keyOf(object.metadata), object.metadata.uid, 0); }
  /// The informer: that was the world at this version. What was not listed is gone unless it is younger: written by us
  /// while the list was under way or, while the server's versions have not gone back, at all.
  void listEnds(const std::string& resourceVersion);

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

  void put(const T& object, By by);

  // With mutex_ held.
  /// Whether that uid is known to be gone. A list that began after it went and shows it again is right.
  bool isGone(const std::string& uid, By by);
  void remember(const std::string& uid);

  /// Removes the object if it is of that uid. With `only`: unless another state was put meanwhile. With `forGood` the
  /// uid is remembered.
  void bury(const core::ObjectKey& key, const std::string& uid, uint64_t version, const T* only = nullptr,
            bool forGood = true);

  static std::set<std::string> valuesOf(const Extract& extract, const T* object);
  /// Takes an object from the values that it had before to those that it has now. With mutex_ held.
  void reindex(const Entry& entry, const T* before, const T* after);

  void tell(const T* before, const T* after) const;

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

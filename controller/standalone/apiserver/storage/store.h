// Objects of one server with their versions and recent history. Offers compare-and-swap writes, consistent lists, and
// events for watches.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <stop_token>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "controller/base/mutex.h"
#include "controller/base/status.h"
#include "controller/standalone/apiserver/kinds/resource.h"

namespace egpu::apiserver {

using Json = nlohmann::json;

/// Namespace and name of an object. `ns` is empty for cluster-scoped kinds. The order is that of lists.
struct Key {
  std::string ns, name;
  auto operator<=>(const Key&) const = default;
};

/// One version of one object. Immutable once stored; shared by readers and watches.
struct Object {
  Json body;         ///< in the storage version, metadata.resourceVersion included
  std::string text;  ///< body as JSON text
  uint64_t version = 0;
  Key key;
  std::string uid;
};
using ObjectPtr = std::shared_ptr<const Object>;

/// A change as watches report it.
struct Event {
  enum class Type { added, modified, deleted };
  Type type;
  uint64_t version;
  ObjectPtr object;  ///< deleted: the last state with the version of the deletion
  ObjectPtr before;  ///< previous state; null if added
};

enum class Change { create, update, remove };
/// A write. It succeeds only if the stored object is still `expected`.
struct Write {
  Change change = Change::create;
  const Resource* resource = nullptr;
  Key key;
  ObjectPtr expected;  ///< null for create
  Json body;           ///< the new body; for remove, the last state (resourceVersion is set by the store)
};

/// Durable storage of writes. The store appends writes before they become visible or are acknowledged.
class Journal {
 public:
  struct Record {
    const Resource* resource;
    const Object* object;
    bool removed;
  };
  virtual ~Journal() = default;
  /// Appends all records or none; they are durable on return. `version` is that of the last record. Called by one
  /// thread at a time.
  virtual base::Status append(const std::vector<Record>& records, uint64_t version) = 0;
};

/// The store. Thread-safe. Writes become visible to readers and watches only after the journal has stored them.
class Store {
 public:
  /// `journal` may be null (memory only). `historyLength`: events kept per kind.
  Store(const ResourceTable& table, std::size_t historyLength, Journal* journal);

  /// Restores a stored object before the server is used. The version counter becomes at least `version`.
  void restore(const Resource& resource, std::string_view text, uint64_t version);
  void restoreVersion(uint64_t version);

  /// Executes a write and returns the written object (for remove: the last state). Fails with Code::conflict if the
  /// stored object is no longer `expected`; alreadyExists; notFound if the namespace does not exist; forbidden if it is
  /// being deleted; unavailable if the journal failed, without any change.
  base::Result<ObjectPtr> commit(Write write);

  ObjectPtr get(const Resource& resource, const Key& key) const;
  /// Returns all objects of a kind in order, of one namespace or, if `ns` is empty, of all. Sets `version` to the
  /// version of this state.
  std::vector<ObjectPtr> list(const Resource& resource, std::string_view ns, uint64_t& version) const;
  /// Lists the objects with keys after `after` at an earlier version, rebuilt from the history. Returns false if the
  /// history does not reach back that far and no pages of this list were kept.
  bool listAt(const Resource& resource, std::string_view ns, uint64_t version, const Key& after,
              std::vector<ObjectPtr>& out) const;
  /// Keeps the objects after the first page of a list, so that its further pages stay available regardless of later
  /// writes. `rest`: all objects of the kind (and namespace) after `after`, at `version`. Only the most recent lists
  /// are kept.
  void cachePages(const Resource& resource, std::string_view ns, uint64_t version, const Key& after,
                  std::vector<ObjectPtr> rest);
  uint64_t version() const;

  /// Returns at most `limit` events of a kind after `from` in `out`. Waits for an event until `until` or a stop. Sets
  /// `version` to the store's version at the time of reading: `out` has all events up to it, unless it has `limit`
  /// events. Returns false if the history does not reach back to `from`.
  bool eventsAfter(const Resource& resource, uint64_t from, std::size_t limit,
                   std::chrono::steady_clock::time_point until, std::stop_token stop, std::vector<Event>& out,
                   uint64_t& version) const;
  /// Returns the oldest version from which `resource` can be watched.
  uint64_t oldest(const Resource& resource) const;
  void compact();

  /// Kind and key of an object.
  struct Located {
    const Resource* resource;
    Key key;
  };
  /// Returns the objects that have an owner reference to `uid`.
  std::vector<Located> dependents(const std::string& uid) const;
  bool uidExists(const std::string& uid) const;
  /// Returns the objects of all kinds in a namespace.
  std::vector<Located> contents(const std::string& ns) const;
  /// Returns all objects with owner references, for the sweep after a restart.
  std::vector<Located> owned() const;

 private:
  struct Collection {
    std::map<Key, ObjectPtr> objects;
    std::deque<Event> history;
    uint64_t oldest = 0;  ///< events up to this version are dropped
    mutable std::condition_variable_any changed;
  };
  /// Objects after the first page of a list.
  struct Pages {
    const Resource* resource;
    std::string ns;
    uint64_t version;
    Key after;
    std::vector<ObjectPtr> rest;  ///< in order
  };
  static constexpr std::size_t kMaxPages = 8;  ///< number of lists whose pages are kept
  struct Pending {
    Write* write;
    ObjectPtr object;
    base::Status status;
    bool done = false;
  };

  /// Returns the objects and the history of a kind.
  Collection& of(const Resource& resource) const EGPU_REQUIRES_SHARED(mutex_) { return *collections_.at(&resource); }
  bool takePages(const Resource& resource, std::string_view ns, uint64_t version, const Key& after,
                 std::vector<ObjectPtr>& out) const;
  base::Status admit(const Write& write) const EGPU_REQUIRES_SHARED(mutex_);
  void apply(const Write& write, const ObjectPtr& object) EGPU_REQUIRES(mutex_);
  void index(const Resource& resource, const Object& object, bool present) EGPU_REQUIRES(mutex_);
  void lead() EGPU_REQUIRES(queueMutex_);
  /// Assigns versions to the writes of a batch that may be stored, and returns these writes. later: writes that must
  /// wait until the others are stored.
  std::vector<Pending*> number(const std::vector<Pending*>& batch, std::vector<Pending*>& later) const;
  /// Appends the writes to the journal, then makes them visible.
  void persist(const std::vector<Pending*>& admitted);

  const std::size_t historyLength_;
  Journal* const journal_;
  std::unordered_map<const Resource*, std::unique_ptr<Collection>> collections_;
  const Resource* namespaces_ = nullptr;
  const std::string placeholder_;  ///< replaces the version in the text of an object until it is known

  mutable base::SharedMutex mutex_;  ///< guards the contents of the collections, too; see of()
  uint64_t version_ EGPU_GUARDED_BY(mutex_) = 1;
  std::unordered_map<std::string, std::vector<Located>> owners_ EGPU_GUARDED_BY(mutex_);
  std::unordered_set<std::string> uids_ EGPU_GUARDED_BY(mutex_);

  mutable base::Mutex pagesMutex_;
  mutable std::deque<Pages> pages_ EGPU_GUARDED_BY(pagesMutex_);  ///< the most recently used at the back

  base::Mutex queueMutex_;
  std::condition_variable_any queueChanged_;
  std::vector<Pending*> queue_ EGPU_GUARDED_BY(queueMutex_);
  bool leading_ EGPU_GUARDED_BY(queueMutex_) = false;
};

}  // namespace egpu::apiserver

// The objects of one server with their versions and recent history: compare-and-swap writes, snapshots, and what
// watches read.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <shared_mutex>
#include <stop_token>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "controller/base/status.h"
#include "controller/standalone/apiserver/kinds/resource.h"

namespace egpu::apiserver {

using Json = nlohmann::json;

/// "namespace" is empty for cluster-scoped kinds. Orders as lists are ordered.
struct Key {
  std::string ns, name;
  auto operator<=>(const Key&) const = default;
};

/// One version of one object; immutable once stored, shared by readers and watches.
struct Object {
  Json body;         ///< in the storage version, metadata.resourceVersion included
  std::string text;  ///< body, serialised once
  uint64_t version = 0;
  Key key;
  std::string uid;
};
using ObjectPtr = std::shared_ptr<const Object>;

/// A change as watches see it.
struct Event {
  enum class Type { added, modified, deleted };
  Type type;
  uint64_t version;
  ObjectPtr object;  ///< deleted: the last state under the deletion's version
  ObjectPtr before;  ///< null when added
};

enum class Change { create, update, remove };
/// One write. It happens only if the stored object still is `expected`.
struct Write {
  Change change = Change::create;
  const Resource* resource = nullptr;
  Key key;
  ObjectPtr expected;  ///< null for create
  Json body;           ///< the new body; for remove, the last state (resourceVersion is set by the store)
};

/// Where committed writes go before they are seen or acknowledged.
class Journal {
 public:
  struct Record {
    const Resource* resource;
    const Object* object;
    bool removed;
  };
  virtual ~Journal() = default;
  /// All or nothing, durable on return. `version` is that of the last record. Called by one thread at a time.
  virtual base::Status append(const std::vector<Record>& records, uint64_t version) = 0;
};

/// Thread-safe. Writes are visible, to readers and watches, only after the journal has them.
class Store {
 public:
  /// `journal` may be null (memory only). `historyLength`: events kept per kind.
  Store(const ResourceTable& table, std::size_t historyLength, Journal* journal);

  /// Before the server is used: an object as it was kept. The version counter grows to at least `version`.
  void restore(const Resource& resource, std::string_view text, uint64_t version);
  void restoreVersion(uint64_t version);

  /// The written object (for remove: the last state). Code::conflict: not `expected` any more, read again;
  /// alreadyExists; notFound: its namespace does not exist; forbidden: its namespace is being deleted; unavailable: the
  /// journal failed, nothing was changed.
  base::Result<ObjectPtr> commit(Write write);

  ObjectPtr get(const Resource& resource, const Key& key) const;
  /// All objects of a kind, of one namespace unless `ns` is empty, in order; with the version of that state.
  std::vector<ObjectPtr> list(const Resource& resource, std::string_view ns, uint64_t& version) const;
  /// The same at an earlier version, rebuilt from the history, of keys after `after`. False if the history doesn't
  /// reach back that far and no pages of that list were kept.
  bool listAt(const Resource& resource, std::string_view ns, uint64_t version, const Key& after,
              std::vector<ObjectPtr>& out) const;
  /// Keeps what follows the first page of a list, so that its other pages can be had however much is written between
  /// them. `rest`: all objects of the kind (and namespace) after `after`, at `version`. Of the most recent lists only.
  void keepPages(const Resource& resource, std::string_view ns, uint64_t version, const Key& after,
                 std::vector<ObjectPtr> rest);
  uint64_t version() const;

  /// Events of a kind after `from`, at most `limit`; waits until there is one, `until` or a stop. `version` becomes the
  /// store's version at the time of reading: all events up to it are in the answer, unless it has `limit` events. False
  /// if the history doesn't reach back to `from`.
  bool eventsAfter(const Resource& resource, uint64_t from, std::size_t limit,
                   std::chrono::steady_clock::time_point until, std::stop_token stop, std::vector<Event>& out,
                   uint64_t& version) const;
  /// The oldest version from which `resource` can be watched.
  uint64_t oldest(const Resource& resource) const;
  void compact();

  /// Objects that name `uid` as an owner.
  struct Located {
    const Resource* resource;
    Key key;
  };
  std::vector<Located> dependents(const std::string& uid) const;
  bool uidExists(const std::string& uid) const;
  /// Everything in a namespace, all kinds.
  std::vector<Located> contents(const std::string& ns) const;
  /// Everything that has owners (for the sweep after a restart).
  std::vector<Located> owned() const;

 private:
  struct Collection {
    std::map<Key, ObjectPtr> objects;
    std::deque<Event> history;
    uint64_t oldest = 0;  ///< events up to here are forgotten
    mutable std::condition_variable_any changed;
  };
  /// What follows the first page of a list.
  struct Pages {
    const Resource* resource;
    std::string ns;
    uint64_t version;
    Key after;
    std::vector<ObjectPtr> rest;  ///< in order
  };
  static constexpr std::size_t kPagesKept = 8;  ///< lists
  struct Pending {
    Write* write;
    ObjectPtr object;
    base::Status status;
    bool done = false;
  };

  Collection& of(const Resource& resource) const { return *collections_.at(&resource); }
  bool keptPages(const Resource& resource, std::string_view ns, uint64_t version, const Key& after,
                 std::vector<ObjectPtr>& out) const;
  base::Status admit(const Write& write) const;
  void apply(const Write& write, const ObjectPtr& object);
  void index(const Resource& resource, const Object& object, bool present);
  void lead(std::unique_lock<std::mutex>& lock);
  /// Gives a version to each write that may be stored, and returns those. later: what has to wait for the others.
  std::vector<Pending*> number(const std::vector<Pending*>& batch, std::vector<Pending*>& later) const;
  /// Into the journal, then for all to see.
  void keep(const std::vector<Pending*>& admitted);

  const std::size_t historyLength_;
  Journal* const journal_;
  std::unordered_map<const Resource*, std::unique_ptr<Collection>> collections_;
  const Resource* namespaces_ = nullptr;
  const std::string placeholder_;  ///< stands for the version in a text until it is known

  mutable std::shared_mutex mutex_;  ///< guards collections' contents, version_, owners_, uids_
  uint64_t version_ = 1;
  std::unordered_map<std::string, std::vector<Located>> owners_;
  std::unordered_set<std::string> uids_;

  mutable std::mutex pagesMutex_;
  mutable std::deque<Pages> pages_;  ///< the one used last at the back; guarded by pagesMutex_

  std::mutex queueMutex_;  ///< guards queue_, leading_
  std::condition_variable_any queueChanged_;
  std::vector<Pending*> queue_;
  bool leading_ = false;
};

}  // namespace egpu::apiserver

#include "controller/cache/store.h"

#include <algorithm>
#include <charconv>
#include <mutex>
#include <system_error>
#include <utility>

#include "api/core/objects.h"
#include "api/v1alpha/types.h"

namespace egpu::cache {

uint64_t versionOf(std::string_view resourceVersion) {
  uint64_t value = 0;
  const char* const end = resourceVersion.data() + resourceVersion.size();
  const auto [at, error] = std::from_chars(resourceVersion.data(), end, value);
  return error == std::errc() && at == end ? value : 0;
}

template <class T>
Store<T>::Store() = default;

template <class T>
Store<T>::~Store() = default;

template <class T>
int Store<T>::addIndex(Extract extract) {
  const base::ExclusiveLock lock(mutex_);
  indexes_.push_back({std::move(extract), {}});
  return static_cast<int>(indexes_.size()) - 1;
}

template <class T>
void Store<T>::listen(Listener listener) {
  listeners_.push_back(std::move(listener));
}

template <class T>
void Store<T>::leaveOut(std::function<void(T& object)> unread) {
  unread_ = std::move(unread);
}

template <class T>
typename Store<T>::Ptr Store<T>::get(const core::ObjectKey& key) const {
  const base::SharedLock lock(mutex_);
  const auto entry = entries_.find(key);
  return entry == entries_.end() ? nullptr : entry->object;
}

template <class T>
std::vector<typename Store<T>::Ptr> Store<T>::find(int index, std::string_view value) const {
  std::vector<Ptr> found;
  const base::SharedLock lock(mutex_);
  const auto& entries = indexes_[static_cast<std::size_t>(index)].entries;
  if (const auto of = entries.find(value); of != entries.end()) {
    found.reserve(of->second.size());
    for (const auto* const entry : of->second) found.push_back(entry->object);
  }
  return found;
}

template <class T>
typename Store<T>::Ptr Store<T>::first(int index, std::string_view prefix,
                                       const std::function<bool(const T&)>& accepts) const {
  std::string value(prefix);
  Ptr object;
  while (true) {
    {
      const base::SharedLock lock(mutex_);
      const auto& entries = indexes_[static_cast<std::size_t>(index)].entries;
      auto of = entries.lower_bound(value);
      if (of != entries.end() && object && of->first == value) {  // the next one of the same value
        const auto next = of->second.upper_bound(object->metadata);
        object = next == of->second.end() ? nullptr : (*next)->object;
        if (!object) ++of;
      } else {
        object.reset();
      }
      if (!object) {
        if (of == entries.end() || !of->first.starts_with(prefix)) return nullptr;
        value = of->first;
        object = (*of->second.begin())->object;
      }
    }
    if (accepts(*object)) return object;
  }
}

template <class T>
bool Store<T>::any(int index, std::string_view value) const {
  const base::SharedLock lock(mutex_);
  return indexes_[static_cast<std::size_t>(index)].entries.contains(value);
}

template <class T>
void Store<T>::forEach(const std::function<void(const Ptr&)>& visit) const {
  Ptr object;
  while (true) {
    {
      const base::SharedLock lock(mutex_);
      const auto next = object ? entries_.upper_bound(object->metadata) : entries_.begin();
      if (next == entries_.end()) return;
      object = next->object;
    }
    visit(object);
  }
}

template <class T>
std::size_t Store<T>::size() const {
  const base::SharedLock lock(mutex_);
  return entries_.size();
}

template <class T>
bool Store<T>::synced() const {
  const base::SharedLock lock(mutex_);
  return synced_;
}

template <class T>
uint64_t Store<T>::version() const {
  const base::SharedLock lock(mutex_);
  return informed_;
}

template <class T>
void Store<T>::informedGone(const T& object) {
  const auto version = versionOf(object.metadata.resourceVersion);
  bury(core::keyOf(object.metadata), object.metadata.uid, version);
}

template <class T>
void Store<T>::informedUpTo(const std::string& resourceVersion) {
  const base::ExclusiveLock lock(mutex_);
  informed_ = std::max(informed_, versionOf(resourceVersion));
}

template <class T>
void Store<T>::listBegins() {
  const base::ExclusiveLock lock(mutex_);
  ++list_;
}

template <class T>
void Store<T>::listEnds(const std::string& resourceVersion) {
  const auto version = versionOf(resourceVersion);
  std::vector<Ptr> vanished;
  {
    const base::SharedLock lock(mutex_);
    const bool wentBack = version != 0 && version < informed_;
    for (const auto& entry : entries_) {
      if (entry.listed == list_) continue;
      const bool younger = versionOf(entry.object->metadata.resourceVersion) > version;
      if (!younger || (wentBack && entry.put != list_)) vanished.push_back(entry.object);
    }
  }
  for (const auto& object : vanished) {
    const auto& meta = object->metadata;
    // An object that is newer than the list may still exist. Then the watch from the list's version shows it again.
    const bool forGood = versionOf(meta.resourceVersion) <= version;
    bury(core::keyOf(meta), meta.uid, 0, object.get(), forGood);
  }
  const base::ExclusiveLock lock(mutex_);
  if (version != 0) informed_ = version;
  synced_ = true;
}

template <class T>
void Store<T>::put(const T& object, By by) {
  const auto after = std::make_shared<T>(object);
  if (unread_) unread_(*after);
  const auto& meta = object.metadata;
  const auto version = versionOf(meta.resourceVersion);
  Ptr before;
  {
    const base::ExclusiveLock lock(mutex_);
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
        return;  // this state or a newer one is stored
      if (before->metadata.uid != meta.uid) remember(before->metadata.uid);
    }
    if (!there) entry = entries_.insert({after}).first;
    entry->object = after;
    entry->put = list_;
    if (by == By::list) entry->listed = list_;
    reindex(*entry, before.get(), after.get());
  }
  notify(before.get(), after.get());
}

template <class T>
bool Store<T>::isGone(const std::string& uid, By by) {
  const auto went = gone_.find(uid);
  if (went == gone_.end()) return false;
  if (by != By::list || went->second == list_) return true;
  gone_.erase(went);
  std::erase(goneOrder_, uid);
  return false;
}

template <class T>
void Store<T>::remember(const std::string& uid) {
  if (uid.empty() || !gone_.emplace(uid, list_).second) return;
  goneOrder_.push_back(uid);
  if (goneOrder_.size() <= kRemembered) return;
  gone_.erase(goneOrder_.front());
  goneOrder_.pop_front();
}

template <class T>
void Store<T>::bury(const core::ObjectKey& key, const std::string& uid, uint64_t version, const T* only, bool forGood) {
  Ptr before;
  {
    const base::ExclusiveLock lock(mutex_);
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
  notify(before.get(), nullptr);
}

template <class T>
std::set<std::string> Store<T>::valuesOf(const Extract& extract, const T* object) {
  std::set<std::string> values;
  if (object != nullptr) extract(*object, [&values](std::string_view value) { values.emplace(value); });
  return values;
}

template <class T>
void Store<T>::reindex(const StoredObject& entry, const T* before, const T* after) {
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

template <class T>
void Store<T>::notify(const T* before, const T* after) const {
  for (const auto& listener : listeners_) listener(before, after);
}

template class Store<v1alpha::ElasticGPU>;
template class Store<v1alpha::ElasticGPUClaim>;
template class Store<v1alpha::ElasticGPUClass>;
template class Store<v1alpha::ElasticGPUQuota>;
template class Store<core::Pod>;
template class Store<core::Node>;
template class Store<core::ResourceClaim>;
template class Store<core::Namespace>;
template class Store<core::PriorityClass>;
template class Store<v1alpha::ElasticGPUClaimTemplate>;
template class Store<core::ResourceClaimTemplate>;
template class Store<core::DeviceTaintRule>;
template class Store<core::PodGroup>;

}  // namespace egpu::cache

#include "controller/standalone/apiserver/storage/store.h"

#include <algorithm>
#include <set>
#include <utility>

#include "controller/base/ids.h"

namespace egpu::apiserver {
namespace {

const Json* ownersOf(const Json& body) {
  auto meta = body.find("metadata");
  if (meta == body.end() || !meta->is_object()) return nullptr;
  auto refs = meta->find("ownerReferences");
  return refs != meta->end() && refs->is_array() ? &*refs : nullptr;
}

std::string uidOf(const Json& body) {
  auto meta = body.find("metadata");
  if (meta == body.end() || !meta->is_object()) return {};
  auto uid = meta->find("uid");
  return uid != meta->end() && uid->is_string() ? uid->get<std::string>() : std::string();
}

bool isDeleting(const Json& body) {
  auto meta = body.find("metadata");
  return meta != body.end() && meta->is_object() && meta->contains("deletionTimestamp");
}

}  // namespace

Store::Store(const ResourceTable& table, std::size_t historyLength, Journal* journal)
    : historyLength_(std::max<std::size_t>(historyLength, 1)),
      journal_(journal),
      placeholder_("version-" + base::Random().suffix(20)) {
  for (const auto& r : table.all()) collections_.emplace(r.get(), std::make_unique<Collection>());
  namespaces_ = table.find("", "v1", "namespaces");
}

void Store::restore(const Resource& resource, std::string_view text, uint64_t version) {
  auto object = std::make_shared<Object>();
  object->body = Json::parse(text);
  object->text = std::string(text);
  object->version = version;
  object->uid = uidOf(object->body);
  const Json& meta = object->body.at("metadata");
  object->key = {resource.namespaced ? meta.value("namespace", "") : std::string(), meta.value("name", "")};
  base::ExclusiveLock lock(mutex_);
  index(resource, *object, true);
  of(resource).objects[object->key] = object;
  version_ = std::max(version_, version);
}

void Store::restoreVersion(uint64_t version) {
  base::ExclusiveLock lock(mutex_);
  version_ = std::max(version_, version);
  for (auto& [resource, c] : collections_) c->oldest = version_;
}

base::Result<ObjectPtr> Store::commit(Write write) {
  // Serialise without a lock, because it is the most expensive part of a write. number() inserts the version later.
  auto object = std::make_shared<Object>();
  object->body = std::move(write.body);
  object->body["metadata"]["resourceVersion"] = placeholder_;
  object->text = object->body.dump();
  object->key = write.key;
  object->uid = uidOf(object->body);

  Pending pending{&write, object, {}, false};
  base::MutexLock lock(queueMutex_);
  queue_.push_back(&pending);
  while (!pending.done) {
    if (leading_)
      queueChanged_.wait(lock);
    else
      lead();
  }
  if (!pending.status.ok()) return pending.status;
  return pending.object;
}

// Stores the writes of all waiting writers, so that they share one flush of the journal. One of the writers calls it.
void Store::lead() {
  leading_ = true;
  std::vector<Pending*> batch, later;
  batch.swap(queue_);
  {
    const base::MutexUnlock unlocked(queueMutex_);
    const std::vector<Pending*> admitted = number(batch, later);
    if (!admitted.empty()) persist(admitted);
  }
  queue_.insert(queue_.begin(), later.begin(), later.end());
  std::sort(later.begin(), later.end());
  for (Pending* p : batch)
    if (!std::binary_search(later.begin(), later.end(), p)) p->done = true;
  leading_ = false;
  queueChanged_.notify_all();
}

std::vector<Store::Pending*> Store::number(const std::vector<Pending*>& batch, std::vector<Pending*>& later) const {
  std::vector<Pending*> admitted;
  std::set<std::pair<const Resource*, Key>> touched;
  const base::SharedLock lock(mutex_);  // only the leader changes the state, and there is one at a time
  uint64_t version = version_;
  for (Pending* p : batch) {
    const Write& w = *p->write;
    // Defer a write that depends on another write of this batch.
    if (touched.count({w.resource, w.key}) || (!w.key.ns.empty() && touched.count({namespaces_, Key{"", w.key.ns}}))) {
      later.push_back(p);
      continue;
    }
    p->status = admit(w);
    if (!p->status.ok()) continue;
    touched.insert({w.resource, w.key});
    auto& object = const_cast<Object&>(*p->object);  // not yet visible outside of this batch
    object.version = ++version;
    std::string number = std::to_string(object.version);
    object.body["metadata"]["resourceVersion"] = number;
    const std::string token = "\"resourceVersion\":\"" + placeholder_ + "\"";
    if (auto at = object.text.find(token); at != std::string::npos)
      object.text.replace(at, token.size(), "\"resourceVersion\":\"" + number + "\"");
    admitted.push_back(p);
  }
  return admitted;
}

void Store::persist(const std::vector<Pending*>& admitted) {
  const uint64_t version = admitted.back()->object->version;
  if (journal_) {
    std::vector<Journal::Record> records;
    records.reserve(admitted.size());
    for (const Pending* p : admitted)
      records.push_back({p->write->resource, p->object.get(), p->write->change == Change::remove});
    if (base::Status stored = journal_->append(records, version); !stored.ok()) {
      for (Pending* p : admitted)
        p->status = {base::Code::unavailable, "the state could not be stored: " + stored.message()};
      return;
    }
  }
  std::set<const Collection*> changed;
  {
    base::ExclusiveLock state(mutex_);
    for (const Pending* p : admitted) {
      apply(*p->write, p->object);
      changed.insert(&of(*p->write->resource));
    }
    version_ = version;
  }
  for (const Collection* c : changed) c->changed.notify_all();
}

base::Status Store::admit(const Write& write) const {
  const Collection& c = of(*write.resource);
  auto it = c.objects.find(write.key);
  if (write.change == Change::create) {
    if (it != c.objects.end()) return {base::Code::alreadyExists, "already exists"};
    if (!write.key.ns.empty() && namespaces_) {
      const auto& spaces = of(*namespaces_).objects;
      auto space = spaces.find(Key{"", write.key.ns});
      if (space == spaces.end()) return {base::Code::notFound, "namespaces \"" + write.key.ns + "\" not found"};
      if (isDeleting(space->second->body)) return {base::Code::forbidden, "namespace is being terminated"};
    }
    return {};
  }
  if (it == c.objects.end() || it->second != write.expected) return {base::Code::conflict, "changed meanwhile"};
  return {};
}

void Store::apply(const Write& write, const ObjectPtr& object) {
  Collection& c = of(*write.resource);
  Event event{Event::Type::added, object->version, object, write.expected};
  if (write.expected) index(*write.resource, *write.expected, false);
  if (write.change == Change::remove) {
    event.type = Event::Type::deleted;
    c.objects.erase(write.key);
  } else {
    if (write.change == Change::update) event.type = Event::Type::modified;
    index(*write.resource, *object, true);
    c.objects[write.key] = object;
  }
  c.history.push_back(std::move(event));
  while (c.history.size() > historyLength_) {
    c.oldest = c.history.front().version;
    c.history.pop_front();
  }
}

void Store::index(const Resource& resource, const Object& object, bool present) {
  if (present)
    uids_.insert(object.uid);
  else
    uids_.erase(object.uid);
  const Json* refs = ownersOf(object.body);
  if (!refs) return;
  for (const Json& ref : *refs) {
    std::string owner = ref.is_object() ? ref.value("uid", "") : std::string();
    if (owner.empty()) continue;
    auto& list = owners_[owner];
    auto same = [&](const Located& l) { return l.resource == &resource && l.key == object.key; };
    auto at = std::find_if(list.begin(), list.end(), same);
    if (present && at == list.end()) list.push_back({&resource, object.key});
    if (!present && at != list.end()) list.erase(at);
    if (list.empty()) owners_.erase(owner);
  }
}

ObjectPtr Store::get(const Resource& resource, const Key& key) const {
  base::SharedLock lock(mutex_);
  const auto& objects = of(resource).objects;
  auto it = objects.find(key);
  return it == objects.end() ? nullptr : it->second;
}

std::vector<ObjectPtr> Store::list(const Resource& resource, std::string_view ns, uint64_t& version) const {
  std::vector<ObjectPtr> out;
  base::SharedLock lock(mutex_);
  version = version_;
  const auto& objects = of(resource).objects;
  auto it = ns.empty() ? objects.begin() : objects.lower_bound(Key{std::string(ns), ""});
  for (; it != objects.end() && (ns.empty() || it->first.ns == ns); ++it) out.push_back(it->second);
  return out;
}

bool Store::listAt(const Resource& resource, std::string_view ns, uint64_t version, const Key& after,
                   std::vector<ObjectPtr>& out) const {
  base::SharedLock lock(mutex_);
  const Collection& c = of(resource);
  if (version > version_) return false;
  if (version < c.oldest) return takePages(resource, ns, version, after, out);
  auto wanted = [&](const Key& k) { return after < k && (ns.empty() || k.ns == ns); };
  // The state of a key at `version` is the `before` of its first later event.
  std::map<Key, ObjectPtr> then;
  auto first = std::upper_bound(c.history.begin(), c.history.end(), version,
                                [](uint64_t v, const Event& e) { return v < e.version; });
  for (auto e = first; e != c.history.end(); ++e)
    if (wanted(e->object->key)) then.emplace(e->object->key, e->before);
  auto old = then.begin();
  auto takeOld = [&](const Key* upTo) {
    for (; old != then.end() && (!upTo || old->first < *upTo); ++old)
      if (old->second) out.push_back(old->second);
  };
  for (auto it = c.objects.upper_bound(after); it != c.objects.end(); ++it) {
    if (!ns.empty() && it->first.ns != ns) {
      if (it->first.ns > ns) break;
      continue;
    }
    takeOld(&it->first);
    if (old != then.end() && old->first == it->first) {
      if (old->second) out.push_back(old->second);
      ++old;
    } else {
      out.push_back(it->second);
    }
  }
  takeOld(nullptr);
  return true;
}

void Store::cachePages(const Resource& resource, std::string_view ns, uint64_t version, const Key& after,
                       std::vector<ObjectPtr> rest) {
  base::MutexLock lock(pagesMutex_);
  const auto known = std::find_if(pages_.begin(), pages_.end(), [&](const Pages& p) {
    return p.resource == &resource && p.ns == ns && p.version == version && p.after <= after;
  });
  if (known != pages_.end()) return;
  pages_.push_back({&resource, std::string(ns), version, after, std::move(rest)});
  if (pages_.size() > kMaxPages) pages_.pop_front();
}

bool Store::takePages(const Resource& resource, std::string_view ns, uint64_t version, const Key& after,
                      std::vector<ObjectPtr>& out) const {
  base::MutexLock lock(pagesMutex_);
  const auto cached = std::find_if(pages_.begin(), pages_.end(), [&](const Pages& p) {
    return p.resource == &resource && p.ns == ns && p.version == version && p.after <= after;
  });
  if (cached == pages_.end()) return false;
  std::rotate(cached, cached + 1, pages_.end());
  const auto& rest = pages_.back().rest;
  const auto from = std::upper_bound(rest.begin(), rest.end(), after,
                                     [](const Key& key, const ObjectPtr& object) { return key < object->key; });
  out.assign(from, rest.end());
  return true;
}

uint64_t Store::version() const {
  base::SharedLock lock(mutex_);
  return version_;
}

uint64_t Store::oldest(const Resource& resource) const {
  base::SharedLock lock(mutex_);
  return of(resource).oldest;
}

bool Store::eventsAfter(const Resource& resource, uint64_t from, std::size_t limit,
                        std::chrono::steady_clock::time_point until, std::stop_token stop, std::vector<Event>& out,
                        uint64_t& version) const {
  base::SharedLock lock(mutex_);
  const Collection& c = of(resource);
  c.changed.wait_until(lock, stop, until,
                       [&] { return from < c.oldest || (!c.history.empty() && c.history.back().version > from); });
  version = version_;
  if (from < c.oldest) return false;
  auto first = std::upper_bound(c.history.begin(), c.history.end(), from,
                                [](uint64_t v, const Event& e) { return v < e.version; });
  for (; first != c.history.end() && out.size() < limit; ++first) out.push_back(*first);
  return true;
}

void Store::compact() {
  {
    base::ExclusiveLock lock(mutex_);
    for (auto& [resource, c] : collections_) {
      c->history.clear();
      c->oldest = version_;
    }
  }
  for (auto& [resource, c] : collections_) c->changed.notify_all();
  base::MutexLock lock(pagesMutex_);
  pages_.clear();
}

std::vector<Store::Located> Store::dependents(const std::string& uid) const {
  base::SharedLock lock(mutex_);
  auto it = owners_.find(uid);
  return it == owners_.end() ? std::vector<Located>() : it->second;
}

bool Store::uidExists(const std::string& uid) const {
  base::SharedLock lock(mutex_);
  return uids_.count(uid) != 0;
}

std::vector<Store::Located> Store::contents(const std::string& ns) const {
  std::vector<Located> out;
  base::SharedLock lock(mutex_);
  for (const auto& [resource, c] : collections_) {
    if (!resource->namespaced) continue;
    for (auto it = c->objects.lower_bound(Key{ns, ""}); it != c->objects.end() && it->first.ns == ns; ++it)
      out.push_back({resource, it->first});
  }
  return out;
}

std::vector<Store::Located> Store::owned() const {
  std::vector<Located> out;
  base::SharedLock lock(mutex_);
  for (const auto& [uid, list] : owners_) out.insert(out.end(), list.begin(), list.end());
  return out;
}

}  // namespace egpu::apiserver

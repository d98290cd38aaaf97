#include "controller/standalone/apiserver/verbs/deletion.h"

#include "controller/base/log.h"
#include "controller/standalone/apiserver/show/status_json.h"
#include "controller/standalone/apiserver/verbs/call.h"

namespace egpu::apiserver {
namespace {

bool isProtected(const std::string& ns) {
  return ns == "default" || ns == "kube-system" || ns == "kube-public" || ns == "kube-node-lease";
}

std::string ownerUid(const Json& ref) {
  auto it = ref.is_object() ? ref.find("uid") : ref.end();
  return ref.is_object() && it != ref.end() && it->is_string() ? it->get<std::string>() : std::string();
}

}  // namespace

Deletion::Deletion(const ResourceTable& table, Store& store, base::Clock& clock)
    : table_(table), store_(store), clock_(clock), namespaces_(table.find("", "v1", "namespaces")) {}

Deletion::Removal Deletion::remove(const Resource& resource, const Key& key, const DeleteOptions& options) {
  if (&resource == namespaces_ && isProtected(key.name))
    throw forbidden(resource, key.name, "this namespace may not be deleted");
  for (;;) {
    ObjectPtr current = store_.get(resource, key);
    if (!current) throw notFound(resource, key.name);
    if (!options.uid.empty() && options.uid != current->uid)
      throw conflict(
          resource, key.name,
          "Precondition failed: UID in precondition: " + options.uid + ", UID in object meta: " + current->uid);
    if (!options.resourceVersion.empty() && options.resourceVersion != std::to_string(current->version))
      throw conflict(resource, key.name,
                     "Precondition failed: ResourceVersion in precondition: " + options.resourceVersion +
                         ", ResourceVersion in object meta: " + std::to_string(current->version));
    if (options.dryRun) return {current, !hasFinalizers(current->body)};
    if (options.orphan) orphanDependents(current->uid);
    Gone gone;
    Removal outcome;
    if (!removeOnce(resource, current, gone, &outcome)) continue;
    if (&resource == namespaces_) {
      emptyNamespace(key.name, gone);
      for (const auto& [r, o] : gone)
        if (r == namespaces_ && o->key == key) outcome = {o, true};
    }
    settle(std::move(gone));
    if (ObjectPtr now = store_.get(resource, key); !outcome.gone && (!now || now->uid != current->uid))
      outcome.gone = true;
    return outcome;
  }
}

bool Deletion::removeOnce(const Resource& resource, const ObjectPtr& current, Gone& gone, Removal* outcome) {
  const bool marks = hasFinalizers(current->body) || &resource == namespaces_;
  if (marks && isDeleting(current->body)) {
    if (outcome) *outcome = {current, false};
    return true;  // already being deleted; another deletion changes nothing
  }
  Write write;
  write.resource = &resource;
  write.key = current->key;
  write.expected = current;
  write.body = current->body;
  write.change = marks ? Change::update : Change::remove;
  if (marks) {
    Json& meta = write.body["metadata"];
    meta["deletionTimestamp"] = base::rfc3339(clock_.wall());
    meta["deletionGracePeriodSeconds"] = 0;
    if (auto g = meta.find("generation"); g != meta.end() && g->is_number_integer()) *g = g->get<int64_t>() + 1;
    if (&resource == namespaces_) write.body["status"]["phase"] = "Terminating";
  }
  auto done = store_.commit(std::move(write));
  if (!done) {
    if (done.status().code() == base::Code::conflict) return false;
    throw fromStatus(done.status(), resource, current->key.name);
  }
  if (!marks) gone.emplace_back(&resource, *done);
  if (outcome) *outcome = {*done, !marks};
  return true;
}

void Deletion::removed(const Resource& resource, const ObjectPtr& object) { settle({{&resource, object}}); }

void Deletion::settle(Gone gone) {
  while (!gone.empty()) {
    auto [resource, object] = gone.back();
    gone.pop_back();
    for (const auto& dependent : store_.dependents(object->uid)) dropDeadOwners(dependent, gone);
    if (!object->key.ns.empty() && namespaces_) {
      ObjectPtr space = store_.get(*namespaces_, Key{"", object->key.ns});
      if (space && isDeleting(space->body)) emptyNamespace(object->key.ns, gone);
    }
  }
}

void Deletion::dropDeadOwners(const Store::Located& dependent, Gone& gone) {
  for (;;) {
    ObjectPtr current = store_.get(*dependent.resource, dependent.key);
    if (!current) return;
    auto meta = current->body.find("metadata");
    auto refs = meta == current->body.end() ? meta : meta->find("ownerReferences");
    if (meta == current->body.end() || refs == meta->end() || !refs->is_array() || refs->empty()) return;
    Json alive = Json::array();
    for (const Json& ref : *refs)
      if (store_.uidExists(ownerUid(ref))) alive.push_back(ref);
    if (alive.size() == refs->size()) return;
    if (alive.empty()) {
      if (removeOnce(*dependent.resource, current, gone, nullptr)) return;
      continue;
    }
    Write write{Change::update, dependent.resource, current->key, current, current->body};
    write.body["metadata"]["ownerReferences"] = std::move(alive);
    auto done = store_.commit(std::move(write));
    if (done) return;
    if (done.status().code() != base::Code::conflict)
      throw fromStatus(done.status(), *dependent.resource, dependent.key.name);
  }
}

void Deletion::orphanDependents(const std::string& uid) {
  for (const auto& dependent : store_.dependents(uid)) {
    for (;;) {
      ObjectPtr current = store_.get(*dependent.resource, dependent.key);
      if (!current) break;
      Json left = Json::array();
      for (const Json& ref : current->body["metadata"].value("ownerReferences", Json::array()))
        if (ownerUid(ref) != uid) left.push_back(ref);
      Write write{Change::update, dependent.resource, current->key, current, current->body};
      if (left.empty())
        write.body["metadata"].erase("ownerReferences");
      else
        write.body["metadata"]["ownerReferences"] = std::move(left);
      auto done = store_.commit(std::move(write));
      if (done) break;
      if (done.status().code() != base::Code::conflict)
        throw fromStatus(done.status(), *dependent.resource, dependent.key.name);
    }
  }
}

void Deletion::emptyNamespace(const std::string& ns, Gone& gone) {
  auto contents = store_.contents(ns);
  for (const auto& c : contents) {
    for (;;) {
      ObjectPtr current = store_.get(*c.resource, c.key);
      if (!current || removeOnce(*c.resource, current, gone, nullptr)) break;
    }
  }
  if (!store_.contents(ns).empty()) return;  // some have finalizers; the removal of the last one calls this again
  for (;;) {
    ObjectPtr space = store_.get(*namespaces_, Key{"", ns});
    if (!space || !isDeleting(space->body) || hasFinalizers(space->body)) return;
    auto done = store_.commit(Write{Change::remove, namespaces_, space->key, space, space->body});
    if (done) {
      gone.emplace_back(namespaces_, *done);
      return;
    }
    if (done.status().code() != base::Code::conflict) throw fromStatus(done.status(), *namespaces_, ns);
  }
}

void Deletion::owned(const Resource& resource, const ObjectPtr& object) {
  auto meta = object->body.find("metadata");
  if (meta == object->body.end() || !meta->contains("ownerReferences")) return;
  Gone gone;
  dropDeadOwners({&resource, object->key}, gone);
  settle(std::move(gone));
}

void Deletion::sweep() {
  Gone gone;
  for (const auto& l : store_.owned()) dropDeadOwners(l, gone);
  if (namespaces_) {
    uint64_t version;
    for (const auto& space : store_.list(*namespaces_, {}, version))
      if (isDeleting(space->body)) emptyNamespace(space->key.name, gone);
  }
  settle(std::move(gone));
}

}  // namespace egpu::apiserver

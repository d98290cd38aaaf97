// Implements Kubernetes' admission plugin Priority: a new pod gets its priority and preemptionPolicy from its
// PriorityClass. Also protects PriorityClasses: there is at most one default class, and system classes can't be
// deleted.
#pragma once

#include "controller/standalone/apiserver/storage/store.h"
#include "controller/standalone/apiserver/verbs/call.h"

namespace egpu::apiserver {

/// Thread-safe. Keeps references that must outlive it. Throws ApiError 403 where the plugin refuses a request.
class PriorityAdmission {
 public:
  PriorityAdmission(const ResourceTable& table, const Store& store);

  /// Sets the priority of a pod, and refuses a second class with globalDefault. Does not change other kinds and writes
  /// to subresources. Call before `object` is prepared for the store. old: the stored pod or class; null on create.
  void admit(const RequestInfo& call, Json& object, const Object* old) const;
  /// Refuses to delete the classes that every cluster has.
  void admitDelete(const RequestInfo& call) const;

 private:
  void admitPod(const RequestInfo& call, Json& pod) const;
  void admitClass(const RequestInfo& call, const Json& priorityClass) const;
  /// Returns the PriorityClass that the pod names. Without a name returns the default class, or null.
  ObjectPtr classOf(const RequestInfo& call, const Json& pod) const;
  /// Returns the class with globalDefault, or null. If there are several, returns the one with the lowest value.
  ObjectPtr defaultClass() const;

  const Resource& classes_;
  const Store& store_;
};

/// Returns the classes that every cluster has. They are created at the start.
std::vector<Json> systemPriorityClasses();

}  // namespace egpu::apiserver

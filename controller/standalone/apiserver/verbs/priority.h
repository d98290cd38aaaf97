// Admission of pods by priority, as Kubernetes' plugin Priority does it: a new pod's priority and preemptionPolicy come
// from its PriorityClass. Guards the PriorityClasses that this needs, too: one default at most, and the system's stay.
#pragma once

#include "controller/standalone/apiserver/storage/store.h"
#include "controller/standalone/apiserver/verbs/call.h"

namespace egpu::apiserver {

/// Thread-safe; keeps references. Throws ApiError 403 where the plugin refuses.
class PriorityAdmission {
 public:
  PriorityAdmission(const ResourceTable& table, const Store& store);

  /// Before `object` is prepared to be stored. old: the pod or class as it is stored; null on create. A pod gets its
  /// priority; a second class with globalDefault is refused. Other kinds, and writes to subresources, stay untouched.
  void admit(const Call& call, Json& object, const Object* old) const;
  /// Refuses to delete the classes that every cluster has.
  void admitDelete(const Call& call) const;

 private:
  void admitPod(const Call& call, Json& pod) const;
  void admitClass(const Call& call, const Json& priorityClass) const;
  /// The PriorityClass that the pod names; without a name the default one, or null.
  ObjectPtr classOf(const Call& call, const Json& pod) const;
  /// The class with globalDefault, the one of the lowest value if there are several, or null.
  ObjectPtr defaultClass() const;

  const Resource& classes_;
  const Store& store_;
};

/// The classes that every cluster has, to be created at the start.
std::vector<Json> systemPriorityClasses();

}  // namespace egpu::apiserver

#include "controller/standalone/apiserver/verbs/priority.h"

#include <iterator>

#include "controller/standalone/apiserver/kinds/builtin_kinds.h"
#include "controller/standalone/apiserver/show/status_json.h"
#include "controller/standalone/apiserver/show/table_builtin.h"

namespace egpu::apiserver {
namespace {

constexpr const char* kPreempts = "PreemptLowerPriority";

bool isPods(const Resource& r) { return r.group.empty() && r.plural == "pods"; }

/// Restores the computed fields of a pod if a client omits them in an update.
void restoreComputed(Json& pod, const Json& old) {
  if (!at(pod, {"spec"}).is_object()) return;
  for (const char* key : {"priority", "preemptionPolicy"})
    if (const Json& had = at(old, {"spec", key}); !had.is_null() && at(pod, {"spec", key}).is_null())
      pod["spec"][key] = had;
}

}  // namespace

std::vector<Json> systemPriorityClasses() {
  std::vector<Json> out;
  out.reserve(std::size(kSystemPriorityClasses));
  for (const auto& [name, value] : kSystemPriorityClasses)
    out.push_back({{"apiVersion", "scheduling.k8s.io/v1"},
                   {"kind", "PriorityClass"},
                   {"metadata", {{"name", name}}},
                   {"value", value},
                   {"description", name == kSystemPriorityClasses[0].first
                                       ? "Used for system critical pods that must not be moved from their current node."
                                       : "Used for system critical pods that must run in the cluster, but can be moved "
                                         "to another node if necessary."}});
  return out;
}

PriorityAdmission::PriorityAdmission(const ResourceTable& table, const Store& store)
    : classes_(*table.find("scheduling.k8s.io", "v1", "priorityclasses")), store_(store) {}

void PriorityAdmission::admit(const RequestInfo& call, Json& object, const Object* old) const {
  if (!call.subresource.empty() || !object.is_object()) return;
  if (call.resource == &classes_) return admitClass(call, object);
  if (!isPods(*call.resource)) return;
  if (old != nullptr)
    restoreComputed(object, old->body);
  else
    admitPod(call, object);
}

void PriorityAdmission::admitPod(const RequestInfo& call, Json& pod) const {
  if (!at(pod, {"spec"}).is_object()) return;  // the schema refuses it
  for (const char* key : {"priorityClassName", "preemptionPolicy"})
    if (const Json& given = at(pod, {"spec", key}); !given.is_null() && !given.is_string()) return;
  const ObjectPtr found = classOf(call, pod);
  const Json priority = found ? at(found->body, {"value"}) : Json(0);
  const std::string preemption = found ? textAt(found->body, {"preemptionPolicy"}) : kPreempts;
  if (const Json& given = at(pod, {"spec", "priority"}); !given.is_null() && given != priority)
    throw forbidden(*call.resource, metaString(pod, "name"),
                    "the integer value of priority (" + given.dump() +
                        ") must not be provided in pod spec; priority admission controller computed " +
                        priority.dump() + " from the given PriorityClass name");
  if (const std::string given = textAt(pod, {"spec", "preemptionPolicy"}); !given.empty() && given != preemption)
    throw forbidden(*call.resource, metaString(pod, "name"),
                    "the string value of PreemptionPolicy (" + given +
                        ") must not be provided in pod spec; priority admission controller computed " + preemption +
                        " from the given PriorityClass name");
  if (found) pod["spec"]["priorityClassName"] = found->key.name;
  pod["spec"]["priority"] = priority;
  pod["spec"]["preemptionPolicy"] = preemption;
}

ObjectPtr PriorityAdmission::classOf(const RequestInfo& call, const Json& pod) const {
  const std::string name = textAt(pod, {"spec", "priorityClassName"});
  if (name.empty()) return defaultClass();
  ObjectPtr found = store_.get(classes_, Key{"", name});
  if (!found)
    throw forbidden(*call.resource, metaString(pod, "name"), "no PriorityClass with name " + name + " was found");
  return found;
}

ObjectPtr PriorityAdmission::defaultClass() const {
  uint64_t version = 0;
  ObjectPtr lowest;
  for (const auto& each : store_.list(classes_, {}, version))
    if (at(each->body, {"globalDefault"}) == true &&
        (!lowest || at(each->body, {"value"}) < at(lowest->body, {"value"})))
      lowest = each;
  return lowest;
}

void PriorityAdmission::admitClass(const RequestInfo& call, const Json& priorityClass) const {
  if (at(priorityClass, {"globalDefault"}) != true) return;
  const ObjectPtr other = defaultClass();
  const std::string name = metaString(priorityClass, "name");
  if (other && (call.key.name.empty() || other->key.name != name))
    throw forbidden(*call.resource, name,
                    "PriorityClass " + other->key.name + " is already marked as default. Only one default can exist");
}

void PriorityAdmission::admitDelete(const RequestInfo& call) const {
  if (call.resource != &classes_) return;
  for (const auto& [name, value] : kSystemPriorityClasses)
    if (call.key.name == name)
      throw forbidden(classes_, call.key.name, "this is a system priority class and cannot be deleted");
}

}  // namespace egpu::apiserver

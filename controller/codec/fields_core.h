// JSON fields of each struct, declared once for reading and writing: metadata and the Kubernetes kinds, as far as this
// project uses them; those of resource.k8s.io and PodGroup are in fields_dra.h. fields(v, o) calls v, a Reader or a
// Writer, for each field of o, in the order of writing. A JSON null counts as an absent field. `list` is a function
// that declares the fields of a nested object. The calls:
//
//   v(name, member)            a field that is omitted if it is empty
//   v.always(name, member)     a field that is written even if it is empty
//   v.object(name, list)       a nested object that is omitted if it is empty. An additional bool before `list` records
//                              whether the object is present, even if it is empty.
//   v.objectAlways(name, list) a nested object that is written even if it is empty
//   v.first, v.firstAlways     like these two, but the object is the only element of a JSON list. An additional number
//                              before `list` receives the number of further elements, which are not read.
//   v.raw(name, text)          any value, kept as JSON text
//   v.adding(name, all)        a list whose elements are appended to `all` when reading
//   v.some(name, all, which)   a list of which reading keeps only the elements for which `which` returns true
//   v.names(name, texts)       a list of objects with only a name
//   v.only(name, texts)        the first of the texts as a single value, not as a list
//   v.entry(name, type, field, member)  `field` of the list element with this type; a bool is "True" or "False"
//   v.word(name, flag, word, meaning)   a text; flag is `meaning` if the text equals `word`, otherwise !meaning
//   v.choice(name, source, kind, list)  a nested object that is present if the source has this kind; list(source)
//   v.as(name, text, to, from) a value that `to` makes from the text when writing, and `from` converts back
//   v.quantities(name, map)    a map of quantities: strings, or numbers as they were written
//   v.amount(name, number, unit)  one quantity, rounded towards zero to the unit ("m" or none); always written
//   v.thousandths(name, number)   a number in thousandths: 19500 is "19.5" and 19000 is 19; always written
//   v.readOnly(list)           fields that are read, but never written
#pragma once

#include <string>
#include <type_traits>

#include "api/core/objects.h"

namespace egpu::codec::internal {

template <class T, class Of>
concept Is = std::is_same_v<std::remove_const_t<T>, Of>;

/// Calls fields(v, o). For an API object, declares its kind and metadata first.
void allFields(auto& v, auto& o) {
  constexpr const core::Kind& kind = core::kindOf<std::remove_cvref_t<decltype(o)>>;
  if constexpr (!kind.kind.empty()) {
    v.kind(kind);
    v.always("metadata", o.metadata);
  }
  fields(v, o);
}

void fields(auto& v, Is<core::OwnerReference> auto& o) {
  v("apiVersion", o.apiVersion);
  v("kind", o.kind);
  v("name", o.name);
  v("uid", o.uid);
  v("controller", o.controller);
  v("blockOwnerDeletion", o.blockOwnerDeletion);
}

void fields(auto& v, Is<core::ObjectMeta> auto& o) {
  v("name", o.name);
  v("namespace", o.namespace_);
  v("uid", o.uid);
  v("resourceVersion", o.resourceVersion);
  v("generation", o.generation);
  v("creationTimestamp", o.creationTimestamp);
  v("deletionTimestamp", o.deletionTimestamp);
  v("labels", o.labels);
  v("annotations", o.annotations);
  v("finalizers", o.finalizers);
  v("ownerReferences", o.ownerReferences);
}

void fields(auto& v, Is<core::Condition> auto& o) {
  v("type", o.type);
  v("status", o.status);
  v("reason", o.reason);
  v("message", o.message);
  v("lastTransitionTime", o.lastTransitionTime);
  v("observedGeneration", o.observedGeneration);
}

void fields(auto& v, Is<core::NodeSelectorRequirement> auto& o) {
  v("key", o.key);
  v("operator", o.op);
  v("values", o.values);
}

void fields(auto& v, Is<core::NodeSelectorTerm> auto& o) {
  v("matchExpressions", o.matchExpressions);
  v("matchFields", o.matchFields);
}

void fields(auto& v, Is<core::NodeSelector> auto& o) {
  v.always("nodeSelectorTerms", o.terms);  // required by Kubernetes
}

void fields(auto& v, Is<core::LabelSelector> auto& o) {
  v("matchLabels", o.matchLabels);
  v("matchExpressions", o.matchExpressions);
}

void fields(auto& v, Is<core::Taint> auto& o) {
  v("key", o.key);
  v("value", o.value);
  v("effect", o.effect);
}

void fields(auto& v, Is<core::Toleration> auto& o) {
  v("key", o.key);
  v("operator", o.op);
  v("value", o.value);
  v("effect", o.effect);
}

void fields(auto& v, Is<core::PriorityClass> auto& o) {
  v.always("value", o.value);
  v("globalDefault", o.globalDefault);
  v.word("preemptionPolicy", o.preempts, "Never", false);
}

void fields(auto& v, Is<core::Namespace> auto& o) {
  v.object("status", [&] { v("phase", o.phase); });
}

void fields(auto& v, Is<core::Node> auto& o) {
  v.object("spec", [&] {
    v("unschedulable", o.unschedulable);
    v("taints", o.taints);
  });
  v.objectAlways("status", [&] {
    v.objectAlways("allocatable", [&] {
      v.amount("cpu", o.cpuMilli, "m");
      v.amount("memory", o.memoryBytes, "");
      v.amount("ephemeral-storage", o.ephemeralBytes, "");
      v.amount("pods", o.maxPods, "");
    });
    v.entry("addresses", "InternalIP", "address", o.internalIP);
    v.entry("conditions", "Ready", "status", o.ready);
  });
}

void fields(auto& v, Is<core::Container> auto& o) {
  v("name", o.name);
  v("image", o.image);
  v.word("restartPolicy", o.sidecar, "Always", true);
  v.object("resources", [&] {
    v.quantities("requests", o.requests);
    v.names("claims", o.resourceClaims);
  });
}

void fields(auto& v, Is<core::PodResourceClaim> auto& o) {
  v("name", o.name);
  v("resourceClaimName", o.resourceClaimName);
  v("resourceClaimTemplateName", o.templateName);
}

void fields(auto& v, Is<core::PodVolume> auto& o) {
  v("name", o.name);
  v.object("persistentVolumeClaim", [&] { v("claimName", o.claimName); });
  v.object("ephemeral", o.ephemeral, [] {});
}

void fields(auto& v, Is<core::PreferredNodes> auto& o) {
  v.always("weight", o.weight);
  v.always("preference", o.term);
}

void affinityFields(auto& v, Is<core::Pod> auto& o) {
  v.object("affinity", o.hasAffinity, [&] {
    v.object("nodeAffinity", o.hasNodeAffinity, [&] {
      v("requiredDuringSchedulingIgnoredDuringExecution", o.requiredNodeAffinity);
      v("preferredDuringSchedulingIgnoredDuringExecution", o.preferredNodeAffinity);
    });
  });
}

inline bool hasClaim(const core::PodVolume& volume) { return volume.ephemeral || !volume.claimName.empty(); }

void fields(auto& v, Is<core::Pod> auto& o) {
  v.objectAlways("spec", [&] {
    v("nodeName", o.nodeName);
    v("schedulerName", o.schedulerName);
    v.object("schedulingGroup", [&] { v("podGroupName", o.podGroupName); });
    v.names("schedulingGates", o.schedulingGates);
    v.adding("resourceClaims", o.resourceClaims);
    v("initContainers", o.initContainers);
    v("containers", o.containers);
    v.object("resources", [&] { v.quantities("requests", o.requests); });
    v.quantities("overhead", o.overhead);
    v.some("volumes", o.volumes, hasClaim);
    v("priority", o.priority);
    v.word("preemptionPolicy", o.preempts, "Never", false);
    v("nodeSelector", o.nodeSelector);
    affinityFields(v, o);
    v("tolerations", o.tolerations);
  });
  v.object("status", [&] {
    v("phase", o.phase);
    v("nominatedNodeName", o.nominatedNodeName);
    v("conditions", o.conditions);
    // The ResourceClaims that were created from the pod's templates.
    v.readOnly([&] { v.adding("resourceClaimStatuses", o.resourceClaims); });
  });
}

void fields(auto& v, Is<core::PersistentVolumeClaim> auto& o) {
  v.objectAlways("spec", [&] { v("volumeName", o.volumeName); });
}

void fields(auto& v, Is<core::PersistentVolume> auto& o) {
  v.objectAlways("spec", [&] { v.object("nodeAffinity", [&] { v("required", o.nodeAffinity); }); });
}

void fields(auto& v, Is<core::ObjectReference> auto& o) {
  v("apiVersion", o.apiVersion);
  v("kind", o.kind);
  v("namespace", o.namespace_);
  v("name", o.name);
  v("uid", o.uid);
  v("resourceVersion", o.resourceVersion);
}

void fields(auto& v, Is<core::Event> auto& o) {
  v.always("involvedObject", o.involvedObject);
  v("reason", o.reason);
  v("message", o.message);
  v("type", o.type);
  v.object("source", [&] { v("component", o.component); });
  v.always("count", o.count);
  v("firstTimestamp", o.firstTimestamp);
  v("lastTimestamp", o.lastTimestamp);
}

void fields(auto& v, Is<core::Lease> auto& o) {
  v.objectAlways("spec", [&] {
    v("holderIdentity", o.holderIdentity);
    v("leaseDurationSeconds", o.leaseDurationSeconds);
    v("acquireTime", o.acquireTime);
    v("renewTime", o.renewTime);
    v("leaseTransitions", o.leaseTransitions);
  });
}

}  // namespace egpu::codec::internal

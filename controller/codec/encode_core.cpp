// Writers of Kubernetes' own kinds and of what every object has.
#include "controller/codec/codec.h"
#include "controller/codec/encode_object.h"
#include "controller/codec/encode_parts.h"

namespace egpu::codec {

namespace internal {

void put(JsonText& j, std::string_view key, const core::StringMap& map) {
  if (map.empty()) return;
  j.key(key).beginObject();
  for (const auto& [name, text] : map) j.key(name).value(text);
  j.endObject();
}

void put(JsonText& j, std::string_view key, const std::vector<std::string>& texts) {
  putEach(j, key, texts, [&](const std::string& text) { j.value(text); });
}

void write(JsonText& j, const core::ObjectMeta& m) {
  j.beginObject();
  put(j, "name", m.name);
  put(j, "namespace", m.namespace_);
  put(j, "uid", m.uid);
  put(j, "resourceVersion", m.resourceVersion);
  put(j, "generation", m.generation);
  put(j, "creationTimestamp", m.creationTimestamp);
  put(j, "deletionTimestamp", m.deletionTimestamp);
  put(j, "labels", m.labels);
  put(j, "annotations", m.annotations);
  put(j, "finalizers", m.finalizers);
  putEach(j, "ownerReferences", m.ownerReferences, [&](const core::OwnerReference& owner) {
    j.beginObject();
    put(j, "apiVersion", owner.apiVersion);
    put(j, "kind", owner.kind);
    put(j, "name", owner.name);
    put(j, "uid", owner.uid);
    put(j, "controller", owner.controller);
    put(j, "blockOwnerDeletion", owner.blockOwnerDeletion);
    j.endObject();
  });
  j.endObject();
}

void write(JsonText& j, const core::Condition& c) {
  j.beginObject();
  put(j, "type", c.type);
  put(j, "status", c.status);
  put(j, "reason", c.reason);
  put(j, "message", c.message);
  put(j, "lastTransitionTime", c.lastTransitionTime);
  put(j, "observedGeneration", c.observedGeneration);
  j.endObject();
}

void putConditions(JsonText& j, const std::vector<core::Condition>& all) {
  putEach(j, "conditions", all, [&](const core::Condition& c) { write(j, c); });
}

static void putRequirements(JsonText& j, std::string_view key, const std::vector<core::NodeSelectorRequirement>& all) {
  putEach(j, key, all, [&](const core::NodeSelectorRequirement& r) {
    j.beginObject();
    put(j, "key", r.key);
    put(j, "operator", r.op);
    put(j, "values", r.values);
    j.endObject();
  });
}

void write(JsonText& j, const core::NodeSelectorTerm& term) {
  j.beginObject();
  putRequirements(j, "matchExpressions", term.matchExpressions);
  putRequirements(j, "matchFields", term.matchFields);
  j.endObject();
}

void write(JsonText& j, const core::NodeSelector& selector) {
  j.beginObject();
  j.key("nodeSelectorTerms").beginArray();  // required by Kubernetes, even if empty
  for (const auto& term : selector.terms) write(j, term);
  j.endArray().endObject();
}

void write(JsonText& j, const core::LabelSelector& selector) {
  j.beginObject();
  put(j, "matchLabels", selector.matchLabels);
  putRequirements(j, "matchExpressions", selector.matchExpressions);
  j.endObject();
}

void putTolerations(JsonText& j, const std::vector<core::Toleration>& all) {
  putEach(j, "tolerations", all, [&](const core::Toleration& toleration) {
    j.beginObject();
    put(j, "key", toleration.key);
    put(j, "operator", toleration.op);
    put(j, "value", toleration.value);
    put(j, "effect", toleration.effect);
    j.endObject();
  });
}

void write(JsonText& j, const core::ResourceClaimAllocation& a) {
  j.beginObject();
  put(j, "allocationTimestamp", a.allocationTimestamp);
  j.key("devices").beginObject().key("results").beginArray().beginObject();
  put(j, "request", a.request);
  put(j, "driver", a.driver);
  put(j, "pool", a.pool);
  put(j, "device", a.device);
  j.endObject().endArray().endObject();
  if (!a.nodeName.empty()) {
    core::NodeSelector selector;
    selector.terms.emplace_back().matchFields.push_back({"metadata.name", "In", {a.nodeName}});
    j.key("nodeSelector");
    write(j, selector);
  }
  j.endObject();
}

static void putNames(JsonText& j, std::string_view key, const std::vector<std::string>& names) {
  putEach(j, key, names, [&](const std::string& name) { j.beginObject().key("name").value(name).endObject(); });
}

static void putContainers(JsonText& j, std::string_view key, const std::vector<core::Container>& all) {
  putEach(j, key, all, [&](const core::Container& c) {
    j.beginObject();
    put(j, "name", c.name);
    put(j, "image", c.image);
    if (c.sidecar) put(j, "restartPolicy", std::string("Always"));
    if (!c.requests.empty() || !c.resourceClaims.empty()) {
      j.key("resources").beginObject();
      put(j, "requests", c.requests);
      putNames(j, "claims", c.resourceClaims);
      j.endObject();
    }
    j.endObject();
  });
}

static void putAffinity(JsonText& j, const core::Pod& pod) {
  const bool ofNodes = pod.hasNodeAffinity || pod.requiredNodeAffinity || !pod.preferredNodeAffinity.empty();
  if (!pod.hasAffinity && !ofNodes) return;
  j.key("affinity").beginObject();
  if (ofNodes) {
    j.key("nodeAffinity").beginObject();
    if (pod.requiredNodeAffinity) {
      j.key("requiredDuringSchedulingIgnoredDuringExecution");
      write(j, *pod.requiredNodeAffinity);
    }
    putEach(j, "preferredDuringSchedulingIgnoredDuringExecution", pod.preferredNodeAffinity,
            [&](const core::PreferredNodes& preferred) {
              j.beginObject().key("weight").value(preferred.weight).key("preference");
              write(j, preferred.term);
              j.endObject();
            });
    j.endObject();
  }
  j.endObject();
}

}  // namespace internal

using internal::put;
using internal::putEach;

template <>
std::string encode(const core::Namespace& object) {
  JsonText j;
  internal::beginRoot(j, object);
  if (!object.phase.empty()) {
    j.key("status").beginObject();
    put(j, "phase", object.phase);
    j.endObject();
  }
  j.endObject();
  return j.take();
}

template <>
std::string encode(const core::Node& object) {
  JsonText j;
  internal::beginRoot(j, object);
  if (object.unschedulable || !object.taints.empty()) {
    j.key("spec").beginObject();
    put(j, "unschedulable", object.unschedulable);
    putEach(j, "taints", object.taints, [&](const core::Taint& taint) {
      j.beginObject();
      put(j, "key", taint.key);
      put(j, "value", taint.value);
      put(j, "effect", taint.effect);
      j.endObject();
    });
    j.endObject();
  }
  j.key("status").beginObject();
  j.key("allocatable").beginObject();
  j.key("cpu").value(std::to_string(object.cpuMilli) + "m");
  j.key("memory").value(std::to_string(object.memoryBytes));
  j.key("ephemeral-storage").value(std::to_string(object.ephemeralBytes));
  j.key("pods").value(std::to_string(object.maxPods));
  j.endObject();
  if (!object.internalIP.empty()) {
    j.key("addresses").beginArray().beginObject();
    j.key("type").value("InternalIP").key("address").value(object.internalIP);
    j.endObject().endArray();
  }
  j.key("conditions").beginArray().beginObject();
  j.key("type").value("Ready").key("status").value(object.ready ? "True" : "False");
  j.endObject().endArray();
  j.endObject().endObject();
  return j.take();
}

template <>
std::string encode(const core::Pod& object) {
  JsonText j;
  internal::beginRoot(j, object);
  j.key("spec").beginObject();
  put(j, "nodeName", object.nodeName);
  put(j, "schedulerName", object.schedulerName);
  internal::putNames(j, "schedulingGates", object.schedulingGates);
  putEach(j, "resourceClaims", object.resourceClaims, [&](const core::PodResourceClaim& claim) {
    j.beginObject();
    put(j, "name", claim.name);
    put(j, "resourceClaimName", claim.resourceClaimName);
    j.endObject();
  });
  internal::putContainers(j, "initContainers", object.initContainers);
  internal::putContainers(j, "containers", object.containers);
  if (!object.requests.empty()) {
    j.key("resources").beginObject();
    put(j, "requests", object.requests);
    j.endObject();
  }
  put(j, "overhead", object.overhead);
  putEach(j, "volumes", object.volumes, [&](const core::PodVolume& volume) {
    j.beginObject();
    put(j, "name", volume.name);
    if (!volume.claimName.empty()) {
      j.key("persistentVolumeClaim").beginObject();
      put(j, "claimName", volume.claimName);
      j.endObject();
    }
    if (volume.ephemeral) j.key("ephemeral").beginObject().endObject();
    j.endObject();
  });
  put(j, "priority", object.priority);
  if (!object.preempts) put(j, "preemptionPolicy", std::string("Never"));
  put(j, "nodeSelector", object.nodeSelector);
  internal::putAffinity(j, object);
  internal::putTolerations(j, object.tolerations);
  j.endObject();
  if (!object.phase.empty() || !object.nominatedNodeName.empty() || !object.conditions.empty()) {
    j.key("status").beginObject();
    put(j, "phase", object.phase);
    put(j, "nominatedNodeName", object.nominatedNodeName);
    internal::putConditions(j, object.conditions);
    j.endObject();
  }
  j.endObject();
  return j.take();
}

template <>
std::string encode(const core::ResourceClaim& object) {
  JsonText j;
  internal::beginRoot(j, object);
  j.key("spec").beginObject();
  if (!object.requestName.empty() || !object.deviceClassName.empty()) {
    j.key("devices").beginObject().key("requests").beginArray().beginObject();
    put(j, "name", object.requestName);
    if (!object.deviceClassName.empty()) {
      j.key("exactly").beginObject();
      put(j, "deviceClassName", object.deviceClassName);
      j.endObject();
    }
    j.endObject().endArray().endObject();
  }
  j.endObject();
  if (object.allocation || !object.reservedFor.empty()) {
    j.key("status").beginObject();
    if (object.allocation) {
      j.key("allocation");
      internal::write(j, *object.allocation);
    }
    putEach(j, "reservedFor", object.reservedFor, [&](const core::ResourceClaimConsumer& consumer) {
      j.beginObject();
      put(j, "resource", consumer.resource);
      put(j, "name", consumer.name);
      put(j, "uid", consumer.uid);
      j.endObject();
    });
    j.endObject();
  }
  j.endObject();
  return j.take();
}

template <>
std::string encode(const core::PersistentVolumeClaim& object) {
  JsonText j;
  internal::beginRoot(j, object);
  j.key("spec").beginObject();
  put(j, "volumeName", object.volumeName);
  j.endObject().endObject();
  return j.take();
}

template <>
std::string encode(const core::PersistentVolume& object) {
  JsonText j;
  internal::beginRoot(j, object);
  j.key("spec").beginObject();
  if (object.nodeAffinity) {
    j.key("nodeAffinity").beginObject().key("required");
    internal::write(j, *object.nodeAffinity);
    j.endObject();
  }
  j.endObject().endObject();
  return j.take();
}

template <>
std::string encode(const core::DeviceClass& object) {
  JsonText j;
  internal::beginRoot(j, object);
  j.key("spec").beginObject();
  if (!object.celSelector.empty()) {
    j.key("selectors").beginArray().beginObject().key("cel").beginObject();
    put(j, "expression", object.celSelector);
    j.endObject().endObject().endArray();
  }
  j.endObject().endObject();
  return j.take();
}

template <>
std::string encode(const core::Event& object) {
  JsonText j;
  internal::beginRoot(j, object);
  const auto& involved = object.involvedObject;
  j.key("involvedObject").beginObject();
  put(j, "apiVersion", involved.apiVersion);
  put(j, "kind", involved.kind);
  put(j, "namespace", involved.namespace_);
  put(j, "name", involved.name);
  put(j, "uid", involved.uid);
  put(j, "resourceVersion", involved.resourceVersion);
  j.endObject();
  put(j, "reason", object.reason);
  put(j, "message", object.message);
  put(j, "type", object.type);
  if (!object.component.empty()) {
    j.key("source").beginObject();
    put(j, "component", object.component);
    j.endObject();
  }
  j.key("count").value(object.count);
  put(j, "firstTimestamp", object.firstTimestamp);
  put(j, "lastTimestamp", object.lastTimestamp);
  j.endObject();
  return j.take();
}

template <>
std::string encode(const core::Lease& object) {
  JsonText j;
  internal::beginRoot(j, object);
  j.key("spec").beginObject();
  put(j, "holderIdentity", object.holderIdentity);
  put(j, "leaseDurationSeconds", object.leaseDurationSeconds);
  put(j, "acquireTime", object.acquireTime);
  put(j, "renewTime", object.renewTime);
  put(j, "leaseTransitions", object.leaseTransitions);
  j.endObject().endObject();
  return j.take();
}

}  // namespace egpu::codec

// JSON fields of the API group elasticgpu.io, declared with the calls that fields_core.h lists. Status patches and the
// checks for unknown fields derive from these; tests/tree/schema_test.py names the other places of a field.
#pragma once

#include "api/v1alpha/types.h"
#include "controller/codec/fields_card.h"
#include "controller/codec/fields_core.h"

namespace egpu::codec::internal {

void fields(auto& v, Is<v1alpha::DeviceCard> auto& o) {
  v("name", o.name);
  v("uuid", o.uuid);
  v.always("core", o.core);
  v.always("memory", o.memory);
  v.always("chargedCore", o.chargedCore);
  v.always("chargedMemory", o.chargedMemory);
  v("slots", o.slots);
}

void fields(auto& v, Is<v1alpha::DeviceSize> auto& o) {
  v.always("number", o.number);
  v("requests", o.requests);
  v("cards", o.cards);
}

void fields(auto& v, Is<v1alpha::ClaimRef> auto& o) {
  v("namespace", o.namespace_);
  v("name", o.name);
  v("uid", o.uid);
}

/// Fields of the object that contains the source.
void fields(auto& v, Is<core::HeapOptional<v1alpha::Source>> auto& source) {
  using Kind = v1alpha::SourceKind;
  v.choice("physicalGPU", source, Kind::physicalGPU, [&](auto& o) { v("gpuNames", o.gpuNames); });
  v.choice("gpuShare", source, Kind::gpuShare, [&](auto& o) { v.only("gpuName", o.gpuNames); });
  v.choice("qGPU", source, Kind::qGPU, [&](auto& o) {
    v.only("gpuName", o.gpuNames);
    v("deviceName", o.deviceName);
    v("paths", o.paths);
  });
  v.choice("mig", source, Kind::mig, [&](auto& o) {
    v.only("gpuName", o.gpuNames);
    v("profile", o.profile);
    v("instances", o.instances);
  });
  v.choice("remote", source, Kind::remote, [&](auto& o) { v("endpoint", o.endpoint); });
}

void fields(auto& v, Is<v1alpha::ElasticGPUSpec> auto& o) {
  v.quantities("capacity", o.capacity);
  fields(v, o.source);
  v("card", o.card);
  v("allocations", o.allocations);
  v("mode", o.mode);
  v("nodeName", o.nodeName);
  v("cards", o.cards);
  v("provisioner", o.provisioner);
  v("parameters", o.parameters);
  v("egpuClassName", o.className);
  v("reclaimPolicy", o.reclaimPolicy);
  v("alternative", o.alternative);
  v("adminAccess", o.adminAccess);
  v.object("nodeAffinity", [&] { v("required", o.nodeAffinityRequired); });
  v("claimRef", o.claimRef);
  v("target", o.target);
}

void fields(auto& v, Is<v1alpha::AllocatedSummary> auto& o) {
  v.always("core", o.core);
  v.always("memory", o.memory);
  v.always("claims", o.claims);
  v("coreText", o.coreText);
  v("memoryText", o.memoryText);
}

void fields(auto& v, Is<v1alpha::DeviceUsage> auto& o) {
  v.always("memory", o.memory);
  v.always("smPercent", o.smPercent);
}

void fields(auto& v, Is<v1alpha::CardUsage> auto& o) {
  v.always("memory", o.memory);
  v.always("smPercent", o.smPercent);
  v("devices", o.devices);
  v("time", o.time);
}

void fields(auto& v, Is<v1alpha::Isolation> auto& o) {
  v("mode", o.mode);
  v("memory", o.memory);
  v("compute", o.compute);
  v("faults", o.faults);
  v("managedMemory", o.managedMemory);
}

void fields(auto& v, Is<v1alpha::IsolationBypass> auto& o) { v("pod", o.pod), v("message", o.message); }

void fields(auto& v, Is<v1alpha::AccessLoss> auto& o) {
  v("reason", o.reason);
  v("message", o.message);
  v("since", o.since);
}

void fields(auto& v, Is<v1alpha::ClaimUsage> auto& o) {
  v("core", o.core);
  v("memory", o.memory);
  v("text", o.text);
  v("time", o.time);
}

void fields(auto& v, Is<v1alpha::ElasticGPUStatus> auto& o) {
  v("phase", o.phase);
  v("reason", o.reason);
  v("message", o.message);
  v("conditions", o.conditions);
  v("allocated", o.allocated);
  v("usage", o.usage);
  v("inForce", o.inForce);
  v("isolation", o.isolation);
  v("bypassed", o.bypassed);
  v("accessLost", o.accessLost);
}

void fields(auto& v, Is<v1alpha::ElasticGPU> auto& o) {
  v.always("spec", o.spec);
  v("status", o.status);
}

void fields(auto& v, Is<v1alpha::ClaimAlternative> auto& o) {
  v("name", o.name);
  v("models", o.models);
  v.object("resources", [&] { v.quantities("requests", o.requests); });
}

void fields(auto& v, Is<v1alpha::ElasticGPUClaimSpec> auto& o) {
  v("egpuClassName", o.className);
  v("elasticGPUClassName", o.classNameAlias);
  v("elasticGPUName", o.elasticGPUName);
  v.object("resources", [&] { v.quantities("requests", o.requests); });
  v("priorityClassName", o.priorityClassName);
  v("firstAvailable", o.firstAvailable);
  v("adminAccess", o.adminAccess);
  v("models", o.models);
  v("isolation", o.isolation);
}

void fields(auto& v, Is<v1alpha::NominatedCard> auto& o) {
  v("name", o.name);
  v.always("core", o.core);
  v.always("memory", o.memory);
}

void fields(auto& v, Is<v1alpha::Nomination> auto& o) {
  v("nodeName", o.nodeName);
  v("cards", o.cards);
  v("victims", o.victims);
}

void fields(auto& v, Is<v1alpha::ElasticGPUClaimStatus> auto& o) {
  v("phase", o.phase);
  v("elasticGPUName", o.elasticGPUName);
  v("nodeName", o.nodeName);
  v("egpuClassName", o.className);
  v("capacity", o.capacity);
  v("requests", o.requests);
  v("alternative", o.alternative);
  v("isolation", o.isolation);
  v("usage", o.usage);
  v("priority", o.priority);
  v("nominated", o.nominated);
  v("conditions", o.conditions);
}

void fields(auto& v, Is<v1alpha::ElasticGPUClaim> auto& o) {
  v.always("spec", o.spec);
  v("status", o.status);
}

void fields(auto& v, Is<v1alpha::ElasticGPUClaimTemplate> auto& o) {
  v.objectAlways("spec", [&] {
    v.object("metadata", [&] {
      v("labels", o.labels);
      v("annotations", o.annotations);
    });
    v.always("spec", o.spec);
  });
  v.object("status", [&] { v("conditions", o.conditions); });
}

void fields(auto& v, Is<v1alpha::ElasticGPUClass> auto& o) {
  v("provisioner", o.provisioner);
  v("parameters", o.parameters);
  // Always written, because an absent field is read as its default.
  v.always("reclaimPolicy", o.reclaimPolicy);
  v.always("egpuBindingMode", o.bindingMode);
  v("allowedNamespaces", o.allowedNamespaces);
  v("tolerations", o.tolerations);
  v.object("status", [&] { v("conditions", o.conditions); });
}

void fields(auto& v, Is<v1alpha::ElasticGPUQuotaSpec> auto& o) {
  v.quantities("hard", o.hard);
  v.quantities("perClaim", o.perClaim);
  v.object("selector", [&] {
    v("classes", o.classes);
    v("models", o.models);
  });
  // Always written, because an absent field is read as its default.
  v.always("alertPercent", o.alertPercent);
  v.always("enforcement", o.enforcement);
}

void fields(auto& v, Is<v1alpha::ElasticGPUQuotaStatus> auto& o) {
  v.quantities("used", o.used);
  v("summary", o.summary);
  v("conditions", o.conditions);
}

void fields(auto& v, Is<v1alpha::ElasticGPUQuota> auto& o) {
  v.always("spec", o.spec);
  v("status", o.status);
}

}  // namespace egpu::codec::internal

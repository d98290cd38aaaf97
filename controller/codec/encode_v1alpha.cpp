// Writers of the group elasticgpu.io.
#include "api/v1alpha/quantity.h"
#include "controller/codec/codec.h"
#include "controller/codec/encode_object.h"
#include "controller/codec/encode_parts.h"

namespace egpu::codec {

namespace internal {

void write(JsonText& j, const v1alpha::Card& card, bool replaces) {
  const auto text = [&](std::string_view key, const std::string& value) {
    if (value.empty() && replaces) {
      j.key(key).null();
    } else {
      put(j, key, value);
    }
  };
  j.beginObject();
  text("uuid", card.uuid);
  text("nodeName", card.nodeName);
  j.key("index").value(card.index);
  text("model", card.model);
  j.key("smCount").value(card.smCount);
  j.key("tflops");
  if (card.milliTflops % 1000 == 0)
    j.value(card.milliTflops / 1000);
  else
    j.value(v1alpha::formatThousandths(card.milliTflops));
  j.key("core").value(card.core);
  j.key("memory").value(card.memory);
  j.key("topology").beginObject();
  j.key("numa").value(card.topology.numa);
  text("pcie", card.topology.pcie);
  if (card.topology.links.empty() && replaces) j.key("links").null();
  putEach(j, "links", card.topology.links, [&](const v1alpha::CardLink& link) {
    j.beginObject();
    put(j, "peer", link.peer);
    put(j, "type", link.type);
    j.key("count").value(link.count);
    j.endObject();
  });
  j.endObject().endObject();
}

void write(JsonText& j, const v1alpha::LedgerEntry& entry) {
  j.beginObject();
  put(j, "device", entry.device);
  put(j, "claim", entry.claim);
  j.key("core").value(entry.core);
  j.key("memory").value(entry.memory);
  j.endObject();
}

void write(JsonText& j, const v1alpha::ClaimRef& ref) {
  j.beginObject();
  put(j, "namespace", ref.namespace_);
  put(j, "name", ref.name);
  put(j, "uid", ref.uid);
  j.endObject();
}

void write(JsonText& j, const v1alpha::AllocatedSummary& summary) {
  j.beginObject();
  j.key("core").value(summary.core);
  j.key("memory").value(summary.memory);
  j.key("claims").value(summary.claims);
  put(j, "coreText", summary.coreText);
  put(j, "memoryText", summary.memoryText);
  j.endObject();
}

void putSource(JsonText& j, const v1alpha::Source& source) {
  using v1alpha::SourceKind;
  const auto gpuName = [&] {
    if (!source.gpuNames.empty()) j.key("gpuName").value(source.gpuNames.front());
  };
  switch (source.kind) {
    case SourceKind::none:
      return;
    case SourceKind::physicalGPU:
      j.key("physicalGPU").beginObject();
      put(j, "gpuNames", source.gpuNames);
      break;
    case SourceKind::gpuShare:
      j.key("gpuShare").beginObject();
      gpuName();
      break;
    case SourceKind::qGPU:
      j.key("qGPU").beginObject();
      gpuName();
      put(j, "deviceName", source.deviceName);
      put(j, "paths", source.paths);
      break;
    case SourceKind::mig:
      j.key("mig").beginObject();
      gpuName();
      put(j, "profile", source.profile);
      put(j, "instances", source.instances);
      break;
    case SourceKind::remote:
      j.key("remote").beginObject();
      put(j, "endpoint", source.endpoint);
      break;
  }
  j.endObject();
}

static void write(JsonText& j, const v1alpha::DeviceCard& card) {
  j.beginObject();
  put(j, "name", card.name);
  put(j, "uuid", card.uuid);
  j.key("core").value(card.core);
  j.key("memory").value(card.memory);
  j.key("chargedCore").value(card.chargedCore);
  j.key("chargedMemory").value(card.chargedMemory);
  j.endObject();
}

static void putGpuStatus(JsonText& j, const v1alpha::ElasticGPUStatus& status) {
  if (status == v1alpha::ElasticGPUStatus{}) return;
  j.key("status").beginObject();
  put(j, "phase", status.phase);
  put(j, "reason", status.reason);
  put(j, "message", status.message);
  putConditions(j, status.conditions);
  if (status.allocated) {
    j.key("allocated");
    write(j, *status.allocated);
  }
  j.endObject();
}

}  // namespace internal

using internal::put;
using internal::putEach;

template <>
std::string encode(const v1alpha::ElasticGPU& object) {
  const auto& spec = object.spec;
  JsonText j;
  internal::beginRoot(j, object);
  j.key("spec").beginObject();
  put(j, "capacity", spec.capacity);
  internal::putSource(j, spec.source);
  if (spec.card) {
    j.key("card");
    internal::write(j, *spec.card);
  }
  if (!spec.allocations.empty()) {
    j.key("allocations").beginObject();
    for (const auto& [uid, entry] : spec.allocations) {
      j.key(uid);
      internal::write(j, entry);
    }
    j.endObject();
  }
  put(j, "nodeName", spec.nodeName);
  putEach(j, "cards", spec.cards, [&](const v1alpha::DeviceCard& card) { internal::write(j, card); });
  put(j, "provisioner", spec.provisioner);
  put(j, "parameters", spec.parameters);
  put(j, "egpuClassName", spec.className);
  put(j, "reclaimPolicy", spec.reclaimPolicy);
  if (spec.nodeAffinityRequired) {
    j.key("nodeAffinity").beginObject().key("required");
    internal::write(j, *spec.nodeAffinityRequired);
    j.endObject();
  }
  if (spec.claimRef) {
    j.key("claimRef");
    internal::write(j, *spec.claimRef);
  }
  j.endObject();
  internal::putGpuStatus(j, object.status);
  j.endObject();
  return j.take();
}

template <>
std::string encode(const v1alpha::ElasticGPUClaim& object) {
  JsonText j;
  internal::beginRoot(j, object);
  j.key("spec").beginObject();
  put(j, "egpuClassName", object.spec.className);
  put(j, "elasticGPUClassName", object.spec.classNameAlias);
  put(j, "elasticGPUName", object.spec.elasticGPUName);
  if (!object.spec.requests.empty()) {
    j.key("resources").beginObject();
    put(j, "requests", object.spec.requests);
    j.endObject();
  }
  j.endObject();
  if (const auto& status = object.status; !(status == v1alpha::ElasticGPUClaimStatus{})) {
    j.key("status").beginObject();
    put(j, "phase", status.phase);
    put(j, "elasticGPUName", status.elasticGPUName);
    put(j, "nodeName", status.nodeName);
    put(j, "egpuClassName", status.className);
    put(j, "capacity", status.capacity);
    internal::putConditions(j, status.conditions);
    j.endObject();
  }
  j.endObject();
  return j.take();
}

template <>
std::string encode(const v1alpha::ElasticGPUClass& object) {
  JsonText j;
  internal::beginRoot(j, object);
  put(j, "provisioner", object.provisioner);
  put(j, "parameters", object.parameters);
  // Written even if empty: absent would read as the default.
  j.key("reclaimPolicy").value(object.reclaimPolicy);
  j.key("egpuBindingMode").value(object.bindingMode);
  if (object.allowedNamespaces) {
    j.key("allowedNamespaces");  // an empty one says as much as one that is absent, but says it
    internal::write(j, *object.allowedNamespaces);
  }
  internal::putTolerations(j, object.tolerations);
  if (!object.conditions.empty()) {
    j.key("status").beginObject();
    internal::putConditions(j, object.conditions);
    j.endObject();
  }
  j.endObject();
  return j.take();
}

}  // namespace egpu::codec

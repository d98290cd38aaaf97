// Readers of the group elasticgpu.io.
#include "api/v1alpha/quantity.h"
#include "controller/codec/decode_object.h"

namespace egpu::codec {

namespace internal {

using namespace v1alpha;  // NOLINT(google-build-using-namespace): the readers name hardly anything else

bool read(Value& value, CardLink& out, Failure& f) {
  return eachField(value, f, [&](std::string_view key, Value& v) {
    if (key == "peer") return read(v, out.peer, f);
    if (key == "type") return read(v, out.type, f);
    if (key == "count") return read(v, out.count, f);
    return true;
  });
}

bool read(Value& value, CardTopology& out, Failure& f) {
  return eachField(value, f, [&](std::string_view key, Value& v) {
    if (key == "numa") return read(v, out.numa, f);
    if (key == "pcie") return read(v, out.pcie, f);
    if (key == "links") return read(v, out.links, f);
    return true;
  });
}

/// A quantity such as 312 or "19.5", in thousandths.
bool readThousandths(Value& value, int64_t& out, Failure& f) {
  std::string text;
  if (!readQuantity(value, text, f)) return false;
  if (text.empty()) return true;
  const auto quantity = parseQuantity(text);
  const auto milli = quantity ? quantity->asMilli() : std::nullopt;
  if (!milli) return f.is("must be a number such as 312 or \"19.5\", of at most three decimals");
  out = *milli;
  return true;
}

bool read(Value& value, Card& out, Failure& f) {
  return eachField(value, f, [&](std::string_view key, Value& v) {
    if (key == "uuid") return read(v, out.uuid, f);
    if (key == "nodeName") return read(v, out.nodeName, f);
    if (key == "index") return read(v, out.index, f);
    if (key == "model") return read(v, out.model, f);
    if (key == "smCount") return read(v, out.smCount, f);
    if (key == "tflops") return readThousandths(v, out.milliTflops, f);
    if (key == "core") return read(v, out.core, f);
    if (key == "memory") return read(v, out.memory, f);
    if (key == "topology") return read(v, out.topology, f);
    return true;
  });
}

bool read(Value& value, LedgerEntry& out, Failure& f) {
  return eachField(value, f, [&](std::string_view key, Value& v) {
    if (key == "device") return read(v, out.device, f);
    if (key == "claim") return read(v, out.claim, f);
    if (key == "core") return read(v, out.core, f);
    if (key == "memory") return read(v, out.memory, f);
    return true;
  });
}

bool read(Value& value, DeviceCard& out, Failure& f) {
  return eachField(value, f, [&](std::string_view key, Value& v) {
    if (key == "name") return read(v, out.name, f);
    if (key == "uuid") return read(v, out.uuid, f);
    if (key == "core") return read(v, out.core, f);
    if (key == "memory") return read(v, out.memory, f);
    if (key == "chargedCore") return read(v, out.chargedCore, f);
    if (key == "chargedMemory") return read(v, out.chargedMemory, f);
    return true;
  });
}

bool read(Value& value, ClaimRef& out, Failure& f) {
  return eachField(value, f, [&](std::string_view key, Value& v) {
    if (key == "namespace") return read(v, out.namespace_, f);
    if (key == "name") return read(v, out.name, f);
    if (key == "uid") return read(v, out.uid, f);
    return true;
  });
}

bool read(Value& value, AllocatedSummary& out, Failure& f) {
  return eachField(value, f, [&](std::string_view key, Value& v) {
    if (key == "core") return read(v, out.core, f);
    if (key == "memory") return read(v, out.memory, f);
    if (key == "claims") return read(v, out.claims, f);
    if (key == "coreText") return read(v, out.coreText, f);
    if (key == "memoryText") return read(v, out.memoryText, f);
    return true;
  });
}

/// An optional struct: null leaves it unset, {} sets it.
template <class T>
bool readOptional(Value& value, std::optional<T>& out, Failure& f) {
  bool isNull = false;
  if (!peekNull(value, isNull, f)) return false;
  if (isNull) {
    out.reset();
    return true;
  }
  return read(value, out.emplace(), f);
}

bool readSource(SourceKind kind, Value& value, Source& out, Failure& f) {
  bool isNull = false;
  if (!peekNull(value, isNull, f)) return false;
  if (isNull) return true;
  const bool another = out.kind != SourceKind::none;
  out = Source{};
  out.kind = kind;
  out.ambiguous = another;
  const bool many = kind == SourceKind::physicalGPU;
  return eachField(value, f, [&](std::string_view key, Value& v) {
    if (many && key == "gpuNames") return read(v, out.gpuNames, f);
    if (!many && kind != SourceKind::remote && key == "gpuName") {
      out.gpuNames.assign(1, {});
      return read(v, out.gpuNames.front(), f);
    }
    if (kind == SourceKind::qGPU && key == "deviceName") return read(v, out.deviceName, f);
    if (kind == SourceKind::qGPU && key == "paths") return read(v, out.paths, f);
    if (kind == SourceKind::mig && key == "profile") return read(v, out.profile, f);
    if (kind == SourceKind::mig && key == "instances") return read(v, out.instances, f);
    if (kind == SourceKind::remote && key == "endpoint") return read(v, out.endpoint, f);
    return true;
  });
}

bool readAllocations(Value& value, std::map<std::string, LedgerEntry, std::less<>>& out, Failure& f) {
  out.clear();
  return eachField(value, f, [&](std::string_view key, Value& v) {
    bool isNull = false;
    if (!peekNull(v, isNull, f)) return false;
    return isNull || read(v, out[std::string(key)], f);
  });
}

bool read(Value& value, ElasticGPUSpec& out, Failure& f) {
  auto capacity = std::move(out.capacity);
  auto cards = std::move(out.cards);
  auto parameters = std::move(out.parameters);
  empty(out);
  return eachField(value, f, [&](std::string_view key, Value& v) {
    if (key == "capacity") return readQuantities(v, out.capacity = std::move(capacity), f);
    if (key == "card") return readOptional(v, out.card, f);
    if (key == "allocations") return readAllocations(v, out.allocations, f);
    if (key == "nodeName") return read(v, out.nodeName, f);
    if (key == "cards") return read(v, out.cards = std::move(cards), f);
    if (key == "provisioner") return read(v, out.provisioner, f);
    if (key == "parameters") return read(v, out.parameters = std::move(parameters), f);
    if (key == "egpuClassName") return read(v, out.className, f);
    if (key == "reclaimPolicy") return read(v, out.reclaimPolicy, f);
    if (key == "claimRef") return readOptional(v, out.claimRef, f);
    if (key == "nodeAffinity")
      return eachField(v, f, [&](std::string_view inner, Value& w) {
        return inner != "required" || readOptional(w, out.nodeAffinityRequired, f);
      });
    if (key == "physicalGPU") return readSource(SourceKind::physicalGPU, v, out.source, f);
    if (key == "gpuShare") return readSource(SourceKind::gpuShare, v, out.source, f);
    if (key == "qGPU") return readSource(SourceKind::qGPU, v, out.source, f);
    if (key == "mig") return readSource(SourceKind::mig, v, out.source, f);
    if (key == "remote") return readSource(SourceKind::remote, v, out.source, f);
    return true;
  });
}

bool read(Value& value, ElasticGPUStatus& out, Failure& f) {
  auto conditions = std::move(out.conditions);
  empty(out);
  return eachField(value, f, [&](std::string_view key, Value& v) {
    if (key == "phase") return read(v, out.phase, f);
    if (key == "reason") return read(v, out.reason, f);
    if (key == "message") return read(v, out.message, f);
    if (key == "conditions") return read(v, out.conditions = std::move(conditions), f);
    if (key == "allocated") return readOptional(v, out.allocated, f);
    return true;
  });
}

bool read(Value& value, ElasticGPUClaimSpec& out, Failure& f) {
  auto requests = std::move(out.requests);
  empty(out);
  return eachField(value, f, [&](std::string_view key, Value& v) {
    if (key == "egpuClassName") return read(v, out.className, f);
    if (key == "elasticGPUClassName") return read(v, out.classNameAlias, f);
    if (key == "elasticGPUName") return read(v, out.elasticGPUName, f);
    if (key == "resources")
      return eachField(v, f, [&](std::string_view inner, Value& w) {
        return inner != "requests" || readQuantities(w, out.requests = std::move(requests), f);
      });
    return true;
  });
}

bool read(Value& value, ElasticGPUClaimStatus& out, Failure& f) {
  auto capacity = std::move(out.capacity);
  auto conditions = std::move(out.conditions);
  empty(out);
  return eachField(value, f, [&](std::string_view key, Value& v) {
    if (key == "phase") return read(v, out.phase, f);
    if (key == "elasticGPUName") return read(v, out.elasticGPUName, f);
    if (key == "nodeName") return read(v, out.nodeName, f);
    if (key == "egpuClassName") return read(v, out.className, f);
    if (key == "capacity") return read(v, out.capacity = std::move(capacity), f);
    if (key == "conditions") return read(v, out.conditions = std::move(conditions), f);
    return true;
  });
}

bool read(Value& value, core::LabelSelector& out, Failure& f) {
  return eachField(value, f, [&](std::string_view key, Value& v) {
    if (key == "matchLabels") return read(v, out.matchLabels, f);
    if (key == "matchExpressions") return read(v, out.matchExpressions, f);
    return true;
  });
}

template <>
bool readField(std::string_view key, Value& v, ElasticGPU& out, Failure& f) {
  if (key == "spec") return read(v, out.spec, f);
  if (key == "status") return read(v, out.status, f);
  return true;
}
template <>
bool readField(std::string_view key, Value& v, ElasticGPUClaim& out, Failure& f) {
  if (key == "spec") return read(v, out.spec, f);
  if (key == "status") return read(v, out.status, f);
  return true;
}
template <>
bool readField(std::string_view key, Value& v, ElasticGPUClass& out, Failure& f) {
  if (key == "provisioner") return read(v, out.provisioner, f);
  if (key == "parameters") return read(v, out.parameters, f);
  if (key == "reclaimPolicy") return read(v, out.reclaimPolicy, f);
  if (key == "egpuBindingMode") return read(v, out.bindingMode, f);
  if (key == "allowedNamespaces") {
    bool isNull = false;
    if (!peekNull(v, isNull, f)) return false;
    out.allowedNamespaces.reset();
    return isNull || read(v, out.allowedNamespaces.emplace(), f);
  }
  if (key == "tolerations") return read(v, out.tolerations, f);
  if (key == "status")
    return eachField(
        v, f, [&](std::string_view inner, Value& w) { return inner != "conditions" || read(w, out.conditions, f); });
  return true;
}

}  // namespace internal

EGPU_CODEC_INSTANTIATE(v1alpha::ElasticGPU);
EGPU_CODEC_INSTANTIATE(v1alpha::ElasticGPUClaim);
EGPU_CODEC_INSTANTIATE(v1alpha::ElasticGPUClass);

}  // namespace egpu::codec

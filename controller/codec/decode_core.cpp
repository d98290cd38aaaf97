// Readers of Kubernetes' own kinds, as far as this project uses them.
#include "api/v1alpha/quantity.h"
#include "controller/codec/decode_object.h"

namespace egpu::codec {

namespace internal {

using namespace core;  // NOLINT(google-build-using-namespace): the readers name hardly anything else

bool read(Value& value, Taint& out, Failure& f) {
  return eachField(value, f, [&](std::string_view key, Value& v) {
    if (key == "key") return read(v, out.key, f);
    if (key == "value") return read(v, out.value, f);
    if (key == "effect") return read(v, out.effect, f);
    return true;
  });
}

bool read(Value& value, Toleration& out, Failure& f) {
  return eachField(value, f, [&](std::string_view key, Value& v) {
    if (key == "key") return read(v, out.key, f);
    if (key == "operator") return read(v, out.op, f);
    if (key == "value") return read(v, out.value, f);
    if (key == "effect") return read(v, out.effect, f);
    return true;
  });
}

/// The one string field of objects that consist of a name: scheduling gates, container claims.
bool readNames(Value& value, std::vector<std::string>& out, Failure& f) {
  out.clear();
  return eachElement(value, f, [&](Value& element) {
    std::string& name = out.emplace_back();
    return eachField(element, f, [&](std::string_view key, Value& v) { return key != "name" || read(v, name, f); });
  });
}

bool read(Value& value, Container& out, Failure& f) {
  return eachField(value, f, [&](std::string_view key, Value& v) {
    if (key == "name") return read(v, out.name, f);
    if (key == "image") return read(v, out.image, f);
    if (key == "restartPolicy") {
      std::string policy;
      if (!read(v, policy, f)) return false;
      out.sidecar = policy == "Always";
      return true;
    }
    if (key == "resources")
      return eachField(v, f, [&](std::string_view inner, Value& w) {
        if (inner == "requests") return readQuantities(w, out.requests, f);
        if (inner == "claims") return readNames(w, out.resourceClaims, f);
        return true;
      });
    return true;
  });
}

bool read(Value& value, PodResourceClaim& out, Failure& f) {
  return eachField(value, f, [&](std::string_view key, Value& v) {
    if (key == "name") return read(v, out.name, f);
    if (key == "resourceClaimName") return read(v, out.resourceClaimName, f);
    return true;
  });
}

bool read(Value& value, PreferredNodes& out, Failure& f) {
  return eachField(value, f, [&](std::string_view key, Value& v) {
    if (key == "weight") return read(v, out.weight, f);
    if (key == "preference") return read(v, out.term, f);
    return true;
  });
}

/// Of spec.volumes those that stand on a PersistentVolumeClaim.
bool readVolumes(Value& value, std::vector<PodVolume>& out, Failure& f) {
  out.clear();
  return eachElement(value, f, [&](Value& element) {
    PodVolume volume;
    const bool good = eachField(element, f, [&](std::string_view key, Value& v) {
      if (key == "name") return read(v, volume.name, f);
      if (key == "ephemeral") {
        bool isNull = false;
        if (!peekNull(v, isNull, f)) return false;
        volume.ephemeral = !isNull;
        return true;
      }
      if (key != "persistentVolumeClaim") return true;
      return eachField(v, f, [&](std::string_view inner, Value& name) {
        return inner != "claimName" || read(name, volume.claimName, f);
      });
    });
    if (good && (volume.ephemeral || !volume.claimName.empty())) out.push_back(std::move(volume));
    return good;
  });
}

/// affinity.nodeAffinity
bool readAffinity(Value& value, Pod& out, Failure& f) {
  bool isNull = false;
  if (!peekNull(value, isNull, f)) return false;
  out.hasAffinity = !isNull;
  out.hasNodeAffinity = false;
  out.requiredNodeAffinity.reset();
  out.preferredNodeAffinity.clear();
  if (isNull) return true;
  return eachField(value, f, [&](std::string_view key, Value& node) {
    if (key != "nodeAffinity") return true;
    bool absent = false;
    if (!peekNull(node, absent, f)) return false;
    out.hasNodeAffinity = !absent;
    if (absent) return true;
    return eachField(node, f, [&](std::string_view inner, Value& required) {
      if (inner == "preferredDuringSchedulingIgnoredDuringExecution")
        return read(required, out.preferredNodeAffinity, f);
      if (inner != "requiredDuringSchedulingIgnoredDuringExecution") return true;
      bool none = false;
      if (!peekNull(required, none, f)) return false;
      return none || read(required, out.requiredNodeAffinity.emplace(), f);
    });
  });
}

/// Adds entries of spec.resourceClaims, or of status.resourceClaimStatuses: what stands for the pod's templates.
bool addClaims(Value& value, std::vector<PodResourceClaim>& out, Failure& f) {
  std::vector<PodResourceClaim> more;
  if (!read(value, more, f)) return false;
  out.insert(out.end(), std::make_move_iterator(more.begin()), std::make_move_iterator(more.end()));
  return true;
}

bool readPodSpec(Value& value, Pod& out, Failure& f) {
  return eachField(value, f, [&](std::string_view key, Value& v) {
    if (key == "nodeName") return read(v, out.nodeName, f);
    if (key == "schedulerName") return read(v, out.schedulerName, f);
    if (key == "schedulingGates") return readNames(v, out.schedulingGates, f);
    if (key == "resourceClaims") return addClaims(v, out.resourceClaims, f);
    if (key == "initContainers") return read(v, out.initContainers, f);
    if (key == "containers") return read(v, out.containers, f);
    if (key == "resources")
      return eachField(v, f, [&](std::string_view inner, Value& w) {
        return inner != "requests" || readQuantities(w, out.requests, f);
      });
    if (key == "overhead") return readQuantities(v, out.overhead, f);
    if (key == "volumes") return readVolumes(v, out.volumes, f);
    if (key == "priority") return read(v, out.priority, f);
    if (key == "preemptionPolicy") {
      std::string policy;
      if (!read(v, policy, f)) return false;
      out.preempts = policy != "Never";
      return true;
    }
    if (key == "nodeSelector") return read(v, out.nodeSelector, f);
    if (key == "affinity") return readAffinity(v, out, f);
    if (key == "tolerations") return read(v, out.tolerations, f);
    return true;
  });
}

/// An amount of a node, in units of so many nanos, rounded down: what is not there is not promised.
bool readAmount(Value& value, __int128 nanosPerUnit, int64_t& out, Failure& f) {
  std::string text;
  if (!readQuantity(value, text, f)) return false;
  if (text.empty()) return true;
  std::string error;
  const auto quantity = v1alpha::parseQuantity(text, &error);
  if (!quantity) return f.is("must be a quantity: " + error);
  __int128 units = quantity->nano / nanosPerUnit;
  constexpr __int128 most = INT64_MAX;
  if (units > most) units = most;
  if (units < -most) units = -most;
  out = static_cast<int64_t>(units);
  return true;
}

bool readReady(Value& value, bool& ready, Failure& f) {
  return eachElement(value, f, [&](Value& element) {
    std::string type;
    std::string status;
    if (!eachField(element, f, [&](std::string_view key, Value& v) {
          if (key == "type") return read(v, type, f);
          if (key == "status") return read(v, status, f);
          return true;
        }))
      return false;
    if (type == "Ready") ready = status == "True";
    return true;
  });
}

bool readInternalIP(Value& value, std::string& out, Failure& f) {
  return eachElement(value, f, [&](Value& element) {
    std::string type;
    std::string address;
    if (!eachField(element, f, [&](std::string_view key, Value& v) {
          if (key == "type") return read(v, type, f);
          if (key == "address") return read(v, address, f);
          return true;
        }))
      return false;
    if (type == "InternalIP" && out.empty()) out = std::move(address);
    return true;
  });
}

bool read(Value& value, ResourceClaimConsumer& out, Failure& f) {
  return eachField(value, f, [&](std::string_view key, Value& v) {
    if (key == "resource") return read(v, out.resource, f);
    if (key == "name") return read(v, out.name, f);
    if (key == "uid") return read(v, out.uid, f);
    return true;
  });
}

/// The node that a selector pins by matchFields metadata.name, empty if it pins none.
std::string pinnedNode(const NodeSelector& selector) {
  for (const auto& term : selector.terms)
    for (const auto& requirement : term.matchFields)
      if (requirement.key == "metadata.name" && requirement.op == "In" && requirement.values.size() == 1)
        return requirement.values.front();
  return {};
}

bool readAllocation(Value& value, std::optional<ResourceClaimAllocation>& out, Failure& f) {
  bool isNull = false;
  out.reset();
  if (!peekNull(value, isNull, f)) return false;
  if (isNull) return true;
  auto& allocation = out.emplace();
  return eachField(value, f, [&](std::string_view key, Value& v) {
    if (key == "allocationTimestamp") return read(v, allocation.allocationTimestamp, f);
    if (key == "nodeSelector") {
      NodeSelector selector;
      if (!read(v, selector, f)) return false;
      allocation.nodeName = pinnedNode(selector);
      return true;
    }
    if (key != "devices") return true;
    return eachField(v, f, [&](std::string_view inner, Value& results) {
      if (inner != "results") return true;
      bool first = true;
      return eachElement(results, f, [&](Value& result) {
        if (!first) return true;
        first = false;
        return eachField(result, f, [&](std::string_view name, Value& w) {
          if (name == "request") return read(w, allocation.request, f);
          if (name == "driver") return read(w, allocation.driver, f);
          if (name == "pool") return read(w, allocation.pool, f);
          if (name == "device") return read(w, allocation.device, f);
          return true;
        });
      });
    });
  });
}

/// spec.devices.requests[0]
bool readFirstRequest(Value& value, ResourceClaim& out, Failure& f) {
  return eachField(value, f, [&](std::string_view key, Value& devices) {
    if (key != "devices") return true;
    return eachField(devices, f, [&](std::string_view inner, Value& requests) {
      if (inner != "requests") return true;
      bool first = true;
      return eachElement(requests, f, [&](Value& request) {
        if (!first) return true;
        first = false;
        return eachField(request, f, [&](std::string_view name, Value& v) {
          if (name == "name") return read(v, out.requestName, f);
          if (name == "exactly")
            return eachField(v, f, [&](std::string_view field, Value& w) {
              return field != "deviceClassName" || read(w, out.deviceClassName, f);
            });
          return true;
        });
      });
    });
  });
}

bool read(Value& value, ObjectReference& out, Failure& f) {
  return eachField(value, f, [&](std::string_view key, Value& v) {
    if (key == "apiVersion") return read(v, out.apiVersion, f);
    if (key == "kind") return read(v, out.kind, f);
    if (key == "namespace") return read(v, out.namespace_, f);
    if (key == "name") return read(v, out.name, f);
    if (key == "uid") return read(v, out.uid, f);
    if (key == "resourceVersion") return read(v, out.resourceVersion, f);
    return true;
  });
}

template <>
bool readField(std::string_view key, Value& value, Namespace& out, Failure& f) {
  if (key != "status") return true;
  return eachField(value, f,
                   [&](std::string_view inner, Value& v) { return inner != "phase" || read(v, out.phase, f); });
}

template <>
bool readField(std::string_view key, Value& value, Node& out, Failure& f) {
  if (key == "spec")
    return eachField(value, f, [&](std::string_view inner, Value& v) {
      if (inner == "unschedulable") return read(v, out.unschedulable, f);
      if (inner == "taints") return read(v, out.taints, f);
      return true;
    });
  if (key != "status") return true;
  return eachField(value, f, [&](std::string_view inner, Value& v) {
    if (inner == "conditions") return readReady(v, out.ready, f);
    if (inner == "addresses") return readInternalIP(v, out.internalIP, f);
    if (inner != "allocatable") return true;
    return eachField(v, f, [&](std::string_view resource, Value& w) {
      constexpr __int128 nano = 1'000'000'000;
      if (resource == "cpu") return readAmount(w, nano / 1000, out.cpuMilli, f);
      if (resource == "memory") return readAmount(w, nano, out.memoryBytes, f);
      if (resource == "ephemeral-storage") return readAmount(w, nano, out.ephemeralBytes, f);
      if (resource == "pods") return readAmount(w, nano, out.maxPods, f);
      return true;
    });
  });
}

template <>
bool readField(std::string_view key, Value& value, Pod& out, Failure& f) {
  if (key == "spec") return readPodSpec(value, out, f);
  if (key != "status") return true;
  return eachField(value, f, [&](std::string_view inner, Value& v) {
    if (inner == "phase") return read(v, out.phase, f);
    if (inner == "nominatedNodeName") return read(v, out.nominatedNodeName, f);
    if (inner == "conditions") return read(v, out.conditions, f);
    if (inner == "resourceClaimStatuses") return addClaims(v, out.resourceClaims, f);
    return true;
  });
}

template <>
bool readField(std::string_view key, Value& value, PersistentVolumeClaim& out, Failure& f) {
  if (key != "spec") return true;
  return eachField(
      value, f, [&](std::string_view inner, Value& v) { return inner != "volumeName" || read(v, out.volumeName, f); });
}

template <>
bool readField(std::string_view key, Value& value, PersistentVolume& out, Failure& f) {
  if (key != "spec") return true;
  return eachField(value, f, [&](std::string_view inner, Value& affinity) {
    if (inner != "nodeAffinity") return true;
    return eachField(affinity, f, [&](std::string_view name, Value& v) {
      if (name != "required") return true;
      bool isNull = false;
      if (!peekNull(v, isNull, f)) return false;
      return isNull || read(v, out.nodeAffinity.emplace(), f);
    });
  });
}

template <>
bool readField(std::string_view key, Value& value, ResourceClaim& out, Failure& f) {
  if (key == "spec") return readFirstRequest(value, out, f);
  if (key != "status") return true;
  return eachField(value, f, [&](std::string_view inner, Value& v) {
    if (inner == "allocation") return readAllocation(v, out.allocation, f);
    if (inner == "reservedFor") return read(v, out.reservedFor, f);
    return true;
  });
}

template <>
bool readField(std::string_view key, Value& value, DeviceClass& out, Failure& f) {
  if (key != "spec") return true;
  return eachField(value, f, [&](std::string_view inner, Value& selectors) {
    if (inner != "selectors") return true;
    bool first = true;
    return eachElement(selectors, f, [&](Value& selector) {
      if (!first) return true;
      first = false;
      return eachField(selector, f, [&](std::string_view name, Value& cel) {
        if (name != "cel") return true;
        return eachField(cel, f, [&](std::string_view field, Value& v) {
          return field != "expression" || read(v, out.celSelector, f);
        });
      });
    });
  });
}

template <>
bool readField(std::string_view key, Value& v, Event& out, Failure& f) {
  if (key == "involvedObject") return read(v, out.involvedObject, f);
  if (key == "reason") return read(v, out.reason, f);
  if (key == "message") return read(v, out.message, f);
  if (key == "type") return read(v, out.type, f);
  if (key == "count") return read(v, out.count, f);
  if (key == "firstTimestamp") return read(v, out.firstTimestamp, f);
  if (key == "lastTimestamp") return read(v, out.lastTimestamp, f);
  if (key == "source")
    return eachField(
        v, f, [&](std::string_view inner, Value& w) { return inner != "component" || read(w, out.component, f); });
  return true;
}

template <>
bool readField(std::string_view key, Value& value, Lease& out, Failure& f) {
  if (key != "spec") return true;
  return eachField(value, f, [&](std::string_view inner, Value& v) {
    if (inner == "holderIdentity") return read(v, out.holderIdentity, f);
    if (inner == "leaseDurationSeconds") return read(v, out.leaseDurationSeconds, f);
    if (inner == "acquireTime") return read(v, out.acquireTime, f);
    if (inner == "renewTime") return read(v, out.renewTime, f);
    if (inner == "leaseTransitions") return read(v, out.leaseTransitions, f);
    return true;
  });
}

}  // namespace internal

EGPU_CODEC_INSTANTIATE(core::Namespace);
EGPU_CODEC_INSTANTIATE(core::Node);
EGPU_CODEC_INSTANTIATE(core::Pod);
EGPU_CODEC_INSTANTIATE(core::ResourceClaim);
EGPU_CODEC_INSTANTIATE(core::PersistentVolumeClaim);
EGPU_CODEC_INSTANTIATE(core::PersistentVolume);
EGPU_CODEC_INSTANTIATE(core::DeviceClass);
EGPU_CODEC_INSTANTIATE(core::Event);
EGPU_CODEC_INSTANTIATE(core::Lease);

}  // namespace egpu::codec

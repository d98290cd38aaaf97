#include "controller/cache/packed.h"

#include <cstdint>
#include <map>
#include <optional>
#include <type_traits>
#include <vector>

namespace egpu::cache {
namespace {

constexpr std::string_view kLastApplied = "kubectl.kubernetes.io/last-applied-configuration";

// Packer and Unpacker walk the same fields() in the same order: what one writes the other reads.
class Packer {
 public:
  static constexpr bool kReads = false;
  void number(uint64_t v) {
    while (v >= 0x80) {
      out.push_back(static_cast<char>(v | 0x80));
      v >>= 7;
    }
    out.push_back(static_cast<char>(v));
  }
  void text(const std::string& s) {
    number(s.size());
    out += s;
  }
  std::string out;
};

class Unpacker {
 public:
  static constexpr bool kReads = true;
  explicit Unpacker(std::string_view in) : in_(in) {}
  uint64_t number() {
    uint64_t v = 0;
    for (int shift = 0; at_ < in_.size(); shift += 7) {
      const auto byte = static_cast<unsigned char>(in_[at_++]);
      v |= static_cast<uint64_t>(byte & 0x7f) << shift;
      if (byte < 0x80) break;
    }
    return v;
  }
  std::string_view text() {
    const auto n = static_cast<std::size_t>(number());
    auto s = in_.substr(at_, n);
    at_ += s.size();
    return s;
  }

 private:
  std::string_view in_;
  std::size_t at_ = 0;
};

uint64_t zigzag(int64_t v) { return (static_cast<uint64_t>(v) << 1) ^ static_cast<uint64_t>(v >> 63); }
int64_t unzigzag(uint64_t v) { return static_cast<int64_t>(v >> 1) ^ -static_cast<int64_t>(v & 1); }

// Values. Every overload comes before put(), which finds them by argument type.
template <class A>
void one(A& a, std::string& s) {
  if constexpr (A::kReads)
    s = std::string(a.text());
  else
    a.text(s);
}
template <class A>
void one(A& a, int64_t& n) {
  if constexpr (A::kReads)
    n = unzigzag(a.number());
  else
    a.number(zigzag(n));
}
template <class A>
void one(A& a, bool& b) {
  if constexpr (A::kReads)
    b = a.number() != 0;
  else
    a.number(b ? 1 : 0);
}
template <class A>
void one(A& a, v1alpha::SourceKind& k) {
  if constexpr (A::kReads)
    k = static_cast<v1alpha::SourceKind>(a.number());
  else
    a.number(static_cast<uint64_t>(k));
}
template <class A, class T, class = std::enable_if_t<std::is_class_v<T>>,
          class = decltype(fields(std::declval<A&>(), std::declval<T&>()))>
void one(A& a, T& t);
template <class A, class T>
void one(A& a, std::vector<T>& v);
template <class A, class V>
void one(A& a, std::map<std::string, V, std::less<>>& m);
template <class A, class T>
void one(A& a, std::optional<T>& o);

template <class A, class... Ts>
void put(A& a, Ts&... ts) {
  (one(a, ts), ...);
}

template <class A>
void fields(A& a, core::OwnerReference& x) {
  put(a, x.apiVersion, x.kind, x.name, x.uid, x.controller, x.blockOwnerDeletion);
}
template <class A>
void fields(A& a, core::ObjectMeta& x) {
  put(a, x.uid, x.name, x.namespace_, x.resourceVersion, x.generation, x.creationTimestamp, x.deletionTimestamp,
      x.labels, x.annotations, x.finalizers, x.ownerReferences);
}
template <class A>
void fields(A& a, core::Condition& x) {
  put(a, x.type, x.status, x.reason, x.message, x.lastTransitionTime, x.observedGeneration);
}
template <class A>
void fields(A& a, core::NodeSelectorRequirement& x) {
  put(a, x.key, x.op, x.values);
}
template <class A>
void fields(A& a, core::NodeSelectorTerm& x) {
  put(a, x.matchExpressions, x.matchFields);
}
template <class A>
void fields(A& a, core::NodeSelector& x) {
  put(a, x.terms);
}
template <class A>
void fields(A& a, core::Taint& x) {
  put(a, x.key, x.value, x.effect);
}
template <class A>
void fields(A& a, core::Toleration& x) {
  put(a, x.key, x.op, x.value, x.effect);
}
template <class A>
void fields(A& a, core::Container& x) {
  put(a, x.name, x.image, x.requests, x.resourceClaims, x.sidecar);
}
template <class A>
void fields(A& a, core::PodResourceClaim& x) {
  put(a, x.name, x.resourceClaimName);
}
template <class A>
void fields(A& a, core::PodVolume& x) {
  put(a, x.name, x.claimName, x.ephemeral);
}
template <class A>
void fields(A& a, core::PreferredNodes& x) {
  put(a, x.weight, x.term);
}
template <class A>
void fields(A& a, core::ResourceClaimAllocation& x) {
  put(a, x.request, x.driver, x.pool, x.device, x.nodeName, x.allocationTimestamp);
}
template <class A>
void fields(A& a, core::ResourceClaimConsumer& x) {
  put(a, x.resource, x.name, x.uid);
}
template <class A>
void fields(A& a, core::Node& x) {
  put(a, x.metadata, x.unschedulable, x.taints, x.cpuMilli, x.memoryBytes, x.ephemeralBytes, x.maxPods, x.ready,
      x.internalIP);
}
template <class A>
void fields(A& a, core::Pod& x) {
  put(a, x.metadata, x.nodeName, x.schedulerName, x.schedulingGates, x.resourceClaims, x.initContainers, x.containers,
      x.requests, x.overhead, x.volumes, x.priority, x.preempts, x.nodeSelector, x.requiredNodeAffinity,
      x.preferredNodeAffinity, x.hasAffinity, x.hasNodeAffinity, x.tolerations, x.phase, x.nominatedNodeName,
      x.conditions);
}
template <class A>
void fields(A& a, core::ResourceClaim& x) {
  put(a, x.metadata, x.deviceClassName, x.requestName, x.allocation, x.reservedFor);
}
template <class A>
void fields(A& a, v1alpha::CardLink& x) {
  put(a, x.peer, x.type, x.count);
}
template <class A>
void fields(A& a, v1alpha::CardTopology& x) {
  put(a, x.numa, x.pcie, x.links);
}
template <class A>
void fields(A& a, v1alpha::Card& x) {
  put(a, x.uuid, x.nodeName, x.index, x.model, x.smCount, x.milliTflops, x.core, x.memory, x.topology);
}
template <class A>
void fields(A& a, v1alpha::LedgerEntry& x) {
  put(a, x.device, x.claim, x.core, x.memory);
}
template <class A>
void fields(A& a, v1alpha::DeviceCard& x) {
  put(a, x.name, x.uuid, x.core, x.memory, x.chargedCore, x.chargedMemory);
}
template <class A>
void fields(A& a, v1alpha::ClaimRef& x) {
  put(a, x.namespace_, x.name, x.uid);
}
template <class A>
void fields(A& a, v1alpha::Source& x) {
  put(a, x.kind, x.gpuNames, x.deviceName, x.paths, x.profile, x.instances, x.endpoint);
}
template <class A>
void fields(A& a, v1alpha::ElasticGPUSpec& x) {
  put(a, x.capacity, x.source, x.card, x.allocations, x.nodeName, x.cards, x.provisioner, x.parameters, x.className,
      x.reclaimPolicy, x.nodeAffinityRequired, x.claimRef);
}
template <class A>
void fields(A& a, v1alpha::AllocatedSummary& x) {
  put(a, x.core, x.memory, x.claims, x.coreText, x.memoryText);
}
template <class A>
void fields(A& a, v1alpha::ElasticGPUStatus& x) {
  put(a, x.phase, x.reason, x.message, x.conditions, x.allocated);
}
template <class A>
void fields(A& a, v1alpha::ElasticGPU& x) {
  put(a, x.metadata, x.spec, x.status);
}
template <class A>
void fields(A& a, v1alpha::ElasticGPUClaimSpec& x) {
  put(a, x.className, x.classNameAlias, x.elasticGPUName, x.requests);
}
template <class A>
void fields(A& a, v1alpha::ElasticGPUClaimStatus& x) {
  put(a, x.phase, x.elasticGPUName, x.nodeName, x.className, x.capacity, x.conditions);
}
template <class A>
void fields(A& a, v1alpha::ElasticGPUClaim& x) {
  put(a, x.metadata, x.spec, x.status);
}
template <class A>
void fields(A& a, v1alpha::ElasticGPUClass& x) {
  put(a, x.metadata, x.provisioner, x.parameters, x.reclaimPolicy, x.bindingMode, x.conditions);
}

template <class A, class T, class, class>
void one(A& a, T& t) {
  fields(a, t);
}
template <class A, class T>
void one(A& a, std::vector<T>& v) {
  if constexpr (A::kReads) {
    v.resize(static_cast<std::size_t>(a.number()));
  } else {
    a.number(v.size());
  }
  for (auto& item : v) one(a, item);
}
template <class A, class V>
void one(A& a, std::map<std::string, V, std::less<>>& m) {
  if constexpr (A::kReads) {
    for (auto n = a.number(); n > 0; --n) {
      auto it = m.emplace_hint(m.end(), std::string(a.text()), V{});
      one(a, it->second);
    }
  } else {
    a.number(m.size());
    for (auto& [key, value] : m) {
      a.text(key);
      one(a, value);
    }
  }
}
template <class A, class T>
void one(A& a, std::optional<T>& o) {
  bool has = o.has_value();
  one(a, has);
  if (!has) return;
  if constexpr (A::kReads) o.emplace();
  one(a, *o);
}

}  // namespace

template <class T>
std::string pack(const T& object) {
  Packer packer;
  packer.out.reserve(512);
  if (object.metadata.annotations.count(kLastApplied) != 0) {
    T slim = object;
    slim.metadata.annotations.erase(std::string(kLastApplied));
    fields(packer, slim);
  } else {
    fields(packer, const_cast<T&>(object));  // a Packer only reads
  }
  return std::string(packer.out);  // without the spare capacity
}

template <class T>
T unpack(std::string_view packed) {
  T object;
  Unpacker unpacker(packed);
  fields(unpacker, object);
  return object;
}

std::string_view packedUid(std::string_view packed) { return Unpacker(packed).text(); }

#define EGPU_PACKED(T)                    \
  template std::string pack<T>(const T&); \
  template T unpack<T>(std::string_view)
EGPU_PACKED(v1alpha::ElasticGPU);
EGPU_PACKED(v1alpha::ElasticGPUClaim);
EGPU_PACKED(v1alpha::ElasticGPUClass);
EGPU_PACKED(core::Pod);
EGPU_PACKED(core::Node);
EGPU_PACKED(core::ResourceClaim);
#undef EGPU_PACKED

}  // namespace egpu::cache

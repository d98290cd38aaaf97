#include "controller/cache/packed.h"

#include <charconv>
#include <cstdint>
#include <map>
#include <optional>
#include <type_traits>
#include <vector>

#include "controller/cache/compact.h"

namespace egpu::cache {
namespace {

constexpr std::string_view kLastApplied = "kubectl.kubernetes.io/last-applied-configuration";

// Packer and Unpacker walk the same fields() in the same order: what one writes the other reads. They are types of this
// namespace so that the overloads below are found by them.
struct Packer : CompactWriter {
  using CompactWriter::CompactWriter;
  static constexpr bool kReads = false;
};
struct Unpacker : CompactReader {
  using CompactReader::CompactReader;
  static constexpr bool kReads = true;
};

// Values. Every overload comes before put(), which finds them by argument type.
template <class A>
void one(A& a, std::string& s) {
  if constexpr (A::kReads)
    s = a.text();
  else
    a.text(s);
}
template <class A>
void one(A& a, int64_t& n) {
  if constexpr (A::kReads)
    n = a.integer();
  else
    a.integer(n);
}
template <class A>
void one(A& a, bool& b) {
  if constexpr (A::kReads)
    b = a.natural() != 0;
  else
    a.natural(b ? 1 : 0);
}
template <class A>
void one(A& a, v1alpha::SourceKind& k) {
  if constexpr (A::kReads)
    k = static_cast<v1alpha::SourceKind>(a.natural());
  else
    a.natural(static_cast<uint64_t>(k));
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
void fields(A& a, core::LabelSelector& x) {
  put(a, x.matchLabels, x.matchExpressions);
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
void fields(A& a, core::Namespace& x) {
  put(a, x.metadata, x.phase);
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
  put(a, x.metadata, x.provisioner, x.parameters, x.reclaimPolicy, x.bindingMode, x.allowedNamespaces, x.tolerations,
      x.conditions);
}

template <class A, class T, class, class>
void one(A& a, T& t) {
  fields(a, t);
}
template <class A, class T>
void one(A& a, std::vector<T>& v) {
  if constexpr (A::kReads) {
    v.resize(static_cast<std::size_t>(a.natural()));
  } else {
    a.natural(v.size());
  }
  for (auto& item : v) one(a, item);
}
template <class A, class V>
void one(A& a, std::map<std::string, V, std::less<>>& m) {
  if constexpr (A::kReads) {
    // Objects of a kind mostly have the same keys: those that are there already keep their places.
    auto at = m.begin();
    for (auto n = a.natural(); n > 0; --n, ++at) {
      const auto key = a.text();
      if (at == m.end() || at->first != key) at = m.emplace_hint(m.erase(at, m.end()), key, V{});
      one(a, at->second);
    }
    m.erase(at, m.end());
  } else {
    a.natural(m.size());
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
  if constexpr (A::kReads) {
    if (!has) o.reset();
    if (has && !o) o.emplace();
  }
  if (has) one(a, *o);
}

}  // namespace

template <class T>
void pack(const T& object, Vocabulary& words, std::string& out) {
  out.clear();
  Packer packer(out, words);
  if (object.metadata.annotations.count(kLastApplied) != 0) {
    T slim = object;
    slim.metadata.annotations.erase(std::string(kLastApplied));
    fields(packer, slim);
  } else {
    fields(packer, const_cast<T&>(object));  // a Packer only reads it
  }
}

template <class T>
void unpack(std::string_view packed, const Vocabulary& words, T& out) {
  Unpacker unpacker(packed, words);
  fields(unpacker, out);
}

bool packedNamed(std::string_view packed, const Vocabulary& words, std::string_view namespace_, std::string_view name) {
  CompactReader reader(packed, words);
  reader.text();  // the uid
  return reader.text() == name && reader.text() == namespace_;
}

bool packedHasUid(std::string_view packed, const Vocabulary& words, std::string_view uid) {
  return CompactReader(packed, words).text() == uid;
}

uint64_t packedVersion(std::string_view packed, const Vocabulary& words) {
  CompactReader reader(packed, words);
  for (int before = 0; before < 3; ++before) reader.text();  // uid, name, namespace
  return versionOf(reader.text());
}

uint64_t versionOf(std::string_view resourceVersion) {
  uint64_t value = 0;
  const auto [end, error] =
      std::from_chars(resourceVersion.data(), resourceVersion.data() + resourceVersion.size(), value);
  return error == std::errc() && end == resourceVersion.data() + resourceVersion.size() ? value : 0;
}

#define EGPU_PACKED(T)                                        \
  template void pack<T>(const T&, Vocabulary&, std::string&); \
  template void unpack<T>(std::string_view, const Vocabulary&, T&) /* NOLINT(bugprone-macro-parentheses): a type */
EGPU_PACKED(v1alpha::ElasticGPU);
EGPU_PACKED(v1alpha::ElasticGPUClaim);
EGPU_PACKED(v1alpha::ElasticGPUClass);
EGPU_PACKED(core::Pod);
EGPU_PACKED(core::Node);
EGPU_PACKED(core::ResourceClaim);
EGPU_PACKED(core::Namespace);
#undef EGPU_PACKED

}  // namespace egpu::cache

#include "tests/codec/samples.h"

#include <string_view>
#include <tuple>

namespace egpu::testing {

namespace {

using core::StringMap;

/// Fills objects from a source of choices, so that one walk over the fields creates both the full sample and the random
/// objects.
class Fill {
 public:
  /// Without a generator every choice is "yes" and every text is different.
  explicit Fill(std::mt19937_64* random) : random_(random) {}

  bool chance() { return !random_ || (*random_)() % 2 == 0; }
  std::size_t count() { return random_ ? (*random_)() % 4 : 2; }
  int64_t number() {
    if (!random_) return ++serial_;
    switch ((*random_)() % 4) {
      case 0:
        return 0;
      case 1:
        return static_cast<int64_t>((*random_)() % 1000);
      case 2:
        return -static_cast<int64_t>((*random_)() % 1000);
      default:
        return static_cast<int64_t>((*random_)());
    }
  }
  std::string text() {
    constexpr std::string_view pieces[] = {"a", "Z", "0",  "-",          "/",    "\"",   "\\", "\n",   "\t", "\b",
                                           " ", "é", "漢", "\U0001F600", "\x01", "\x7f", "{}", "null", "]"};
    if (!random_) return "text " + std::to_string(++serial_) + " \"é\\\n\x01漢";
    std::string out;
    for (std::size_t n = (*random_)() % 5; n > 0; --n) out += pieces[(*random_)() % std::size(pieces)];
    return out;
  }
  /// Returns a text that is never empty, for fields that are always written.
  std::string name() {
    return random_ ? "n" + std::to_string((*random_)() % 100000) : "name-" + std::to_string(++serial_);
  }

  std::vector<std::string> texts() {
    std::vector<std::string> out;
    for (std::size_t n = count(); n > 0; --n) out.push_back(text());
    return out;
  }
  StringMap map() {
    StringMap out;
    for (std::size_t n = count(); n > 0; --n) out[text()] = text();
    return out;
  }
  StringMap quantities() {
    constexpr std::string_view values[] = {"4", "0.5", "1e3", "4Gi", "100m", ""};
    StringMap out;
    for (std::size_t n = count(); n > 0; --n) out[text()] = random_ ? values[(*random_)() % std::size(values)] : "4Gi";
    return out;
  }

  core::ObjectMeta metadata() {
    core::ObjectMeta m;
    m.name = text();
    m.namespace_ = text();
    m.uid = text();
    m.resourceVersion = text();
    m.generation = number();
    m.creationTimestamp = text();
    m.deletionTimestamp = text();
    m.labels = map();
    m.annotations = map();
    m.finalizers = texts();
    for (std::size_t n = count(); n > 0; --n) {
      core::OwnerReference owner;
      owner.apiVersion = text();
      owner.kind = text();
      owner.name = text();
      owner.uid = text();
      owner.controller = chance();
      owner.blockOwnerDeletion = chance();
      m.ownerReferences.push_back(owner);
    }
    return m;
  }

  std::vector<core::Condition> conditions() {
    std::vector<core::Condition> out;
    for (std::size_t n = count(); n > 0; --n) {
      core::Condition c;
      c.type = text();
      c.status = text();
      c.reason = text();
      c.message = text();
      c.lastTransitionTime = text();
      c.observedGeneration = number();
      out.push_back(c);
    }
    return out;
  }

  std::vector<core::NodeSelectorRequirement> requirements() {
    std::vector<core::NodeSelectorRequirement> out;
    for (std::size_t n = count(); n > 0; --n) {
      core::NodeSelectorRequirement r;
      r.key = text();
      r.op = text();
      r.values = texts();
      out.push_back(r);
    }
    return out;
  }
  std::vector<core::Toleration> tolerations() {
    std::vector<core::Toleration> out;
    for (std::size_t n = count(); n > 0; --n) {
      core::Toleration toleration;
      toleration.key = text();
      toleration.op = text();
      toleration.value = text();
      toleration.effect = text();
      out.push_back(toleration);
    }
    return out;
  }

  core::NodeSelector selector() {
    core::NodeSelector out;
    for (std::size_t n = count(); n > 0; --n) {
      auto& term = out.terms.emplace_back();
      term.matchExpressions = requirements();
      term.matchFields = requirements();
    }
    return out;
  }

  v1alpha::Source source(v1alpha::SourceKind kind) {
    using v1alpha::SourceKind;
    v1alpha::Source out;
    out.kind = kind;
    if (kind == SourceKind::physicalGPU) out.gpuNames = texts();
    if (kind == SourceKind::gpuShare || kind == SourceKind::qGPU || kind == SourceKind::mig) out.gpuNames = {text()};
    if (kind == SourceKind::qGPU) {
      out.deviceName = text();
      out.paths = texts();
    }
    if (kind == SourceKind::mig) {
      out.profile = text();
      out.instances = texts();
    }
    if (kind == SourceKind::remote) out.endpoint = text();
    return out;
  }

  v1alpha::Slots slots() { return {static_cast<uint16_t>(random_ ? (*random_)() % 512 : 0b100000110)}; }
  std::vector<v1alpha::MigProfile> profiles() {
    std::vector<v1alpha::MigProfile> out;
    for (std::size_t n = count(); n > 0; --n) {
      v1alpha::MigProfile profile;
      profile.name = text();
      profile.memory = number();
      profile.compute = number();
      profile.size = number();
      profile.starts = slots();
      profile.media = chance();
      out.push_back(profile);
    }
    return out;
  }
  std::vector<v1alpha::DeviceCard> shares() {
    std::vector<v1alpha::DeviceCard> out;
    for (std::size_t n = count(); n > 0; --n) {
      v1alpha::DeviceCard card;
      card.name = text();
      card.uuid = text();
      card.core = number();
      card.memory = number();
      card.chargedCore = number();
      card.chargedMemory = number();
      card.slots = slots();
      out.push_back(card);
    }
    return out;
  }
  v1alpha::Isolation isolation() { return {text(), text(), text(), text(), text()}; }
  v1alpha::DeviceSize size() {
    v1alpha::DeviceSize out;
    out.number = number();
    out.requests = map();
    out.cards = shares();
    return out;
  }

  void operator()(v1alpha::ElasticGPU& out) {
    out.metadata = metadata();
    auto& spec = out.spec;
    spec.capacity = quantities();
    if (!random_)
      spec.source = source(v1alpha::SourceKind::qGPU);
    else if (const auto kind = (*random_)() % 6; kind > 0)
      spec.source = source(static_cast<v1alpha::SourceKind>(kind - 1));
    if (chance()) {
      auto& card = spec.card.emplace();
      card.uuid = text();
      card.nodeName = text();
      card.index = number();
      card.model = text();
      card.smCount = number();
      card.milliTflops = number();
      card.core = number();
      card.memory = number();
      card.topology.numa = number();
      card.topology.pcie = text();
      card.mig = profiles();
      if (chance()) card.attributes = {{"a" + text(), text()}};
      for (std::size_t n = count(); n > 0; --n) {
        const auto type = text();
        card.topology.links.push_back({text(), type, number()});
      }
    }
    for (std::size_t n = count(); n > 0; --n) {
      const auto key = text();
      v1alpha::LedgerEntry entry;
      entry.device = text();
      entry.claim = text();
      entry.core = number();
      entry.memory = number();
      entry.resize = number();
      entry.slots = slots();
      spec.allocations[key] = entry;
    }
    spec.nodeName = text();
    spec.cards = shares();
    if (chance()) spec.target = size();
    spec.provisioner = text();
    spec.parameters = map();
    spec.className = text();
    spec.reclaimPolicy = text();
    spec.alternative = text();
    spec.adminAccess = chance();
    if (chance()) spec.nodeAffinityRequired = selector();
    if (chance()) {
      auto& ref = spec.claimRef.emplace();
      ref.namespace_ = text();
      ref.name = text();
      ref.uid = text();
    }
    out.status.phase = text();
    out.status.reason = text();
    out.status.message = text();
    out.status.conditions = conditions();
    if (chance()) {
      auto& allocated = out.status.allocated.emplace();
      allocated.core = number();
      allocated.memory = number();
      allocated.claims = number();
      allocated.coreText = text();
      allocated.memoryText = text();
    }
    if (chance()) {
      auto& usage = out.status.usage.emplace();
      usage.memory = number();
      usage.smPercent = number();
      for (std::size_t n = count(); n > 0; --n) usage.devices[text()] = {number(), number()};
      usage.time = text();
    }
    if (chance()) out.status.inForce = size();
    if (chance()) out.status.isolation = isolation();
    for (std::size_t n = count(); n > 0; --n) out.status.bypassed[text()] = {text(), text()};
    for (std::size_t n = count(); n > 0; --n) out.status.accessLost[text()] = {text(), text(), text()};
  }

  void operator()(v1alpha::ElasticGPUClaim& out) {
    out.metadata = metadata();
    out.spec.className = text();
    out.spec.classNameAlias = text();
    out.spec.elasticGPUName = text();
    out.spec.requests = quantities();
    out.status.phase = text();
    out.status.elasticGPUName = text();
    out.status.nodeName = text();
    out.status.className = text();
    out.status.capacity = map();
    out.status.requests = map();
    out.status.alternative = text();
    for (std::size_t n = count(); n > 0; --n) out.spec.firstAvailable.push_back({text(), texts(), quantities()});
    out.spec.adminAccess = chance();
    out.spec.models = texts();
    out.spec.isolation = text();
    if (chance()) {
      auto& usage = out.status.usage.emplace();
      usage.core = text();
      usage.memory = text();
      usage.text = text();
      usage.time = text();
    }
    if (chance()) out.status.isolation = isolation();
    out.spec.priorityClassName = text();
    out.status.priority = number();
    if (chance()) {
      auto& nomination = out.status.nominated.emplace();
      nomination.nodeName = text();
      for (std::size_t n = count(); n > 0; --n) nomination.cards.push_back({text(), number(), number()});
      for (std::size_t n = count(); n > 0; --n) nomination.victims.push_back(text());
    }
    out.status.conditions = conditions();
  }

  void operator()(v1alpha::ElasticGPUClaimTemplate& out) {
    out.metadata = metadata();
    out.labels = map();
    out.annotations = map();
    out.spec.className = text();
    out.spec.elasticGPUName = text();
    out.spec.requests = quantities();
    out.conditions = conditions();
  }

  void operator()(core::ResourceClaimTemplate& out) {
    out.metadata = metadata();
    out.labels = map();
    out.annotations = map();
    out.claim.deviceClassName = text();
    out.claim.requestName = text();
    if (chance()) out.claim.config.push_back({{}, text(), R"({"a":1})"});
  }

  void operator()(v1alpha::ElasticGPUClass& out) {
    out.metadata = metadata();
    out.provisioner = text();
    out.parameters = map();
    out.reclaimPolicy = text();
    out.bindingMode = text();
    if (chance()) {
      auto& allowed = out.allowedNamespaces.emplace();
      allowed.matchLabels = map();
      allowed.matchExpressions = requirements();
    }
    out.tolerations = tolerations();
    out.conditions = conditions();
  }

  void operator()(v1alpha::ElasticGPUQuota& out) {
    out.metadata = metadata();
    out.spec.hard = quantities();
    out.spec.perClaim = quantities();
    out.spec.classes = texts();
    out.spec.models = texts();
    out.spec.alertPercent = number();
    out.spec.enforcement = text();
    out.status.used = quantities();
    out.status.summary = map();
    out.status.conditions = conditions();
  }

  void operator()(core::Namespace& out) {
    out.metadata = metadata();
    out.phase = text();
  }

  void operator()(core::Node& out) {
    out.metadata = metadata();
    out.unschedulable = chance();
    for (std::size_t n = count(); n > 0; --n) {
      core::Taint taint;
      taint.key = text();
      taint.value = text();
      taint.effect = text();
      out.taints.push_back(taint);
    }
    out.cpuMilli = number() / 1000;
    out.memoryBytes = number();
    out.ephemeralBytes = number();
    out.maxPods = number();
    out.ready = chance();
    out.internalIP = text();
  }

  std::vector<core::Container> containers() {
    std::vector<core::Container> out;
    for (std::size_t n = count(); n > 0; --n) {
      core::Container c;
      c.name = text();
      c.image = text();
      c.requests = quantities();
      c.resourceClaims = texts();
      c.sidecar = chance();
      out.push_back(c);
    }
    return out;
  }

  void operator()(core::Pod& out) {
    out.metadata = metadata();
    out.nodeName = text();
    out.schedulerName = text();
    out.podGroupName = text();
    out.schedulingGates = texts();
    for (std::size_t n = count(); n > 0; --n) {
      core::PodResourceClaim claim;
      claim.name = text();
      claim.resourceClaimName = text();
      out.resourceClaims.push_back(claim);
    }
    out.initContainers = containers();
    out.containers = containers();
    out.requests = quantities();
    out.overhead = quantities();
    for (std::size_t n = count(); n > 0; --n) {
      core::PodVolume volume;
      volume.name = text();
      volume.claimName = name();
      volume.ephemeral = chance();
      out.volumes.push_back(volume);
    }
    out.priority = number();
    out.preempts = random_ && chance();
    out.nodeSelector = map();
    out.hasAffinity = chance();
    out.hasNodeAffinity = out.hasAffinity && chance();
    if (out.hasNodeAffinity && chance()) out.requiredNodeAffinity = selector();
    if (out.hasNodeAffinity)
      for (std::size_t n = count(); n > 0; --n) {
        auto& preferred = out.preferredNodeAffinity.emplace_back();
        preferred.weight = number();
        preferred.term.matchExpressions = requirements();
        preferred.term.matchFields = requirements();
      }
    out.tolerations = tolerations();
    out.phase = text();
    out.nominatedNodeName = text();
    out.conditions = conditions();
  }

  void operator()(core::PersistentVolumeClaim& out) {
    out.metadata = metadata();
    out.volumeName = text();
  }

  void operator()(core::PersistentVolume& out) {
    out.metadata = metadata();
    if (chance()) out.nodeAffinity = selector();
  }

  void operator()(core::ResourceClaim& out) {
    out.metadata = metadata();
    out.deviceClassName = text();
    out.requestName = text();
    auto& request = out.request;
    if (chance()) request.capacity = map();
    if (chance()) request.allocationMode = text();
    request.count = number();
    request.adminAccess = chance();
    if (chance()) request.selectors = R"([{"cel":{"expression":"true"}}])";
    if (chance()) request.alternatives = "[]";
    if (chance()) out.config.push_back({{text()}, text(), R"({"a":[1,{"b":null}]})"});
    if (chance()) {
      auto& a = out.allocation.emplace();
      a.request = text();
      a.driver = text();
      a.pool = text();
      a.device = text();
      a.nodeName = text();
      a.allocationTimestamp = text();
    }
    for (std::size_t n = count(); n > 0; --n) {
      core::ResourceClaimConsumer consumer;
      consumer.resource = text();
      consumer.name = text();
      consumer.uid = text();
      out.reservedFor.push_back(consumer);
    }
  }

  void operator()(core::DeviceClass& out) {
    out.metadata = metadata();
    out.celSelector = text();
  }

  void operator()(core::PriorityClass& out) {
    out.metadata = metadata();
    out.value = number();
    out.globalDefault = chance();
    out.preempts = chance();
  }

  void operator()(core::DeviceTaintRule& out) {
    out.metadata = metadata();
    out.selects = chance();
    if (out.selects) {
      out.driver = text();
      out.pool = text();
      out.device = text();
    }
    out.taint = {text(), text(), text()};
  }

  void operator()(core::PodGroup& out) {
    out.metadata = metadata();
    out.minCount = number();
    out.topology = text();
  }

  void operator()(core::Event& out) {
    out.metadata = metadata();
    auto& o = out.involvedObject;
    o.apiVersion = text();
    o.kind = text();
    o.namespace_ = text();
    o.name = text();
    o.uid = text();
    o.resourceVersion = text();
    out.reason = text();
    out.message = text();
    out.type = text();
    out.component = text();
    out.count = number();
    out.firstTimestamp = text();
    out.lastTimestamp = text();
  }

  void operator()(core::Lease& out) {
    out.metadata = metadata();
    out.holderIdentity = text();
    out.leaseDurationSeconds = number();
    out.acquireTime = text();
    out.renewTime = text();
    out.leaseTransitions = number();
  }

 private:
  std::mt19937_64* random_;
  int64_t serial_ = 0;
};

}  // namespace

template <class T>
T fullSample() {
  T out{};
  Fill{nullptr}(out);
  return out;
}

template <class T>
T RandomObjects::next() {
  T out{};
  Fill{&random_}(out);
  return out;
}

#define EGPU_SAMPLE(T)        \
  template T fullSample<T>(); \
  template T RandomObjects::next<T>()
EGPU_SAMPLE(v1alpha::ElasticGPU);
EGPU_SAMPLE(v1alpha::ElasticGPUClaim);
EGPU_SAMPLE(v1alpha::ElasticGPUClaimTemplate);
EGPU_SAMPLE(core::ResourceClaimTemplate);
EGPU_SAMPLE(v1alpha::ElasticGPUClass);
EGPU_SAMPLE(v1alpha::ElasticGPUQuota);
EGPU_SAMPLE(core::Namespace);
EGPU_SAMPLE(core::Node);
EGPU_SAMPLE(core::Pod);
EGPU_SAMPLE(core::ResourceClaim);
EGPU_SAMPLE(core::PersistentVolumeClaim);
EGPU_SAMPLE(core::PersistentVolume);
EGPU_SAMPLE(core::DeviceClass);
EGPU_SAMPLE(core::DeviceTaintRule);
EGPU_SAMPLE(core::PodGroup);
EGPU_SAMPLE(core::PriorityClass);
EGPU_SAMPLE(core::Event);
EGPU_SAMPLE(core::Lease);
#undef EGPU_SAMPLE

bool same(const v1alpha::ElasticGPU& a, const v1alpha::ElasticGPU& b) {
  return a.metadata == b.metadata && a.spec == b.spec && a.status == b.status;
}
bool same(const v1alpha::ElasticGPUClaim& a, const v1alpha::ElasticGPUClaim& b) {
  return a.metadata == b.metadata && a.spec == b.spec && a.status == b.status;
}
bool same(const v1alpha::ElasticGPUClaimTemplate& a, const v1alpha::ElasticGPUClaimTemplate& b) { return a == b; }
bool same(const core::ResourceClaimTemplate& a, const core::ResourceClaimTemplate& b) { return a == b; }
bool same(const v1alpha::ElasticGPUClass& a, const v1alpha::ElasticGPUClass& b) {
  return a.metadata == b.metadata && a.provisioner == b.provisioner && a.parameters == b.parameters &&
         a.reclaimPolicy == b.reclaimPolicy && a.bindingMode == b.bindingMode &&
         a.allowedNamespaces == b.allowedNamespaces && a.tolerations == b.tolerations && a.conditions == b.conditions;
}
bool same(const v1alpha::ElasticGPUQuota& a, const v1alpha::ElasticGPUQuota& b) { return a == b; }
bool same(const core::Namespace& a, const core::Namespace& b) { return a.metadata == b.metadata && a.phase == b.phase; }
bool same(const core::Node& a, const core::Node& b) { return a == b; }
bool same(const core::Pod& a, const core::Pod& b) { return a == b; }
bool same(const core::PersistentVolumeClaim& a, const core::PersistentVolumeClaim& b) {
  return a.metadata == b.metadata && a.volumeName == b.volumeName;
}
bool same(const core::PersistentVolume& a, const core::PersistentVolume& b) {
  return a.metadata == b.metadata && a.nodeAffinity == b.nodeAffinity;
}
bool same(const core::ResourceClaim& a, const core::ResourceClaim& b) {
  return a.metadata == b.metadata && a.deviceClassName == b.deviceClassName && a.requestName == b.requestName &&
         a.request == b.request && a.config == b.config && a.allocation == b.allocation &&
         a.reservedFor == b.reservedFor;
}
bool same(const core::DeviceClass& a, const core::DeviceClass& b) {
  return a.metadata == b.metadata && a.celSelector == b.celSelector;
}
bool same(const core::DeviceTaintRule& a, const core::DeviceTaintRule& b) { return a == b; }
bool same(const core::PodGroup& a, const core::PodGroup& b) { return a == b; }
bool same(const core::PriorityClass& a, const core::PriorityClass& b) { return a == b; }
bool same(const core::Event& a, const core::Event& b) {
  const auto tie = [](const core::Event& e) {
    const auto& o = e.involvedObject;
    return std::tie(e.metadata.name, o.apiVersion, o.kind, o.namespace_, o.name, o.uid, o.resourceVersion, e.reason,
                    e.message, e.type, e.component, e.count, e.firstTimestamp, e.lastTimestamp);
  };
  return a.metadata == b.metadata && tie(a) == tie(b);
}
bool same(const core::Lease& a, const core::Lease& b) {
  return a.metadata == b.metadata && a.holderIdentity == b.holderIdentity &&
         a.leaseDurationSeconds == b.leaseDurationSeconds && a.acquireTime == b.acquireTime &&
         a.renewTime == b.renewTime && a.leaseTransitions == b.leaseTransitions;
}

}  // namespace egpu::testing

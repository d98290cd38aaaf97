#include "controller/codec/patch.h"

#include <functional>
#include <map>

#include "api/v1alpha/obstacle.h"
#include "controller/codec/fields_v1alpha.h"
#include "controller/codec/json/text.h"
#include "controller/codec/json/writer.h"

namespace egpu::codec::patch {

namespace {

using internal::Writer;

/// Begins the object `metadata` and writes the preconditions. The caller ends the object.
void beginMetadata(JsonText& j, std::string_view uid, std::string_view resourceVersion) {
  j.key("metadata").beginObject();
  if (!uid.empty()) j.key("uid").value(uid);
  if (!resourceVersion.empty()) j.key("resourceVersion").value(resourceVersion);
}
void putPreconditions(JsonText& j, std::string_view uid, std::string_view resourceVersion) {
  if (uid.empty() && resourceVersion.empty()) return;
  beginMetadata(j, uid, resourceVersion);
  j.endObject();
}

/// Writes a field of `after`, or null if it is empty and the field of `before` is not.
template <class T>
void replace(JsonText& j, std::string_view key, const T& before, const T& after) {
  Writer writer(j, !before.empty());
  writer(key, after);
}
void replace(JsonText& j, std::string_view key, const core::StringMap& before, const core::StringMap& after) {
  if (after.empty()) {
    if (!before.empty()) j.key(key).null();
    return;
  }
  j.key(key).beginObject();
  for (const auto& [name, text] : after) j.key(name).value(text);
  for (const auto& [name, text] : before)
    if (!after.contains(name)) j.key(name).null();
  j.endObject();
}
/// Writes the usage of `after`, or null if it has none, unless it is unchanged.
void replaceUsage(JsonText& j, const core::HeapOptional<v1alpha::CardUsage>& before,
                  const core::HeapOptional<v1alpha::CardUsage>& after) {
  if (before == after) return;
  j.key("usage");
  if (!after) {
    j.null();
    return;
  }
  const v1alpha::CardUsage none;
  const auto& was = before ? *before : none;
  j.beginObject().key("memory").value(after->memory).key("smPercent").value(after->smPercent);
  if (!after->devices.empty() || !was.devices.empty()) {
    j.key("devices").beginObject();
    for (const auto& [uid, use] : after->devices) {
      j.key(uid);
      Writer(j).write(use);
    }
    for (const auto& [uid, use] : was.devices)
      if (!after->devices.contains(uid)) j.key(uid).null();
    j.endObject();
  }
  replace(j, "time", was.time, after->time);
  j.endObject();
}
void replaceUsage(JsonText& j, const core::HeapOptional<v1alpha::ClaimUsage>& before,
                  const core::HeapOptional<v1alpha::ClaimUsage>& after) {
  if (before == after) return;
  j.key("usage");
  if (!after) {
    j.null();
    return;
  }
  const v1alpha::ClaimUsage none;
  const auto& was = before ? *before : none;
  j.beginObject();
  replace(j, "core", was.core, after->core);
  replace(j, "memory", was.memory, after->memory);
  replace(j, "text", was.text, after->text);
  replace(j, "time", was.time, after->time);
  j.endObject();
}
/// Writes the size of `after`, or null if it has none, unless it is unchanged.
void replaceSize(JsonText& j, std::string_view key, const core::HeapOptional<v1alpha::DeviceSize>& before,
                 const core::HeapOptional<v1alpha::DeviceSize>& after) {
  if (before == after) return;
  j.key(key);
  if (!after) {
    j.null();
    return;
  }
  const v1alpha::DeviceSize none;
  const auto& was = before ? *before : none;
  j.beginObject().key("number").value(after->number);
  replace(j, "requests", was.requests, after->requests);
  replace(j, "cards", was.cards, after->cards);
  j.endObject();
}
/// Writes the nomination of `after`, or null if it has none, unless it is unchanged.
void replaceNomination(JsonText& j, const core::HeapOptional<v1alpha::Nomination>& before,
                       const core::HeapOptional<v1alpha::Nomination>& after) {
  if (before == after) return;
  j.key("nominated");
  if (!after) {
    j.null();
    return;
  }
  const v1alpha::Nomination none;
  const auto& was = before ? *before : none;
  j.beginObject();
  replace(j, "nodeName", was.nodeName, after->nodeName);
  replace(j, "cards", was.cards, after->cards);
  replace(j, "victims", was.victims, after->victims);
  j.endObject();
}

void op(JsonText& j, std::string_view name, std::string_view path) {
  j.beginObject().key("op").value(name).key("path").value(path);
}

/// Collects the JSON of each field of an object by name, without fields that are omitted when empty.
class FieldTexts {
 public:
  template <class M>
  void operator()(std::string_view name, const M& member) {
    add(name, [&](Writer& writer) { writer(name, member); });
  }
  template <class M>
  void always(std::string_view name, const M& member) {
    add(name, [&](Writer& writer) { writer.always(name, member); });
  }
  void thousandths(std::string_view name, int64_t number) {
    add(name, [&](Writer& writer) { writer.thousandths(name, number); });
  }
  std::map<std::string, std::string, std::less<>> all;

 private:
  template <class Write>
  void add(std::string_view name, const Write& write) {
    JsonText j;
    j.beginObject();
    Writer writer(j);
    write(writer);
    j.endObject();
    const std::string text = j.take();
    if (const auto colon = text.find(':'); colon != std::string::npos)
      all[std::string(name)] = text.substr(colon + 1, text.size() - colon - 2);
  }
};

template <class T>
auto textsOf(const T& object) {
  FieldTexts texts;
  internal::fields(texts, object);
  return std::move(texts.all);
}

/// Writes the operations that change the fields of `before` to those of `after`. Fields that this version does not know
/// stay, because another version wrote them.
template <class T>
void replaceFields(JsonText& j, const std::string& path, const T& before, const T& after,
                   std::string_view except = {}) {
  const auto have = textsOf(before), want = textsOf(after);
  for (const auto& [name, text] : want) {
    if (const auto same = have.find(name); name == except || (same != have.end() && same->second == text)) continue;
    op(j, "add", path + "/" + name);
    j.key("value").raw(text).endObject();
  }
  for (const auto& [name, text] : have) {
    if (name == except || want.count(name) > 0) continue;
    op(j, "remove", path + "/" + name);
    j.endObject();
  }
}

void testText(JsonText& j, std::string_view path, std::string_view text) {
  op(j, "test", path);
  j.key("value").value(text).endObject();
}

/// Returns the name escaped as a part of a JSON pointer.
std::string escaped(std::string_view name) {
  std::string out;
  for (const char c : name) out += c == '~' ? "~0" : c == '/' ? "~1" : std::string(1, c);
  return out;
}

/// Removes the gate at its index in `pod`, if the pod has it. A test makes the patch fail if the list has changed
/// since.
void removeGate(JsonText& j, const core::Pod& pod, std::string_view gate) {
  for (std::size_t i = 0; i < pod.schedulingGates.size(); ++i) {
    if (pod.schedulingGates[i] != gate) continue;
    const std::string path = "/spec/schedulingGates/" + std::to_string(i);
    testText(j, path + "/name", gate);
    op(j, "remove", path);
    j.endObject();
    return;
  }
}

void writePin(JsonText& j, std::string_view node) {
  j.beginObject().key("key").value("metadata.name").key("operator").value("In").key("values").beginArray();
  j.value(node).endArray().endObject();
}
void writePinTerm(JsonText& j, std::string_view node) {
  j.beginObject().key("matchFields").beginArray();
  writePin(j, node);
  j.endArray().endObject();
}

}  // namespace

std::string ledgerEntry(std::string_view cardUid, std::string_view deviceUid, const v1alpha::LedgerEntry& entry) {
  JsonText j;
  j.beginObject();
  putPreconditions(j, cardUid, {});
  j.key("spec").beginObject().key("allocations").beginObject().key(deviceUid).beginObject();
  j.key("device").value(entry.device).key("claim").value(entry.claim);
  j.key("core").value(entry.core).key("memory").value(entry.memory).key("resize");
  // Write null for an entry without `resize`: a merge patch keeps omitted fields, and the entry would then count for
  // the target size of an earlier entry.
  entry.resize > 0 ? j.value(entry.resize) : j.null();
  j.endObject().endObject().endObject().endObject();
  return j.take();
}

std::string ledgerRelease(std::string_view deviceUid) {
  JsonText j;
  j.beginObject().key("spec").beginObject().key("allocations").beginObject().key(deviceUid).null();
  j.endObject().endObject().endObject();
  return j.take();
}

std::string finalizers(std::string_view uid, std::string_view resourceVersion, const std::vector<std::string>& all) {
  JsonText j;
  j.beginObject();
  beginMetadata(j, uid, resourceVersion);
  Writer(j).always("finalizers", all);
  j.endObject().endObject();
  return j.take();
}

std::string claimBind(std::string_view uid, std::string_view resourceVersion,
                      const std::vector<std::string>& finalizers, const std::optional<std::string>& elasticGPUName) {
  JsonText j;
  j.beginObject();
  beginMetadata(j, uid, resourceVersion);
  Writer(j).always("finalizers", finalizers);
  j.endObject();
  if (elasticGPUName) j.key("spec").beginObject().key("elasticGPUName").value(*elasticGPUName).endObject();
  j.endObject();
  return j.take();
}

std::string claimStatus(std::string_view uid, std::string_view resourceVersion,
                        const v1alpha::ElasticGPUClaimStatus& before, const v1alpha::ElasticGPUClaimStatus& after) {
  JsonText j;
  j.beginObject();
  putPreconditions(j, uid, resourceVersion);
  j.key("status").beginObject();
  replace(j, "phase", before.phase, after.phase);
  const auto* was = v1alpha::obstacle(before.conditions);
  const auto* is = v1alpha::obstacle(after.conditions);
  replace(j, "reason", was ? was->reason : std::string(), is ? is->reason : std::string());
  replace(j, "message", was ? was->message : std::string(), is ? is->message : std::string());
  replace(j, "elasticGPUName", before.elasticGPUName, after.elasticGPUName);
  replace(j, "nodeName", before.nodeName, after.nodeName);
  replace(j, "egpuClassName", before.className, after.className);
  replace(j, "capacity", before.capacity, after.capacity);
  replace(j, "requests", before.requests, after.requests);
  replace(j, "alternative", before.alternative, after.alternative);
  replaceUsage(j, before.usage, after.usage);
  if (after.priority != 0)
    j.key("priority").value(after.priority);
  else if (before.priority != 0)
    j.key("priority").null();
  replaceNomination(j, before.nominated, after.nominated);
  replace(j, "conditions", before.conditions, after.conditions);
  j.endObject().endObject();
  return j.take();
}

std::string gpuStatus(std::string_view uid, std::string_view resourceVersion, const v1alpha::ElasticGPUStatus& before,
                      const v1alpha::ElasticGPUStatus& after) {
  JsonText j;
  j.beginObject();
  putPreconditions(j, uid, resourceVersion);
  j.key("status").beginObject();
  replace(j, "phase", before.phase, after.phase);
  replace(j, "reason", before.reason, after.reason);
  replace(j, "message", before.message, after.message);
  replace(j, "conditions", before.conditions, after.conditions);
  if (after.allocated) {
    j.key("allocated").beginObject();
    j.key("core").value(after.allocated->core);
    j.key("memory").value(after.allocated->memory);
    j.key("claims").value(after.allocated->claims);
    const v1alpha::AllocatedSummary none;
    const auto& was = before.allocated ? *before.allocated : none;
    replace(j, "coreText", was.coreText, after.allocated->coreText);
    replace(j, "memoryText", was.memoryText, after.allocated->memoryText);
    j.endObject();
  } else if (before.allocated) {
    j.key("allocated").null();
  }
  replaceUsage(j, before.usage, after.usage);
  replaceSize(j, "inForce", before.inForce, after.inForce);
  j.endObject().endObject();
  return j.take();
}

std::string classStatus(std::string_view uid, std::string_view resourceVersion,
                        const std::vector<core::Condition>& conditions) {
  JsonText j;
  j.beginObject();
  putPreconditions(j, uid, resourceVersion);
  j.key("status").beginObject();
  Writer(j).always("conditions", conditions);
  j.endObject().endObject();
  return j.take();
}

std::string quotaStatus(std::string_view uid, std::string_view resourceVersion,
                        const v1alpha::ElasticGPUQuotaStatus& before, const v1alpha::ElasticGPUQuotaStatus& after) {
  JsonText j;
  j.beginObject();
  putPreconditions(j, uid, resourceVersion);
  j.key("status").beginObject();
  replace(j, "used", before.used, after.used);
  replace(j, "summary", before.summary, after.summary);
  replace(j, "conditions", before.conditions, after.conditions);
  j.endObject().endObject();
  return j.take();
}

std::string claimRef(std::string_view uid, std::string_view resourceVersion,
                     const std::optional<v1alpha::ClaimRef>& ref) {
  JsonText j;
  j.beginObject();
  putPreconditions(j, uid, resourceVersion);
  j.key("spec").beginObject().key("claimRef");
  if (ref) {
    Writer(j).write(*ref);
  } else {
    j.null();
  }
  j.endObject().endObject();
  return j.take();
}

std::string deviceTarget(std::string_view uid, std::string_view resourceVersion,
                         const core::HeapOptional<v1alpha::DeviceSize>& before, const v1alpha::DeviceSize& after) {
  JsonText j;
  j.beginObject();
  putPreconditions(j, uid, resourceVersion);
  j.key("spec").beginObject();
  replaceSize(j, "target", before, after);
  j.endObject().endObject();
  return j.take();
}

std::string cardSpec(const v1alpha::ElasticGPU& card) {
  JsonText j;
  Writer writer(j);
  j.beginObject();
  if (!card.metadata.uid.empty() || !card.metadata.labels.empty()) {
    beginMetadata(j, card.metadata.uid, {});
    writer("labels", card.metadata.labels);
    j.endObject();
  }
  j.key("spec").beginObject();
  writer("capacity", card.spec.capacity);
  fields(writer, card.spec.source);
  if (card.spec.card) Writer(j, true).always("card", *card.spec.card);
  j.endObject().endObject();
  return j.take();
}

std::string publishedCard(const v1alpha::ElasticGPU& before, const v1alpha::ElasticGPU& after) {
  JsonText j;
  Writer writer(j);
  j.beginArray();
  testText(j, "/metadata/uid", before.metadata.uid);
  const auto add = [&](const std::string& path, const auto& value) {
    op(j, "add", path);
    j.key("value");
    writer.write(value);
    j.endObject();
  };
  if (before.metadata.labels.empty() && !after.metadata.labels.empty()) {
    add("/metadata/labels", after.metadata.labels);
  } else {
    for (const auto& [name, value] : after.metadata.labels)
      if (const auto have = before.metadata.labels.find(name);
          have == before.metadata.labels.end() || have->second != value)
        add("/metadata/labels/" + escaped(name), value);
  }
  if (before.spec.capacity != after.spec.capacity) add("/spec/capacity", after.spec.capacity);
  if (!before.spec.card) {
    add("/spec/card", after.spec.card);
  } else {
    // Decoding does not distinguish a missing topology from an empty one. Then the whole topology is added.
    const bool topology = before.spec.card->topology != v1alpha::CardTopology();
    replaceFields(j, "/spec/card", *before.spec.card, *after.spec.card, topology ? "topology" : "");
    if (topology) replaceFields(j, "/spec/card/topology", before.spec.card->topology, after.spec.card->topology);
  }
  j.endArray();
  return j.take();
}

std::string allocation(std::string_view uid, std::string_view resourceVersion,
                       const std::optional<core::ResourceClaimAllocation>& allocation) {
  JsonText j;
  j.beginObject();
  putPreconditions(j, uid, resourceVersion);
  j.key("status").beginObject().key("allocation");
  if (allocation) {
    Writer(j).write(*allocation);
  } else {
    j.null();
  }
  j.endObject().endObject();
  return j.take();
}

std::string marks(std::string_view uid, std::string_view resourceVersion, const std::vector<std::string>& finalizers,
                  const std::vector<core::OwnerReference>& owners) {
  JsonText j;
  j.beginObject();
  beginMetadata(j, uid, resourceVersion);
  Writer(j).always("finalizers", finalizers);
  Writer(j).always("ownerReferences", owners);
  j.endObject().endObject();
  return j.take();
}

std::string annotations(std::string_view uid,
                        const std::vector<std::pair<std::string, std::optional<std::string>>>& values) {
  JsonText j;
  j.beginObject();
  beginMetadata(j, uid, {});
  j.key("annotations").beginObject();
  for (const auto& [key, text] : values) {
    j.key(key);
    if (text) {
      j.value(*text);
    } else {
      j.null();
    }
  }
  j.endObject().endObject().endObject();
  return j.take();
}

std::string withoutAnnotation(std::string_view uid, std::string_view key, std::string_view value) {
  const std::string path = "/metadata/annotations/" + escaped(key);
  JsonText j;
  j.beginArray();
  testText(j, "/metadata/uid", uid);
  testText(j, path, value);
  op(j, "remove", path);
  j.endObject().endArray();
  return j.take();
}

std::string pinAndLift(const core::Pod& pod, std::string_view node, std::string_view gate) {
  const std::string nodeAffinity = "/spec/affinity/nodeAffinity";
  const std::string required = nodeAffinity + "/requiredDuringSchedulingIgnoredDuringExecution";
  JsonText j;
  j.beginArray();
  testText(j, "/metadata/uid", pod.metadata.uid);
  if (pod.requiredNodeAffinity && !pod.requiredNodeAffinity->terms.empty()) {
    const auto& terms = pod.requiredNodeAffinity->terms;
    for (std::size_t i = 0; i < terms.size(); ++i) {
      const std::string term = required + "/nodeSelectorTerms/" + std::to_string(i);
      // Leave an empty term unchanged: it matches no node, and with the added field it would match one.
      if (terms[i].matchFields.empty() && terms[i].matchExpressions.empty()) continue;
      if (terms[i].matchFields.empty()) {
        op(j, "add", term + "/matchFields");
        j.key("value").beginArray();
        writePin(j, node);
        j.endArray().endObject();
      } else {
        op(j, "add", term + "/matchFields/-");
        j.key("value");
        writePin(j, node);
        j.endObject();
      }
    }
  } else {
    // "add" replaces an existing value, so add only the outermost part that is missing.
    if (pod.hasNodeAffinity) {
      op(j, "add", required);
      j.key("value").beginObject();
    } else if (pod.hasAffinity) {
      op(j, "add", nodeAffinity);
      j.key("value").beginObject().key("requiredDuringSchedulingIgnoredDuringExecution").beginObject();
    } else {
      op(j, "add", "/spec/affinity");
      j.key("value").beginObject().key("nodeAffinity").beginObject();
      j.key("requiredDuringSchedulingIgnoredDuringExecution").beginObject();
    }
    j.key("nodeSelectorTerms").beginArray();
    writePinTerm(j, node);
    j.endArray().endObject();
    if (!pod.hasNodeAffinity) j.endObject();
    if (!pod.hasNodeAffinity && !pod.hasAffinity) j.endObject();
    j.endObject();
  }
  removeGate(j, pod, gate);
  j.endArray();
  return j.take();
}

std::string liftGate(const core::Pod& pod, std::string_view gate) {
  JsonText j;
  j.beginArray();
  testText(j, "/metadata/uid", pod.metadata.uid);
  removeGate(j, pod, gate);
  j.endArray();
  return j.take();
}

std::string lease(const core::Lease& lease) {
  JsonText j;
  j.beginObject();
  putPreconditions(j, lease.metadata.uid, lease.metadata.resourceVersion);
  j.key("spec").beginObject();
  j.key("holderIdentity").value(lease.holderIdentity);
  j.key("leaseDurationSeconds").value(lease.leaseDurationSeconds);
  j.key("acquireTime").value(lease.acquireTime);
  j.key("renewTime").value(lease.renewTime);
  j.key("leaseTransitions").value(lease.leaseTransitions);
  j.endObject().endObject();
  return j.take();
}

std::string eviction(const core::Pod& pod, bool dry) {
  JsonText j;
  j.beginObject().key("apiVersion").value("policy/v1").key("kind").value("Eviction").key("metadata").beginObject();
  j.key("name").value(pod.metadata.name).key("namespace").value(pod.metadata.namespace_).endObject();
  j.key("deleteOptions").beginObject().key("preconditions").beginObject();
  j.key("uid").value(pod.metadata.uid).endObject();
  if (dry) j.key("dryRun").beginArray().value("All").endArray();
  j.endObject().endObject();
  return j.take();
}

std::string deleteOptions(std::string_view uid, std::string_view resourceVersion) {
  JsonText j;
  j.beginObject().key("apiVersion").value("v1").key("kind").value("DeleteOptions");
  if (!uid.empty() || !resourceVersion.empty()) {
    j.key("preconditions").beginObject();
    if (!uid.empty()) j.key("uid").value(uid);
    if (!resourceVersion.empty()) j.key("resourceVersion").value(resourceVersion);
    j.endObject();
  }
  j.endObject();
  return j.take();
}

}  // namespace egpu::codec::patch

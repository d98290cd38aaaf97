#include "controller/codec/patch.h"
#include "controller/codec/patch/parts.h"

namespace egpu::codec::patch {

namespace {

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

}  // namespace egpu::codec::patch

#include "controller/codec/field_texts.h"
#include "controller/codec/fields_v1alpha.h"
#include "controller/codec/json/writer.h"
#include "controller/codec/patch.h"
#include "controller/codec/patch/parts.h"

namespace egpu::codec::patch {

using internal::textsOf;
using internal::writeJsonPatch;
using internal::Writer;

std::string ledgerEntry(std::string_view cardUid, std::string_view deviceUid, const v1alpha::LedgerEntry& entry,
                        std::string_view mode) {
  JsonText j;
  j.beginObject();
  putPreconditions(j, cardUid, {});
  j.key("spec").beginObject().key("allocations").beginObject().key(deviceUid).beginObject();
  j.key("device").value(entry.device).key("claim").value(entry.claim);
  j.key("core").value(entry.core).key("memory").value(entry.memory).key("resize");
  // Write null for an entry without `resize`: a merge patch keeps omitted fields, and the entry would then count for
  // the target size of an earlier entry.
  entry.resize > 0 ? j.value(entry.resize) : j.null();
  Writer writer(j);
  writer("slots", entry.slots);
  j.endObject().endObject();
  if (!mode.empty()) j.key("mode").value(mode);
  j.endObject().endObject();
  return j.take();
}

std::string ledgerRelease(std::string_view deviceUid, bool last) {
  JsonText j;
  j.beginObject().key("spec").beginObject().key("allocations").beginObject().key(deviceUid).null();
  j.endObject();
  if (last) j.key("mode").null();
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
    writeJsonPatch(j, "/spec/card", textsOf(*before.spec.card), textsOf(*after.spec.card), topology ? "topology" : "");
    if (topology)
      writeJsonPatch(j, "/spec/card/topology", textsOf(before.spec.card->topology), textsOf(after.spec.card->topology));
  }
  j.endArray();
  return j.take();
}

}  // namespace egpu::codec::patch

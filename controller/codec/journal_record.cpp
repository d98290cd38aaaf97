#include "controller/codec/journal_record.h"

#include <optional>
#include <type_traits>

#include "controller/codec/fields_core.h"
#include "controller/codec/fields_v1alpha.h"
#include "controller/codec/json/reader.h"
#include "controller/codec/json/writer.h"

namespace egpu::codec {

namespace internal {

using scheduler::Split;

static std::string textOf(Split split) {
  return split == Split::evenly ? "evenly" : split == Split::fill ? "fill" : "";
}
static Split splitOf(std::string_view text) {
  return text == "evenly" ? Split::evenly : text == "fill" ? Split::fill : Split::none;
}

void fields(auto& v, Is<scheduler::Amount> auto& o) {
  v("core", o.core);
  v("memory", o.memory);
  v("slots", o.slots);
}

void fields(auto& v, Is<scheduler::MigInstances> auto& o) {
  v("profile", o.profile);
  v("instances", o.instances);
}

// Fields whose default is not empty are always written.
void fields(auto& v, Is<scheduler::Request> auto& o) {
  v.always("cards", o.cards);
  v("wholeCards", o.wholeCards);
  v("perCard", o.perCard);
  v("memoryFromCore", o.memoryFromCore);
  v("milliTflopsPerCard", o.milliTflopsPerCard);
  v.always("coreOvercommit", o.coreOvercommit);
  v.always("memoryOvercommit", o.memoryOvercommit);
  v("models", o.models);
  v("minMemory", o.minMemory);
  v("maxClaimsPerCard", o.maxClaimsPerCard);
  v("maxClaimsPerNode", o.maxClaimsPerNode);
  v("cpuMilli", o.cpuMilli);
  v("podMemory", o.podMemory);
  v.always("nodePolicy", o.nodePolicy);
  v.always("cardPolicy", o.cardPolicy);
  std::optional<int64_t> weight;  // omitted if it is the usual one
  if (o.memoryWeight != scheduler::kUsualMemoryWeight) weight = o.memoryWeight;
  v("memoryWeight", weight);
  if constexpr (!std::is_const_v<std::remove_reference_t<decltype(o)>>)
    o.memoryWeight = weight.value_or(scheduler::kUsualMemoryWeight);
  std::string split = textOf(o.split);
  v("split", split);
  if constexpr (!std::is_const_v<std::remove_reference_t<decltype(o)>>) o.split = splitOf(split);
  v("pinnedNode", o.pinnedNode);
  v("pinnedCards", o.pinnedCards);
  v("isolation", o.isolation);
  v("mig", o.mig);
  v("adminAccess", o.adminAccess);
}

void fields(auto& v, Is<JournalBegin> auto& o) {
  v.always("version", o.version);
  v("program", o.program);
  v("continues", o.continues);
}

void fields(auto& v, Is<JournalNode> auto& o) {
  v("name", o.name);
  v("schedulable", o.schedulable);
  v("cpuMilli", o.cpuMilli);
  v("memory", o.memory);
}

void fields(auto& v, Is<JournalCard> auto& o) {
  v("name", o.name);
  v("healthy", o.healthy);
  v.always("card", o.card);
}

void fields(auto& v, Is<JournalTake> auto& o) {
  v("card", o.card);
  v("by", o.by);
  v("charged", o.charged);
  v("mode", o.mode);
}

void fields(auto& v, Is<JournalMode> auto& o) {
  v("card", o.card);
  v("mode", o.mode);
}

void fields(auto& v, Is<JournalDevice> auto& o) {
  v("device", o.device);
  v("claim", o.claim);
}

void fields(auto& v, Is<JournalHolder> auto& o) {
  v("by", o.by);
  v("claim", o.claim);
  v("uid", o.uid);
  v("class", o.className);
  v("usedCore", o.usedCore);
}

void fields(auto& v, Is<JournalPod> auto& o) {
  v("name", o.name);
  v("claims", o.claims);
}

void fields(auto& v, Is<JournalDemand::Class> auto& o) {
  v.always("request", o.request);
  v("weight", o.weight);
}

void fields(auto& v, Is<JournalDemand> auto& o) {
  v("classes", o.classes);
  v("seen", o.seen);
  v("unit", o.unit);
  v("priced", o.priced);
  v("types", o.types);
}

void fields(auto& v, Is<JournalGiven> auto& o) {
  v("card", o.card);
  v("charged", o.charged);
}

void fields(auto& v, Is<JournalAsk> auto& o) {
  v("claim", o.claim);
  v("uid", o.uid);
  v.always("request", o.request);
  v("node", o.node);
  v("cards", o.cards);
  v("class", o.className);
}

void fields(auto& v, Is<JournalDecision> auto& o) {
  v("asks", o.asks);
  v("suited", o.suited);
  v("refused", o.refused);
  v("onlySuited", o.onlySuited);
  v("given", o.given);
}

void fields(auto& v, Is<JournalRecord> auto& o) {
  v.always("time", o.time);
  v("journal", o.journal);
  v("demand", o.demand);
  v("node", o.node);
  v("nodeGone", o.nodeGone);
  v("card", o.card);
  v("cardGone", o.cardGone);
  v("take", o.take);
  v("giveBack", o.giveBack);
  v("mode", o.mode);
  v("device", o.device);
  v("claimGone", o.claimGone);
  v("holder", o.holder);
  v("pod", o.pod);
  v("alive", o.alive);
  v("complete", o.complete);
  v("asked", o.asked);
  v("decision", o.decision);
}

}  // namespace internal

std::string encode(const JournalRecord& record) {
  JsonText j;
  internal::Writer(j).write(record);
  return j.take();
}

base::Result<JournalRecord> decodeJournalRecord(std::string_view line) {
  internal::Failure failure;
  internal::Reader reader(failure);
  JournalRecord record;
  if (!reader.document(line, [&] { internal::allFields(reader, record); })) return failure.status();
  return record;
}

}  // namespace egpu::codec
